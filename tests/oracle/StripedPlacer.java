import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.TopicAssignment;
import org.apache.kafka.metadata.placement.UsableBroker;

/** org.apache.kafka.metadata.placement.StripedReplicaPlacer of Kafka 4.1. It knows no start index. */
class StripedPlacer implements Placer {
    private StripedReplicaPlacer placer;

    record Cluster(List<UsableBroker> brokers) implements ClusterDescriber {
        @Override
        public Iterator<UsableBroker> usableBrokers() {
            return brokers.iterator();
        }

        @Override
        public Uuid defaultDir(int brokerId) {
            return Uuid.ZERO_UUID;
        }
    }

    @Override
    public Object brokers(int[] ids, String[] racks, boolean[] fenced) {
        List<UsableBroker> brokers = new ArrayList<>(ids.length);
        for (int i = 0; i < ids.length; i++) {
            brokers.add(new UsableBroker(ids[i], Optional.ofNullable(racks[i]), fenced[i]));
        }
        return new Cluster(brokers);
    }

    @Override
    public void seed(long seed) {
        placer = new StripedReplicaPlacer(new Random(seed));
    }

    @Override
    public Object place(Object brokers, int partitions, int factor, int fixedStart, int first) {
        return placer.place(new PlacementSpec(Math.max(0, first), partitions, (short) factor), (Cluster) brokers);
    }

    @Override
    public void read(Object answer, int partitions, int first, Reader reader) {
        List<PartitionAssignment> assignments = ((TopicAssignment) answer).assignments();
        if (assignments.size() != partitions) {
            throw new IllegalStateException(assignments.size() + " partitions instead of " + partitions);
        }
        int id = Math.max(0, first);
        for (PartitionAssignment assignment : assignments) {
            List<Integer> replicas = assignment.replicas();
            reader.partition(id++, replicas.size());
            for (int j = 0; j < replicas.size(); j++) {
                reader.replica(replicas.get(j));
            }
        }
    }
}
