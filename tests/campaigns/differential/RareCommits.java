import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.internals.StreamTask;
import org.apache.kafka.streams.test.TestRecord;

/**
 * A test driver that commits when it is asked to, so that caches hold several records' updates.
 * The driver's own methods commit after each record.
 */
class RareCommits {
    private final TopologyTestDriver driver;
    private final StreamTask task;
    private final Time time;

    RareCommits(final TopologyTestDriver driver) throws ReflectiveOperationException {
        this.driver = driver;
        task = (StreamTask) field("task");
        time = (Time) field("mockWallClockTime");
    }

    void pipe(final String topic, final TestRecord<Object, Object> record, final Serializer<Object> keys,
              final Serializer<Object> values) throws ReflectiveOperationException {
        final byte[] key = keys.serialize(topic, record.headers(), record.key());
        final byte[] value = values.serialize(topic, record.headers(), record.value());
        final Object partition = call("getInputTopicOrPatternPartition", topic);
        if (partition != null) {
            call("enqueueTaskRecord", topic, partition, record.timestamp(), key, value, record.headers());
            process();
        }
        final Object global = ((Map<?, ?>) field("globalPartitionsByInputTopic")).get(topic);
        if (global != null) {
            call("processGlobalRecord", global, record.timestamp(), key, value, record.headers());
        }
    }

    void commit() throws ReflectiveOperationException {
        call("commit", task.prepareCommit(true));
        task.postCommit(true);
        process();
    }

    private void process() throws ReflectiveOperationException {
        call("captureOutputsAndReEnqueueInternalResults");
        task.resumePollingForPartitionsWithAvailableSpace();
        task.updateLags();
        while (task.hasRecordsQueued() && task.isProcessable(time.milliseconds())) {
            task.process(time.milliseconds());
            task.maybePunctuateStreamTime();
            call("captureOutputsAndReEnqueueInternalResults");
        }
    }

    private Object field(final String name) throws ReflectiveOperationException {
        final Field found = TopologyTestDriver.class.getDeclaredField(name);
        found.setAccessible(true);
        return found.get(driver);
    }

    private Object call(final String name, final Object... arguments) throws ReflectiveOperationException {
        final Method found = Arrays.stream(TopologyTestDriver.class.getDeclaredMethods())
            .filter(method -> method.getName().equals(name)).findFirst().orElseThrow(NoSuchMethodException::new);
        found.setAccessible(true);
        try {
            return found.invoke(driver, arguments);
        } catch (final InvocationTargetException thrown) {
            if (thrown.getCause() instanceof RuntimeException failure) {
                throw failure;
            }
            throw thrown;
        }
    }
}
