"""Why a failure takes partitions offline or blocks producers, and what to do first: the answer of `what-if --fail`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipelines.verdict import statements
from pipelines.verdict.cluster_evidence import (
    NO_PARTITIONS,
    AffectedPartitions,
    name_brokers,
    name_some,
    name_with_noun,
)
from pipelines.verdict.risk_findings import (
    LostBrokers,
    RackSizes,
    can_repair,
    exceed_min_isr,
    repair_first,
    repair_offline,
)
from pipelines.verdict.verdict_points import Level, Statement, Step, VerdictPoint
from udfs.wording import count_of

ONE_BY_ONE = Step(
    "several brokers fail together",
    "take them down one after the other, and wait until all replicas are in sync in between",
)
ADD_BROKERS = statements.ADD_TO_RACKS._replace(text=f"; {statements.ADD_TO_RACKS.text}")
SPREAD = statements.SPREAD_OVER_RACKS._replace(text=f", or {statements.SPREAD_OVER_RACKS.text}")
BROKER_DOWN = Statement(
    Level.AT_RISK,
    "A broker is down, and some of these partitions have a replica there.",
    "[Broker|Brokers] {brokers} [is|are] down. {affected} {have} a replica there.",
    "restart [it|them]{repair_first}",
)
FAILED_DIR = Statement(
    Level.AT_RISK,
    "Some of these partitions have a replica in a failed log dir of a live broker.",
    "{affected} [has|have] a replica in a failed log dir.",
    statements.FAILED_LOG_DIR.step,
    repairs=statements.FAILED_LOG_DIR.repairs[1:],  # their partitions have leaders
)
ONE_REPLICA = Statement(
    Level.AT_RISK,
    "Partitions with replication factor 1 would go offline.",
    "{affected} [has|have] replication factor 1.",
    "{repair}",
    repairs=(statements.ADD_REPLICAS,),
)
ALL_FAIL = Statement(
    Level.AT_RISK,
    "Partitions with several replicas would go offline, as they have all on the brokers that fail.",
    "{affected} [has|have] all replicas on these brokers.",
    "take them down one after the other{repair}",
    repairs=(ADD_BROKERS, SPREAD),
)
OUT_OF_SYNC = Statement(
    Level.WARNING,
    "Some of these partitions have a replica that is out of sync, and none on a broker that is down.",
    "{affected} [has|have] a replica that is out of sync on {brokers}: {names}.",
    f"look at {{brokers}} ({statements.BROKER_CHECKS})",
)
NO_SPARE = Statement(
    Level.WARNING,
    "Partitions would block producers although all their replicas are in sync, as one of them fails.",
    "{affected} [has|have] too few replicas for min.insync.replicas after this failure.",
    "{repair}",
    repairs=(ONE_BY_ONE, statements.ADD_ABOVE_MIN_ISR, statements.LOWER_MIN_ISR),
)
CROWDED = Statement(
    Level.WARNING,
    "Partitions would block producers as several of their replicas fail together; one of them alone could fail.",
    "{affected} [has|have] several replicas on these brokers.",
    ALL_FAIL.step,
    repairs=ALL_FAIL.repairs,
)
CAUSES = (BROKER_DOWN, FAILED_DIR, ONE_REPLICA, ALL_FAIL, OUT_OF_SYNC, CROWDED, NO_SPARE)


@dataclass(frozen=True)
class FailureEffects:
    """What a failure does to partitions that are fine now; topics that are ignored or deleted do not count."""

    offline: AffectedPartitions = NO_PARTITIONS  # would go offline
    blocked: AffectedPartitions = NO_PARTITIONS  # would fall below min.insync.replicas
    without_survivor: int = 0  # of those that would go offline, those with several replicas, all on failing brokers
    out_of_sync: int = 0  # partitions of both with a replica out of sync, and none on a broker that is down
    out_of_sync_partitions: Sequence[str] = ()  # the first MAX_NAMED of these, as in orders-3
    out_of_sync_brokers: Sequence[int] = ()  # where these replicas are
    crowded: int = 0  # of the blocked ones, those whose replicas are in sync, and of which any one alone could fail
    no_spare: AffectedPartitions = NO_PARTITIONS  # the others of the blocked ones whose replicas are all in sync

    def list_causes(self, failing: Sequence[int], down: Sequence[int], racks: RackSizes) -> Iterator[VerdictPoint]:
        """Yield why, each with what to do about it. failing: brokers that fail; down: brokers that are down."""
        live_count = len(racks.brokers) - len(down)
        if count := self.offline.on_down_brokers + self.blocked.on_down_brokers:
            stay_down = LostBrokers(down if can_repair(live_count, racks.replication_factor) else ())
            needed = f"the partitions that need {name_with_noun(failing)}"
            first = repair_first(stay_down, needed, failing)
            have = "has" if count == 1 else "have"
            named = {"brokers": name_brokers(down), "affected": self._name(count)}
            yield BROKER_DOWN.fill(len(down), None, **named, have=have, repair_first=first)
        if count := self.offline.on_failed_dirs + self.blocked.on_failed_dirs:
            yield FAILED_DIR.fill(count, affected=self._name(count), repair=FAILED_DIR.repairs[0].fill())
        if count := self.offline.single_replica_partitions:
            yield ONE_REPLICA.fill(count, affected=self._name(count), repair=repair_offline(self.offline, live_count))
        if count := self.without_survivor:
            yield ALL_FAIL.fill(count, affected=self._name(count), repair=racks.choose_step(SPREAD, ADD_BROKERS))
        if count := self.out_of_sync:
            names = name_some(self.out_of_sync_partitions, count)
            brokers = name_with_noun(self.out_of_sync_brokers)
            yield OUT_OF_SYNC.fill(count, affected=self._name(count), brokers=brokers, names=names)
        if count := self.crowded:
            yield CROWDED.fill(count, affected=self._name(count), repair=racks.choose_step(SPREAD, ADD_BROKERS))
        if count := self.no_spare.partitions:
            repair = ONE_BY_ONE.fill() if len(failing) > 1 else exceed_min_isr(self.no_spare, live_count)
            yield NO_SPARE.fill(count, affected=self._name(count), repair=repair)

    def _name(self, count: int) -> str:
        """Name some of the partitions, as in `2 of these 5 partitions`, or all."""
        total = self.offline.partitions + self.blocked.partitions
        partitions = count_of(total, "partition")
        return f"{count:,} of these {partitions}" if count < total else f"All {partitions}" if total > 1 else "It"
