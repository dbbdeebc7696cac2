/** One of Kafka's classes that place replicas, asked in one way. */
interface Placer {
    /** Brokers as Kafka's class takes them; a rack is null where there is none. */
    Object brokers(int[] ids, String[] racks, boolean[] fenced);

    /** The same, where log dirs may be cordoned: cordoned says of which brokers all are. */
    default Object brokers(int[] ids, String[] racks, boolean[] fenced, boolean[] cordoned) {
        return brokers(ids, racks, fenced);
    }

    /** From here on the draws are those of a new java.util.Random(seed). */
    void seed(long seed);

    /** What Kafka's class returns. fixedStart, first: as AdminUtils takes them. */
    Object place(Object brokers, int partitions, int factor, int fixedStart, int first);

    /** Reads such an answer out, partition ids rising from first on. */
    void read(Object answer, int partitions, int first, Reader reader);

    interface Reader {
        void partition(int id, int replicas);

        void replica(int broker);
    }
}
