import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Answers chunks of requests on stdin with what Kafka's own class says, on stdout: java Oracle PLACER.
 *
 * <p>A message, either way, is its length (int) and that many bytes, all little-endian. A chunk, as jvm.py writes it:
 * what is wanted (HASHES, TEXTS, or TIMES and how often), the rack names, the broker lists, the cases (seed, list,
 * topics) and the topics, which of one case share a stream. Its answer: the nanoseconds of each run (TIMES alone), a
 * 64-bit hash per topic, the number of a text per topic or -1, and the texts: what was thrown as "Class: message", or
 * the replicas where TEXTS are wanted.
 */
final class Oracle {
    private static final int HASHES = 0;
    private static final int TEXTS = 1;
    private static final int TIMES = 2;

    private final Placer placer;
    private final Map<String, Integer> texts = new LinkedHashMap<>();

    private int[] listOf;
    private long[] seeds;
    private int[] topicsOf;
    private int[] partitions;
    private int[] factor;
    private int[] first;
    private int[] fixedStart;
    private Object[] brokers;

    Oracle(Placer placer) {
        this.placer = placer;
    }

    public static void main(String[] arguments) throws Exception {
        Oracle oracle = new Oracle((Placer) Class.forName(arguments[0]).getDeclaredConstructor().newInstance());
        DataInputStream in = new DataInputStream(System.in);
        OutputStream out = System.out;
        System.setOut(System.err); // stdout is for answers alone
        for (ByteBuffer chunk = read(in); chunk != null; chunk = read(in)) {
            byte[] answer = oracle.answer(chunk);
            out.write(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(answer.length).array());
            out.write(answer);
            out.flush();
        }
    }

