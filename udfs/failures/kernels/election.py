"""Who leads after brokers failed: Kafka's election rule over flat arrays.

Rule (checked against real clusters, see docs/design.md): a leader that lives keeps its place; else the first
replica in assignment order that is live and in the ISR; else the first that is live and in the ELR; else, where
the topic allows unclean election, the first that is live; else nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import BoolArray, Offsets, any_true, first_true, row_of

NO_LEADER = -1

KEPT, FROM_ISR, FROM_ELR, UNCLEAN, OFFLINE = 0, 1, 2, 3, 4
CAUSES = ("kept", "isr", "elr", "unclean", "offline")


@dataclass(frozen=True)
class PartitionArrays:
    """State of p partitions with r replicas in all.

    offsets: int64 (p + 1).   replicas: int32 (r), broker ids in assignment order.
    in_isr, in_elr: bool (r), whether that replica is in its partition's ISR or ELR.
    leader: int32 (p), broker id or -1.   unclean: bool (p), whether the topic allows unclean election.
    """

    offsets: Offsets
    replicas: npt.NDArray[np.int32]
    in_isr: BoolArray
    in_elr: BoolArray
    leader: npt.NDArray[np.int32]
    unclean: BoolArray


def elect(state: PartitionArrays, live: BoolArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
    """(leader: int32 (p), -1 for none; cause: int8 (p), an index into CAUSES).

    live: bool (r), whether each replica's broker lives after the failure.
    """
    rows = row_of(state.offsets)
    leads = state.replicas == state.leader[rows]
    leader = np.where(any_true(leads & live, state.offsets), state.leader, np.int32(NO_LEADER)).astype(np.int32)
    cause = np.where(leader != NO_LEADER, np.int8(KEPT), np.int8(OFFLINE)).astype(np.int8)
    unclean = state.unclean[rows]
    for code, eligible in ((FROM_ISR, state.in_isr), (FROM_ELR, state.in_elr), (UNCLEAN, unclean)):
        if not (cause == OFFLINE).any():
            break
        chosen = first_true(live & eligible, state.offsets)
        use = (cause == OFFLINE) & (chosen >= 0)
        leader[use] = state.replicas[chosen[use]]
        cause[use] = code
    return leader, cause


def successor_if_leader_fails(
    state: PartitionArrays, live: BoolArray
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
    """As `elect`, when of each partition just its own leader fails; leaderless partitions stay OFFLINE.

    live: bool (r), before the failure. One call answers every single-broker failure of a cluster.
    """
    rows = row_of(state.offsets)
    leader, cause = elect(state, live & (state.replicas != state.leader[rows]))
    orphan = state.leader == NO_LEADER
    leader[orphan] = NO_LEADER
    cause[orphan] = OFFLINE
    return leader, cause
