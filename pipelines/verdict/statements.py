"""Every sentence of a verdict, with its level and the condition under which it is said; docs/verdicts.md lists them.

Texts have `{n}` (a count, with thousands separated), other names in braces, and `[singular|plural]` by that count.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from pipelines.verdict.levels import Level

_FORMS = re.compile(r"\[([^\[\]|]*)\|([^\[\]|]*)\]")


class Statement(NamedTuple):
    """A sentence of a verdict."""

    level: Level
    condition: str  # in words, for docs/verdicts.md
    text: str
    step: str = ""  # what to do next; empty = nothing
    worst_case: str = ""  # the text where several brokers or racks have this effect, of which {worst} is the worst

    def fill(self, n: int = 0, **values: object) -> "VerdictPoint":
        """Return the sentence for these values. n: the count that decides between singular and plural."""
        text = self.worst_case if "worst" in values else self.text
        return VerdictPoint(self.level, fill_forms(text, n, **values), fill_forms(self.step, n, **values))


@dataclass(frozen=True)
class VerdictPoint:
    """A sentence about one cluster."""

    level: Level
    text: str
    step: str = ""


def fill_forms(text: str, n: int, **values: object) -> str:
    """Fill in {n} (with thousands separated) and other names, and choose the form of each `[singular|plural]` by n."""
    forms = _FORMS.sub(r"\1" if n == 1 else r"\2", text)
    return forms.format(n=f"{n:,}", **values)


# The state now.
OFFLINE = Statement(
    Level.AT_RISK,
    "A partition with known replicas is not led by a live broker. Topics that are marked for deletion do not count.",
    "{n} [partition is|partitions are] offline now{topics}.",
    "{restart}list what to bring back: kafka-topics --describe --unavailable-partitions",
)
UNDER_MIN_ISR = Statement(
    Level.AT_RISK,
    "A partition is online, but has fewer live in-sync replicas than min.insync.replicas (from Kafka 3.7 on, at most "
    "the number of its replicas; before: topics.cap_min_insync_replicas = false).",
    "{n} [partition is|partitions are] below min.insync.replicas now and [blocks|block] acks=all producers{topics}.",
    "{restart}watch the replicas catch up: kafka-topics --describe --under-min-isr-partitions",
)
DOWN = Statement(
    Level.WARNING,
    "A broker is down.",
    "[Broker|Brokers] {brokers} [is|are] down{under_replicated}.",
    "restart [it|them], or move [its|their] replicas: kafka-placement plan SOURCE --goal replace --replace {pairs} "
    "--out plan",
)
UNDER_REPLICATED = Statement(
    Level.WARNING,
    "No broker is known to be down, but a replica is out of sync. Observers and replicas that are being added do not "
    "count.",
    "{n} of {partitions} [is|are] under-replicated{topics}.",
    "watch the replicas catch up: kafka-topics --describe --under-replicated-partitions",
)
# What failures would do.
RACK_OFFLINE = Statement(
    Level.AT_RISK,
    "There are several racks, and the failure of all brokers of one takes a partition offline.",
    "Losing {racks} takes {n} [partition|partitions] offline{topics}.",
    "spread replicas over racks: kafka-placement plan SOURCE --goal repair --out plan",
    "Losing {racks} takes partitions offline (worst case: {worst}, {n} [partition|partitions]){topics}.",
)
BROKER_OFFLINE = Statement(
    Level.AT_RISK,
    "The failure of one live broker takes a partition offline.",
    "Losing {brokers} takes {n} [partition|partitions] offline{topics}.",
    "{repair}",
    "Losing {brokers} takes partitions offline (worst case: {worst}, {n} [partition|partitions]). In all {all}"
    "{topics}.",
)
BROKER_UNCLEAN = Statement(
    Level.WARNING,
    "The failure of one live broker leads to an unclean election.",
    "Losing {brokers} causes unclean elections that could lose messages in {n} [partition|partitions].",
    "wait until replicas are in sync, or set unclean.leader.election.enable=false",
    "Losing {brokers} causes unclean elections that could lose messages (worst case: {worst}, {n} "
    "[partition|partitions]).",
)
BROKER_UNDER_MIN_ISR = Statement(
    Level.WARNING,
    "The failure of one live broker leaves more partitions below min.insync.replicas than now.",
    "Losing {brokers} blocks acks=all producers ({n} [partition|partitions] below min.insync.replicas).",
    "have more replicas than min.insync.replicas: kafka-placement plan SOURCE --goal rf --rf N --out plan",
    "Losing {brokers} blocks acks=all producers (worst case: {worst}, {n} [partition|partitions] below "
    "min.insync.replicas).",
)
RACK_UNDER_MIN_ISR = Statement(
    Level.WARNING,
    "There are several racks, and the failure of all brokers of one leaves more partitions below min.insync.replicas "
    "than now.",
    "Losing {racks} blocks acks=all producers ({n} [partition|partitions] below min.insync.replicas).",
    "spread replicas over racks: kafka-placement plan SOURCE --goal repair --out plan",
    "Losing {racks} blocks acks=all producers (worst case: {worst}, {n} [partition|partitions] below "
    "min.insync.replicas).",
)
ONE_RACK = Statement(
    Level.OK,
    "All live brokers are in one rack, and there are several.",
    "All live brokers are in rack {rack}: nothing survives its failure.",
)
# Load.
HOT_SURVIVOR = Statement(
    Level.WARNING,
    "After the failure of one live broker, a survivor that takes over leaders leads over 1.25 times the mean, and more "
    "than even leaders would require (the mean, rounded up).",
    "If broker {failed} fails, broker {survivor} leads {n} [partition|partitions], {ratio:.2f} times the mean.",
    "even out who takes over: kafka-placement plan SOURCE --goal failover --out plan",
)
HOT_BROKER = Statement(
    Level.WARNING,
    "A broker leads over 1.25 times the mean, and more than even leaders would require (the mean, rounded up).",
    "Broker {broker} leads {n} [partition|partitions] now, {ratio:.2f} times the mean.",
    "{election}even out leaders: kafka-placement plan SOURCE --goal leaders --out plan",
)
NOT_PREFERRED = Statement(
    Level.OK,
    "A partition is not led by its preferred leader, though that is in sync.",
    "{n} [partition is|partitions are] not led by [its|their] preferred leader{effect}.",
    "elect the preferred leaders: kafka-leader-election --election-type PREFERRED --all-topic-partitions",
)
REASSIGNED = Statement(
    Level.OK,
    "Replicas of a partition are being added or removed.",
    "{n} [partition is|partitions are] being reassigned.",
)
DELETED = Statement(
    Level.OK,
    "A topic that is marked for deletion has offline partitions.",
    "{n} offline [partition belongs|partitions belong] to topics that are marked for deletion.",
)
# What the sources lack.
NO_PARTITIONS = Statement(
    Level.UNKNOWN, "The sources show no partition with replicas.", "The sources show no partition with its replicas."
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
    "The sources do not show leader or ISR of {n} [partition|partitions]: healthy is assumed.",
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
UNKNOWN_BROKERS = Statement(
    Level.UNKNOWN,
    "No source shows whether a broker is live.",
    "Unknown whether [broker|brokers] {brokers} [is|are] live: [it counts|they count] as live (run inspect for "
    "details).",
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
    name.lower(): value for name, value in list(globals().items()) if isinstance(value, Statement)
}
