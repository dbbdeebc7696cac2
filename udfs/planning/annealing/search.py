"""Plans that balance everything at once: annealing in phases, each settling what the next one builds on.

1. Oversized partitions: partitions of which one alone can fill what a survivor may take over. 2. Who holds what:
counts, disk, bytes
in. 3. Who leads and who takes over, over these sets: nothing is copied. 4. All at once, for what is left, and homeward.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from udfs.planning.annealing.kernels.joint_moves import anneal_all
from udfs.planning.annealing.kernels.order_moves import anneal_roles
from udfs.planning.annealing.kernels.oversized_partitions import anneal_oversized
from udfs.planning.annealing.kernels.replica_moves import KINDS, anneal_holding
from udfs.planning.annealing.kernels.search_state import Limits, Prices, State, Work, new_state, recount
from udfs.planning.annealing.kernels.search_steps import Random, new_random
from udfs.planning.bounds.copy_bounds import Covering
from udfs.planning.cluster_model import Flags, Floats, Ints, Places

_MIX = np.cumsum(np.array([4, 1, 1, 1, 1, 1, 1]) / 10)
assert len(_MIX) == KINDS
_CLOSE = 1e-5  # units of the mean: what is worth another try
# What counts as met: counts, and units of the mean for all others.
TOLERANCE = {"replicas": 0.5, "leaders": 0.5, "failover": 0.5, "": 2e-4}
_AGAIN, _NEAR = 2, 0.01  # so often the rest is tried again where bytes out are so much too many
_DEAR = 10.0  # what a leader too many costs in the end, in units of bytes out
_LIGHT = 0.03  # share of replicas that count as light
_OVERSIZED, _HUGE, _FULL = 0.4, 0.5, 0.9  # of the room for a takeover; of a broker's disk or bytes in
_SHARE_LEFT = 0.0015  # of all bytes out: room that oversized partitions leave for the others to find
_SHORT, _NEARLY = 0.6, 2.0  # of it that may be missing all the same, or with which it is worth another try
_USUAL, _LEAST_ROOM = 1.03, 0.02  # bytes out of a broker's leaders, and room beside them, in units of the mean
_MOST = 6_000_000  # proposals for oversized partitions
_PATIENT = ((3.0, 0.1), (3.0, 0.1))  # how long, how warm: the cheapest of these is taken
_HARDLY = 0.9  # of what was too much: if no less is left, it is not the price
_LESS_ROOM = 0.01  # what an oversized partition's takeover may not count on: others are taken over with it


@dataclass(frozen=True)
class Knobs:
    """How dear things are: of a unit copied, and of a replica copied, in typical replicas; count: of one too many.

    over: of a unit of excess, at first.   warm: how much dearer something may get at first.   oversized partitions:
    whether replicas
    are copied for the sake of bytes out after a failure.   heavy: of a broker's disk or bytes in, partitions that are
    placed before all others; of_heavy: what a unit of excess costs then.
    """

    disk: float = 1.0
    move: float = 0.015
    count: float = 0.75
    over: float = 1.02
    warm: float = 0.075
    oversized: bool = True
    heavy: float = 0.15
    of_heavy: float = 0.9


BALANCE, FEWEST = Knobs(), Knobs(0.02, 20.0, 40.0, 1.0, 1.0, False, 0.03, 1.0)


@dataclass(frozen=True)
class Task:
    """What to search. slots: int32 (r), where to begin.   targets: int32, brokers that may receive.

    failover_out: wanted ratio of the worst survivor's bytes out, as in limits.survivor_out; brokers: how many count.
    settled: bool (p), partitions that are where they should be, or None.
    """

    work: Work
    limits: Limits
    slots: Places
    targets: Places
    brokers: int
    failover_out: float
    knobs: Knobs
    covering: Covering
    seed: int
    settled: Flags | None = None


@dataclass(frozen=True)
class Found:
    """slots: int32 (r).   limits: those kept to in the end.   failover_out: the ratio that oversized partitions allow.

    oversized partitions: bool (p), partitions that one broker's takeover hardly bears.
    """

    slots: Places
    limits: Limits
    failover_out: float
    oversized: Flags


def search(task: Task) -> Found:
    """The lists found; the same task gives the same."""
    work, random = task.work, new_random(task.seed)
    room = room_for_takeovers(task)
    as_begun = Found(task.slots, task.limits, task.failover_out, np.zeros(len(work.out), dtype=np.bool_))
    if all_met(task, as_begun):
        return as_begun
    oversized = (work.out > _OVERSIZED * room) & work.free
    placed, limits, ratio = _oversized(task, oversized, random)
    pinned = _pinned(task, placed, oversized)
    state = new_state(work, limits, placed)
    prices = _holding(task, limits, state, pinned, random)
    _roles(task, limits, state, oversized, random)
    _mending(task, limits, state, prices, random)
    before = np.inf
    for _ in range(_AGAIN):
        over = excess(limits, state)
        left = max(float(over["bytes_out"].max()), float(over["failover_out"].max()))
        if left < _NEAR or left > _HARDLY * before or ratio == np.inf:
            break
        before = left
        ratio += _NEAR  # the room of the brokers that take oversized partitions over is what is short
        limits = limits._replace(survivor_out=limits.survivor_out + _NEAR)
        _roles(task, limits, state, oversized, random)
        _mending(task, limits, state, prices, random)
    _counts_first(task, limits, state, random)
    return Found(state.slots, limits, ratio, oversized)


def room_for_takeovers(task: Task) -> float:
    """Bytes out that a broker at its limit can take over, in units of the mean.

    Where one leader alone raises all limits, what a usual limit leaves.
    """
    least = float((task.limits.survivor_out - task.limits.out).min(initial=np.inf))
    return max(least, task.failover_out - _USUAL, _LEAST_ROOM)


def _scale(task: Task) -> float:
    """A typical replica, in units of a broker's disk."""
    return task.brokers / max(len(task.slots), 1)


