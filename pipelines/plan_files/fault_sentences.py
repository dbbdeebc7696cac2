"""Sentences about the faults of plans."""

from collections.abc import Collection, Iterator, Sequence

from pipelines.plan_files.kafka_json import Key
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.planning.certificates import Certificate
from udfs.planning.plan_states import PlanFault
from udfs.wording import count_of, format_bytes, format_duration, is_or_are, it_or_them, join_names

_LISTED = 3  # partitions by name
_TARGETS = 6  # listed, of each kind
# Of DROPS_IN_SYNC, where a replica that stays is out of sync.
AT_ONCE = ". KRaft drops them at once up to Kafka 3.7; with ZooKeeper, this waits until all that stay are in sync"
_MORE = "{after_bytes}, {ratio:.1f} times the mean of the brokers that could share it: {seconds} at {rate}/s"

# {partitions}: how many and which; {brokers}: those that it is about; {before}, {after}: of the first partition.
_SENTENCES = {
    PlanFault.UNKNOWN_PARTITION: "{partitions} that the cluster does not have",
    PlanFault.REPEATED_PARTITION: "{partitions} twice in one file",
    PlanFault.EMPTY_LIST: "{partitions} with an empty list of replicas",
    PlanFault.REPEATED_REPLICA: "{partitions} with {brokers} twice in the list of replicas",
    PlanFault.LOG_DIRS_LENGTH: "{partitions} with fewer or more log_dirs than replicas",
    PlanFault.UNKNOWN_BROKER: "{partitions} on {brokers}, which the cluster does not have",
    PlanFault.UNUSABLE_LOG_DIR: "{partitions} in a log dir of {brokers} that does not exist, or that failed",
    PlanFault.CORDONED_LOG_DIR: "{partitions} with a cordoned log dir of {brokers}: Kafka rejects this, also where "
    "the replica is there already. Write any, or take it out of the config cordoned.log.dirs",
    PlanFault.DOWN_BROKER: "{partitions} on {brokers}, down or fenced: kafka-reassign-partitions rejects such a file",
    PlanFault.CORDONED_BROKER: "{partitions} with {brokers} in the list, all of whose log dirs are cordoned: Kafka 4.4 "
    "rejects this, also for replicas that are there already. Uncordon first: delete the config cordoned.log.dirs",
    PlanFault.UNDER_WAY: "{partitions} that are being reassigned already: wait for them, or cancel that with --cancel",
    PlanFault.LAST_COPY: "{partitions} would drop the last complete copy, on {brokers}: Kafka keeps it, and does not "
    "complete this before another replica has caught up with it",
    PlanFault.DROPS_IN_SYNC: "{partitions} would lose replicas in sync on {brokers}: {before:.0f} are in sync now, "
    "{after:.0f} then",
    PlanFault.NO_SOURCE: "{partitions} that are offline: there is nothing to copy from, so that this does not complete "
    "before a broker with a complete copy is back",
    PlanFault.CANNOT_COMPLETE: "{partitions} with a replica in a failed log dir of {brokers}: with Kafka 3.8 to 4.2, "
    "and with ZooKeeper, this never completes",
    PlanFault.REPLICATION_FACTOR: "{partitions} with another replication factor than their topic: {after:.0f} instead "
    "of {before:.0f}",
    PlanFault.FEWER_RACKS: "{partitions} in fewer racks: {after:.0f} instead of {before:.0f}",
    PlanFault.UNSHOWN_PARTITION: "{partitions} that the source does not show, so that they are not judged",
    PlanFault.DISK_OVERFLOW: "while replicas are copied, {brokers} would hold up to {after_bytes}, more than the "
    "{before_bytes} that its disks have room for",
    PlanFault.LOG_DIR_OVERFLOW: "while replicas are copied, the volume of {names} would hold up to {after_bytes}, more "
    "than the {before_bytes} that it has room for",
    PlanFault.DISK_FULL: "while replicas are copied, {brokers} would hold up to {after_bytes}, {more_bytes} more "
    "than capacity.max_disk_ratio of its disks",
    PlanFault.LOG_DIR_FULL: "while replicas are copied, the volume of {names} would hold up to {after_bytes}, "
    "{more_bytes} more than capacity.max_disk_ratio of it",
    PlanFault.UNKNOWN_STATE: "{partitions} copied to {brokers}, of which no source shows whether they are live: if "
    "they are not, this does not complete",
    PlanFault.WAITS_FOR_LAGGING: "{partitions} with a replica on {brokers} that is out of sync: the reassignment "
    "ends only once it has caught up",
    PlanFault.BLOCKED_WHILE_COPYING: "{partitions} that accept no acks=all while they are copied: min.insync.replicas "
    "counts for the replicas that are added, too",
    PlanFault.SINGLE_REPLICA: "{partitions} left with one replica: if its disk fails, the data is lost",
    PlanFault.UNDER_MIN_ISR: "{partitions} with fewer replicas in sync than min.insync.replicas",
    PlanFault.BROKER_TAKES_OFFLINE: "{partitions} with one replica in sync: the failure of {brokers} would take them "
    "offline",
    PlanFault.BROKER_BLOCKS: "{partitions} that the failure of a broker would block for acks=all, as of {brokers}",
    PlanFault.RACK_TAKES_OFFLINE: "{partitions} that the failure of one rack would take offline",
    PlanFault.RACK_BLOCKS: "{partitions} that the failure of one rack would block for acks=all",
    PlanFault.LAGGING_RACK: "{partitions} in fewer racks, counting replicas that are out of sync: {after:.0f} instead "
    "of {before:.0f}",
    PlanFault.SLOW_COPIES_IN: f"in all waves, {{brokers}} receives {_MORE}",
    PlanFault.SLOW_COPIES_OUT: f"in all waves, {{brokers}} sends {_MORE}",
    PlanFault.UNEVEN_LEADERS: "{brokers} would lead up to {after:.2f} times the mean",
}


