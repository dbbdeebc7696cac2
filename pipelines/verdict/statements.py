"""The sentences of a verdict, with level and condition, but for those on sources (source_statements.py).

Texts have `{n}` (a count, with thousands separated), other names in braces, and `[singular|plural]` by that count.
"""

from pipelines.verdict import source_statements
from pipelines.verdict.verdict_points import DEFAULT_SERVER, KINDS, Level, Statement, Step

_SERVER = f"--bootstrap-server {DEFAULT_SERVER}"
_LIST = f"kafka-topics {_SERVER} --describe "

BROKER_CHECKS = "log of the replica fetchers, disk, network"  # where a live broker lags
# How a next step goes on while {brokers} are down, or keep failed disks. The options select the partitions to repair.
STAY_DOWN = "if broker[|s] {brokers} [stays|stay] down, "
KEEP_FAILED_DISKS = "if broker[|s] {brokers} must wait for [a new disk|new disks], "
REPAIR_FIRST = Step("", "; {condition}repair {partitions} first: {plan}", "repair")
_ADD_REPLICAS = "add replicas (a failed disk would lose the only copy): {plan}{others}"
ADD_REPLICAS = Step(
    "some of them have replication factor 1, and three brokers or more are live",
    f"{_ADD_REPLICAS}; then raise min.insync.replicas to 2 where it is 1 (acks=all waits for two replicas): "
    f"kafka-configs {_SERVER} --alter --entity-type topics --entity-name {{first}} --add-config min.insync.replicas=2",
    "rf",
)
ADD_BROKER = Step(
    "some of them have replication factor 1, and fewer than two brokers are live",
    "add a broker: one broker cannot hold a second replica",
)
ADD_SECOND_REPLICA = Step("some of them have replication factor 1", _ADD_REPLICAS, "rf")
FIND_LAGGING = Step("", f"find the replicas that are out of sync: {_LIST}--under-replicated-partitions")
COMPLETE_ISRS = Step(
    "partitions are under-replicated now",
    f"{{restart}}wait until all replicas are in sync: {_LIST}--under-replicated-partitions{{repair_first}}",
)
ADD_ABOVE_MIN_ISR = Step(
    "another broker is live", "raise the replication factor above min.insync.replicas: {plan}{others}", "rf"
)
LOWER_MIN_ISR = Step(
    "",
    "add a broker and then a replica, or lower min.insync.replicas below the replication factor, for the topics listed "
    f"by: {_LIST}--at-min-isr-partitions",
)
MOVE_REPLICAS = Step(
    "partitions have several replicas, and as many brokers are live as they have replicas (median)",
    ", or move replicas to other brokers: {plan}",
    "repair",
)
DO_WITH_FEWER = Step(
    "partitions have several replicas, and fewer brokers are live than they have replicas (median)",
    "; if [it does|they do] not return, add [a broker|brokers], or lower the replication factor with plan --goal rf",
)
SPREAD_OVER_RACKS = Step("", "spread replicas over racks: {plan}", "repair")
ADD_TO_RACKS = Step(
    "brokers of a rack would hold over 1.25 times the mean of replicas then: with R racks and replication factor F, "
    "each rack holds at least F // R replicas of a partition",
    "{racks}: add brokers there before spreading replicas over racks: {plan}",
    "expand",
)
SPREAD_ALREADY = Step(
    "no rack holds more replicas of a partition than an even spread leaves",
    "replicas are spread over racks already: only brokers in another rack, more replicas or a lower "
    "min.insync.replicas help",
)
SPREAD_CONFINED = SPREAD_OVER_RACKS._replace(condition="some of them survive the failure of any single broker")
ADD_FOR_CONFINED = ADD_TO_RACKS._replace(condition=f"{SPREAD_CONFINED.condition}, and {ADD_TO_RACKS.condition}")
START_ORDER = " (kafka-placement what-if SOURCE shows in which order)"  # of several brokers that are down
# The state now.
_QUORUM = f"kafka-metadata-quorum {_SERVER} describe --replication"
QUORUM_LOST = Statement(
    Level.AT_RISK,
    "So many voters of the controller quorum are down, or do not follow its leader within 10 s, that there is no "
    "majority.",
    "The controller quorum has no majority: too many of its voters are down or lag ({nodes}), so that no partition can "
    "get another leader.",
    f"restart these nodes, and see whether they follow: {_QUORUM}",
)
MAJORITY_FAILS = Statement(
    Level.AT_RISK,
    "`what-if` only: the failure leaves no majority of the voters of the controller quorum.",
    "No leader can be elected: {n} of {voters} of the controller quorum [fails|fail]{lagging}.",
    "never take down so many voters together; where these are brokers, run controllers on nodes of their own",
)
VOTERS_LAG = Statement(
    Level.WARNING,
    "A voter of the controller quorum is down, or does not follow its leader within 10 s, and there is a majority.",
    "{n} of {voters} of the controller quorum [is down or lags|are down or lag] ({nodes}): {more}.",
    f"restart [this node|these nodes], and see whether [it follows|they follow]: {_QUORUM}",
)
NO_SPARE_VOTER = Statement(
    Level.WARNING,
    "The controller quorum has one voter, or two.",
    "The controller quorum has {n} [voter: without it|voters: without either of them], no partition can get another "
    "leader.",
    "run three controllers, or five",
)
VOTERS_IN_ONE_RACK = Statement(
    Level.WARNING,
    "The failure of one rack takes the majority of the voters of the controller quorum, and no voter lags.",
    "Rack {rack} has so many of the {voters} of the controller quorum that its failure leaves no majority.",
    "spread the controllers over three racks",
)
EVEN_VOTERS = Statement(
    Level.OK,
    "The number of voters of the controller quorum is even.",
    "The controller quorum has {n} voters: one fewer would bear as many failures.",
)
OFFLINE = Statement(
    Level.AT_RISK,
    "A partition with known replicas is not led by a live broker. Topics that are ignored or marked for "
    "deletion do not count.",
    "{n} [partition is|partitions are] offline now{topics}.",
    f"{{restart}}{{only_copy}}list the offline partitions: {_LIST}--unavailable-partitions",
)
ADD_FOR_MIN_ISR = Step(
    "partitions have fewer replicas than min.insync.replicas, and enough brokers are live",
    "add replicas, as waiting does not help: {plan}{others}; or lower min.insync.replicas to the number of replicas",
    "rf",
)
LOWER_FOR_MIN_ISR = Step(
    "partitions have fewer replicas than min.insync.replicas",
    f"add brokers and then replicas, as waiting does not help, or lower min.insync.replicas: kafka-configs {_SERVER} "
    "--alter --entity-type topics --entity-name {first} --add-config min.insync.replicas={factor}{others}",
)
WATCH_REPLICAS = Step("", f"watch the replicas catch up: {_LIST}--under-min-isr-partitions")
UNDER_MIN_ISR = Statement(
    Level.AT_RISK,
    "A partition is online, but has fewer live in-sync replicas than min.insync.replicas (from Kafka 3.7 on, at most "
    "the number of its replicas; topics.kafka_version decides where no source shows the version).",
    "{n} [partition is|partitions are] below min.insync.replicas now and [blocks|block] acks=all producers{topics}.",
    "{repair}",
    repairs=(ADD_FOR_MIN_ISR, LOWER_FOR_MIN_ISR, WATCH_REPLICAS),
)
# With KRaft, a broker does not start with an empty log dir.
_REPLACE_DISK = (
    "replace the disk; with KRaft, format its log dir: kafka-storage format --ignore-formatted --cluster-id ID "
    "--config FILE; then restart the broker"
)
# A replica in the ISR leads once its log dir is back, also if it is empty: its followers then delete what they have.
RECOVER_DISK = Step(
    "partitions without a leader have no replica that may lead but those in failed log dirs",
    "recover the disk and restart the broker: {only} would lose all messages if the log dir came back empty; if the "
    "disk is lost, elect another replica of each first, which loses the newest messages: "
    f"kafka-leader-election {_SERVER} --election-type UNCLEAN --topic TOPIC --partition PARTITION; then "
    f"{_REPLACE_DISK}{{move}}",
)
MOVE_LOST_REPLICAS = Step("", ", or move exactly these replicas to other brokers: {plan}", "repair")
FAILED_LOG_DIR = Statement(
    Level.AT_RISK,
    "Replicas of partitions that count are offline on a live broker: its log dir failed (JBOD).",
    "{log_dirs} failed: {n} [replica|replicas] on {brokers} [is|are] offline{effect}.",
    "{repair}",
    repairs=(
        RECOVER_DISK,
        Step(
            "partitions have several replicas, and as many brokers without a failed log dir are live (median)",
            f"{_REPLACE_DISK} (Kafka uses the log dir again only then){MOVE_LOST_REPLICAS.text}",
            MOVE_LOST_REPLICAS.goal,
        ),
        Step("", f"{_REPLACE_DISK} (Kafka uses the log dir again only then)"),
    ),
)
FAILED_LOG_DIR_WITHOUT_EFFECT = Statement(
    Level.WARNING,
    "A source shows that a log dir of a broker failed, and no replica of a partition that counts is known to be in it.",
    "{log_dirs} failed.",
    _REPLACE_DISK,
)
FULL_LOG_DIR = Statement(
    Level.WARNING,
    "The volume of a log dir is more than 95 % full.",
    "{log_dirs} [is|are] nearly full. Kafka takes a log dir that is full offline, and puts new replicas into the log "
    "dir of a broker with the fewest partitions, whatever its free bytes.",
    "free bytes there, or move replicas {repair}",
    repairs=(
        Step(
            "log dirs of one of these brokers are unevenly full, or several brokers are live",
            "elsewhere: {plan}",
            "relieve",
        ),
        Step("", "to new brokers"),
    ),
)
DOWN = Statement(
    Level.AT_RISK,
    "A broker is down, and an under-replicated partition has a replica there. Observers and replicas that are being "
    "added do not count.",
    "[Broker|Brokers] {brokers} [is|are] down; {under_replicated} under-replicated.",
    "restart [it|them]{repair}",
    repairs=(MOVE_REPLICAS, DO_WITH_FEWER, Step("", "")),
)
DOWN_WITHOUT_EFFECT = Statement(
    Level.WARNING,
    "A broker is down, and no under-replicated partition has a replica there.",
    "[Broker|Brokers] {brokers} [is|are] down.",
    "restart [it|them]; remove [it|them] from the sources only if no replica is left there",
)
UNDER_REPLICATED = Statement(
    Level.WARNING,
    "A replica of an online partition is out of sync, and neither its broker is down nor its log dir failed. Observers "
    "and replicas that are being added do not count. {brokers} names the brokers with most of them, with their number "
    "of partitions.",
    "{n} [partition has|partitions have] replicas that are out of sync on {where}: {brokers}.",
    f"look at these brokers ({BROKER_CHECKS}), and watch the replicas catch up: {_LIST}--under-replicated-partitions",
)
# What failures would do.
RACK_OFFLINE = Statement(
    Level.AT_RISK,
    "There are several racks, and the failure of all brokers of one takes a partition offline.",
    "Losing {racks} takes {n} [partition|partitions] offline{topics}.",
    "{repair}",
    "Losing {racks} takes partitions offline ({worst}{n} [partition|partitions]){topics}.",
    (ADD_FOR_CONFINED, SPREAD_CONFINED),
)
BROKER_OFFLINE = Statement(
    Level.AT_RISK,
    "The failure of one live broker takes a partition offline.",
    "Losing {brokers} takes {n} [partition|partitions] offline{topics}.",
    "{repair}",
    "Losing {brokers} takes partitions offline ({worst}{n} [partition|partitions]); {all} partitions in all{topics}.",
    (ADD_BROKER, ADD_REPLICAS, ADD_SECOND_REPLICA, FIND_LAGGING),
)
BROKER_UNCLEAN = Statement(
    Level.WARNING,
    "The failure of one live broker leads to an unclean election.",
    "Losing {brokers} causes unclean elections that could lose messages in {n} [partition|partitions].",
    "{restart}wait until replicas are in sync, or set unclean.leader.election.enable=false (partitions then go offline "
    f"instead); after one, find open transactions: kafka-transactions {_SERVER} find-hanging --broker-id ID",
    "Losing {brokers} causes unclean elections that could lose messages ({worst}{n} [partition|partitions]).",
)
BROKER_UNDER_MIN_ISR = Statement(
    Level.WARNING,
    "The failure of one live broker leaves more partitions below min.insync.replicas than now.",
    "Losing {brokers} blocks acks=all producers ({n} [partition|partitions] below min.insync.replicas).",
    "{repair}",
    "Losing {brokers} blocks acks=all producers ({worst}{n} [partition|partitions] below min.insync.replicas).",
    (COMPLETE_ISRS, ADD_ABOVE_MIN_ISR, LOWER_MIN_ISR),
)
RACK_UNDER_MIN_ISR = Statement(
    Level.WARNING,
    "There are several racks, and the failure of all brokers of one leaves more partitions below min.insync.replicas "
    "than now.",
    "Losing {racks} blocks acks=all producers ({n} [partition|partitions] below min.insync.replicas).",
    "{repair}",
    "Losing {racks} blocks acks=all producers ({worst}{n} [partition|partitions] below min.insync.replicas).",
    (COMPLETE_ISRS, SPREAD_ALREADY, ADD_TO_RACKS, SPREAD_OVER_RACKS),
)
ONE_RACK = Statement(
    Level.OK,
    "All live brokers are in one rack, and there are several.",
    "All {brokers} are in rack {rack}: nothing survives its failure.",
)
# Disks and load.
_ADD_DISKS = "add disks or brokers, or have topics keep less (retention.ms, retention.bytes)"
_FITS_NOT = "its replicas ({bytes}) do not fit on the disks of those that stay, which can take {free}"
_WORST_FITS_NOT = (
    "its replicas do not fit on the disks of those that stay (worst case: {worst}, {bytes}, where {free} fit)"
)
DISK_OVER_LIMIT = Statement(
    Level.WARNING,
    "The disks of a broker are known, and used above capacity.max_disk_ratio, and no log dir is nearly full.",
    "The disks of broker {broker} are {percent} full.",
    f"{_ADD_DISKS}; or move replicas to other brokers: {{plan}}",
    goal="relieve",
)
DISK_TOO_SMALL = Statement(
    Level.WARNING,
    "Sizes and disks are known, and the replicas of a broker, or of a log dir, do not fit on the others: disks may be "
    "used up to capacity.max_disk_ratio.",
    f"If {{failed}} is lost for good, {_FITS_NOT}.",
    _ADD_DISKS,
    f"If {{failed}} is lost for good, {_WORST_FITS_NOT}.",
)
RACK_DISK_TOO_SMALL = Statement(
    Level.OK, "The same of a rack, if there are several.", DISK_TOO_SMALL.text, worst_case=DISK_TOO_SMALL.worst_case
)
SURVIVOR_OVER_CAPACITY = Statement(
    Level.WARNING,
    "Rates are known, capacity.file has the capacity of a broker, and after the failure of one live broker it gets "
    "more.",
    "If {failed} fails, broker {survivor} transfers {load} ({quantity}), over its capacity of {capacity}.",
    "spread the load: {plan}; or add brokers",
    "If {failed} fails, a survivor is over its capacity (worst case: {worst}; broker {survivor} then transfers "
    "{load} ({quantity}), and its capacity is {capacity}).",
    goal="balance",
)
UNEVEN_LOG_DIRS = Statement(
    Level.OK,
    "The volumes of a broker's log dirs differ by more than 20 % in what is used of them.",
    "Log dirs of {brokers} are unevenly full: {log_dirs}.",
    "move replicas between log dirs: {plan}",
    goal="log-dirs",
)
SPREAD_TAKEOVERS_AND_LEADERS = Step(
    "a broker leads that much now, too", "spread takeovers evenly (this also evens out leaders): {plan}", "failover"
)
SPREAD_TAKEOVERS = Step("", "spread takeovers evenly: {plan}", "failover")
HOT_SURVIVOR = Statement(
    Level.WARNING,
    "After the failure of one live broker, a survivor that takes over leaders leads over 1.25 times the mean of those "
    "with replicas, and more than even leaders would require (that mean, rounded up).",
    "If broker {failed} fails, broker {survivor} leads {n} [partition|partitions], {ratio:.2f} times the mean.",
    "{repair}",
    repairs=(SPREAD_TAKEOVERS_AND_LEADERS, SPREAD_TAKEOVERS),
)
HOT_BROKER = Statement(
    Level.WARNING,
    "A broker leads over 1.25 times the mean of those with replicas, and more than even leaders would require (that "
    "mean, rounded up). The next step is left out if the one for takeovers is printed, which evens out leaders, too.",
    "Broker {broker} leads {n} [partition|partitions] now, {ratio:.2f} times the mean.",
    "{election}even out leaders: {plan}",
    goal="leaders",
)
UNEVEN_LEADERS = Statement(
    Level.OK,
    "A broker leads over 1.1 times the mean, but not over 1.25 times, and more than even leaders would require.",
    HOT_BROKER.text,
    "see whether that is chance: kafka-placement hotspots SOURCE",
)
NOT_PREFERRED = Statement(
    Level.OK,
    "A partition is not led by its preferred leader, though that is in sync. The next step is printed if the hottest "
    "broker then leads fewer partitions.",
    "{n} [partition is|partitions are] not led by [its|their] preferred leader{effect}.",
    f"elect the preferred leaders: kafka-leader-election {_SERVER} --election-type PREFERRED --all-topic-partitions",
)
STUCK = Statement(
    Level.WARNING,
    "A replica is being added on a broker that is down.",
    "{n} [reassignment|reassignments] cannot complete, as replicas are being added on {brokers}, which {are} down: "
    "{partitions}.",
    "restart {brokers}, or cancel [it|them]: echo '{cancelled}' > cancel.json && kafka-reassign-partitions "
    f"{_SERVER} --cancel --reassignment-json-file cancel.json{{others}}",
)
EXTRA_REPLICAS = Statement(
    Level.WARNING,
    "A partition that is not being reassigned has more replicas than the replication factor of its topic. For Kafka, "
    "that is the number of replicas of partition 0.",
    "{n} [partition has|partitions have] more replicas than the replication factor of [its|their] topic{topics}.",
    "if replication factor {factor} is right, remove the other replicas: {plan}{others}",
    goal="rf",
)
REASSIGNED = Statement(
    Level.OK,
    "A partition is being reassigned.",
    "{n} [partition is|partitions are] being reassigned.",
    "see how far [it is|they are], and how to cancel [it|them]: kafka-placement check SOURCE",
)
EMPTY_BROKERS = Statement(
    Level.OK,
    "A live broker that is not cordoned has no replicas, and there are as many partitions as live brokers.",
    "{n} live [broker has|brokers have] no replicas.",
    "fill [it|them], unless that is meant: kafka-placement plan SOURCE --goal expand --out plan-CLUSTER-expand",
)
CORDONED = Statement(
    Level.OK,
    "All log dirs of a broker that is not down are cordoned.",
    "[Broker|Brokers] {brokers} [is|are] cordoned: [it gets|they get] no new replicas.",
)
DELETED = Statement(
    Level.OK,
    "A topic that is marked for deletion has offline partitions.",
    "{n} offline [partition belongs|partitions belong] to topics that are marked for deletion.",
)
IGNORED = Statement(
    Level.OK,
    "The setting topics.ignored (--ignore-topics) names a topic.",
    "The problems of {n} ignored [topic|topics] do not count{offline}.",
)
HEALTHY = Statement(
    Level.OK,
    "Nothing above applies but for what is said at this level.",
    "Any single broker{or_rack} can fail: no partition goes offline{load}.",
)
UNCERTAIN = Statement(
    Level.UNKNOWN,
    "No problem is known, but the sources lack something (all that applies follows).",
    "No problem is known, but the sources do not show everything.",
)

# In the order in which they are said: by level, and by weight within a level.
STATEMENTS: dict[str, Statement] = {
    name.lower(): value
    for names in (dict(globals()), vars(source_statements))
    for name, value in names.items()
    if isinstance(value, Statement)
}
KINDS |= {statement: kind for kind, statement in STATEMENTS.items()}