def _proposals(task: Task, dense: float, most: float, sparse: float) -> int:
    """So many a replica, fewer (`sparse`) once there are `most`."""
    r = len(task.slots)
    return int(max(min(dense * r, most), sparse * r, 2_000))


def excess(limits: Limits, state: State) -> dict[str, Floats]:
    """What each broker (float64, n) has beyond its limit, by name; replicas and leaders also below."""
    low = np.maximum(limits.replicas_low - state.replicas, 0.0)
    few = np.maximum(limits.leaders_low - state.leaders, 0.0)
    return {
        "replicas": np.maximum(state.replicas - limits.replicas_high, low).clip(0.0),
        "leaders": np.maximum(state.leaders - limits.leaders_high, few).clip(0.0),
        "disk": (state.disk - limits.disk).clip(0.0),
        "bytes_in": (state.into - limits.into).clip(0.0),
        "bytes_out": (state.out - limits.out).clip(0.0),
        "failover": (state.leaders + state.worst).clip(0.0),
        "failover_out": (state.out + state.worst_out).clip(0.0),
    }


def all_met(task: Task, found: Found) -> bool:
    """Whether the lists found keep to all limits."""
    over = excess(found.limits, new_state(task.work, found.limits, found.slots))
    return not any((much > TOLERANCE.get(name, TOLERANCE[""])).any() for name, much in over.items())


# ---- oversized partitions


