import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/** org.apache.kafka.admin.AdminUtils, 3.6 to 4.0. Its generator is one for the whole process, and not public. */
final class AdminUtilsPlacer implements Placer {
    private final Random random;

    AdminUtilsPlacer() throws ReflectiveOperationException {
        Field field = AdminUtils.class.getDeclaredField("RAND");
        field.setAccessible(true);
        random = (Random) field.get(null);
    }

    @Override
    public Object brokers(int[] ids, String[] racks, boolean[] fenced) {
        List<BrokerMetadata> brokers = new ArrayList<>(ids.length);
        for (int i = 0; i < ids.length; i++) {
            brokers.add(new BrokerMetadata(ids[i], Optional.ofNullable(racks[i])));
        }
        return brokers;
    }

    @Override
    public void seed(long seed) {
        random.setSeed(seed);
    }

    @Override
    @SuppressWarnings("unchecked")
    public Object place(Object brokers, int partitions, int factor, int fixedStart, int first) {
        return AdminUtils.assignReplicasToBrokers(
            (Collection<BrokerMetadata>) brokers, partitions, factor, fixedStart, first);
    }

    @Override
    @SuppressWarnings("unchecked")
    public void read(Object answer, int partitions, int first, Reader reader) {
        Map<Integer, List<Integer>> assignment = (Map<Integer, List<Integer>>) answer;
        if (assignment.size() != partitions) {
            throw new IllegalStateException(assignment.size() + " partitions instead of " + partitions);
        }
        for (int id = Math.max(0, first), i = 0; i < partitions; id++, i++) {
            List<Integer> replicas = assignment.get(id);
            reader.partition(id, replicas.size());
            for (int j = 0; j < replicas.size(); j++) {
                reader.replica(replicas.get(j));
            }
        }
    }
}
