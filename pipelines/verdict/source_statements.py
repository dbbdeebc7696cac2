"""The sentences of a verdict on what the sources lack; statements.py has the others."""

from pipelines.verdict.verdict_points import DEFAULT_SERVER, Level, Statement

NO_PARTITIONS = Statement(
    Level.UNKNOWN, "The sources show no partition with replicas.", "The sources show no partition with its replicas."
)
NO_TOPICS = Statement(Level.OK, "A running cluster says that it has no topic.", "The cluster has 0 topics.")
NOTHING_COUNTED = Statement(
    Level.UNKNOWN,
    "All partitions belong to topics that are ignored or marked for deletion.",
    "All topics are ignored or marked for deletion: no problem counts.",
)
NO_LIVE_BROKER = Statement(
    Level.UNKNOWN, "No broker is live, or none is known.", "No live broker is known: failures cannot be evaluated."
)
SOURCE_WARNING = Statement(
    Level.UNKNOWN,
    "A record shows that something is missing, such as a failed command or a listing of selected partitions.",
    "{warning}.",
)
MORE_WARNINGS = Statement(
    Level.UNKNOWN, "There are more than six of these.", "{n} more [warning|warnings]: run inspect."
)
QUARANTINED = Statement(
    Level.UNKNOWN,
    "A record of the sources is quarantined.",
    "{n} [record|records] of the sources [is|are] quarantined and left out of every answer: run inspect to see why.",
)
OUTDATED_BROKER_LIST = Statement(
    Level.UNKNOWN,
    "The sources have a list of brokers, and partitions are on brokers that it does not name.",
    "The broker list lacks [broker|brokers] {brokers}, which [has|have] replicas, and may be outdated: no answer "
    "covers the partitions there.",
    "update the broker list, or leave it out",
)
UNUSED_FILES = Statement(
    Level.UNKNOWN,
    "A file of the source has nothing that is used.",
    "Nothing is used of {n} [file|files] ({files}): run inspect to see why.",
)
INCOMPLETE_TOPICS = Statement(
    Level.UNKNOWN,
    "The sources do not show, or may not show, all partitions or replicas of a topic.",
    "{n} [topic is|topics are] not fully shown by the sources ({topics}){missing}: no answer covers what is missing.",
)
UNPLACED = Statement(
    Level.UNKNOWN,
    "A topic is known, but no source shows the replicas of a partition.",
    "No source shows the replicas of {n} [partition|partitions]: no answer covers [it|them].",
)
INFERRED = Statement(
    Level.UNKNOWN,
    "The sources show replicas of a partition, but not its leader or ISR.",
    "The sources do not show leader or ISR of {n} [partition|partitions]: [it counts|they count] as healthy.",
)
TWO_CLUSTERS = Statement(
    Level.UNKNOWN,
    "A topic has two ids, or a broker two hosts.",
    "The sources name different ids of a topic or different hosts of a broker: they may be of two clusters.",
)
CONFIG_CONFLICTS = Statement(
    Level.UNKNOWN,
    "Sources disagree on a config that decides which failures a topic survives.",
    "The sources show different values of min.insync.replicas or unclean.leader.election.enable "
    "({n} [conflict|conflicts]): the first is used (run inspect for details).",
)
UNKNOWN_VERSION = Statement(
    Level.UNKNOWN,
    "A partition has fewer replicas than min.insync.replicas, and no source shows whether the cluster runs Kafka 3.7 "
    "or later.",
    "{n} [partition has|partitions have] fewer replicas than min.insync.replicas, and no source shows the version of "
    "Kafka: before 3.7, [it blocks|they block] acks=all producers now; from 3.7 on, [it does|they do] not{topics}.",
    "add the output of the command that shows the version: kafka-broker-api-versions --bootstrap-server "
    f"{DEFAULT_SERVER}",
)
UNKNOWN_BROKERS = Statement(
    Level.UNKNOWN,
    "No source shows whether a broker is live.",
    "Unknown whether [broker|brokers] {brokers} [is|are] live: [it counts|they count] as live (run inspect for "
    "details).",
)
