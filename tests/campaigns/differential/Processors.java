import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.TreeMap;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;

/** The named processors of the recorded runs that keep no store. */
@SuppressWarnings({"unchecked", "rawtypes"})
class Processors {
    static ProcessorSupplier of(final JsonNode step) {
        return switch (step.get("processor").asText()) {
            case "header_edit" -> HeaderEdit::new;
            case "meta" -> Meta::new;
            case "forward_many" -> ForwardMany::new;
            case "memory_punctuate" -> () -> new MemoryPunctuate(step.get("args"));
            default -> throw new IllegalArgumentException(step.toString());
        };
    }

    static FixedKeyProcessorSupplier ofValues(final JsonNode step) {
        return ValuesTwice::new;
    }

    static ValueTransformerWithKeySupplier ofTables() {
        return () -> new ValueTransformerWithKey<Object, Object, Object>() {
            @Override
            public void init(final org.apache.kafka.streams.processor.ProcessorContext context) {
            }

            @Override
            public Object transform(final Object key, final Object value) {
                return value == null ? null : Functions.text(key) + ":" + Functions.text(value);
            }

            @Override
            public void close() {
            }
        };
    }

    private static class HeaderEdit extends ContextualProcessor<Object, Object, Object, Object> {
        @Override
        public void process(final Record<Object, Object> record) {
            final RecordHeaders headers = new RecordHeaders();
            for (final Header header : record.headers()) {
                if (!header.key().equals("drop")) {
                    headers.add(header);
                }
            }
            headers.add("seen", Functions.text(record.value()).getBytes(StandardCharsets.UTF_8));
            context().forward(record.withHeaders(headers));
        }
    }

    private static class Meta extends ContextualProcessor<Object, Object, Object, Object> {
        @Override
        public void process(final Record<Object, Object> record) {
            if (record.key() == null) {
                return;
            }
            final String where = context().recordMetadata()
                .map(found -> found.topic() + "/" + found.partition() + "@" + found.offset()).orElse("null/-1@-1");
            context().forward(record.withValue(where + " ts=" + record.timestamp()
                + " stream=" + context().currentStreamTimeMs() + " wall=" + context().currentSystemTimeMs()));
        }
    }

    private static class ForwardMany extends ContextualProcessor<Object, Object, Object, Object> {
        @Override
        public void process(final Record<Object, Object> record) {
            context().forward(record);
            if (record.value() == null) {
                return;
            }
            context().forward(record.withKey(Functions.text(record.key()) + "'")
                .withValue((Long) record.value() + 1).withTimestamp(record.timestamp() + 1));
            final RecordHeaders headers = new RecordHeaders(record.headers());
            headers.add("n", "2".getBytes(StandardCharsets.UTF_8));
            context().forward(record.withValue(null).withHeaders(headers));
        }
    }

    /** Passes records on; its schedules forward what it has seen last. */
    private static class MemoryPunctuate extends ContextualProcessor<Object, Object, Object, Object> {
        private final JsonNode args;
        private final TreeMap<String, Object> seen = new TreeMap<>();

        MemoryPunctuate(final JsonNode args) {
            this.args = args;
        }

        @Override
        public void init(final ProcessorContext<Object, Object> context) {
            super.init(context);
            for (final JsonNode schedule : args.get("schedules")) {
                final PunctuationType type = schedule.get("time").asText().equals("stream_time")
                    ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME;
                final Duration interval = Duration.ofMillis(schedule.get("interval_ms").asLong());
                final String name = schedule.get("name").asText();
                if (schedule.has("start_ms")) {
                    context.schedule(Instant.ofEpochMilli(schedule.get("start_ms").asLong()), interval, type, now -> punctuate(name, now));
                } else {
                    context.schedule(interval, type, now -> punctuate(name, now));
                }
            }
        }

        @Override
        public void process(final Record<Object, Object> record) {
            if (record.key() != null) {
                seen.put(record.key().toString(), record.value());
            }
            if (args.get("passes").asBoolean()) {
                context().forward(record);
            }
        }

        private void punctuate(final String name, final long now) {
            seen.forEach((key, value) -> context().forward(new Record<>(name + key, value, now)));
        }
    }

    private static class ValuesTwice extends ContextualFixedKeyProcessor<Object, Object, Object> {
        @Override
        public void process(final FixedKeyRecord<Object, Object> record) {
            context().forward(record);
            if (record.value() != null) {
                context().forward(record.withValue((Long) record.value() + 100).withTimestamp(record.timestamp() + 5));
            }
        }
    }
}