def _oversized(task: Task, oversized: Flags, random: Random) -> tuple[Places, Limits, float]:
    """(slots, limits, ratio): oversized partitions where all failures keep to the least ratio found, the limits with
    that ratio."""
    work, limits = task.work, task.limits
    share = task.knobs.heavy
    heavy = ((work.disk > share) | (work.into > share)) & work.free
    rows = np.flatnonzero(oversized | heavy if task.settled is None else oversized)
    if not len(rows) or len(task.targets) < 3:
        return task.slots, limits, task.failover_out
    alone = work._replace(out=np.where(oversized, work.out, 0.0))
    liquid = float(work.out.sum() - alone.out.sum())
    left = _SHARE_LEFT * task.brokers if oversized.any() else 0.0
    slack, lacking = left, _SHORT
    prices = _prices(task, 1e300)._replace(over_out=3.0, over_survivor_out=3.0)
    prices = prices._replace(over_disk=np.full(len(work.rack), 0.9), over_into=np.full(len(work.rack), 0.9))

    begin = task.slots
    goes = 0.5 if task.settled is None else 0.0

    def at(ratio: float, effort: float, warm: float = 5e-2) -> tuple[bool, float, Places, bool]:
        """Whether all others find room at this ratio, what it takes (units of disk), the slots, and whether nearly."""
        more = (ratio - task.failover_out) * task.brokers / max(task.brokers - 1, 1) - _LESS_ROOM
        tight = limits._replace(survivor_out=limits.survivor_out + more)
        state = new_state(alone, tight, begin)
        if not task.knobs.oversized:
            tight = tight._replace(moves=float(state.copies[0]))
        proposals = int(min(effort * min(20_000 * len(rows), 4_000_000), _MOST))
        short = anneal_oversized(
            alone, tight, prices, state, rows, task.targets, liquid + slack, proposals, warm, 3e-5, random, goes
        )
        dear = float(state.copied[0] + excess(tight, state)["disk"].sum())
        return short <= lacking * slack, dear, state.slots, short < _NEARLY * slack

    if task.settled is None and heavy.any() and not (oversized.any() and task.knobs.oversized):
        begin = _heavy(task, np.flatnonzero(heavy), prices, random)
    if task.failover_out == np.inf or not oversized.any():
        return begin, limits, task.failover_out
    low = high = task.failover_out
    fits, dear, best, nearly = at(high, 1.0)
    for effort, warm in ((1.5, 0.2), (2.0, 0.05), (2.0, 0.1)):  # with patience
        if nearly and not fits:
            fits, dear, best, nearly = at(high, effort, warm)
    if not fits:
        slack, lacking = 2 * slack, _SHORT / 2  # as the limit must give way, a little more, so that the rest is easy
        high = low + 0.05
        for _ in range(8):
            fits, dear, best, nearly = at(high, 0.5)
            if fits:
                break
            low, high = high, high + 2 * (high - low)
        if (
            not fits
        ):  # something else than oversized partitions is in the way: as it was wished, and what is missed is named
            return begin, limits, task.failover_out
        while high - low > 0.01:
            middle = (low + high) / 2
            fits, cost, slots, nearly = at(middle, 0.5)
            if fits:
                high, dear, best = middle, cost, slots
            else:
                low = middle
        high += 0.01  # as the limit gave way, a little more saves many bytes
    for effort, warm in _PATIENT:
        fits, cost, slots, nearly = at(high, effort, warm)
        if fits and cost < dear:
            dear, best = cost, slots
    more = (high - task.failover_out) * task.brokers / max(task.brokers - 1, 1)
    return best, limits._replace(survivor_out=limits.survivor_out + more), high


def _pinned(task: Task, slots: Places, oversized: Flags) -> Flags:
    """Slots (bool, r) that stay from now on: oversized partitions' leaders and successors, and what is huge.

    But not oversized partitions beside something huge, which leaves them no room.
    """
    work = task.work
    sizes = np.diff(work.offsets)
    huge = np.repeat((work.disk > _HUGE) | (work.into > _HUGE), sizes)
    place = np.arange(len(slots)) - np.repeat(work.offsets[:-1], sizes)
    roles = np.repeat(oversized, sizes) & (place < 2)
    crowded = np.zeros(len(work.rack), dtype=np.bool_)
    for load, limit in ((work.disk, task.limits.disk), (work.into, task.limits.into)):
        crowded |= np.bincount(slots[huge], load[work.row[huge]], len(work.rack)) > _FULL * limit
    settled = huge if task.settled is None else huge | task.settled[work.row]
    return settled | (roles & ~crowded[slots])


def _heavy(task: Task, rows: Ints, prices: Prices, random: Random) -> Places:
    """The slots when partitions of much disk or bytes in are where they fit, whatever goes out."""
    quiet = task.work._replace(out=np.zeros_like(task.work.out))
    # Counts are mended by what is copied anyway.
    prices = prices._replace(
        over_replicas=prices.over_replicas / 100 if not task.knobs.oversized else prices.over_replicas,
        over_disk=np.full(len(task.work.rack), task.knobs.of_heavy),
        over_into=np.full(len(task.work.rack), task.knobs.of_heavy),
    )
    state = new_state(quiet, task.limits, task.slots)
    proposals = min(20_000 * len(rows), 4_000_000)
    anneal_oversized(quiet, task.limits, prices, state, rows, task.targets, 0.0, proposals, 5e-2, 3e-5, random, 0.5)
    return state.slots


def _prices(task: Task, over: float) -> Prices:
    """Prices of everything; over: the most that a unit of excess costs."""
    knobs, n = task.knobs, len(task.work.rack)
    scale = _scale(task)
    dear = task.covering.disk * 1.02 * knobs.disk, task.covering.into * 1.02 * knobs.disk
    disk = np.minimum(np.maximum(dear[0], knobs.over), over)
    into = np.minimum(np.maximum(dear[1], knobs.over / 2), over)
    leaders = task.brokers / max(len(task.work.disk), 1)
    return Prices(
        knobs.disk,
        knobs.move * scale,
        0.005 * leaders,
        0.0025 * leaders,
        knobs.count * scale,
        1.0 * leaders,
        np.full(n, knobs.over) if over == 1e300 else disk,
        np.full(n, knobs.over) if over == 1e300 else into,
        3.0,
        1.0 * leaders,
        3.0,
    )


