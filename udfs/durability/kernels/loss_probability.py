"""What failures can lose: copysets, scatter width, and the probability that k failures lose a partition.

Any k of n brokers fail with equal probability. A partition is lost if all of its replicas are on failed brokers. Source
of the terms: Cidon et al., "Copysets: Reducing the Frequency of Data Loss in Cloud Storage", USENIX ATC 2013.
"""

from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import offsets_of
from udfs.kernel_compiler import compiled, copying_part, part

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

_MAX_MARKS = 1 << 24  # sets of one width for which a table by rank is made
_SORT_STEPS = 8  # cost of sorting a subset, in steps of growing one

EXACT, MONTE_CARLO = "exact", "monte_carlo"
Z_95 = 1.959963984540054  # quantile of the normal distribution for a 95 % interval


class SearchEffort(NamedTuple):
    """How much to spend on a probability."""

    max_exact_steps: int  # counting may take this many steps; otherwise the probability is estimated
    monte_carlo_samples: int  # random draws of an estimate
    seed: int


class LossProbability(NamedTuple):
    """A probability with its 95 % interval, and EXACT or MONTE_CARLO."""

    probability: float
    low: float
    high: float
    method: str


class CopysetIndex(NamedTuple):
    """Which sets of at most k brokers are copysets, by width w = 1..k."""

    ranks: Ints  # sorted ranks of the copysets: their places among all sets of their width
    begins: Ints  # (k + 2), the copysets of width w are ranks[begins[w]:begins[w + 1]]
    marks: Bools  # the same as tables by rank
    mark_begins: Ints  # (k + 1), where the table of width w begins; below 0 = it would be too large
    binomial: Ints  # (brokers + 1, k + 1), binomial coefficients


def find_copysets(offsets: Ints, broker: Ids, brokers: int) -> tuple[Ints, Ids]:
    """Find the distinct sets of brokers that hold partitions: offsets (int64, c + 1) and members (int32), rising."""
    width = np.diff(offsets)
    tables: list[npt.NDArray[np.int32]] = []
    for size in np.unique(width[width > 0]).tolist():
        rows = np.flatnonzero(width == size)
        table = np.sort(broker[offsets[:-1][rows, None] + np.arange(size)], axis=1)
        if brokers**size < 1 << 62:  # compare numbers: much faster than rows
            keys = np.zeros(len(table), dtype=np.int64)
            for column in range(size):
                keys = keys * brokers + table[:, column]
            table = table[np.unique(keys, return_index=True)[1]]
        else:
            table = np.unique(table, axis=0)
        tables.append(table)
    lengths = [np.empty(0, np.int64), *(np.full(len(table), table.shape[1]) for table in tables)]
    members = [np.empty(0, np.int32), *(table.ravel() for table in tables)]
    return offsets_of(np.concatenate(lengths)), np.concatenate(members).astype(np.int32)


