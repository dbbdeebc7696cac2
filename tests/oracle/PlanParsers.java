import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Reads the files of plans with the parsers of Kafka's own tools, whichever release is on the class path.
 *
 * <p>A request is a line on stdin: what, a tab, a path, and for some another. Its answer is a line on stdout: "OK " and
 * what was understood, parts behind a space, or "THROWN " and the exception. Scala's parsers (2.8) and Java's (3.9,
 * 4.x) differ in class and collections only, which are found by name.
 */
final class PlanParsers {
    private static final boolean SCALA =
            ClassLoader.getSystemResource("kafka/admin/ReassignPartitionsCommand.class") != null;
    private static final String REASSIGN =
            SCALA
                    ? "kafka.admin.ReassignPartitionsCommand$"
                    : "org.apache.kafka.tools.reassign.ReassignPartitionsCommand";
    private static final String ELECT =
            SCALA ? "kafka.admin.LeaderElectionCommand$" : "org.apache.kafka.tools.LeaderElectionCommand";
    private static final String PREFERRED = "kafka.admin.PreferredReplicaLeaderElectionCommand$";
    private static final String THROTTLED =
            SCALA
                    ? "kafka.server.ThrottledReplicaListValidator$"
                    : "org.apache.kafka.storage.internals.log.ThrottledReplicaListValidator";

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // stdout is for answers alone
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "OK " + answer(line.split("\t"));
            } catch (InvocationTargetException thrown) {
                answer = "THROWN " + thrown.getCause();
            }
            out.println(answer.replace('\n', ' '));
        }
    }

    private static String answer(String[] request) throws Exception {
        String text = Files.readString(Path.of(request[1]));
        switch (request[0]) {
            case "reassignment": // as it is read
                return lists(items(first(call(REASSIGN, "parsePartitionReassignmentData", text))));
            case "log_dirs": // of each replica that has one
                return logDirs(second(call(REASSIGN, "parsePartitionReassignmentData", text)));
            case "execute": // as --execute takes it, which refuses more
                return "" + items(first(call(REASSIGN, "parseExecuteAssignmentArgs", text))).size();
            case "topics":
                return String.join(" ", strings(items(call(REASSIGN, "parseTopicsData", text))));
            case "generate":
                return "" + items(second(call(REASSIGN, "parseGenerateAssignmentArgs", text, "1,2"))).size();
            case "election":
                return partitions(items(call(ELECT, "parseReplicaElectionData", SCALA ? text : request[1])));
            case "preferred": // the command before kafka-leader-election
                return partitions(items(call(PREFERRED, "parsePreferredReplicaElectionData", text)));
            case "throttled": // a line each: config, tab, value
                return throttled(text);
            case "throttles": // what --throttle would set, from the second file's lists to the first's; not in 2.8
                return throttles(text, Files.readString(Path.of(request[2])));
            default:
                throw new IllegalArgumentException(request[0]);
        }
    }

    private static String throttled(String text) throws Exception {
        Class<?> found = Class.forName(THROTTLED);
        Object validator = found.getField(SCALA ? "MODULE$" : "INSTANCE").get(null);
        List<String> counts = new ArrayList<>();
        for (String line : text.split("\n")) {
            String[] config = line.split("\t");
            Object value = ConfigDef.parseType(config[0], config[1], ConfigDef.Type.LIST);
            found.getMethod("ensureValid", String.class, Object.class).invoke(validator, config[0], value);
            counts.add("" + ((List<?>) value).size());
        }
        return String.join(" ", counts);
    }

    private static String throttles(String after, String before) throws Exception {
        Object proposed = first(call(REASSIGN, "parseExecuteAssignmentArgs", after));
        Object current = first(call(REASSIGN, "parseExecuteAssignmentArgs", before));
        Object moves = call(REASSIGN, "calculateProposedMoveMap", new HashMap<>(), proposed, current);
        Object leaders = call(REASSIGN, "calculateLeaderThrottles", moves);
        Object followers = call(REASSIGN, "calculateFollowerThrottles", moves);
        List<String> out = new ArrayList<>();
        for (Object entry : items(leaders)) {
            out.add(first(entry) + "=" + second(entry) + "=" + ((Map<?, ?>) followers).get(first(entry)));
        }
        Collections.sort(out);
        return String.join(" ", out);
    }

    private static String logDirs(Object byReplica) throws Exception {
        List<String> out = new ArrayList<>();
        for (Object entry : items(byReplica)) {
            TopicPartitionReplica replica = (TopicPartitionReplica) first(entry);
            out.add(replica.topic() + ":" + replica.partition() + ":" + replica.brokerId() + "=" + second(entry));
        }
        Collections.sort(out);
        return String.join(" ", out);
    }

    private static String lists(List<Object> entries) throws Exception {
        List<String> out = new ArrayList<>();
        for (Object entry : entries) {
            out.add(name(first(entry)) + "=" + String.join(",", strings(items(second(entry)))));
        }
        return String.join(" ", out);
    }

    private static String partitions(List<Object> found) {
        List<String> out = new ArrayList<>();
        for (Object partition : found) {
            out.add(name(partition));
        }
        Collections.sort(out);
        return String.join(" ", out);
    }

    private static String name(Object partition) {
        return ((TopicPartition) partition).topic() + ":" + ((TopicPartition) partition).partition();
    }

    private static List<String> strings(List<Object> values) {
        List<String> out = new ArrayList<>();
        values.forEach(value -> out.add(value.toString()));
        return out;
    }

    /** The only method of this name that takes these arguments, called; private ones too. */
    private static Object call(String owner, String name, Object... arguments) throws Exception {
        Class<?> found = Class.forName(owner);
        for (Method method : found.getDeclaredMethods()) {
            if (method.getName().equals(name) && takes(method.getParameterTypes(), arguments)) {
                method.setAccessible(true);
                return method.invoke(SCALA ? found.getField("MODULE$").get(null) : null, arguments);
            }
        }
        throw new NoSuchMethodException(owner + "." + name);
    }

    private static boolean takes(Class<?>[] types, Object[] arguments) {
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            if (!types[i].isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }

    private static Object first(Object pair) throws Exception {
        return pair instanceof Map.Entry
                ? ((Map.Entry<?, ?>) pair).getKey()
                : pair.getClass().getMethod("_1").invoke(pair);
    }

    private static Object second(Object pair) throws Exception {
        return pair instanceof Map.Entry
                ? ((Map.Entry<?, ?>) pair).getValue()
                : pair.getClass().getMethod("_2").invoke(pair);
    }

    /** The elements of one of Java's or Scala's collections, in order; of a map, its pairs. */
    private static List<Object> items(Object collection) throws Exception {
        List<Object> out = new ArrayList<>();
        if (collection instanceof Map) {
            out.addAll(((Map<?, ?>) collection).entrySet());
        } else if (collection instanceof Iterable) {
            ((Iterable<?>) collection).forEach(out::add);
        } else {
            Object iterator = Class.forName("scala.collection.IterableOnce").getMethod("iterator").invoke(collection);
            Method hasNext = Class.forName("scala.collection.Iterator").getMethod("hasNext");
            Method next = Class.forName("scala.collection.Iterator").getMethod("next");
            while ((boolean) hasNext.invoke(iterator)) {
                out.add(next.invoke(iterator));
            }
        }
        return out;
    }
}
