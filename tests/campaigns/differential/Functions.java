import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.TimestampExtractor;

/** The named functions of the recorded runs. */
@SuppressWarnings({"unchecked", "rawtypes"})
class Functions {
    static String name(final JsonNode spec) {
        return spec.isTextual() ? spec.asText() : spec.fieldNames().next();
    }

    private static JsonNode argument(final JsonNode spec) {
        return spec.isTextual() ? null : spec.get(name(spec));
    }

    static String text(final Object x) {
        return String.valueOf(x);
    }

    static String pair(final Object left, final Object right) {
        return "(" + text(left) + "," + text(right) + ")";
    }

    static Predicate predicate(final JsonNode spec) {
        final JsonNode n = argument(spec);
        return switch (name(spec)) {
            case "value_gt" -> (k, v) -> v != null && (Long) v > n.asLong();
            case "value_lt" -> (k, v) -> v != null && (Long) v < n.asLong();
            case "value_mod_eq" -> (k, v) -> v != null && Math.floorMod((Long) v, n.get(0).asLong()) == n.get(1).asLong();
            case "value_not_null" -> (k, v) -> v != null;
            case "value_is_null" -> (k, v) -> v == null;
            case "key_not_null" -> (k, v) -> k != null;
            case "value_len_gt" -> (k, v) -> v != null && ((String) v).length() > n.asLong();
            default -> throw new IllegalArgumentException(spec.toString());
        };
    }

    static KeyValueMapper mapper(final JsonNode spec) {
        final JsonNode n = argument(spec);
        return switch (name(spec)) {
            case "identity" -> (k, v) -> v;
            case "key" -> (k, v) -> k;
            case "add" -> (k, v) -> v == null ? null : (Object) ((Long) v + n.asLong());
            case "mul" -> (k, v) -> v == null ? null : (Object) ((Long) v * n.asLong());
            case "null_if_gt" -> (k, v) -> v == null || (Long) v > n.asLong() ? null : v;
            case "to_string" -> (k, v) -> v == null ? null : text(v);
            case "tag" -> (k, v) -> text(k) + ":" + text(v);
            case "value_suffix" -> (k, v) -> v == null ? null : text(v) + n.asText();
            case "length" -> (k, v) -> v == null ? null : (Object) (long) ((String) v).length();
            case "value_mod" -> (k, v) -> v == null ? null : "g" + Math.floorMod((Long) v, n.asLong());
            case "key_null_if_value_gt" -> (k, v) -> v != null && (Long) v > n.asLong() ? null : k;
            case "field" -> (k, v) -> field(v, n.asInt());
            case "window_key" -> (k, v) -> ((Windowed) k).key() + "@" + ((Windowed) k).window().start();
            case "window_inner_key" -> (k, v) -> ((Windowed) k).key();
            default -> throw new IllegalArgumentException(spec.toString());
        };
    }

    static TimestampExtractor extractor(final JsonNode spec) {
        final int i = argument(spec).asInt();
        return (record, partitionTime) -> {
            final String found = field(record.value(), i);
            return found != null ? Long.parseLong(found) : switch (name(spec)) {
                case "payload_field" -> -1;
                case "payload_field_or_partition_time" -> partitionTime;
                default -> record.timestamp();
            };
        };
    }

    private static String field(final Object x, final int i) {
        if (x == null) {
            return null;
        }
        final String[] parts = text(x).split("\\|", -1);
        return i < parts.length && !parts[i].isEmpty() ? parts[i] : null;
    }

    static String type(final JsonNode spec, final String key, final String value) {
        return switch (name(spec)) {
            case "key", "key_null_if_value_gt" -> key;
            case "identity", "null_if_gt" -> value;
            case "add", "mul", "length" -> "int64";
            default -> "string";
        };
    }

    static KeyValueMapper flatMap(final JsonNode spec) {
        final long n = argument(spec).asLong();
        return (k, v) -> {
            final List<KeyValue> records = new ArrayList<>();
            if (v == null) {
                records.add(KeyValue.pair(k, null));
                return records;
            }
            for (long i = 0; i < Math.floorMod((Long) v, n); i++) {
                records.add(KeyValue.pair(text(k) + "-" + i, (Long) v + i));
            }
            return records;
        };
    }