# ---- who holds


def _holding(task: Task, limits: Limits, state: State, pinned: Flags, random: Random) -> Prices:
    work, scale = task.work, _scale(task)
    proposals = _proposals(task, 230, 1e7, 30)
    prices = _prices(task, 4.0 * task.knobs.over)
    if not len(task.targets):
        return prices
    warm, cold = task.knobs.warm * scale, 1e-3 * task.knobs.warm * scale
    load = (work.disk + work.into)[work.row]
    light = np.argsort(load, kind="stable")[: int(_LIGHT * len(load))].astype(np.int32)
    before = np.inf
    for step in range(6):
        anneal_holding(work, limits, prices, state, task.targets, light, pinned, _MIX, proposals, warm, cold, random)
        if step == 0:
            proposals, warm, cold = proposals // 6, warm / 10, cold / 10
        over = excess(limits, state)
        disk, into = over["disk"] > _CLOSE * 0.1, over["bytes_in"] > _CLOSE * 0.1
        if not (disk.any() or into.any() or over["replicas"].any()):
            break
        left = float(over["disk"].sum() + over["bytes_in"].sum())
        if step > 1 and left > _HARDLY * before and not over["replicas"].any():
            break  # dearer still, it would only be moved about
        before = left
        prices = prices._replace(
            over_replicas=(2.0 if task.knobs.oversized else 3.0) * prices.over_replicas,
            over_disk=np.where(disk, 1.7 * prices.over_disk, prices.over_disk),
            over_into=np.where(into, 1.7 * prices.over_into, prices.over_into),
            move=prices.move / 2 if task.knobs is BALANCE else prices.move,
        )
    recount(work, limits, state)
    return prices


# ---- who leads, and the rest


def _roles(task: Task, limits: Limits, state: State, oversized: Flags, random: Random) -> None:
    leaders = task.brokers / max(len(task.work.disk), 1)
    settled = task.work._replace(free=task.work.free & ~oversized)
    proposals = _proposals(task, 23, 1e6, 6)
    # Counts soft at first: bytes out find their way from broker to broker only past a leader too many here and there.
    for over, warm, share in ((0.3, 0.5, 0.7), (2.0, 0.02, 0.3)):
        prices = _prices(task, 4.0)._replace(over_leaders=over * leaders, over_survivor_leaders=over * leaders)
        count = int(share * proposals)
        anneal_roles(settled, limits, prices, state, 0.7, count, warm * leaders, 2.5e-4 * leaders, random)


def _counts_first(task: Task, limits: Limits, state: State, random: Random) -> None:
    """Nothing; where bytes out were bought with uneven leaders, leaders are even again: they matter more."""
    if not (excess(limits, state)["leaders"] >= TOLERANCE["leaders"]).any():
        return
    leaders = task.brokers / max(len(task.work.disk), 1)
    prices = _prices(task, 4.0)._replace(over_leaders=_DEAR, over_survivor_leaders=_DEAR * leaders)
    proposals = _proposals(task, 23, 1e6, 6)
    anneal_roles(task.work, limits, prices, state, 0.7, proposals, 0.02 * leaders, 2.5e-4 * leaders, random)


def _mending(task: Task, limits: Limits, state: State, held: Prices, random: Random) -> None:
    if not len(task.targets):
        return
    scale, prices = _scale(task), _prices(task, 1e300)
    least = 12.0 * task.knobs.over  # so that what is settled is not given up for bytes out
    over = excess(limits, state)
    if max(over["disk"].max(), over["bytes_in"].max()) > TOLERANCE[""]:  # alike, or it goes where it is cheaper
        least = max(least, 4.0 * held.over_disk.max(), 4.0 * held.over_into.max())
    prices = prices._replace(
        move=held.move,
        over_replicas=held.over_replicas,
        over_disk=np.maximum(4.0 * held.over_disk, least),
        over_into=np.maximum(4.0 * held.over_into, least),
    )
    proposals = _proposals(task, 23, 1e6, 4)
    for warm, cold, homeward in ((0.0075, 0.00075, 0.3), (0.002, 7.5e-5, 0.5)):
        anneal_all(
            task.work, limits, prices, state, task.targets, proposals, warm * scale, cold * scale, random, homeward
        )


def with_more(task: Task, seed: int) -> Task:
    """The same task with another seed."""
    return replace(task, seed=seed)
