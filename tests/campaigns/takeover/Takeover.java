import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Arguments: bootstrap, application id, state directory, name of the topology, the group's protocol,
 * and after how many ms brokers miss it. Ends in order when its standard input ends. All keys and
 * values are strings; tests/campaigns/takeover/topologies.py has the same topologies.
 */
public class Takeover {
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Duration TEN = Duration.ofSeconds(10);
    private static final Serde<String> TEXT = Serdes.String();

    private final StreamsBuilder builder = new StreamsBuilder();
    private final String prefix;

    Takeover(final String application) {
        prefix = application + ".";
    }

    private KStream<String, String> stream(final String topic) {
        return builder.stream(prefix + topic, Consumed.with(TEXT, TEXT));
    }

    private KTable<String, String> table(final String topic) {
        return builder.table(prefix + topic, Consumed.with(TEXT, TEXT), Materialized.as(topic));
    }

    private void out(final KStream<String, ?> results) {
        results.mapValues(value -> String.valueOf(value))
            .to(prefix + "out", Produced.with(TEXT, TEXT));
    }

    private void windowed(final KTable<Windowed<String>, Long> counts) {
        out(counts.toStream((window, count) ->
            window.key() + "@" + window.window().start() + "-" + window.window().end()));
    }

    void declare(final String name) {
        final TimeWindows tumbling = TimeWindows.ofSizeAndGrace(TEN, SECOND);
        final Grouped<String, String> text = Grouped.with(TEXT, TEXT);
        final JoinWindows near = JoinWindows.ofTimeDifferenceAndGrace(TEN, SECOND);
        final StreamJoined<String, String, String> joined =
            StreamJoined.with(TEXT, TEXT, TEXT).withName("j").withStoreName("j");
        switch (name) {
            case "count" -> out(stream("left").groupByKey(text)
                .count(Materialized.as("counts")).toStream());
            case "reduce" -> out(stream("left").groupByKey(text)
                .reduce((one, other) -> one + "," + other, Materialized.as("joined")).toStream());
            case "aggregate-behind-repartition" -> out(stream("left")
                .groupBy((key, value) -> value.substring(0, 1), Grouped.with("first", TEXT, TEXT))
                .aggregate(() -> "", (key, value, all) -> all + value,
                    Materialized.<String, String, KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>
                        as("texts").withKeySerde(TEXT).withValueSerde(TEXT)).toStream());
            case "tumbling-count" -> windowed(stream("left").groupByKey(text)
                .windowedBy(tumbling).count(Materialized.as("counts")));
            case "hopping-count" -> windowed(stream("left").groupByKey(text)
                .windowedBy(TimeWindows.ofSizeAndGrace(TEN, SECOND).advanceBy(Duration.ofSeconds(5)))
                .count(Materialized.as("counts")));
            case "sliding-count" -> windowed(stream("left").groupByKey(text)
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(TEN, SECOND))
                .count(Materialized.as("counts")));
            case "session-count" -> windowed(stream("left").groupByKey(text)
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(TEN, SECOND))
                .count(Materialized.as("counts")));
            case "closed-windows" -> windowed(stream("left").groupByKey(text)
                .windowedBy(tumbling).emitStrategy(EmitStrategy.onWindowClose())
                .count(Materialized.<String, Long, org.apache.kafka.streams.state.WindowStore<
                    org.apache.kafka.common.utils.Bytes, byte[]>>as("counts")
                    .withRetention(Duration.ofHours(1))));
            case "suppress" -> windowed(stream("left").groupByKey(text)
                .windowedBy(tumbling).count(Materialized.as("counts"))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("held")));
            case "table-aggregate" -> out(table("left")
                .groupBy((key, value) -> KeyValue.pair(value.substring(0, 1), value),
                    Grouped.with("first", TEXT, TEXT))
                .count(Materialized.as("counts")).toStream());
            case "stream-table-join", "empty-table-join" -> out(stream("left")
                .join(table("right"), (left, right) -> left + "+" + right));
            case "versioned-join" -> {
                final KTable<String, String> versions = builder.table(prefix + "right",
                    Consumed.with(TEXT, TEXT), Materialized.<String, String>as(
                        Stores.persistentVersionedKeyValueStore("right", Duration.ofSeconds(100)))
                        .withLoggingEnabled(Map.of("segment.ms", String.valueOf(Long.MAX_VALUE))));
                out(stream("left").leftJoin(versions, (left, right) -> left + "+" + right,
                    Joined.with(TEXT, TEXT, TEXT).withName("waiting").withGracePeriod(TEN)));
            }
            case "table-table-join" -> out(table("left")
                .leftJoin(table("right"), (left, right) -> left + "+" + right).toStream());
            case "foreign-key-join" -> out(table("left")
                .join(table("right"), value -> value.substring(0, 1),
                    (left, right) -> left + "+" + right,
                    org.apache.kafka.streams.kstream.TableJoined.as("fk"),
                    Materialized.<String, String, KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>
                        as("met").withKeySerde(TEXT).withValueSerde(TEXT)).toStream());
            case "stream-join" -> out(stream("left")
                .join(stream("right"), (left, right) -> left + "+" + right, near, joined));
            case "stream-left-join" -> out(stream("left")
                .leftJoin(stream("right"), (left, right) -> left + "+" + right, near, joined));
            case "windowed-again" -> {
                final Serde<Windowed<String>> windows =
                    WindowedSerdes.timeWindowedSerdeFrom(String.class, TEN.toMillis());
                windowed(stream("left").groupByKey(text)
                    .windowedBy(tumbling).count(Materialized.as("counts")).toStream()
                    .repartition(Repartitioned.with(windows, Serdes.Long())
                        .withName("again").withNumberOfPartitions(3))
                    .groupByKey(Grouped.with(windows, Serdes.Long()))
                    .reduce(Long::sum, Materialized.as("sums")));
            }
            case "lru-join" -> {
                final KTable<String, String> two = builder.table(prefix + "right",
                    Consumed.with(TEXT, TEXT), Materialized.as(Stores.lruMap("right", 2)));
                out(stream("left").leftJoin(two, (left, right) -> left + "+" + right));
            }
            case "schedule" -> {
                builder.addStateStore(Stores.keyValueStoreBuilder(
                    Stores.persistentKeyValueStore("last"), TEXT, TEXT).withLoggingEnabled(Map.of()));
                out(stream("left").process(Last::new, Named.as("last-of-each"), "last"));
            }
            default -> throw new IllegalArgumentException(name);
        }
    }

    /** Keeps the last value of each key, and sends all of them every ten seconds of stream time. */
    static class Last extends ContextualProcessor<String, String, String, String> {
        private KeyValueStore<String, String> last;

        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            last = context.getStateStore("last");
            context.schedule(TEN, PunctuationType.STREAM_TIME, time -> {
                try (var all = last.all()) {
                    all.forEachRemaining(row ->
                        context.forward(new Record<>(row.key, row.value + "@" + time, time)));
                }
            });
        }

        @Override
        public void process(final Record<String, String> record) {
            last.put(record.key(), record.value());
        }
    }

    public static void main(final String[] arguments) throws Exception {
        final Takeover takeover = new Takeover(arguments[1]);
        takeover.declare(arguments[3]);
        final Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        // Schedules of stream time are looked at between polls.
        settings.put(StreamsConfig.mainConsumerPrefix("max.poll.records"), 1);
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), arguments[5]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[4]);
        if (arguments[4].equals("classic")) { // else they are the brokers' affair
            settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), arguments[5]);
            settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        }
        final KafkaStreams streams = new KafkaStreams(takeover.builder.build(), settings);
        streams.start();
        while (System.in.read() >= 0) {
            // until it ends
        }
        streams.close(CloseOptions.groupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP));
    }
}