    static ValueMapper flatMapValues(final JsonNode spec) {
        if (name(spec).equals("chars")) {
            return v -> v == null ? List.of() : List.of(((String) v).split("(?!^)")).stream().filter(c -> !c.equals("")).toList();
        }
        final long n = argument(spec).asLong();
        return v -> {
            final List<Long> values = new ArrayList<>();
            for (long i = 0; v != null && i < Math.floorMod((Long) v, n); i++) {
                values.add((Long) v + i);
            }
            return values;
        };
    }

    private static long plain(final Object v) {
        return v == null ? 0 : (Long) v;
    }

    static Reducer reducer(final JsonNode spec) {
        return switch (name(spec)) {
            case "sum" -> (a, b) -> plain(a) + plain(b);
            case "min" -> (a, b) -> smaller(a, b);
            case "max" -> (a, b) -> larger(a, b);
            case "last" -> (a, b) -> b;
            case "concat" -> (a, b) -> text(a) + "+" + text(b);
            case "minus" -> (a, b) -> plain(a) - plain(b);
            case "concat_minus" -> (a, b) -> text(a) + "-" + text(b);
            case "sum_null_gt" -> (a, b) -> {
                final long sum = plain(a) + plain(b);
                return sum > argument(spec).asLong() ? null : (Object) sum;
            };
            default -> throw new IllegalArgumentException(spec.toString());
        };
    }

    private static Object smaller(final Object a, final Object b) {
        return a == null ? b : b == null || ((Comparable) a).compareTo(b) <= 0 ? a : b;
    }

    private static Object larger(final Object a, final Object b) {
        return a == null ? b : b == null || ((Comparable) a).compareTo(b) >= 0 ? a : b;
    }

    /** Initial value, add, subtract and merge. */
    static class Aggregation {
        private final JsonNode spec;
        private final String name;

        Aggregation(final JsonNode spec) {
            this.spec = spec;
            this.name = Functions.name(spec);
        }

        String type(final String value) {
            return switch (name) {
                case "concat", "concat_star" -> "string";
                case "min", "max", "last", "first" -> value;
                default -> "int64";
            };
        }

        Initializer initial() {
            return switch (name) {
                case "concat", "concat_star" -> () -> "";
                case "min", "max", "last", "first" -> () -> null;
                default -> () -> 0L;
            };
        }

        private Object dropped(final long sum) {
            final boolean none = name.equals("sum_drop_zero") && sum == 0
                || name.equals("sum_null_gt") && sum > argument(spec).asLong();
            return none ? null : (Object) sum;
        }

        Aggregator adder() {
            return switch (name) {
                case "count" -> (k, v, agg) -> (Long) agg + 1;
                case "concat" -> (k, v, agg) -> agg + "+" + text(v);
                case "concat_star" -> (k, v, agg) -> agg + "*" + text(v);
                case "min" -> (k, v, agg) -> smaller(agg, v);
                case "max" -> (k, v, agg) -> larger(agg, v);
                case "last" -> (k, v, agg) -> v;
                case "first" -> (k, v, agg) -> agg == null ? v : agg;
                default -> (k, v, agg) -> dropped((Long) agg + plain(v));
            };
        }

        Aggregator subtractor() {
            return switch (name) {
                case "count" -> (k, v, agg) -> (Long) agg - 1;
                case "concat", "concat_star" -> (k, v, agg) -> agg + "-" + text(v);
                case "min", "max", "last", "first" -> (k, v, agg) -> agg;
                case "sum_drop_zero" -> (k, v, agg) -> dropped((Long) agg - plain(v));
                default -> (k, v, agg) -> (Long) agg - plain(v);
            };
        }

        Merger merger() {
            return switch (name) {
                case "concat", "concat_star" -> (k, a, b) -> "(" + a + "|" + b + ")";
                case "min" -> (k, a, b) -> smaller(a, b);
                case "max" -> (k, a, b) -> larger(a, b);
                case "last" -> (k, a, b) -> b;
                case "first" -> (k, a, b) -> a == null ? b : a;
                default -> (k, a, b) -> (Long) a + (Long) b;
            };
        }
    }
}
