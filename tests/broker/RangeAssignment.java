import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Each line of the input is a group: "topic=partitions,... member=instance=topic+topic ...", with an
 * empty instance for a dynamic member. Prints what the broker's own class assigns to it, as
 * "member=topic-partition,... ...". A member that was in the line before has what it was given there.
 */
public class RangeAssignment {
    private static final Map<String, Uuid> IDS = new HashMap<>();
    private static final Map<Uuid, String> NAMES = new HashMap<>();

    public static void main(final String[] arguments) throws Exception {
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Map<String, Map<Uuid, Set<Integer>>> before = Map.of();
        String line;
        while ((line = lines.readLine()) != null) {
            before = assigned(line.split(" "), before);
            System.out.println(before.entrySet().stream()
                .map(member -> member.getKey() + "=" + shown(member.getValue()))
                .collect(Collectors.joining(" ")));
        }
    }

    private static Map<String, Map<Uuid, Set<Integer>>> assigned(
        final String[] words, final Map<String, Map<Uuid, Set<Integer>>> before
    ) {
        final Map<Uuid, Integer> counts = new HashMap<>();
        for (final String topic : words[0].split(",")) {
            final String[] pair = topic.split("=");
            counts.put(id(pair[0]), Integer.valueOf(pair[1]));
        }
        final Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        for (int i = 1; i < words.length; i++) {
            final String[] parts = words[i].split("=");
            final Set<Uuid> topics =
                Arrays.stream(parts[2].split("\\+")).map(RangeAssignment::id).collect(Collectors.toSet());
            final Optional<String> instance = parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]);
            final Assignment current = new Assignment(before.getOrDefault(parts[0], Map.of()));
            members.put(parts[0],
                new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, topics, current));
        }
        final boolean isSame =
            members.values().stream().map(m -> m.subscribedTopicIds()).distinct().count() == 1;
        final GroupAssignment found = new RangeAssignor().assign(
            new GroupSpecImpl(members,
                isSame ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, Map.of()),
            new SubscribedTopicDescriber() {
                public int numPartitions(final Uuid topic) {
                    return counts.getOrDefault(topic, -1);
                }

                public Set<String> racksForPartition(final Uuid topic, final int partition) {
                    return Set.of();
                }
            });
        final Map<String, Map<Uuid, Set<Integer>>> all = new TreeMap<>();
        found.members().forEach((member, one) -> all.put(member, one.partitions()));
        return all;
    }

    private static String shown(final Map<Uuid, Set<Integer>> partitions) {
        final Set<String> all = new TreeSet<>();
        partitions.forEach((topic, numbers) ->
            numbers.forEach(number -> all.add(NAMES.get(topic) + "-" + number)));
        return String.join(",", all);
    }

    private static Uuid id(final String topic) {
        final Uuid id = IDS.computeIfAbsent(topic, unused -> Uuid.randomUuid());
        NAMES.put(id, topic);
        return id;
    }
}
