import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.Properties;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.test.TestRecord;

/**
 * One case per line of standard input, what Kafka Streams made of it per line of standard output.
 * The words are those of the recorded runs; generate.py writes the cases, Steps.java builds them.
 */
public class Recorder {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private final JsonNode given;
    private final ObjectNode found = JSON.createObjectNode();

    Recorder(final JsonNode given) {
        this.given = given;
    }

    ObjectNode record(final String stateDir) {
        final Properties settings = settings(stateDir);
        final Topology topology;
        try {
            topology = new Steps().build(given.get("topology"), settings);
        } catch (final Exception refused) {
            return found.put("refused", refused.toString());
        }
        found.put("describe", topology.describe().toString());
        final Instant start = Instant.ofEpochMilli(given.get("config").get("wall_clock_start_ms").asLong());
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings, start)) {
            run(driver);
        } catch (final RuntimeException refused) {
            return found.has("topics") ? found : found.put("refused", refused.toString());
        }
        return found;
    }

    private Properties settings(final String stateDir) {
        final JsonNode config = given.get("config");
        final Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, config.get("application.id").asText());
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, stateDir);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG,
            config.path("statestore.cache.max.bytes").asLong(0));
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION,
            config.path("window_emit_interval_ms").asLong(0));
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX,
            config.path("outer_join_emit_interval_ms").asLong(0));
        if (config.has("topology.optimization")) {
            settings.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, config.get("topology.optimization").asText());
        }
        if (config.path("dsl.store.suppliers").asText().equals("in_memory")) {
            settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
                BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        }
        if (config.has("dsl.store.format")) {
            settings.put(StreamsConfig.DSL_STORE_FORMAT_CONFIG, config.get("dsl.store.format").asText());
        }
        return settings;
    }

    private void run(final TopologyTestDriver driver) {
        final ObjectNode topics = found.putObject("topics");
        final ArrayNode dropped = found.putArray("dropped");
        long droppedBefore = 0;
        for (int cause = 0; cause < given.get("events").size(); cause++) {
            RuntimeException failure = null;
            try {
                apply(driver, given.get("events").get(cause));
            } catch (final RuntimeException error) {
                failure = error;
            } catch (final ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
            for (final String topic : driver.producedTopicNames()) {
                collect(driver, topic, cause, topics.withArray("/" + topic));
            }
            final long droppedNow = droppedBy(driver);
            if (droppedNow != droppedBefore) {
                dropped.addArray().add(cause).add(droppedNow - droppedBefore);
                droppedBefore = droppedNow;
            }
            if (failure != null) {
                found.putObject("error").put("cause", cause)
                    .put("exception", failure.getClass().getSimpleName()).put("text", failure.toString());
                return;
            }
        }
    }

    private void apply(final TopologyTestDriver driver, final JsonNode event) throws ReflectiveOperationException {
        if (event.get("op").asText().equals("commit")) {
            new RareCommits(driver).commit();
            return;
        }
        if (event.get("op").asText().equals("advance_wall_clock")) {
            driver.advanceWallClockTime(Duration.ofMillis(event.get("ms").asLong()));
            return;
        }
        final String topic = event.get("topic").asText();
        final JsonNode types = given.get("inputs").get(topic);
        final RecordHeaders headers = new RecordHeaders();
        if (event.has("headers")) {
            event.get("headers").forEach(pair -> headers.add(pair.get(0).asText(), pair.get(1).isNull()
                ? null : pair.get(1).asText().getBytes(StandardCharsets.UTF_8)));
        }
        final Serializer<Object> keys = serializer(types.get("key").asText());
        final Serializer<Object> values = serializer(types.get("value").asText());
        final var record = new TestRecord<>(object(event.get("key")), object(event.get("value")), headers, event.get("ts").asLong());
        if (given.get("config").has("statestore.cache.max.bytes")) {
            new RareCommits(driver).pipe(topic, record, keys, values);
        } else {
            driver.createInputTopic(topic, keys, values).pipeInput(record);
        }
    }

    @SuppressWarnings("unchecked")
    private static Serializer<Object> serializer(final String type) {
        return (Serializer<Object>) Steps.serde(type, 0).serializer();
    }

    private static Object object(final JsonNode value) {
        return value.isNull() ? null : value.isTextual() ? value.asText() : (Object) value.asLong();
    }

    private static void collect(final TopologyTestDriver driver, final String topic, final int cause, final ArrayNode rows) {
        final var records = driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        while (!records.isEmpty()) {
            final TestRecord<byte[], byte[]> record = records.readRecord();
            final ArrayNode row = rows.addArray().add(cause).add(hex(record.key())).add(hex(record.value()));
            row.add(record.timestamp());
            if (record.headers().iterator().hasNext()) {
                final ArrayNode headers = row.addArray();
                for (final Header header : record.headers()) {
                    headers.addArray().add(header.key()).add(hex(header.value()));
                }
            }
        }
    }

    private static String hex(final byte[] data) {
        return data == null ? null : HEX.formatHex(data);
    }

    private static long droppedBy(final TopologyTestDriver driver) {
        return driver.metrics().entrySet().stream()
            .filter(entry -> entry.getKey().name().equals("dropped-records-total"))
            .mapToLong(entry -> ((Number) entry.getValue().metricValue()).longValue()).sum();
    }

    public static void main(final String[] arguments) throws Exception {
        final PrintStream answers = System.out;
        System.setOut(System.err);
        final var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        // A driver that failed keeps its stores open, so each case has a directory of its own.
        int number = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            final String stateDir = arguments[0] + "/" + number++;
            answers.println(JSON.writeValueAsString(new Recorder(JSON.readTree(line)).record(stateDir)));
            answers.flush();
        }
    }
}
