import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.kstream.ValueMapperWithKey;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.kstream.Windows;
import org.apache.kafka.streams.kstream.internals.NamedInternal;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.state.Stores;

/** Builds a topology from the steps of the recorded runs, with Kafka Streams' DSL. */
@SuppressWarnings({"unchecked", "rawtypes"})
class Steps {
    /** What a step built, and the serdes of its records. */
    private record Flow(Object node, String key, String value, long windowSizeMs) {
        Serde keys() {
            return serde(key, windowSizeMs);
        }

        Serde values() {
            return serde(value, windowSizeMs);
        }

        KStream stream() {
            return (KStream) node;
        }

        KTable table() {
            return (KTable) node;
        }

        boolean isTable() {
            return node instanceof KTable;
        }

        Flow then(final Object next) {
            return new Flow(next, key, value, windowSizeMs);
        }

        Flow of(final Object next, final String keyType, final String valueType) {
            return new Flow(next, keyType, valueType, windowSizeMs);
        }
    }

    private StreamsBuilder builder;
    private final Map<String, Flow> flows = new HashMap<>();

    static Serde serde(final String type, final long windowSizeMs) {
        return switch (type) {
            case "string" -> Serdes.String();
            case "int64" -> Serdes.Long();
            case "windowed" -> WindowedSerdes.timeWindowedSerdeFrom(String.class, windowSizeMs);
            case "session_windowed" -> WindowedSerdes.sessionWindowedSerdeFrom(String.class);
            default -> throw new IllegalArgumentException(type);
        };
    }

