import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.errors.GroupNotEmptyException;

/** Arguments: bootstrap and group. Deletes the group, with its offsets, once its last member has left. */
public class GroupDeletion {
    public static void main(final String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            while (true) {
                try {
                    admin.deleteConsumerGroups(List.of(arguments[1])).all().get();
                    return;
                } catch (final ExecutionException error) {
                    if (!(error.getCause() instanceof GroupNotEmptyException)) {
                        throw error;
                    }
                    Thread.sleep(100);
                }
            }
        }
    }
}
