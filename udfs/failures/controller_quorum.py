"""The controller quorum: a majority of its voters elects leaders, completes reassignments and registers brokers.

Voters are those of KRaft. One that is down, or does not follow the leader, does not count for a majority in time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Of a voter that follows the leader: five times controller.quorum.fetch.timeout.ms, and it fetches far more often.
MAX_LAG_MS = 10_000
UNKNOWN_VOTER = -1  # stands for all voters where sources show nothing of them but that they have no majority


@dataclass(frozen=True)
class QuorumVoters:
    """The voters of a quorum, by node id; a node may be a broker as well. None at all: not known, or ZooKeeper."""

    voters: tuple[int, ...] = ()
    lagging: tuple[int, ...] = ()  # of these, those that are down or do not follow the leader
    leader: int | None = None  # the active controller, if it is known

    @property
    def majority(self) -> int:
        """The voters that it takes to elect a leader."""
        return len(self.voters) // 2 + 1

    @property
    def spare(self) -> int:
        """How many of the voters that follow may fail; negative = there is no majority now."""
        return len(self.voters) - len(self.lagging) - self.majority

    @property
    def is_weak(self) -> bool:
        """Whether voters that are down or lag leave no spare one: one more failure, and no leader is elected."""
        return bool(self.lagging) and self.spare <= 0

    def elects_without(self, failed: Collection[int]) -> bool:
        """Return whether there is a majority once nodes failed. Of an unknown quorum, it is assumed."""
        lost = {voter for voter in self.voters if voter in failed} - {*self.lagging}
        return not self.voters or len(lost) <= self.spare

    def order_restarts(self, nodes: Iterable[int]) -> tuple[list[int], list[int]]:
        """Order nodes that may restart one after another, the leader last; and those that leave no majority."""
        order = sorted(nodes, key=lambda node: (node == self.leader, node))
        return [n for n in order if self.elects_without({n})], [n for n in order if not self.elects_without({n})]

    def find_fatal_pairs(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Find the pairs of nodes whose failure leaves no majority: bool (n, n); on the diagonal, single nodes."""
        follows = np.isin(ids, list({*self.voters} - {*self.lagging})).astype(np.int64)
        lost = follows[:, None] + follows
        np.fill_diagonal(lost, follows)
        return (lost > self.spare) & (len(self.voters) > 0)

    def find_fatal_rack(self, racks: Mapping[int, str | None]) -> str | None:
        """Find the rack whose failure leaves no majority, though there is one now. racks: of nodes; None = unknown."""
        counts = Counter(rack for voter in self.voters if (rack := racks.get(voter)) and voter not in self.lagging)
        rack, count = max(counts.items(), key=lambda item: item[1], default=(None, 0))
        return rack if count > self.spare >= 0 else None


def find_lags(end: pa.Array, caught_up_ms: pa.Array, leads: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return (ms since nodes have followed the leader, whether they follow): int64 and bool; null = not shown.

    end: log end offsets, -1 = none. caught_up_ms: when nodes had all that the leader has. leads: bool without nulls.
    """
    newest = pc.max(caught_up_ms.filter(leads))
    lag_ms = pc.max_element_wise(pc.subtract(newest, caught_up_ms), 0, skip_nulls=False)
    return lag_ms, pc.invert(pc.or_kleene(pc.equal(end, -1), pc.greater(lag_ms, MAX_LAG_MS)))