    Topology build(final JsonNode steps, final Properties settings) {
        builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(settings)));
        for (final JsonNode step : steps) {
            final Flow flow = flow(step);
            if (flow != null) {
                flows.put(step.get("name").asText(), flow);
            }
        }
        return builder.build(settings);
    }

    private Flow in(final JsonNode step) {
        return flows.get(step.get("in").asText());
    }

    private Flow flow(final JsonNode step) {
        return switch (step.get("op").asText()) {
            case "stream", "table", "global_table" -> source(step);
            case "filter", "filter_not" -> filter(step, in(step));
            case "map", "map_values", "select_key", "flat_map", "flat_map_values" -> mapped(step, in(step));
            case "split" -> split(step, in(step));
            case "merge" -> {
                final Flow left = flows.get(step.get("left").asText());
                yield left.then(left.stream().merge(flows.get(step.get("right").asText()).stream(), named(step)));
            }
            case "repartition" -> in(step).then(in(step).stream().repartition(
                Repartitioned.<Object, Object>as(name(step)).withKeySerde(in(step).keys()).withValueSerde(in(step).values())));
            case "to_table" -> in(step).then(in(step).stream().toTable(named(step), materialized(step, in(step))));
            case "to_stream" -> toStream(step, in(step));
            case "group_by_key", "group_by" -> grouped(step, in(step));
            case "count", "reduce", "aggregate" -> aggregation(step, in(step));
            case "cogroup" -> cogroup(step);
            case "suppress" -> in(step).then(in(step).table().suppress(suppressed(step)));
            case "join" -> joined(step, flows.get(step.get("left").asText()), flows.get(step.get("right").asText()));
            case "process" -> in(step).of(process(step), in(step).key,
                step.has("out_value") ? step.get("out_value").asText() : in(step).value);
            case "transform_values" -> {
                final Flow result = in(step).of(null, in(step).key, "string");
                yield result.then(step.has("store")
                    ? in(step).table().transformValues(Processors.ofTables(), materialized(step, result), named(step))
                    : in(step).table().transformValues(Processors.ofTables(), named(step)));
            }
            case "process_values" -> in(step).then(step.path("is_unnamed").asBoolean()
                ? in(step).stream().processValues(Processors.ofValues(step))
                : in(step).stream().processValues(Processors.ofValues(step), named(step)));
            case "to_dynamic" -> {
                final String prefix = step.get("prefix").asText();
                final TopicNameExtractor topic = (key, value, context) -> prefix + Functions.text(key);
                in(step).stream().to(topic, Produced.with(in(step).keys(), in(step).values()).withName(name(step)));
                yield null;
            }
            case "to" -> {
                in(step).stream().to(step.get("topic").asText(),
                    Produced.with(in(step).keys(), in(step).values()).withName(name(step)));
                yield null;
            }
            default -> throw new IllegalArgumentException(step.toString());
        };
    }

    private KStream process(final JsonNode step) {
        return step.path("is_unnamed").asBoolean() ? in(step).stream().process(Processors.of(step))
            : in(step).stream().process(Processors.of(step), named(step));
    }

    private Flow source(final JsonNode step) {
        final Flow flow = new Flow(null, step.get("key").asText(), step.get("value").asText(), 0);
        Consumed consumed = Consumed.with(flow.keys(), flow.values()).withName(name(step));
        if (step.has("timestamp_extractor")) {
            consumed = consumed.withTimestampExtractor(Functions.extractor(step.get("timestamp_extractor")));
        }
        if (step.has("topics")) {
            final java.util.List<String> topics = new java.util.ArrayList<>();
            step.get("topics").forEach(one -> topics.add(one.asText()));
            return flow.then(builder.stream(topics, consumed));
        }
        final String topic = step.get("topic").asText();
        return flow.then(switch (step.get("op").asText()) {
            case "stream" -> builder.stream(topic, consumed);
            case "table" -> step.has("store")
                ? builder.table(topic, consumed, materialized(step, flow)) : builder.table(topic, consumed);
            default -> builder.globalTable(topic, consumed, materialized(step, flow));
        });
    }

    private Flow filter(final JsonNode step, final Flow flow) {
        final Predicate predicate = Functions.predicate(step.get("predicate"));
        final boolean not = step.get("op").asText().equals("filter_not");
        if (!flow.isTable()) {
            return flow.then(not ? flow.stream().filterNot(predicate, named(step)) : flow.stream().filter(predicate, named(step)));
        }
        if (step.has("store")) {
            final Materialized store = materialized(step, flow);
            return flow.then(not ? flow.table().filterNot(predicate, named(step), store)
                : flow.table().filter(predicate, named(step), store));
        }
        return flow.then(not ? flow.table().filterNot(predicate, named(step)) : flow.table().filter(predicate, named(step)));
    }

    private Flow mapped(final JsonNode step, final Flow flow) {
        final JsonNode spec = step.get("mapper");
        switch (step.get("op").asText()) {
            case "map": {
                final KeyValueMapper keyOf = Functions.mapper(spec.get("key"));
                final KeyValueMapper valueOf = Functions.mapper(spec.get("value"));
                final KeyValueMapper both = (k, v) -> KeyValue.pair(keyOf.apply(k, v), valueOf.apply(k, v));
                return flow.of(flow.stream().map(both, named(step)), Functions.type(spec.get("key"), flow.key, flow.value),
                    Functions.type(spec.get("value"), flow.key, flow.value));
            }
            case "select_key":
                return flow.of(flow.stream().selectKey(Functions.mapper(spec), named(step)),
                    Functions.type(spec, flow.key, flow.value), flow.value);
            case "flat_map":
                return flow.of(flow.stream().flatMap(Functions.flatMap(spec), named(step)), "string", "int64");
            case "flat_map_values":
                return flow.of(flow.stream().flatMapValues(Functions.flatMapValues(spec), named(step)), flow.key,
                    Functions.name(spec).equals("chars") ? "string" : "int64");
            default: {
                final KeyValueMapper function = Functions.mapper(spec);
                final ValueMapperWithKey mapper = function::apply;
                final Flow result = flow.of(null, flow.key, Functions.type(spec, flow.key, flow.value));
                if (!flow.isTable()) {
                    return result.then(flow.stream().mapValues(mapper, named(step)));
                }
                return result.then(step.has("store")
                    ? flow.table().mapValues(mapper, named(step), materialized(step, result))
                    : flow.table().mapValues(mapper, named(step)));
            }
        }
    }

    private Flow split(final JsonNode step, final Flow flow) {
        BranchedKStream branched = flow.stream().split(named(step));
        for (final JsonNode branch : step.get("branches")) {
            branched = branched.branch(Functions.predicate(branch.get("predicate")), Branched.as(branch.get("name").asText()));
        }
        final Map<String, KStream> branches = step.has("default")
            ? branched.defaultBranch(Branched.as(step.get("default").asText())) : branched.noDefaultBranch();
        // An unnamed split's branches have a generated name before their own.
        branches.forEach((name, stream) -> flows.put(step.path("is_unnamed").asBoolean()
            ? step.get("name").asText() + name.substring("KSTREAM-BRANCH-0000000000".length()) : name, flow.then(stream)));
        return null;
    }

    private Flow toStream(final JsonNode step, final Flow flow) {
        if (!step.has("mapper")) {
            return flow.then(flow.table().toStream(named(step)));
        }
        return flow.of(flow.table().toStream(Functions.mapper(step.get("mapper")), named(step)),
            Functions.type(step.get("mapper"), flow.key, flow.value), flow.value);
    }

    private Flow grouped(final JsonNode step, final Flow flow) {
        final JsonNode spec = step.get("mapper");
        if (spec == null) {
            return flow.then(flow.stream().groupByKey(Grouped.with(name(step), flow.keys(), flow.values())));
        }
        if (!flow.isTable()) {
            final Flow result = flow.of(null, Functions.type(spec, flow.key, flow.value), flow.value);
            return result.then(flow.stream().groupBy(Functions.mapper(spec), Grouped.with(name(step), result.keys(), result.values())));
        }
        final KeyValueMapper keyOf = Functions.mapper(spec.get("key"));
        final KeyValueMapper valueOf = Functions.mapper(spec.get("value"));
        final KeyValueMapper both = (k, v) -> KeyValue.pair(keyOf.apply(k, v), valueOf.apply(k, v));
        final Flow result = flow.of(null, Functions.type(spec.get("key"), flow.key, flow.value),
            Functions.type(spec.get("value"), flow.key, flow.value));
        return result.then(flow.table().groupBy(both, Grouped.with(name(step), result.keys(), result.values())));
    }

    private Flow aggregation(final JsonNode step, final Flow flow) {
        final String op = step.get("op").asText();
        final Functions.Aggregation functions = step.has("aggregator") ? new Functions.Aggregation(step.get("aggregator")) : null;
        final String value = op.equals("count") ? "int64" : functions == null ? flow.value : functions.type(flow.value);
        if (flow.node instanceof KGroupedTable table) {
            final Flow result = flow.of(null, flow.key, value);
            final Materialized store = materialized(step, result);
            return result.then(switch (op) {
                case "count" -> table.count(named(step), store);
                case "reduce" -> table.reduce(Functions.reducer(step.get("adder")), Functions.reducer(step.get("subtractor")), named(step), store);
                default -> table.aggregate(functions.initial(), functions.adder(), functions.subtractor(), named(step), store);
            });
        }
        final KGroupedStream stream = (KGroupedStream) flow.node;
        final JsonNode window = step.get("window");
        final Reducer reducer = step.has("reducer") ? Functions.reducer(step.get("reducer")) : null;
        if (window == null) {
            final Flow result = flow.of(null, flow.key, value);
            final Materialized store = materialized(step, result);
            return result.then(switch (op) {
                case "count" -> stream.count(named(step), store);
                case "reduce" -> stream.reduce(reducer, named(step), store);
                default -> stream.aggregate(functions.initial(), functions.adder(), named(step), store);
            });
        }
        // The store is given the serde of the plain key.
        final Materialized store = materialized(step, flow.of(null, flow.key, value));
        if (isSession(window)) {
            SessionWindowedKStream sessions = stream.windowedBy(sessions(window));
            sessions = sessions.emitStrategy(emit(step));
            return new Flow(switch (op) {
                case "count" -> sessions.count(named(step), store);
                case "reduce" -> sessions.reduce(reducer, named(step), store);
                default -> sessions.aggregate(functions.initial(), functions.adder(), functions.merger(), named(step), store);
            }, "session_windowed", value, 0);
        }
        TimeWindowedKStream windows = window.get("type").asText().equals("sliding")
            ? stream.windowedBy(sliding(window)) : stream.windowedBy(windows(window));
        windows = emit(step) == null ? windows : windows.emitStrategy(emit(step));
        return new Flow(switch (op) {
            case "count" -> windows.count(named(step), store);
            case "reduce" -> windows.reduce(reducer, named(step), store);
            default -> windows.aggregate(functions.initial(), functions.adder(), named(step), store);
        }, "windowed", value, sizeMs(window));
    }

    private Flow cogroup(final JsonNode step) {
        final JsonNode groups = step.get("groups");
        final Functions.Aggregation functions = new Functions.Aggregation(groups.get(0).get("aggregator"));
        final Flow flow = flows.get(groups.get(0).get("in").asText());
        CogroupedKStream all = ((KGroupedStream) flow.node).cogroup(functions.adder());
        for (int i = 1; i < groups.size(); i++) {
            final Flow other = flows.get(groups.get(i).get("in").asText());
            all = all.cogroup((KGroupedStream) other.node, new Functions.Aggregation(groups.get(i).get("aggregator")).adder());
        }
        final String value = functions.type(flow.value);
        final Flow result = flow.of(null, flow.key, value);
        final Materialized store = materialized(step, result);
        final JsonNode window = step.get("window");
        if (window == null) {
            return result.then(all.aggregate(functions.initial(), named(step), store));
        }
        if (isSession(window)) {
            return new Flow(all.windowedBy(sessions(window)).aggregate(functions.initial(), functions.merger(), named(step), store),
                "session_windowed", value, 0);
        }
        final var windows = window.get("type").asText().equals("sliding")
            ? all.windowedBy(sliding(window)) : all.windowedBy(windows(window));
        return new Flow(windows.aggregate(functions.initial(), named(step), store), "windowed", value, sizeMs(window));
    }

    private static Suppressed suppressed(final JsonNode step) {
        final JsonNode until = step.get("until");
        if (until.get("type").asText().equals("window_closes")) {
            return Suppressed.untilWindowCloses((Suppressed.StrictBufferConfig) buffer(step, true)).withName(name(step));
        }
        return Suppressed.untilTimeLimit(millis(until, "ms"), buffer(step, step.has("shut_down_when_full"))).withName(name(step));
    }

    private static Suppressed.BufferConfig buffer(final JsonNode step, final boolean isStrict) {
        final JsonNode records = step.get("max_records");
        final JsonNode bytes = step.get("max_bytes");
        if (records == null && bytes == null) {
            return Suppressed.BufferConfig.unbounded();
        }
        Suppressed.EagerBufferConfig eager = bytes == null ? Suppressed.BufferConfig.maxRecords(records.asLong())
            : Suppressed.BufferConfig.maxBytes(bytes.asLong());
        if (bytes != null && records != null) {
            eager = eager.withMaxRecords(records.asLong());
        }
        return isStrict ? eager.shutDownWhenFull() : eager.emitEarlyWhenFull();
    }

    private Flow joined(final JsonNode step, final Flow left, final Flow right) {
        final Flow result = left.of(null, left.key, "string");
        final String type = step.get("type").asText();
        final boolean keyed = Functions.name(step.get("joiner")).equals("concat_key");
        final ValueJoiner joiner = Functions::pair;
        final ValueJoinerWithKey withKey = (k, l, r) -> Functions.text(k) + ":" + Functions.pair(l, r);
        switch (step.get("kind").asText()) {
            case "stream_stream": {
                JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(1_000), millis(step, "grace_ms"));
                windows = windows.before(millis(step, "before_ms")).after(millis(step, "after_ms"));
                final StreamJoined options = StreamJoined.with(left.keys(), left.values(), right.values())
                    .withName(name(step)).withStoreName(step.get("store").asText());
                return result.then(switch (type) {
                    case "inner" -> keyed ? left.stream().join(right.stream(), withKey, windows, options)
                        : left.stream().join(right.stream(), joiner, windows, options);
                    case "left" -> keyed ? left.stream().leftJoin(right.stream(), withKey, windows, options)
                        : left.stream().leftJoin(right.stream(), joiner, windows, options);
                    default -> keyed ? left.stream().outerJoin(right.stream(), withKey, windows, options)
                        : left.stream().outerJoin(right.stream(), joiner, windows, options);
                });
            }
            case "stream_table": {
                Joined options = Joined.with(left.keys(), left.values(), right.values()).withName(name(step));
                if (step.has("grace_ms")) {
                    options = options.withGracePeriod(millis(step, "grace_ms"));
                }
                if (type.equals("inner")) {
                    return result.then(keyed ? left.stream().join(right.table(), withKey, options)
                        : left.stream().join(right.table(), joiner, options));
                }
                return result.then(keyed ? left.stream().leftJoin(right.table(), withKey, options)
                    : left.stream().leftJoin(right.table(), joiner, options));
            }
            case "stream_global_table": {
                final GlobalKTable table = (GlobalKTable) right.node;
                final KeyValueMapper keys = Functions.mapper(step.get("key_mapper"));
                return result.then(type.equals("inner")
                    ? left.stream().join(table, keys, joiner, named(step))
                    : left.stream().leftJoin(table, keys, joiner, named(step)));
            }
            case "table_table": {
                final Materialized store = step.has("store") ? materialized(step, result) : null;
                return result.then(switch (type) {
                    case "inner" -> store == null ? left.table().join(right.table(), joiner, named(step))
                        : left.table().join(right.table(), joiner, named(step), store);
                    case "left" -> store == null ? left.table().leftJoin(right.table(), joiner, named(step))
                        : left.table().leftJoin(right.table(), joiner, named(step), store);
                    default -> store == null ? left.table().outerJoin(right.table(), joiner, named(step))
                        : left.table().outerJoin(right.table(), joiner, named(step), store);
                });
            }
            case "foreign_key": {
                final KeyValueMapper function = Functions.mapper(step.get("foreign_key"));
                final java.util.function.BiFunction of = function::apply;
                final Materialized store = materialized(step, result);
                return result.then(type.equals("inner")
                    ? left.table().join(right.table(), of, joiner, TableJoined.as(name(step)), store)
                    : left.table().leftJoin(right.table(), of, joiner, TableJoined.as(name(step)), store));
            }
            default:
                throw new IllegalArgumentException(step.toString());
        }
    }

    /** Only what is emitted at commits is cached, whatever the size of the cache. */
    private static Materialized materialized(final JsonNode step, final Flow flow) {
        final Materialized store = uncached(step, flow);
        return step.path("emit").asText().equals("on_commit") ? store.withCachingEnabled() : store.withCachingDisabled();
    }

    private static Materialized uncached(final JsonNode step, final Flow flow) {
        if (!step.has("store")) {
            return Materialized.with(flow.keys(), flow.values());
        }
        final String name = step.get("store").asText();
        Materialized store = step.has("versioned_history_ms")
            ? Materialized.as(Stores.persistentVersionedKeyValueStore(name, millis(step, "versioned_history_ms")))
            : step.has("capacity") ? Materialized.as(Stores.lruMap(name, step.get("capacity").asInt()))
            : Materialized.as(name);
        store = store.withKeySerde(flow.keys()).withValueSerde(flow.values());
        if (step.has("store_impl") && step.get("store_impl").asText().equals("in_memory")) {
            store = store.withStoreType(org.apache.kafka.streams.state.BuiltInDslStoreSuppliers.IN_MEMORY);
        }
        if (!step.path("logging").asBoolean(true)) {
            store = store.withLoggingDisabled();
        }
        return step.has("retention_ms") ? store.withRetention(millis(step, "retention_ms")) : store;
    }

    private static EmitStrategy emit(final JsonNode step) {
        return step.has("emit") && step.get("emit").asText().equals("on_window_close")
            ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
    }

    private static boolean isSession(final JsonNode window) {
        return window.get("type").asText().equals("session");
    }

    private static long sizeMs(final JsonNode window) {
        if (window.get("type").asText().equals("unlimited")) {
            return Long.MAX_VALUE;
        }
        return window.get(window.has("size_ms") ? "size_ms" : "difference_ms").asLong();
    }

    private static Windows windows(final JsonNode window) {
        if (window.get("type").asText().equals("unlimited")) {
            return UnlimitedWindows.of().startOn(Instant.ofEpochMilli(window.get("start_ms").asLong()));
        }
        final TimeWindows windows = TimeWindows.ofSizeAndGrace(millis(window, "size_ms"), millis(window, "grace_ms"));
        return window.has("advance_ms") ? windows.advanceBy(millis(window, "advance_ms")) : windows;
    }

    private static SlidingWindows sliding(final JsonNode window) {
        return SlidingWindows.ofTimeDifferenceAndGrace(millis(window, "difference_ms"), millis(window, "grace_ms"));
    }

    private static SessionWindows sessions(final JsonNode window) {
        return SessionWindows.ofInactivityGapAndGrace(millis(window, "gap_ms"), millis(window, "grace_ms"));
    }

    /** The operator's name; null where the user gave none. */
    private static String name(final JsonNode step) {
        return step.path("is_unnamed").asBoolean() ? null : step.get("name").asText();
    }

    private static Named named(final JsonNode step) {
        return NamedInternal.empty().withName(name(step));
    }

    private static Duration millis(final JsonNode step, final String member) {
        return Duration.ofMillis(step.get(member).asLong());
    }
}