    /** The next message, null at the end of the input. */
    private static ByteBuffer read(InputStream in) throws IOException {
        byte[] length = in.readNBytes(4);
        if (length.length < 4) {
            return null;
        }
        byte[] body = in.readNBytes(ByteBuffer.wrap(length).order(ByteOrder.LITTLE_ENDIAN).getInt());
        return ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN);
    }

    private byte[] answer(ByteBuffer chunk) {
        int wanted = chunk.getInt();
        int runs = chunk.getInt();
        take(chunk);
        texts.clear();
        long[] nanos = new long[wanted == TIMES ? runs : 0];
        long[] hashes = new long[partitions.length];
        int[] text = new int[partitions.length];
        if (wanted == TIMES) {
            time(nanos, hashes, text);
        } else {
            for (int c = 0; c < seeds.length; c++) {
                placer.seed(seeds[c]);
                for (int t = topicsOf[c]; t < topicsOf[c + 1]; t++) {
                    keep(t, place(c, t), wanted == TEXTS, hashes, text);
                }
            }
        }
        return written(nanos, hashes, text);
    }

    private void take(ByteBuffer chunk) {
        String[] names = new String[chunk.getInt()];
        for (int i = 0; i < names.length; i++) {
            char[] units = new char[chunk.getInt()];
            for (int j = 0; j < units.length; j++) {
                units[j] = chunk.getChar();
            }
            names[i] = new String(units);
        }
        int[] offsets = ints(chunk);
        int[] ids = ints(chunk);
        int[] rack = ints(chunk);
        int[] fenced = ints(chunk);
        int[] cordoned = ints(chunk);
        brokers = new Object[offsets.length - 1];
        for (int k = 0; k < brokers.length; k++) {
            int size = offsets[k + 1] - offsets[k];
            int[] myIds = new int[size];
            String[] myRacks = new String[size];
            boolean[] myFences = new boolean[size];
            boolean[] myCordons = new boolean[size];
            for (int i = 0; i < size; i++) {
                int at = offsets[k] + i;
                myIds[i] = ids[at];
                myRacks[i] = rack[at] < 0 ? null : names[rack[at]];
                myFences[i] = fenced[at] != 0;
                myCordons[i] = cordoned[at] != 0;
            }
            brokers[k] = placer.brokers(myIds, myRacks, myFences, myCordons);
        }
        seeds = new long[chunk.getInt()];
        for (int i = 0; i < seeds.length; i++) {
            seeds[i] = chunk.getLong();
        }
        listOf = ints(chunk);
        topicsOf = ints(chunk);
        partitions = ints(chunk);
        factor = ints(chunk);
        first = ints(chunk);
        fixedStart = ints(chunk);
    }

    private static int[] ints(ByteBuffer chunk) {
        int[] values = new int[chunk.getInt()];
        for (int i = 0; i < values.length; i++) {
            values[i] = chunk.getInt();
        }
        return values;
    }

    /** The answer to topic t of case c, or what was thrown. */
    private Object place(int c, int t) {
        try {
            return placer.place(brokers[listOf[c]], partitions[t], factor[t], fixedStart[t], first[t]);
        } catch (RuntimeException thrown) {
            return thrown;
        }
    }

    /** Places all topics again and again, all answers kept in memory until a run ends. */
    private void time(long[] nanos, long[] hashes, int[] text) {
        Object[] answers = new Object[partitions.length];
        for (int run = 0; run < nanos.length; run++) {
            answers = new Object[partitions.length];
            System.gc(); // the last run's answers
            long began = System.nanoTime();
            for (int c = 0; c < seeds.length; c++) {
                placer.seed(seeds[c]);
                for (int t = topicsOf[c]; t < topicsOf[c + 1]; t++) {
                    answers[t] = place(c, t);
                }
            }
            nanos[run] = System.nanoTime() - began;
        }
        for (int t = 0; t < answers.length; t++) {
            keep(t, answers[t], false, hashes, text);
        }
    }

    private void keep(int t, Object answer, boolean inFull, long[] hashes, int[] text) {
        text[t] = -1;
        if (answer instanceof RuntimeException) {
            RuntimeException thrown = (RuntimeException) answer;
            text[t] = numberOf(thrown.getClass().getSimpleName() + ": " + thrown.getMessage());
            return;
        }
        if (inFull) {
            Text reader = new Text();
            placer.read(answer, partitions[t], first[t], reader);
            text[t] = numberOf(reader.toString());
        }
        Hash reader = new Hash();
        placer.read(answer, partitions[t], first[t], reader);
        hashes[t] = reader.value;
    }

    private int numberOf(String text) {
        return texts.computeIfAbsent(text, key -> texts.size());
    }

    private byte[] written(long[] nanos, long[] hashes, int[] text) {
        List<byte[]> encoded = new ArrayList<>();
        int length = 8 * nanos.length + 12 * hashes.length;
        for (String one : texts.keySet()) {
            encoded.add(one.getBytes(StandardCharsets.UTF_8));
            length += 4 + encoded.get(encoded.size() - 1).length;
        }
        ByteBuffer answer = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        answer.asLongBuffer().put(nanos).put(hashes);
        answer.position(8 * (nanos.length + hashes.length));
        answer.asIntBuffer().put(text);
        answer.position(answer.position() + 4 * text.length);
        for (byte[] one : encoded) {
            answer.putInt(one.length).put(one);
        }
        return answer.array();
    }

    /** The hash that answers.py takes too: of each partition its id, how many replicas, and these in order. */
    private static final class Hash implements Placer.Reader {
        private long value;

        private void add(int number) {
            value = (value ^ (number & 0xFFFFFFFFL)) * 0x9E3779B97F4A7C15L;
            value ^= value >>> 29;
        }

        @Override
        public void partition(int id, int replicas) {
            add(id);
            add(replicas);
        }

        @Override
        public void replica(int broker) {
            add(broker);
        }
    }

    /** As JSON: a list of replica lists. */
    private static final class Text implements Placer.Reader {
        private final StringBuilder text = new StringBuilder("[");
        private int missing;

        @Override
        public void partition(int id, int replicas) {
            text.append(text.length() > 1 ? ",[" : "[");
            missing = replicas;
        }

        @Override
        public void replica(int broker) {
            text.append(broker).append(--missing > 0 ? "," : "]");
        }

        @Override
        public String toString() {
            return text.append("]").toString();
        }
    }
}
