"""Moves of replicas between the log dirs of one broker, and the log dirs of replicas that are copied to brokers."""

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.planning.kernels.array_types import Flags, Floats, Ints

_TOLERANCE = 1e-12  # of a ratio: less is no improvement
_STEPS_PER_DIR = 50  # of the local search
_POOLED = -1


@part
def _before(log_dir: Ints, j: int, b: int) -> int:
    """Return the last replica before j that is in log dir b, or -1."""
    k = j - 1
    while k >= 0 and log_dir[k] != b:
        k -= 1
    return k


@part
def _move(i: int, b: int, weight: Floats, home: Ints, load: Floats, incoming: Floats, log_dir: Ints) -> None:
    """Move replica i to log dir b."""
    a = log_dir[i]
    if a != home[i]:
        incoming[a] -= weight[i]
    if b != home[i]:
        incoming[b] += weight[i]
    load[a] -= weight[i]
    load[b] += weight[i]
    log_dir[i] = b


@compiled
def balance_log_dirs(
    weight: Floats, home: Ints, load: Floats, capacity: Floats, room: Floats, target: float, log_dir: Ints
) -> None:
    """Choose the log dirs of m replicas so that the fullest of d log dirs is at most `target`, with few bytes moved.

    Replicas leave log dirs above the target, the largest that fit into the excess first. They go to the log dir that is
    least full with them, the largest first (LPT). Then single moves and swaps lower the fullest log dir, and moves that
    are not needed are undone.

    Args:
        weight: float64 (m), load of each replica, descending.
        home: int64 (m), its log dir now.
        load: float64 (d), load of each log dir now, with what cannot be moved; changed to the load after the moves.
        capacity: float64 (d), a log dir is as full as its load over this.
        room: float64 (d), load that may be moved to each log dir.
        target: fullness.
        log_dir: int64 (m), the result, which is `home` at first.

    """
    m, d = len(weight), len(load)
    incoming = np.zeros(d)
    for a in range(d):
        excess = load[a] - target * capacity[a]
        smallest = -1
        for i in range(m):
            if home[i] != a or weight[i] <= 0.0 or excess <= target * capacity[a] * _TOLERANCE:
                continue
            if weight[i] <= excess:
                log_dir[i] = _POOLED
                load[a] -= weight[i]
                excess -= weight[i]
            else:
                smallest = i
        if excess > target * capacity[a] * _TOLERANCE and smallest >= 0:
            log_dir[smallest] = _POOLED
            load[a] -= weight[smallest]
    for i in range(m):
        if log_dir[i] != _POOLED:
            continue
        best, least = home[i], (load[home[i]] + weight[i]) / capacity[home[i]]
        for b in range(d):
            full = (load[b] + weight[i]) / capacity[b]
            if full < least and incoming[b] + weight[i] <= room[b]:
                best, least = b, full
        log_dir[i] = best
        load[best] += weight[i]
        if best != home[i]:
            incoming[best] += weight[i]
    for _ in range(_STEPS_PER_DIR * d):
        a = int(np.argmax(load / capacity))
        worst = load[a] / capacity[a]
        if worst <= target * (1.0 + _TOLERANCE):
            break
        best_i, best_j, best_b, least = -1, -1, -1, worst * (1.0 - _TOLERANCE)
        for b in range(d):
            if b == a:
                continue
            # The load that would leave both equally full.
            ideal = (load[a] * capacity[b] - load[b] * capacity[a]) / (capacity[a] + capacity[b])
            j = 0
            for i in range(m):
                if log_dir[i] != a:
                    continue
                fits = home[i] == b or incoming[b] + weight[i] <= room[b]
                full = max((load[a] - weight[i]) / capacity[a], (load[b] + weight[i]) / capacity[b])
                if fits and full < least:
                    best_i, best_j, best_b, least = i, -1, b, full
                # The two replicas in b whose weights are next to the ideal one: weights descend, and so j only rises.
                while j < m and (log_dir[j] != b or weight[j] > weight[i] - ideal):
                    j += 1
                for k in (_before(log_dir, j, b), j):
                    if k < 0 or k >= m or weight[k] >= weight[i]:
                        continue
                    change = weight[i] - weight[k]
                    into_a = home[k] == a or incoming[a] + weight[k] <= room[a]
                    full = max((load[a] - change) / capacity[a], (load[b] + change) / capacity[b])
                    if fits and into_a and full < least:
                        best_i, best_j, best_b, least = i, k, b, full
        if best_i < 0:
            break
        _move(best_i, best_b, weight, home, load, incoming, log_dir)
        if best_j >= 0:
            _move(best_j, a, weight, home, load, incoming, log_dir)
    limit = max(target, (load / capacity).max()) * (1.0 + _TOLERANCE)
    for i in range(m):
        a = home[i]
        if log_dir[i] != a and (load[a] + weight[i]) / capacity[a] <= limit:
            _move(i, a, weight, home, load, incoming, log_dir)


@compiled
def fill_log_dirs(broker: Ints, size: Floats, offsets: Ints, online: Flags, free: Floats, log_dir: Ints) -> None:
    """Choose the log dir with most free bytes for each of k replicas, in their order.

    Args:
        broker: int64 (k).
        size: float64 (k), bytes.
        offsets: int64 (n + 1), range of each broker's log dirs.
        online: bool (d).
        free: float64 (d), bytes; changed to what is left.
        log_dir: int64 (k), the result; stays as it is on brokers without an online log dir.

    """
    for i in range(len(broker)):
        best = -1
        for one in range(offsets[broker[i]], offsets[broker[i] + 1]):
            if online[one] and (best < 0 or free[one] > free[best]):
                best = one
        if best >= 0:
            free[best] -= size[i]
            log_dir[i] = best


@compiled
def assign_first_waves(
    step: Ints, broker: Ints, size: Floats, bytes_per_broker: float, moves_per_broker: int, wave: Ints
) -> None:
    """Put each of k steps in the first wave in which all of its brokers have room for its moves.

    Args:
        step: int64 (m), the step of each move, ascending from 0.
        broker: int64 (m), the broker of each move.
        size: float64 (m), bytes.
        bytes_per_broker: limit of a wave; a larger move is alone on its broker.
        moves_per_broker: limit of a wave.
        wave: int64 (k), the result, from 0.

    """
    n = int(broker.max()) + 1 if len(broker) else 0
    rows = 16
    load, moves = np.zeros((rows, n)), np.zeros((rows, n), dtype=np.int64)
    begin = 0
    while begin < len(step):
        end = begin
        while end < len(step) and step[end] == step[begin]:
            end += 1
        at = 0
        while True:
            if at == rows:
                load = np.concatenate((load, np.zeros((rows, n))))
                moves = np.concatenate((moves, np.zeros((rows, n), dtype=np.int64)))
                rows *= 2
            fits = True
            for i in range(begin, end):
                b = broker[i]
                is_full = moves[at, b] >= moves_per_broker or load[at, b] + size[i] > bytes_per_broker
                if is_full and moves[at, b] > 0:
                    fits = False
            if fits:
                break
            at += 1
        for i in range(begin, end):
            load[at, broker[i]] += size[i]
            moves[at, broker[i]] += 1
        wave[step[begin]] = at
        begin = end
