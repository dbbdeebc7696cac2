"""Requests of several partitions as wholes: a kernel answers each part alone, a broker the request once.

The rules are those of docs/replay-rules.md. Sources: DelayedProduce, DelayedFetch of Kafka 2.8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.simulation.event_names import ANSWERS, ERRORS
from udfs.simulation.kernels import codes as k
from udfs.simulation.kernels.simulation_state import Ints
from udfs.simulation.simulation_schemas import JOINED_REQUESTS, REQUESTS

Bools = npt.NDArray[np.bool_]
_NEVER = np.iinfo(np.int64).max
_REPLICA = "fetch of a replica"  # each of its parts is a fetch of its own
_PRODUCE = "produce"
_FAILS, _GONE = k.ANSWERS, k.ANSWERS + 1  # ends of a fetch whose answer is a part's: one fails, or all leaders failed


def joined(requests: pa.Table) -> pa.Table:
    """The rows of REQUESTS as JOINED_REQUESTS, by event: delayed, error, answer and wait are the whole request's.

    All parts of a request have to be in `requests`, which may hold those of any number of clusters. part_error,
    part_answered_at_ms: the part's own; what would befall a part after the answer of a whole fetch does not befall it.
    error: of the part that failed first.   messages of a fetch: what the part could read when the whole was answered.
    """
    by_event = [(name, "ascending") for name in ("cluster_id", "snapshot_id", "event", "topic", "partition")]
    return _Joiner(requests.select(REQUESTS.names).cast(REQUESTS).sort_by(by_event).combine_chunks()).table()


def _codes(column: Any, names: tuple[str, ...]) -> Ints:
    return _ints(pc.index_in(column, value_set=pa.array(names)), -1)


def _ints(column: Any, missing: int) -> Ints:
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.array(pc.fill_null(values.cast(pa.int64()), missing))


def _true(column: Any) -> Bools:
    said: Bools = _ints(column, 0) != 0
    return said


class _Joiner:
    """Columns of all rows, which change to those of the whole; `row` are the rows of requests with several parts."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._at = _ints(table["at_ms"], 0)
        self._error = _codes(table["error"], ERRORS)
        self._by = _codes(table["answered_by"], ANSWERS)
        self._answered = _ints(table["answered_at_ms"], _NEVER)
        self._delayed = _true(table["delayed"])
        self._messages = _ints(table["messages"], 0)
        self._deadline = _ints(table["deadline_ms"], _NEVER)
        self._high_watermark = _ints(table["high_watermark"], -1)
        self._part_error, self._part_answered = self._error.copy(), self._answered.copy()

    def table(self) -> pa.Table:
        several = (_ints(self._table["parts"], 1) > 1) & np.asarray(pc.is_valid(self._table["request"]))
        produce = np.asarray(pc.equal(self._table["kind"], _PRODUCE))
        replica = np.asarray(pc.equal(self._table["kind"], _REPLICA))
        self._join_produces(np.flatnonzero(several & produce))
        self._join_fetches(np.flatnonzero(several & ~produce & ~replica))
        return self._columns()

    def _groups(self, rows: Ints) -> tuple[Ints, int]:
        """(the request of each of these rows, from 0 on; how many there are)."""
        chosen = self._table.select(["cluster_id", "snapshot_id", "request"]).take(pa.array(rows))
        key = [_ints(chosen[name].combine_chunks().dictionary_encode().indices, -1) for name in chosen.column_names]
        order = np.lexsort(key)
        sorted_key = np.stack(key)[:, order]
        new = np.any(sorted_key[:, 1:] != sorted_key[:, :-1], axis=0)
        of = np.empty(len(rows), np.int64)
        of[order] = np.concatenate([[0], np.cumsum(new)])
        return of, int(of.max()) + 1

    # ---- produce

    def _join_produces(self, rows: Ints) -> None:
        """Nothing; a produce is answered when its last part is: never, if one never is."""
        if not len(rows):
            return
        of, size = self._groups(rows)
        written = np.asarray(pc.is_valid(self._table["base_offset"]))[rows]
        self._delayed[rows] = (
            (_ints(self._table["acks"], 1)[rows] == -1)
            & (_sum(of, size, self._messages[rows]) > 0)[of]
            & (_sum(of, size, written) > 0)[of]
        )
        self._deadline[rows] = np.where(self._delayed[rows], _least(of, size, self._deadline[rows])[of], _NEVER)
        last = self._last(rows, of)[of]
        answered = self._answered[last]
        first = self._first_failed(rows, of)[of]
        error = np.where(answered == _NEVER, self._error[last], self._error[first])
        self._by[rows], self._error[rows], self._answered[rows] = self._by[last], error, answered

    def _last(self, rows: Ints, of: Ints) -> Ints:
        """Of each request the row of its last answer; of those at one time, rather one that was waited for."""
        lost = self._error[rows] == k.DISCONNECTED
        waited = ~np.isin(self._by[rows], (k.AT_ONCE, k.NOTHING_AWAITED, k.BY_APPEND))
        order = np.lexsort((rows, waited, lost, self._answered[rows], of))
        ends = np.append(of[order][1:] != of[order][:-1], True)
        found: Ints = rows[order[ends]]
        return found

    def _first_failed(self, rows: Ints, of: Ints) -> Ints:
        """Of each request the row whose error came first, or any row if there is none."""
        good = self._error[rows] == k.NO_ERROR
        order = np.lexsort((rows, self._answered[rows], good, of))
        begins = np.append(True, of[order][1:] != of[order][:-1])
        found: Ints = rows[order[begins]]
        return found

    # ---- fetch of a consumer

    def _join_fetches(self, rows: Ints) -> None:
        """Nothing; a fetch is answered at once, or when enough can be read, a part fails, or its time is over."""
        if not len(rows):
            return
        of, size = self._groups(rows)
        read = _Read(self._table, rows, of)
        how, answered = self._ends(rows, of, size, read)
        befell = self._befell(rows, how[of], answered[of], read)
        gone = befell & (self._error[rows] == k.DISCONNECTED)
        self._part_error[rows] = np.where(befell, self._error[rows], k.NO_ERROR)
        self._part_answered[rows] = np.where(gone, _NEVER, np.minimum(self._answered[rows], answered[of]))
        self._error[rows] = self._part_error[rows]
        first = self._first_failed(rows, of)
        by = np.where(np.isin(how, (_FAILS, _GONE)), self._by[first], how)
        self._error[rows] = self._error[first][of]
        self._by[rows], self._answered[rows] = by[of], answered[of]
        self._delayed[rows] = how[of] != k.AT_ONCE
        self._deadline[rows] = np.where(self._delayed[rows], self._deadline[rows], _NEVER)
        self._give(rows, read, np.where(how == k.AT_ONCE, -1, answered)[of], befell)

    def _ends(self, rows: Ints, of: Ints, size: int, read: _Read) -> tuple[Ints, Ints]:
        """(what ends each fetch: an answer's code, _FAILS or _GONE; when)."""
        least = _greatest(of, size, _ints(self._table["min_bytes"], 1)[rows])
        at_once = (_sum(of, size, ~self._delayed[rows]) > 0) | (_sum(of, size, read.at_first) >= least)
        over = np.where(self._by[rows] == k.BY_TIMEOUT, self._answered[rows], _NEVER)
        times = {
            k.AT_ONCE: np.where(at_once, _greatest(of, size, self._at[rows]), _NEVER),
            k.BY_HIGH_WATERMARK: read.first_time(least, size),  # a part reads before it fails at the same time
            _FAILS: _least(of, size, self._failed_at(rows, read)),
            k.BY_TIMEOUT: _least(of, size, over),
        }
        each = np.stack(list(times.values()))
        which, answered = each.argmin(axis=0), each.min(axis=0)
        how = np.array(list(times))[which]
        how[at_once] = k.AT_ONCE
        how[answered == _NEVER] = k.WAITING
        # Where the leader of every part has failed, nobody is there to answer.
        all_gone = _least(of, size, np.where(read.gone_at <= answered[of], 1, 0)) == 1
        all_gone &= how == _FAILS
        how[all_gone], answered[all_gone] = _GONE, _NEVER
        return how, answered

    def _failed_at(self, rows: Ints, read: _Read) -> Ints:
        """When each part failed, its leader's failure included; _NEVER = it has not."""
        failed = self._error[rows] != k.NO_ERROR
        return np.minimum(np.where(failed, self._answered[rows], _NEVER), read.gone_at)

    def _befell(self, rows: Ints, how: Ints, answered: Ints, read: _Read) -> Bools:
        """Whether the part failed, and before the whole was answered."""
        failed = self._error[rows] != k.NO_ERROR
        at_once = (how == k.AT_ONCE) & (self._by[rows] == k.AT_ONCE)
        before = (how == _FAILS) & (self._failed_at(rows, read) <= answered)
        befell: Bools = failed & (at_once | before | (how == _GONE))
        return befell

    def _give(self, rows: Ints, read: _Read, until: Ints, befell: Bools) -> None:
        """Nothing; what each part read. until: when the answer went out, -1 = with what was there at arrival."""
        size = np.where(befell | (self._answered[rows] == _NEVER), 0, read.until(until))
        messages = size // np.maximum(_ints(self._table["message_bytes"], 1)[rows], 1)
        end = _ints(self._table["base_offset"], 0)[rows] + messages
        self._messages[rows] = messages
        hw = np.where(self._answered[rows] == _NEVER, -1, self._high_watermark[rows])
        self._high_watermark[rows] = np.where(messages > 0, end, hw)

    # ---- answers

    def _columns(self) -> pa.Table:
        waited = self._answered - self._at
        columns = {
            "delayed": pa.array(self._delayed),
            "error": _words(ERRORS, self._error),
            "answered_by": _words(ANSWERS, self._by),
            "answered_at_ms": _known(self._answered, _NEVER),
            "waited_ms": pa.array(waited, mask=self._answered == _NEVER),
            "messages": pa.array(self._messages),
            "high_watermark": _known(self._high_watermark, -1),
            "deadline_ms": _known(self._deadline, _NEVER),
            "part_error": _words(ERRORS, self._part_error),
            "part_answered_at_ms": _known(self._part_answered, _NEVER),
        }
        rows = [columns[name] if name in columns else self._table[name] for name in JOINED_REQUESTS.names]
        return pa.table(rows, schema=JOINED_REQUESTS)


