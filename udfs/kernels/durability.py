"""What could be lost: distinct replica sets (copysets), scatter width, and the chance that k deaths lose a partition.

The k brokers that die are any k of n with the same chance. A partition is lost when all of its replicas are among them;
whether *some* partition is lost depends on the distinct sets alone. Source for the terms: Cidon et al., "Copysets:
Reducing the Frequency of Data Loss in Cloud Storage", USENIX ATC 2013.
"""

from __future__ import annotations

from math import comb

import numpy as np
import numpy.typing as npt

from udfs.kernels.compiled import compiled
from udfs.kernels.ragged import offsets_of

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

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


@compiled
def _rank(subset: Ids, size: int, binomial: Ints) -> int:
    """The place of a rising subset among all of its size (combinatorial number system)."""
    rank = 0
    for i in range(size):
        rank += binomial[subset[i], i + 1]
    return rank


@compiled
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


@compiled
def _hits(offsets: Ints, members: Ids, k: int, brokers: int, trials: int, seed: int) -> int:
    """How many of `trials` random k-subsets hold some set."""
    np.random.seed(seed)  # noqa: NPY002 - the generator that compiled code has
    dead = np.zeros(brokers, dtype=np.int64)
    order = np.arange(brokers)
    hits = 0
    for trial in range(1, trials + 1):
        for i in range(k):
            j = i + np.random.randint(0, brokers - i)  # noqa: NPY002
            order[i], order[j] = order[j], order[i]
            dead[order[i]] = trial
        for c in range(len(offsets) - 1):
            lost = True
            for at in range(offsets[c], offsets[c + 1]):
                if dead[members[at]] != trial:
                    lost = False
                    break
            if lost:
                hits += 1
                break
    return hits


def loss_probability(
    offsets: Ints, members: Ids, brokers: int, k: int, most: int, trials: int, seed: int
) -> tuple[float, float, float, str]:
    """(P(some partition loses every replica | k of the brokers die), lower, upper bound, method).

    offsets, members: of copysets.   most: as many subsets are counted exactly; with more, `trials` draws and Wilson's
    interval at 95 %.
    """
    if k > brokers:
        return np.nan, np.nan, np.nan, EXACT
    width = np.diff(offsets)
    counts = np.array([comb(brokers - int(w), k - int(w)) if w <= k else 0 for w in width], dtype=object)
    total = int(sum(counts))
    if total == 0:
        return 0.0, 0.0, 0.0, EXACT
    whole = comb(brokers, k)
    if total <= most and whole < 1 << 62:
        begins = offsets_of(counts.astype(np.int64))
        ranks = np.empty(total, dtype=np.int64)
        binomial = np.array([[comb(n, r) for r in range(k + 1)] for n in range(brokers)], dtype=np.int64)
        _all_extensions(offsets, members, k, brokers, binomial, begins, ranks)
        chance = len(np.unique(ranks)) / whole
        return chance, chance, chance, EXACT
    share = _hits(offsets, members, k, brokers, trials, seed) / trials
    z = 1.959963984540054
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return share, float(max(0.0, middle - half)), float(min(1.0, middle + half)), MONTE_CARLO


def expected_lost(width: Ints, weight: npt.NDArray[np.float64], brokers: int, k: int) -> float:
    """Expected weight (partitions, bytes) lost when k of the brokers die: each partition by its number of replicas."""
    out = 0.0
    for size in np.unique(width).tolist():
        if 0 < size <= k <= brokers:
            out += float(weight[width == size].sum()) * comb(brokers - size, k - size) / comb(brokers, k)
    return out
