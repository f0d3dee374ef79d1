import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.internals.ProcessorMetadata;
import org.apache.kafka.streams.processor.internals.TopicPartitionMetadata;

/**
 * Arguments: bootstrap and group. Commits what stands on its input, one offset a line as
 * "topic partition offset partition-time name=time ...", with metadata as Kafka Streams writes it.
 * Then prints every offset of the group as "topic partition offset metadata", metadata in hex.
 */
public class GroupOffsets {
    public static void main(final String[] arguments) throws Exception {
        final String group = arguments[1];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            final Map<TopicPartition, OffsetAndMetadata> given = given();
            if (!given.isEmpty()) {
                admin.alterConsumerGroupOffsets(group, given).all().get();
            }
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((at, found) ->
                System.out.println(at.topic() + " " + at.partition() + " " + found.offset() + " "
                    + HexFormat.of().formatHex(found.metadata().getBytes(StandardCharsets.UTF_8))));
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> given() throws Exception {
        final Map<TopicPartition, OffsetAndMetadata> given = new HashMap<>();
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            final String[] words = line.split(" ");
            final ProcessorMetadata times = new ProcessorMetadata();
            for (int i = 4; i < words.length; i++) {
                final String[] pair = words[i].split("=");
                times.put(pair[0], Long.valueOf(pair[1]));
            }
            final String metadata =
                new TopicPartitionMetadata(Long.parseLong(words[3]), times).encode();
            given.put(
                new TopicPartition(words[0], Integer.parseInt(words[1])),
                new OffsetAndMetadata(Long.parseLong(words[2]), Optional.empty(), metadata));
        }
        return given;
    }
}
