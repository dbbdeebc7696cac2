package org.apache.kafka.controller;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.timeline.SnapshotRegistry;

/** The brokers that the controller of Kafka 4.3 and later places over, by its own ClusterControlManager. */
public final class UsableBrokers {
    private UsableBrokers() {}

    /** In the order of ids: with the controller's own, which draws from a random seed, no client could foresee it.
     *
     * <p>Brokers with one log dir each; cordoned: whether it is. A rack is null where there is none. */
    public static List<UsableBroker> list(int[] ids, String[] racks, boolean[] fenced, boolean[] cordoned) {
        SnapshotRegistry registry = Registries.create();
        ClusterControlManager cluster = new ClusterControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setClusterId("oracle")
            .setFeatureControlManager(new FeatureControlManager.Builder()
                .setSnapshotRegistry(registry)
                .setQuorumFeatures(new QuorumFeatures(0, Map.of(), List.of(0)))
                .build())
            .setBrokerShutdownHandler((id, clean, records) -> {})
            .build();
        cluster.activate();
        for (int i = 0; i < ids.length; i++) {
            Uuid dir = new Uuid(1 << 20, ids[i]);
            cluster.replay(new RegisterBrokerRecord()
                .setBrokerId(ids[i])
                .setBrokerEpoch(i)
                .setIncarnationId(dir)
                .setRack(racks[i])
                .setFenced(fenced[i])
                .setLogDirs(List.of(dir))
                .setCordonedLogDirs(cordoned[i] ? List.of(dir) : List.of()), i);
        }
        Map<Integer, UsableBroker> usable = new HashMap<>();
        cluster.usableBrokers().forEachRemaining(one -> usable.put(one.id(), one));
        return IntStream.of(ids).mapToObj(usable::get).filter(Objects::nonNull).collect(Collectors.toList());
    }
}
