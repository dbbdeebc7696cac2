"""What could be lost: distinct replica sets (copysets), scatter width, and the chance that k failures lose a partition.

The k brokers that fail are any k of n with the same chance. A partition is lost when all of its replicas are among
them;
whether *some* partition is lost depends on the distinct sets alone. Source for the terms: Cidon et al., "Copysets:
Reducing the Frequency of Data Loss in Cloud Storage", USENIX ATC 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import offsets_of
from udfs.kernel_compiler import compiled, copying_part, part

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

_MOST_MARKS = 1 << 24  # sets of one width that are looked up in a table of all of them
_SORT_STEPS = 8  # what sorting a subset costs, in steps of growing one

EXACT, MONTE_CARLO = "exact", "monte_carlo"


def copysets(offsets: Ints, broker: Ids, brokers: int) -> tuple[Ints, Ids]:
    """The distinct sets of brokers (offsets (c + 1), members (flat, rising)) that partitions lie on.

    offsets: int64 (p + 1).   broker: int32 (r), indices 0..brokers - 1, none twice in a partition.
    """
    width = np.diff(offsets)
    found: list[npt.NDArray[np.int32]] = []
    for size in np.unique(width[width > 0]).tolist():
        rows = np.flatnonzero(width == size)
        table = np.sort(broker[offsets[:-1][rows, None] + np.arange(size)], axis=1)
        if brokers**size < 1 << 62:  # as one number: much faster than rows
            keys = np.zeros(len(table), dtype=np.int64)
            for column in range(size):
                keys = keys * brokers + table[:, column]
            table = table[np.unique(keys, return_index=True)[1]]
        else:
            table = np.unique(table, axis=0)
        found.append(table)
    lengths = np.concatenate([np.full(len(table), table.shape[1]) for table in found]) if found else np.empty(0, int)
    members = np.concatenate([table.ravel() for table in found]) if found else np.empty(0, dtype=np.int32)
    return offsets_of(lengths.astype(np.int64)), members.astype(np.int32)


def scatter_width(offsets: Ints, members: Ids, brokers: int) -> Ints:
    """How many other brokers share a partition with each broker (int64, brokers). Arguments: of copysets."""
    width = np.diff(offsets)
    keys = [np.empty(0, dtype=np.int64)]
    for size in np.unique(width[width > 1]).tolist():
        table = members[offsets[:-1][np.flatnonzero(width == size), None] + np.arange(size)].astype(np.int64)
        keys += [table[:, a] * brokers + table[:, b] for a in range(size) for b in range(size) if a != b]
    return np.bincount(np.unique(np.concatenate(keys)) // brokers, minlength=brokers)


@part
def _rank(subset: Ids, size: int, binomial: Ints) -> int:
    """The place of a rising subset among all of its size (combinatorial number system)."""
    rank = 0
    for i in range(size):
        rank += binomial[subset[i], i + 1]
    return rank


@copying_part
def _extensions(members: Ids, size: int, k: int, brokers: int, binomial: Ints, out: Ints) -> None:
    """The rank of every k-subset that holds the set `members` (rising, `size` of them), into out."""
    extra = k - size
    others = np.empty(brokers - size, dtype=np.int32)
    at = 0
    j = 0
    for b in range(brokers):
        if j < size and members[j] == b:
            j += 1
        else:
            others[at] = b
            at += 1
    chosen = np.arange(extra)
    subset = np.empty(k, dtype=np.int32)
    written = 0
    while True:
        i = j = 0  # merge: members and the chosen of the others, rising
        for place in range(k):
            if j == extra or (i < size and members[i] < others[chosen[j]]):
                subset[place] = members[i]
                i += 1
            else:
                subset[place] = others[chosen[j]]
                j += 1
        out[written] = _rank(subset, k, binomial)
        written += 1
        place = extra - 1
        while place >= 0 and chosen[place] == len(others) - extra + place:
            place -= 1
        if place < 0:
            return
        chosen[place] += 1
        for later in range(place + 1, extra):
            chosen[later] = chosen[later - 1] + 1


@compiled
def _all_extensions(offsets: Ints, members: Ids, k: int, brokers: int, binomial: Ints, begins: Ints, out: Ints) -> None:
    for c in range(len(offsets) - 1):
        size = offsets[c + 1] - offsets[c]
        if size <= k:
            _extensions(
                members[offsets[c] : offsets[c + 1]], size, k, brokers, binomial, out[begins[c] : begins[c + 1]]
            )


@dataclass(frozen=True)
class _Lookup:
    """Which sets of at most k brokers are copysets, by width w = 1..k.

    ranks, begins: the sorted ranks of the copysets of width w are ranks[begins[w]:begins[w + 1]].
    marks, mark_begins: the same as a table by rank, from mark_begins[w] on; below 0 = too large for one.
    """

    ranks: Ints
    begins: Ints
    marks: npt.NDArray[np.bool_]
    mark_begins: Ints
    binomial: Ints


def _lookup(offsets: Ints, members: Ids, brokers: int, k: int) -> _Lookup:
    width = np.diff(offsets)
    binomial = np.array([[comb(n, r) for r in range(k + 1)] for n in range(brokers + 1)], dtype=np.int64)
    ranks, begins = [np.empty(0, dtype=np.int64)], [0, 0]
    marks, mark_begins = [np.empty(0, dtype=np.bool_)], [-1]
    size = 0
    for w in range(1, k + 1):
        rows = np.flatnonzero(width == w)
        table = members[offsets[:-1][rows, None] + np.arange(w)]
        of_width = np.zeros(len(rows), dtype=np.int64)
        for place in range(w):
            of_width += binomial[table[:, place], place + 1]
        ranks.append(np.sort(of_width))
        begins.append(begins[-1] + len(rows))
        room = comb(brokers, w)
        if len(rows) and room <= _MOST_MARKS:
            marks.append(np.zeros(room, dtype=np.bool_))
            marks[-1][of_width] = True
            mark_begins.append(size)
            size += room
        else:
            mark_begins.append(-1)
    return _Lookup(np.concatenate(ranks), np.array(begins), np.concatenate(marks), np.array(mark_begins), binomial)


@part
def _completes(
    chosen: Ids, last: int, subset: Ids, ranks: Ints, begins: Ints, marks: Bools, mark_begins: Ints, binomial: Ints
) -> bool:
    """Whether some copyset lies within chosen[0..last] (rising) and holds chosen[last]. subset: scratch."""
    for mask in range(1 << last):
        w = 0
        for place in range(last):
            if (mask >> place) & 1:
                subset[w] = chosen[place]
                w += 1
        subset[w] = chosen[last]
        w += 1
        if begins[w] == begins[w + 1]:
            continue
        rank = _rank(subset, w, binomial)
        if mark_begins[w] >= 0:
            if marks[mark_begins[w] + rank]:
                return True
            continue
        of_width = ranks[begins[w] : begins[w + 1]]
        at = np.searchsorted(of_width, rank)
        if at < len(of_width) and of_width[at] == rank:
            return True
    return False


@compiled
def _count_lost(
    k: int, brokers: int, steps: int, ranks: Ints, begins: Ints, marks: Bools, mark_begins: Ints, binomial: Ints
) -> int:
    """How many k-subsets hold some copyset; below 0 if that takes more than so many steps.

    Subsets grow broker by broker; where the beginning holds a copyset, all that begin so are counted at once.
    """
    chosen, subset = np.full(k, -1, dtype=np.int32), np.empty(k, dtype=np.int32)
    lost = np.int64(0)
    depth = 0
    taken = 0
    while depth >= 0:
        chosen[depth] += 1
        if chosen[depth] > brokers - (k - depth):
            depth -= 1
            continue
        taken += 1
        if taken > steps:
            return -1
        if _completes(chosen, depth, subset, ranks, begins, marks, mark_begins, binomial):
            lost += binomial[brokers - 1 - chosen[depth], k - depth - 1]
        elif depth + 1 < k:
            depth += 1
            chosen[depth] = chosen[depth - 1]
    return int(lost)


@compiled
def _hits(
    k: int,
    brokers: int,
    trials: int,
    seed: int,
    ranks: Ints,
    begins: Ints,
    marks: Bools,
    mark_begins: Ints,
    binomial: Ints,
) -> int:
    """How many of `trials` random k-subsets hold some copyset."""
    np.random.seed(seed)  # noqa: NPY002 - the generator that compiled code has
    order, subset = np.arange(brokers).astype(np.int32), np.empty(k, dtype=np.int32)
    hits = 0
    for _ in range(trials):
        for i in range(k):
            j = i + np.random.randint(0, brokers - i)  # noqa: NPY002
            order[i], order[j] = order[j], order[i]
        chosen = np.sort(order[:k])
        for last in range(k):
            if _completes(chosen, last, subset, ranks, begins, marks, mark_begins, binomial):
                hits += 1
                break
    return hits


def loss_probability(
    offsets: Ints, members: Ids, brokers: int, k: int, steps: int, trials: int, seed: int
) -> tuple[float, float, float, str]:
    """(P(some partition loses every replica | k of the brokers fail), lower, upper bound, method).

    offsets, members: of copysets.   steps: what counting may take, else `trials` draws and Wilson's interval at 95 %.
    Counted in the cheaper of two ways: every k-subset that extends a copyset, or k-subsets grown until they hold one.
    """
    if k > brokers:
        return np.nan, np.nan, np.nan, EXACT
    width = np.diff(offsets)
    sizes, found = np.unique(width[width <= k], return_counts=True)
    total = sum(int(count) * comb(brokers - w, k - w) for w, count in zip(sizes.tolist(), found.tolist(), strict=True))
    if total == 0:
        return 0.0, 0.0, 0.0, EXACT
    whole = comb(brokers, k)
    look = _lookup(offsets, members, brokers, k)
    same = (look.ranks, look.begins, look.marks, look.mark_begins, look.binomial)
    lost = -1
    if total <= min(steps // _SORT_STEPS, whole // 2):
        small = width <= k
        counts = np.array([comb(brokers - w, k - w) if w <= k else 0 for w in range(int(width.max()) + 1)])
        begins = offsets_of(np.where(small, counts[width], 0).astype(np.int64))
        ranks = np.empty(total, dtype=np.int64)
        _all_extensions(offsets, members, k, brokers, look.binomial, begins, ranks)
        lost = len(np.unique(ranks))
    elif whole < 1 << 62:
        lost = _count_lost(k, brokers, steps, *same)
    if lost >= 0:
        chance = lost / whole
        return chance, chance, chance, EXACT
    share = _hits(k, brokers, trials, seed, *same) / trials
    low, high = wilson(share, trials)
    return share, low, high, MONTE_CARLO


def wilson(share: float, trials: int) -> tuple[float, float]:
    """Wilson's interval at 95 % of a share that was found in so many trials."""
    z = 1.959963984540054
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return float(max(0.0, middle - half)), float(min(1.0, middle + half))


def expected_lost(width: Ints, weight: npt.NDArray[np.float64], brokers: int, k: int) -> float:
    """Expected weight (partitions, bytes) lost when k of the brokers fail: each partition by its number of replicas."""
    out = 0.0
    for size in np.unique(width).tolist():
        if 0 < size <= k <= brokers:
            out += float(weight[width == size].sum()) * comb(brokers - size, k - size) / comb(brokers, k)
    return out
