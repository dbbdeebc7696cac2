package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.AbstractMap.SimpleEntry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.ReassignablePartition;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.ReassignableTopic;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData.BrokerState;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.CreatePartitionsRequestData.CreatePartitionsAssignment;
import org.apache.kafka.common.message.CreatePartitionsRequestData.CreatePartitionsTopic;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableReplicaAssignment;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData.TopicPartitions;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ClearElrRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.EligibleLeaderReplicasVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * The controller of Kafka 4.1 to 4.4, told what happens, a sentence a line on stdin; after each, how all partitions stand, on
 * stdout: TOPIC PARTITION REPLICAS ISR ELR LEADER LEADER_EPOCH LAST_KNOWN_ELR ADDING REMOVING, joined by ";".
 *
 * <p>What Kafka throws is "! " and its words: the cluster's life ends there. Ids are joined by ",", lists of them by ":"; "-" is none. The first sentence of a cluster is "begin ELR BROKERS". A "reassign" to
 * "-" is cancelled. "completes REPLICAS ISR ADDING REMOVING" asks for the replicas and the ISR after a reassignment.
 */
final class KRaftController {
    private static final String MINIMUM = "min.insync.replicas";
    private static final String UNCLEAN = "unclean.leader.election.enable";

    private final FeatureControlManager features;
    private final ClusterControlManager cluster;
    private final ConfigurationControlManager configuration;
    private final ReplicationControlManager replication;
    private final Map<String, TreeSet<Integer>> partitions = new TreeMap<>();
    private final Set<Integer> inOrder = new TreeSet<>(); // who was shutting down when it went
    private long offset;

