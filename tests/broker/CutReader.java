import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.streams.processor.internals.ProcessorMetadata;
import org.apache.kafka.streams.processor.internals.TopicPartitionMetadata;

/**
 * Reads offset metadata, one string a line, with Kafka Streams' own class, and says what it found:
 * the partition time, the time of every name given as an argument, and what the class would commit.
 */
public class CutReader {
    public static void main(final String[] names) throws Exception {
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            final TopicPartitionMetadata read = TopicPartitionMetadata.decode(line);
            final ProcessorMetadata times = read.processorMetadata();
            final Map<String, Long> found = new TreeMap<>();
            for (final String name : names) {
                if (times.get(name) != null) {
                    found.put(name, times.get(name));
                }
            }
            System.out.println(read.partitionTime() + " " + found + " " + read.encode());
        }
    }
}