def describe_fault(
    fault: PlanFault,
    names: Sequence[str],
    wave: int,
    brokers: Sequence[int],
    *,
    count: int | None = None,
    before: float = 0.0,
    after: float = 0.0,
    throttle: float = 1.0,
) -> str:
    """Describe a fault of a plan. names: the first partitions or log dirs that have it; count: of all; wave 0: all."""
    number = len(names) if count is None else count
    partitions = f"{count_of(number, 'partition')} ({join_names(names, _LISTED, number)})"
    text = _SENTENCES[fault].format(
        partitions=partitions,
        brokers=name_with_noun(brokers),
        names=join_names(names, _LISTED),
        before=before,
        after=after,
        before_bytes=format_bytes(before),
        after_bytes=format_bytes(after),
        more_bytes=format_bytes(after - before),
        ratio=after / before if before else 0.0,
        seconds=format_duration(after / throttle),
        rate=format_bytes(throttle),
    )
    return f"wave {wave}: {text}" if wave else text


def describe_assumption(release: int | None) -> Iterator[str]:
    """Say which version of Kafka is assumed, as no source shows it; None = one does."""
    if release is not None:
        version = f"{release // 100}.{release % 100}"
        yield f"where the source does not show Kafka's version, its rules are those of {version} (topics.kafka_version)"


def describe_changed(keys: Sequence[Key]) -> str:
    """Say that partitions of a plan were changed after it; the text goes on with what to do."""
    names = join_names((f"{topic}-{partition}" for topic, partition in sorted(keys)), _LISTED)
    was = "was" if len(keys) == 1 else "were"
    return f"{count_of(len(keys), 'partition')} {was} changed by another tool or a later plan ({names})"


def explain_moved_on(has_begun: bool) -> str:
    """Say what it means that others have changed partitions of a plan."""
    return "the plan is over, or another followed it" if has_begun else "nothing of the plan is done. Make a new plan"


def describe_targets(certificate: Certificate) -> Iterator[str]:
    """Name the targets that a plan relaxed or missed, the first of each."""
    for title, texts in (("relaxed", certificate.relaxed), ("missed", certificate.missed)):
        yield from (f"{title}: {text}" for text in texts[:_TARGETS])
        if len(texts) > _TARGETS:
            yield f"{title}: {len(texts) - _TARGETS} more, see plan.json"


def describe_undone(folders: Sequence[str]) -> str:
    """Say that plans which a plan was made after are not done."""
    return f"made after {join_names(folders)}, not done yet: execute {'that' if len(folders) == 1 else 'them'} first"


def describe_running(others: Collection[Key], stuck: Collection[Key] = (), down: Sequence[int] = ()) -> Iterator[str]:
    """Say that a plan waits for reassignments that are under way and not its own.

    stuck: those of them that add a replica on a broker that is down. down: these brokers.
    """
    if others:
        names = join_names((f"{topic}-{partition}" for topic, partition in sorted(others)), _LISTED)
        them = "it is" if len(others) == 1 else "they are"
        count = count_of(len(others), "reassignment")
        yield f"the plan waits for {count} beside it: apply begins once {them} complete ({names})"
    if stuck:
        names = join_names((f"{topic}-{partition}" for topic, partition in sorted(stuck)), _LISTED)
        while_down = f"while {name_with_noun(down)} {is_or_are(len(down))} down"
        them = it_or_them(len(stuck))
        yield f"{count_of(len(stuck), 'reassignment')} cannot complete {while_down}: cancel {them} first ({names})"