    private KRaftController(boolean elr, int[] brokers) {
        SnapshotRegistry registry = Registries.create();
        features = new FeatureControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setQuorumFeatures(new QuorumFeatures(0, Map.of(
                MetadataVersion.FEATURE_NAME, VersionRange.of(
                    MetadataVersion.MINIMUM_VERSION.featureLevel(), MetadataVersion.latestProduction().featureLevel()),
                EligibleLeaderReplicasVersion.FEATURE_NAME, VersionRange.of(0, 1)), List.of(0)))
            .build();
        ReplicationControlManager[] later = new ReplicationControlManager[1];
        cluster = new ClusterControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setClusterId("oracle")
            .setFeatureControlManager(features)
            .setBrokerShutdownHandler((id, clean, records) -> later[0].handleBrokerShutdown(id, clean, records))
            .build();
        ConfigDef topic = new ConfigDef()
            .define(MINIMUM, ConfigDef.Type.INT, 1, ConfigDef.Importance.HIGH, "")
            .define(UNCLEAN, ConfigDef.Type.BOOLEAN, false, ConfigDef.Importance.HIGH, "");
        configuration = new ConfigurationControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setFeatureControl(features)
            .setKafkaConfigSchema(new KafkaConfigSchema(
                Map.of(ConfigResource.Type.TOPIC, topic, ConfigResource.Type.BROKER, new ConfigDef()), Map.of()))
            .build();
        replication = new ReplicationControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setClusterControl(cluster)
            .setConfigurationControl(configuration)
            .setFeatureControl(features)
            .setMaxElectionsPerImbalance(Integer.MAX_VALUE)
            .build();
        later[0] = replication;
        feature(MetadataVersion.FEATURE_NAME, MetadataVersion.latestProduction().featureLevel());
        if (elr) {
            feature(EligibleLeaderReplicasVersion.FEATURE_NAME, (short) 1);
        }
        cluster.activate();
        for (int broker : brokers) {
            up(broker, true);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // stdout is for answers alone
        KRaftController controller = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("completes")) {
                out.println(completes(ids(words[1]), ids(words[2]), ids(words[3]), ids(words[4])));
                continue;
            }
            if (words[0].equals("begin")) {
                controller = new KRaftController(words[1].equals("1"), ids(words[2]));
            } else {
                try {
                    controller.take(words);
                } catch (RuntimeException thrown) { // by Kafka, which would end the controller with it
                    out.println("! " + thrown);
                    continue;
                }
            }
            out.println(controller.stands());
        }
    }

    private void take(String[] words) {
        switch (words[0]) {
            case "down" -> down(Integer.parseInt(words[1]));
            case "up" -> up(Integer.parseInt(words[1]), inOrder.contains(Integer.parseInt(words[1])));
            case "fenced" -> fence(Integer.parseInt(words[1]));
            case "unfenced" -> unfence(Integer.parseInt(words[1]));
            case "leaves" -> leave(Integer.parseInt(words[1]));
            case "create" -> create(words[1], words[2]);
            case "grow" -> grow(words[1], words[2]);
            case "delete" -> delete(words[1]);
            case "set" -> set(words[1], words[2], words[3]);
            case "isr" -> isr(words[1], Integer.parseInt(words[2]), ids(words[3]));
            case "reassign" -> reassign(words[1], Integer.parseInt(words[2]), ids(words[3]));
            case "prefer" -> prefer(words[1], Integer.parseInt(words[2]));
            case "balance" -> replay(replication.maybeBalancePartitionLeaders().records());
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    // Brokers.

    private void down(int broker) {
        if (cluster.registration(broker).inControlledShutdown()) {
            inOrder.add(broker);
        }
        fence(broker);
    }

    private void fence(int broker) {
        if (!cluster.registration(broker).fenced()) {
            List<ApiMessageAndVersion> records = new ArrayList<>();
            replication.handleBrokerFenced(broker, records);
            replay(records);
        }
    }

    private void unfence(int broker) {
        if (cluster.registration(broker).fenced()) {
            List<ApiMessageAndVersion> records = new ArrayList<>();
            replication.handleBrokerUnfenced(broker, cluster.registration(broker).epoch(), records);
            replay(records);
        }
    }

    /** A process that starts anew: inOrder: it knows the epoch of the one before, as that had the time to write it. */
    private void up(int broker, boolean wentInOrder) {
        if (cluster.registration(broker) != null && !cluster.registration(broker).fenced()) {
            return;
        }
        BrokerRegistrationRequestData.FeatureCollection supported =
            new BrokerRegistrationRequestData.FeatureCollection();
        supported.add(new BrokerRegistrationRequestData.Feature()
            .setName(MetadataVersion.FEATURE_NAME)
            .setMinSupportedVersion(MetadataVersion.MINIMUM_VERSION.featureLevel())
            .setMaxSupportedVersion(MetadataVersion.latestProduction().featureLevel()));
        supported.add(new BrokerRegistrationRequestData.Feature()
            .setName(EligibleLeaderReplicasVersion.FEATURE_NAME)
            .setMinSupportedVersion((short) 0)
            .setMaxSupportedVersion((short) 1));
        boolean again = cluster.registration(broker) != null;
        BrokerRegistrationRequestData request = new BrokerRegistrationRequestData()
            .setBrokerId(broker)
            .setClusterId("oracle")
            .setIncarnationId(Uuid.randomUuid())
            .setFeatures(supported)
            .setLogDirs(List.of(new Uuid(7, broker + 1)))
            .setPreviousBrokerEpoch(again && wentInOrder ? cluster.registration(broker).epoch() : -1);
        replay(cluster.registerBroker(request, offset, features.finalizedFeatures(Long.MAX_VALUE), true).records());
        inOrder.remove(broker);
        unfence(broker);
    }

    private void leave(int broker) {
        if (cluster.isActive(broker)) {
            List<ApiMessageAndVersion> records = new ArrayList<>();
            replication.handleBrokerInControlledShutdown(broker, cluster.registration(broker).epoch(), records);
            replay(records);
        }
    }

    // Topics.

    private void create(String topic, String lists) {
        CreatableTopic asked = new CreatableTopic().setName(topic).setNumPartitions(-1).setReplicationFactor((short) -1);
        int number = 0;
        for (String list : lists.split(":")) {
            asked.assignments().add(
                new CreatableReplicaAssignment().setPartitionIndex(number++).setBrokerIds(boxed(ids(list))));
        }
        CreateTopicsRequestData request = new CreateTopicsRequestData();
        request.topics().add(asked);
        replay(answer(replication, "createTopics", context(), request, Set.of()).records());
    }

    private void grow(String topic, String lists) {
        List<CreatePartitionsAssignment> more = Arrays.stream(lists.split(":"))
            .map(list -> new CreatePartitionsAssignment().setBrokerIds(boxed(ids(list))))
            .collect(Collectors.toList());
        int count = partitions.getOrDefault(topic, new TreeSet<>()).size() + more.size();
        replay(replication.createPartitions(context(), List.of(
            new CreatePartitionsTopic().setName(topic).setCount(count).setAssignments(more))).records());
    }

    private void delete(String topic) {
        Uuid id = replication.getTopicId(topic);
        if (id != null) {
            replay(replication.deleteTopics(context(), List.of(id)).records());
        }
    }

    private void set(String topic, String config, String value) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        replay(answer(configuration, "incrementalAlterConfigs",
            Map.of(resource, Map.of(config, new SimpleEntry<>(OpType.SET, value))), false).records());
    }

    private void isr(String topic, int partition, int[] isr) {
        PartitionRegistration stands = registration(topic, partition);
        if (stands == null || stands.leader < 0) {
            return;
        }
        AlterPartitionRequestData request = new AlterPartitionRequestData()
            .setBrokerId(stands.leader)
            .setBrokerEpoch(cluster.registration(stands.leader).epoch());
        request.topics().add(new AlterPartitionRequestData.TopicData().setTopicId(replication.getTopicId(topic)));
        request.topics().get(0).partitions().add(new AlterPartitionRequestData.PartitionData()
            .setPartitionIndex(partition)
            .setLeaderEpoch(stands.leaderEpoch)
            .setPartitionEpoch(stands.partitionEpoch)
            .setNewIsrWithEpochs(IntStream.of(isr)
                .mapToObj(id -> new BrokerState().setBrokerId(id).setBrokerEpoch(cluster.registration(id).epoch()))
                .collect(Collectors.toList())));
        replay(replication.alterPartition(context(), request).records());
    }

    private void reassign(String topic, int partition, int[] replicas) {
        ReassignableTopic asked = new ReassignableTopic().setName(topic);
        asked.partitions().add(new ReassignablePartition().setPartitionIndex(partition)
            .setReplicas(replicas.length == 0 ? null : boxed(replicas)));
        AlterPartitionReassignmentsRequestData request = new AlterPartitionReassignmentsRequestData();
        request.topics().add(asked);
        replay(replication.alterPartitionReassignments(request).records());
    }

    private void prefer(String topic, int partition) {
        ElectLeadersRequestData request = new ElectLeadersRequestData().setElectionType((byte) 0);
        request.topicPartitions().add(new TopicPartitions().setTopic(topic).setPartitions(List.of(partition)));
        replay(replication.electLeaders(request).records());
    }

    // What is written, and how it stands.

    private void feature(String name, short level) {
        features.replay(new FeatureLevelRecord().setName(name).setFeatureLevel(level));
    }

    private void replay(Collection<ApiMessageAndVersion> records) {
        for (ApiMessageAndVersion record : records) {
            ApiMessage message = record.message();
            offset++;
            if (message instanceof TopicRecord one) {
                replication.replay(one);
                partitions.put(one.name(), new TreeSet<>());
            } else if (message instanceof PartitionRecord one) {
                replication.replay(one);
                partitions.get(replication.getTopic(one.topicId()).name()).add(one.partitionId());
            } else if (message instanceof PartitionChangeRecord one) {
                replication.replay(one);
            } else if (message instanceof RemoveTopicRecord one) {
                partitions.remove(replication.getTopic(one.topicId()).name());
                replication.replay(one);
            } else if (message instanceof ClearElrRecord one) {
                replication.replay(one);
            } else if (message instanceof ConfigRecord one) {
                configuration.replay(one);
            } else if (message instanceof RegisterBrokerRecord one) {
                cluster.replay(one, offset);
            } else if (message instanceof BrokerRegistrationChangeRecord one) {
                cluster.replay(one);
            } else {
                throw new IllegalStateException("a record of " + message.getClass());
            }
        }
    }

    private PartitionRegistration registration(String topic, int partition) {
        Uuid id = replication.getTopicId(topic);
        return id == null ? null : replication.getPartition(id, partition);
    }

    private String stands() {
        List<String> lines = new ArrayList<>();
        partitions.forEach((topic, numbers) -> numbers.forEach(number -> {
            PartitionRegistration one = registration(topic, number);
            lines.add(String.join(" ", topic, String.valueOf(number), text(one.replicas), text(one.isr),
                text(one.elr), String.valueOf(one.leader), String.valueOf(one.leaderEpoch),
                text(one.lastKnownElr), text(one.addingReplicas), text(one.removingReplicas)));
        }));
        return String.join(";", lines);
    }

    /** The replicas and ISR that a reassignment leaves when it completes with this ISR; "-" if it does not yet. */
    private static String completes(int[] replicas, int[] isr, int[] adding, int[] removing) {
        return new PartitionReassignmentReplicas(boxed(removing), boxed(adding), boxed(replicas))
            .maybeCompleteReassignment(boxed(isr))
            .map(done -> field(done, "replicas") + " " + field(done, "isr")).orElse("-");
    }

    // What differs between releases.

    /** The result of a method; later releases have one more parameter, whether the request was forwarded. */
    private static ControllerResult<?> answer(Object manager, String name, Object... arguments) {
        Method method = Arrays.stream(manager.getClass().getDeclaredMethods())
            .filter(one -> one.getName().equals(name)).findFirst().orElseThrow();
        Object[] all = Arrays.copyOf(arguments, method.getParameterCount());
        Arrays.fill(all, arguments.length, all.length, false);
        try {
            return (ControllerResult<?>) method.invoke(manager, all);
        } catch (InvocationTargetException thrown) {
            throw (RuntimeException) thrown.getCause();
        } catch (IllegalAccessException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static String field(Object of, String name) { // of a class, later of a record
        try {
            Field field = of.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return text(((List<?>) field.get(of)).stream().mapToInt(id -> (Integer) id).toArray());
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static ControllerRequestContext context() {
        RequestHeaderData header = new RequestHeaderData().setRequestApiVersion((short) 3);
        return new ControllerRequestContext(header, KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
    }

    private static int[] ids(String text) {
        return text.equals("-") ? new int[0] : Arrays.stream(text.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    private static List<Integer> boxed(int[] ids) {
        return IntStream.of(ids).boxed().collect(Collectors.toList());
    }

    private static String text(int[] ids) {
        return ids.length == 0 ? "-" : IntStream.of(ids).mapToObj(String::valueOf).collect(Collectors.joining(","));
    }
}
