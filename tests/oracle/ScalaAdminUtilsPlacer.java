import java.util.ArrayList;
import java.util.List;
import kafka.admin.AdminUtils;
import kafka.admin.BrokerMetadata;
import scala.Option;
import scala.collection.Map;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** kafka.admin.AdminUtils of Kafka 2.8, in Scala; one generator for the whole process too. */
final class ScalaAdminUtilsPlacer implements Placer {
    @Override
    public Object brokers(int[] ids, String[] racks, boolean[] fenced) {
        List<BrokerMetadata> brokers = new ArrayList<>(ids.length);
        for (int i = 0; i < ids.length; i++) {
            brokers.add(new BrokerMetadata(ids[i], Option.apply(racks[i])));
        }
        return CollectionConverters.asScala(brokers).toSeq();
    }

    @Override
    public void seed(long seed) {
        AdminUtils.rand().setSeed(seed);
    }

    @Override
    @SuppressWarnings("unchecked")
    public Object place(Object brokers, int partitions, int factor, int fixedStart, int first) {
        return AdminUtils.assignReplicasToBrokers((Seq<BrokerMetadata>) brokers, partitions, factor, fixedStart, first);
    }

    @Override
    @SuppressWarnings("unchecked")
    public void read(Object answer, int partitions, int first, Reader reader) {
        Map<Object, Seq<Object>> assignment = (Map<Object, Seq<Object>>) answer;
        if (assignment.size() != partitions) {
            throw new IllegalStateException(assignment.size() + " partitions instead of " + partitions);
        }
        for (int id = Math.max(0, first), i = 0; i < partitions; id++, i++) {
            Seq<Object> replicas = assignment.apply(id);
            reader.partition(id, replicas.size());
            for (int j = 0; j < replicas.size(); j++) {
                reader.replica((Integer) replicas.apply(j));
            }
        }
    }
}
