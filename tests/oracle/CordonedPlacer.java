import org.apache.kafka.controller.UsableBrokers;

/** As StripedPlacer, over the brokers that the controller has for it: since Kafka 4.3, none whose log dirs are all cordoned. */
final class CordonedPlacer extends StripedPlacer {
    @Override
    public Object brokers(int[] ids, String[] racks, boolean[] fenced, boolean[] cordoned) {
        return new Cluster(UsableBrokers.list(ids, racks, fenced, cordoned));
    }
}