def count_scatter_widths(offsets: Ints, members: Ids, brokers: int) -> Ints:
    """Count the brokers that share a partition with each broker (int64, brokers). offsets, members: copysets."""
    width = np.diff(offsets)
    keys = [np.empty(0, dtype=np.int64)]
    for size in np.unique(width[width > 1]).tolist():
        table = members[offsets[:-1][np.flatnonzero(width == size), None] + np.arange(size)].astype(np.int64)
        keys += [table[:, a] * brokers + table[:, b] for a in range(size) for b in range(size) if a != b]
    return np.bincount(np.unique(np.concatenate(keys)) // brokers, minlength=brokers)


@part
def _rank(subset: Ids, size: int, binomial: Ints) -> int:
    """Return the place of a rising subset among all of its size (combinatorial number system)."""
    rank = 0
    for i in range(size):
        rank += binomial[subset[i], i + 1]
    return rank


@copying_part
def _extensions(members: Ids, size: int, k: int, brokers: int, binomial: Ints, out: Ints) -> None:
    """Write the rank of every k-subset that contains the set `members` (rising, `size` of them) to `out`."""
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
        i = j = 0  # merge the members with the chosen others, rising
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


def index_copysets(offsets: Ints, members: Ids, brokers: int, k: int) -> CopysetIndex:
    """Index copysets (see `find_copysets`) of at most k brokers."""
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
        if len(rows) and room <= _MAX_MARKS:
            marks.append(np.zeros(room, dtype=np.bool_))
            marks[-1][of_width] = True
            mark_begins.append(size)
            size += room
        else:
            mark_begins.append(-1)
    return CopysetIndex(np.concatenate(ranks), np.array(begins), np.concatenate(marks), np.array(mark_begins), binomial)


@part
def _completes(index: CopysetIndex, chosen: Ids, last: int, subset: Ids) -> bool:
    """Return whether a copyset lies within chosen[0..last] (rising) and contains chosen[last]. subset: scratch."""
    for mask in range(1 << last):
        w = 0
        for place in range(last):
            if (mask >> place) & 1:
                subset[w] = chosen[place]
                w += 1
        subset[w] = chosen[last]
        w += 1
        if index.begins[w] == index.begins[w + 1]:
            continue
        rank = _rank(subset, w, index.binomial)
        if index.mark_begins[w] >= 0:
            if index.marks[index.mark_begins[w] + rank]:
                return True
            continue
        ranks = index.ranks[index.begins[w] : index.begins[w + 1]]
        at = np.searchsorted(ranks, rank)
        if at < len(ranks) and ranks[at] == rank:
            return True
    return False


@compiled
def count_lost_sets(index: CopysetIndex, k: int, brokers: int, max_steps: int) -> int:
    """Count the k-subsets that contain a copyset, growing them broker by broker; return -1 if that takes more steps."""
    chosen, subset = np.full(k, -1, dtype=np.int32), np.empty(k, dtype=np.int32)
    lost = np.int64(0)
    depth = 0
    steps = 0
    while depth >= 0:
        chosen[depth] += 1
        if chosen[depth] > brokers - (k - depth):
            depth -= 1
            continue
        steps += 1
        if steps > max_steps:
            return -1
        if _completes(index, chosen, depth, subset):
            lost += index.binomial[brokers - 1 - chosen[depth], k - depth - 1]
        elif depth + 1 < k:
            depth += 1
            chosen[depth] = chosen[depth - 1]
    return int(lost)


@compiled
def _count_hits(index: CopysetIndex, k: int, brokers: int, trials: int, seed: int) -> int:
    np.random.seed(seed)  # noqa: NPY002 - the generator that compiled code has
    order, subset = np.arange(brokers).astype(np.int32), np.empty(k, dtype=np.int32)
    hits = 0
    for _ in range(trials):
        for i in range(k):
            j = i + np.random.randint(0, brokers - i)  # noqa: NPY002
            order[i], order[j] = order[j], order[i]
        chosen = np.sort(order[:k])
        for last in range(k):
            if _completes(index, chosen, last, subset):
                hits += 1
                break
    return hits


def compute_loss_probability(
    offsets: Ints, members: Ids, brokers: int, k: int, effort: SearchEffort
) -> LossProbability:
    """Compute the probability that some partition loses every replica when k of the brokers fail; NaN if k > brokers.

    It is counted in the cheaper of two ways: k-subsets that extend a copyset, or k-subsets grown until they contain
    one; if both are too expensive, it is estimated from random draws, with Wilson's interval.
    """
    if k > brokers:
        return LossProbability(np.nan, np.nan, np.nan, EXACT)
    width = np.diff(offsets)
    sizes, counts = np.unique(width[width <= k], return_counts=True)
    total = sum(int(count) * comb(brokers - w, k - w) for w, count in zip(sizes.tolist(), counts.tolist(), strict=True))
    if total == 0:
        return LossProbability(0.0, 0.0, 0.0, EXACT)
    subsets = comb(brokers, k)
    index = index_copysets(offsets, members, brokers, k)
    lost = -1
    if total <= min(effort.max_exact_steps // _SORT_STEPS, subsets // 2):
        extensions = np.array([comb(brokers - w, k - w) if w <= k else 0 for w in range(int(width.max()) + 1)])
        ranks = np.empty(total, dtype=np.int64)
        _all_extensions(offsets, members, k, brokers, index.binomial, offsets_of(extensions[width]), ranks)
        lost = len(np.unique(ranks))
    elif subsets < 1 << 62:
        lost = count_lost_sets(index, k, brokers, effort.max_exact_steps)
    if lost >= 0:
        return LossProbability(lost / subsets, lost / subsets, lost / subsets, EXACT)
    share = _count_hits(index, k, brokers, effort.monte_carlo_samples, effort.seed) / effort.monte_carlo_samples
    return LossProbability(share, *wilson_interval(share, effort.monte_carlo_samples), MONTE_CARLO)


def wilson_interval(share: float, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a probability, from the share of hits among so many trials."""
    z = Z_95
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return float(max(0.0, middle - half)), float(min(1.0, middle + half))


def compute_expected_loss(width: Ints, weight: npt.NDArray[np.float64], brokers: int, k: int) -> float:
    """Return the expected weight lost when k brokers fail; weight: float64 (w), by number of replicas (width)."""
    out = 0.0
    for size in np.unique(width).tolist():
        if 0 < size <= k <= brokers:
            out += float(weight[width == size].sum()) * comb(brokers - size, k - size) / comb(brokers, k)
    return out
