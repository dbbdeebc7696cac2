"""Which brokers bring partitions without a leader back online, and in which order to start them.

The in-sync replicas may lead. Without any, the eligible ones may (ELR, Kafka 4), but a broker that starts after a crash
is no longer eligible. Once the ELR is empty too, the last known leader leads. Otherwise only an unclean election helps.
Source: PartitionChangeBuilder and ReplicationControlManager.handleBrokerShutdown of Kafka 4.1; a test holds these rules
and those of the controller simulation equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from udfs.arrow.columns import to_lists
from udfs.arrow.ragged import any_true, count_true, first_true, is_in_segment, row_of
from udfs.failures.kernels.election import NO_BROKER, Bools, Ids, Ints


class RecoveredFrom(IntEnum):
    """What the next leader of a partition is elected from.

    UNKNOWN = an empty ISR and no ELR is shown; NONE = only an unclean election by hand helps.
    """

    ISR = 0
    ELR = 1
    LAST_KNOWN_LEADER = 2
    UNKNOWN = 3
    UNCLEAN = 4
    NONE = 5

    @property
    def label(self) -> str:
        """The published name, in answers."""
        return self.name.lower().replace("_", " ")


class KnownStops(NamedTuple):
    """What is known of brokers."""

    live: Ids  # live brokers; those of unknown state too
    shut_down: Sequence[int] = ()  # brokers that were shut down cleanly: the others count as crashed
    order: Sequence[int] = ()  # in which brokers stopped, as far as it is known


class LeaderRecovery(NamedTuple):
    """How p partitions without a leader come back, by their r replicas."""

    broker: Ids  # int32 (r), broker ids in assignment order
    offsets: Ints  # int64 (p + 1), the replicas of each partition
    eligible: Bools  # (r), may lead without loss of messages, as far as the cluster knows
    alone: Bools  # (r), brings its partition online once it starts, however its broker stopped
    together: Bools  # (r), all of these bring it online once they have started, though each may have crashed
    unclean: Bools  # (p), whether the topic allows unclean elections
    last: Ids  # int32 (p), last known leader; NO_BROKER = none, or several
    recovered_from: Ids  # int32 (p), code of RecoveredFrom
    stopped_last: Ids  # int32 (p), broker that has most messages; NO_BROKER = unknown

    def find_returned(self, ids: Sequence[int] | Ids, live: Ids) -> tuple[Bools, Ids]:
        """Find which partitions (p) have an eligible leader once brokers start, and all leaders (int32, p) then.

        Others have a leader only if an unclean election is allowed; live: the brokers that are live anyway.
        """
        starts = np.isin(self.broker, ids)
        first = first_true(self.alone & starts, self.offsets)
        waits = self.together & ~starts & ~np.isin(self.broker, live)
        all_back = any_true(self.together & starts, self.offsets) & ~any_true(waits, self.offsets)
        is_clean = (first >= 0) | all_back
        first = np.where(~is_clean & self.unclean, first_true(starts, self.offsets), first)
        leader = np.where(
            first >= 0, np.append(self.broker, NO_BROKER)[first], np.where(all_back, self.last, NO_BROKER)
        )
        return is_clean, leader.astype(np.int32)


def find_recovery(partitions: pa.Table, unclean: Bools, stops: KnownStops) -> LeaderRecovery:
    """Find how partitions without a leader come back.

    partitions: p, columns replicas, isr, elr, last_known_elr; unclean (p): whether unclean elections are allowed.
    """
    broker, offsets, _ = to_lists(partitions["replicas"])
    isr, elr, known = (to_lists(partitions[name]) for name in ("isr", "elr", "last_known_elr"))
    row = row_of(offsets)
    in_isr, in_elr = (is_in_segment(broker, offsets, *lists[:2]) for lists in (isr, elr))
    last = np.full(len(offsets) - 1, NO_BROKER, dtype=np.int32)
    last[known.lengths == 1] = known.values[known.offsets[:-1][known.lengths == 1]]
    is_last = broker == last[row]
    has_last, has_isr = any_true(is_last, offsets), any_true(in_isr, offsets)
    has_elr = ~has_isr & any_true(in_elr, offsets)
    is_alone = ~has_isr & ~has_elr & has_last
    in_elr &= has_elr[row]
    steps = [has_isr, has_elr, is_alone, ~elr.valid, unclean]
    return LeaderRecovery(
        broker,
        offsets,
        eligible=in_isr | in_elr | (is_last & is_alone[row]),
        alone=in_isr | (in_elr & np.isin(broker, stops.shut_down)) | (is_last & is_alone[row]),
        together=(in_elr | is_last) & (has_elr & has_last)[row],
        unclean=unclean,
        last=last,
        recovered_from=np.select(steps, np.arange(len(steps)), RecoveredFrom.NONE).astype(np.int32),
        stopped_last=_find_stopped_last(broker, offsets, stops.order),
    )


def find_last_in_sync(partitions: pa.Table, is_usable: Bools) -> Bools | None:
    """Find the replicas in the ISR (bool, r), and where that is empty, those on down brokers that may lead.

    partitions: column isr, and elr and last_known_elr, if they are known. is_usable (r): not down, nor in a failed log
    dir. None = no source shows an ISR.
    """
    if "isr" not in partitions.column_names:
        return None
    broker, offsets, _ = to_lists(partitions["replicas"])
    in_isr = is_in_segment(broker, offsets, *to_lists(partitions["isr"])[:2])
    if "last_known_elr" not in partitions.column_names:
        return in_isr
    unclean = np.zeros(len(offsets) - 1, dtype=np.bool_)
    eligible = find_recovery(partitions, unclean, KnownStops(np.zeros(0, dtype=np.int32))).eligible
    return in_isr | (eligible & ~is_usable)


def _find_stopped_last(broker: Ids, offsets: Ints, order: Sequence[int]) -> Ids:
    """Find the broker of each partition that stopped last; NO_BROKER where no source shows when one of them did."""
    ids, row = np.array(order, dtype=np.int32), row_of(offsets)
    by_id = np.argsort(ids)
    place = np.full(len(broker), -1, dtype=np.int64)
    is_known = np.isin(broker, ids)
    place[is_known] = by_id[np.searchsorted(ids, broker[is_known], sorter=by_id)]
    last = np.full(len(offsets) - 1, -1, dtype=np.int64)
    np.maximum.at(last, row, place)
    return np.where(any_true(~is_known, offsets), NO_BROKER, np.append(ids, NO_BROKER)[last]).astype(np.int32)


@dataclass(frozen=True)
class BrokerStart:
    """A broker to start, and how many more partitions come online then, after those before it."""

    broker: int
    partitions: int


def order_starts(recovery: LeaderRecovery, down: Sequence[int], stops: KnownStops) -> list[BrokerStart]:
    """Order the brokers that are needed: next comes the one that brings most partitions online.

    Of equal ones, the one that stopped last comes first: it has most messages. Unclean elections come last of all.
    """
    started: list[BrokerStart] = []
    online = np.zeros(len(recovery.last), dtype=np.bool_)
    row, is_unclean = row_of(recovery.offsets), recovery.recovered_from == RecoveredFrom.UNCLEAN
    # An eligible broker may have crashed, but where unclean elections are allowed, it leads all the same.
    is_uncertain = recovery.unclean & ~is_unclean & ~any_true(recovery.alone | recovery.together, recovery.offsets)
    stopped = {broker: place for place, broker in enumerate(stops.order)}
    is_down = np.isin(recovery.broker, down)
    for phase in (~is_unclean, is_unclean):
        while True:
            ids = [start.broker for start in started]
            waits = is_down & (phase & ~online)[row] & ~np.isin(recovery.broker, ids)
            missing = waits & recovery.together
            size = count_true(missing, recovery.offsets)[row]
            helps = waits & (recovery.alone | is_unclean[row] | (recovery.eligible & is_uncertain[row]))
            # A broker that is not enough counts in part, so that those that help together come one after another.
            weight = np.where(helps, 1.0, missing / np.maximum(size, 1))
            candidates, index = np.unique(recovery.broker, return_inverse=True)
            sums = np.bincount(index, weight, minlength=len(candidates))
            whole = np.bincount(index, weight == 1, minlength=len(candidates))
            if not (sums > 0).any():
                break
            last = np.array([stopped.get(broker, -1) for broker in candidates.tolist()])
            broker = int(candidates[np.lexsort((-candidates, last, sums.round(6), whole))[-1]])
            is_clean, leader = recovery.find_returned([*ids, broker], stops.live)
            now = np.where(is_unclean | is_uncertain, leader != NO_BROKER, is_clean)
            started.append(BrokerStart(broker, int((now & ~online).sum())))
            online = now
    return started