class _Read:
    """What the parts of fetches could read: of those that wait as their progress tells, of the others at arrival."""

    def __init__(self, table: pa.Table, rows: Ints, of: Ints) -> None:
        progress = table.select(["progress_ms", "progress_bytes"]).take(pa.array(rows)).combine_chunks()
        times, sizes = (progress[name].combine_chunks() for name in progress.column_names)
        count = np.asarray(pc.fill_null(pc.list_value_length(times), 0)).astype(np.int64)
        part = np.repeat(np.arange(len(rows)), count)
        at, size = (np.asarray(one.flatten()).astype(np.int64) for one in (times, sizes))
        leader_failed = size < 0
        self.gone_at: Ints = np.full(len(rows), _NEVER)
        self.gone_at[part[leader_failed]] = at[leader_failed]
        self._at, self._bytes, self._part = at[~leader_failed], size[~leader_failed], part[~leader_failed]
        self._count = np.bincount(self._part, minlength=len(rows)).astype(np.int64)
        self._begin = np.cumsum(self._count) - self._count
        self._of = of[self._part]
        self._late = np.zeros(len(self._at), np.bool_)  # after enough could be read, be it in the same millisecond
        waited = self._count > 0
        messages = _ints(table["messages"], 0)[rows] * _ints(table["message_bytes"], 0)[rows]
        self.at_first: Ints = messages
        self.at_first[waited] = self._bytes[self._begin[waited]]

    def first_time(self, least: Ints, size: int) -> Ints:
        """Of each of `size` requests, when all its parts together could read so much; _NEVER = at no time."""
        first = np.zeros(len(self._bytes), np.bool_)
        first[self._begin[self._count > 0]] = True
        more = self._bytes - np.where(first, 0, np.roll(self._bytes, 1))
        order = np.lexsort((self._at, self._of))
        of, whole = self._of[order], _sum(self._of, size, more)
        running = np.cumsum(more[order]) - (np.cumsum(whole) - whole)[of]
        enough = running >= least[of]
        self._late[order[1:]] = enough[:-1] & (of[1:] == of[:-1])
        return _least(of[enough], size, self._at[order][enough])

    def until(self, at: Ints) -> Ints:
        """Bytes that each part could read at that time; -1 = at its arrival."""
        noted = (self._at <= at[self._part]) & ~self._late
        count = np.bincount(self._part[noted], minlength=len(at))
        out = self.at_first.copy()
        later = count > 0
        out[later] = self._bytes[(self._begin + count - 1)[later]]
        return out


def _sum(of: Ints, size: int, values: npt.NDArray[Any]) -> Ints:
    out = np.zeros(size, np.int64)
    np.add.at(out, of, values)
    return out


def _least(of: Ints, size: int, values: Ints) -> Ints:
    out = np.full(size, _NEVER)
    np.minimum.at(out, of, values)
    return out


def _greatest(of: Ints, size: int, values: Ints) -> Ints:
    out = np.full(size, -1)
    np.maximum.at(out, of, values)
    return out


def _words(names: tuple[str, ...], codes: Ints) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(codes))


def _known(values: Ints, unknown: int) -> pa.Array:
    return pa.array(values, mask=values == unknown)
