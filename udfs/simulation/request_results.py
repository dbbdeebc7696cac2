"""Join the parts of requests of several partitions: kernels answer each part alone, a broker answers the request once.

The rules are those of docs/replay-rules.md. Sources: DelayedProduce, DelayedFetch of Kafka 2.8.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.simulation.event_columns import Bools, code_rows, known_values, name_codes, read_ints
from udfs.simulation.kernels.codes import AnsweredBy, RequestError
from udfs.simulation.kernels.simulation_arrays import Ints
from udfs.simulation.simulation_schemas import JOINED_REQUESTS, REQUESTS

_NEVER = np.iinfo(np.int64).max
# What ends a fetch that a part's answer ends: the part fails, or all of its leaders have failed.
_PART_FAILS, _ALL_LEADERS_FAIL = len(AnsweredBy), len(AnsweredBy) + 1


def join_requests(requests: pa.Table) -> pa.Table:
    """Join the parts of requests (rows of REQUESTS, all parts of each) into rows of JOINED_REQUESTS, by event."""
    # delayed, error, answer and waiting time become those of the whole request: the error is that of the part that
    # failed first. What would happen to a part after that answer does not happen; `messages` of a fetch: what the part
    # could read then. Fetches of replicas stay as they are: each of their parts is a fetch of its own.
    by_event = [(name, "ascending") for name in ("cluster_id", "snapshot_id", "event", "topic", "partition")]
    return _Joiner(requests.select(REQUESTS.names).cast(REQUESTS).sort_by(by_event).combine_chunks()).join()


def _read_codes(column: Any, names: tuple[str, ...]) -> Ints:
    return read_ints(pc.index_in(column, value_set=pa.array(names)), -1)


class _Readable:
    """What the parts of fetches could read: by their progress if they waited, else at their arrival."""

    def __init__(self, table: pa.Table, rows: Ints, request: Ints) -> None:
        progress = table.select(["progress_ms", "progress_bytes"]).take(pa.array(rows)).combine_chunks()
        times, sizes = (column.combine_chunks() for column in progress.columns)
        count = np.asarray(pc.fill_null(pc.list_value_length(times), 0)).astype(np.int64)
        part = np.repeat(np.arange(len(rows)), count)
        at, size = (np.asarray(values.flatten()).astype(np.int64) for values in (times, sizes))
        is_lost = size < 0  # the leader has failed
        self.lost_at: Ints = np.full(len(rows), _NEVER)
        self.lost_at[part[is_lost]] = at[is_lost]
        self._at, self._bytes, self._part = at[~is_lost], size[~is_lost], part[~is_lost]
        self._count = np.bincount(self._part, minlength=len(rows)).astype(np.int64)
        self._begin = np.cumsum(self._count) - self._count
        self._request = request[self._part]
        self._is_late = np.zeros(len(self._at), np.bool_)  # after enough was readable, if in the same millisecond
        waited = self._count > 0
        bytes_at_arrival = read_ints(table["messages"], 0) * read_ints(table["message_bytes"], 0)
        self.at_first: Ints = bytes_at_arrival[rows]
        self.at_first[waited] = self._bytes[self._begin[waited]]

    def find_times(self, least: Ints, size: int) -> Ints:
        """Find when all parts of each of `size` requests together could read `least` bytes; _NEVER = at no time."""
        is_first = np.zeros(len(self._bytes), np.bool_)
        is_first[self._begin[self._count > 0]] = True
        more = self._bytes - np.where(is_first, 0, np.roll(self._bytes, 1))
        order = np.lexsort((self._at, self._request))
        request, total = self._request[order], _sum(self._request, size, more)
        running = np.cumsum(more[order]) - (np.cumsum(total) - total)[request]
        is_enough = running >= least[request]
        self._is_late[order[1:]] = is_enough[:-1] & (request[1:] == request[:-1])
        return _min(request[is_enough], size, self._at[order][is_enough])

    def count_bytes(self, at: Ints) -> Ints:
        """Return the bytes that each part could read at that time; -1 = at its arrival."""
        is_before = (self._at <= at[self._part]) & ~self._is_late
        count = np.bincount(self._part[is_before], minlength=len(at))
        out = self.at_first.copy()
        waited = count > 0
        out[waited] = self._bytes[(self._begin + count - 1)[waited]]
        return out


class _Joiner:
    """Columns of all rows; those of requests with several parts are changed to the values of the whole."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._at = self._ints("at_ms", 0)
        self._error = _read_codes(table["error"], RequestError.labels())
        self._by = _read_codes(table["answered_by"], AnsweredBy.labels())
        self._answered = self._ints("answered_at_ms", _NEVER)
        self._delayed = self._ints("delayed", 0) != 0
        self._messages = self._ints("messages", 0)
        self._deadline = self._ints("deadline_ms", _NEVER)
        self._high_watermark = self._ints("high_watermark", -1)
        self._part_error, self._part_answered = self._error.copy(), self._answered.copy()

    def join(self) -> pa.Table:
        kind, code = self._table["kind"], code_rows(self._table, ("cluster_id", "snapshot_id", "request"))
        has_parts = (self._ints("parts", 1) > 1) & np.asarray(pc.is_valid(self._table["request"]))
        for name, join in (("produce", self._join_produces), ("fetch of a consumer", self._join_fetches)):
            rows = np.flatnonzero(has_parts & np.asarray(pc.equal(kind, name)))
            if len(rows):
                requests, request = np.unique(code[rows], return_inverse=True)
                join(rows, request, len(requests))
        changed = {
            "delayed": pa.array(self._delayed),
            "error": name_codes(RequestError.labels(), self._error),
            "answered_by": name_codes(AnsweredBy.labels(), self._by),
            "answered_at_ms": known_values(self._answered, self._answered != _NEVER),
            "waited_ms": known_values(self._answered - self._at, self._answered != _NEVER),
            "messages": pa.array(self._messages),
            "high_watermark": known_values(self._high_watermark, self._high_watermark != -1),
            "deadline_ms": known_values(self._deadline, self._deadline != _NEVER),
            "part_error": name_codes(RequestError.labels(), self._part_error),
            "part_answered_at_ms": known_values(self._part_answered, self._part_answered != _NEVER),
        }
        columns = [changed[name] if name in changed else self._table[name] for name in JOINED_REQUESTS.names]
        return pa.table(columns, schema=JOINED_REQUESTS)

    def _ints(self, name: str, missing: int) -> Ints:
        return read_ints(self._table[name], missing)

    def _join_produces(self, rows: Ints, request: Ints, size: int) -> None:
        """Answer produce requests when their last part is answered; never, if one part never is."""
        is_written = np.asarray(pc.is_valid(self._table["base_offset"]))[rows]
        has_data = (_sum(request, size, self._messages[rows]) > 0) & (_sum(request, size, is_written) > 0)
        self._delayed[rows] = (self._ints("acks", 1)[rows] == -1) & has_data[request]
        deadline = _min(request, size, self._deadline[rows])[request]
        self._deadline[rows] = np.where(self._delayed[rows], deadline, _NEVER)
        last = self._find_last(rows, request)[request]
        first_failed = self._find_first_failed(rows, request)[request]
        answered, by = self._answered[last], self._by[last]
        error = np.where(answered == _NEVER, self._error[last], self._error[first_failed])
        self._by[rows], self._error[rows], self._answered[rows] = by, error, answered

    def _find_last(self, rows: Ints, request: Ints) -> Ints:
        """Find the row of each request's last answer; of several at one time, prefer one that had to wait."""
        is_lost = self._error[rows] == RequestError.DISCONNECTED
        waited = ~np.isin(self._by[rows], (AnsweredBy.AT_ONCE, AnsweredBy.NOTHING_AWAITED, AnsweredBy.APPEND))
        order = np.lexsort((rows, waited, is_lost, self._answered[rows], request))
        return np.asarray(rows[order[np.append(np.diff(request[order]) != 0, True)]])

    def _find_first_failed(self, rows: Ints, request: Ints) -> Ints:
        """Find the row of each request's first error, or any row of it if there is none."""
        is_good = self._error[rows] == RequestError.NONE
        order = np.lexsort((rows, self._answered[rows], is_good, request))
        return np.asarray(rows[order[np.append(True, np.diff(request[order]) != 0)]])

    def _join_fetches(self, rows: Ints, request: Ints, size: int) -> None:
        """Answer fetches at once, or when enough is readable, a part fails, or the time is over."""
        readable = _Readable(self._table, rows, request)
        how, answered = self._end_fetches(rows, request, size, readable)
        failed = self._fails_before(rows, how[request], answered[request], readable)
        is_lost = failed & (self._error[rows] == RequestError.DISCONNECTED)
        self._part_error[rows] = np.where(failed, self._error[rows], RequestError.NONE)
        self._part_answered[rows] = np.where(is_lost, _NEVER, np.minimum(self._answered[rows], answered[request]))
        self._error[rows] = self._part_error[rows]
        first_failed = self._find_first_failed(rows, request)
        by = np.where(np.isin(how, (_PART_FAILS, _ALL_LEADERS_FAIL)), self._by[first_failed], how)
        self._error[rows] = self._error[first_failed][request]
        self._by[rows], self._answered[rows] = by[request], answered[request]
        self._delayed[rows] = how[request] != AnsweredBy.AT_ONCE
        self._deadline[rows] = np.where(self._delayed[rows], self._deadline[rows], _NEVER)
        self._set_messages(rows, readable, np.where(how == AnsweredBy.AT_ONCE, -1, answered)[request], failed)

    def _end_fetches(self, rows: Ints, request: Ints, size: int, readable: _Readable) -> tuple[Ints, Ints]:
        """Return (what ends each fetch: a code of answers, _PART_FAILS or _ALL_LEADERS_FAIL; when)."""
        least = _max(request, size, self._ints("min_bytes", 1)[rows])
        at_once = _sum(request, size, ~self._delayed[rows]) > 0
        at_once |= _sum(request, size, readable.at_first) >= least
        is_timeout = self._by[rows] == AnsweredBy.TIMEOUT
        times = {
            AnsweredBy.AT_ONCE: np.where(at_once, _max(request, size, self._at[rows]), _NEVER),
            # A part reads before it fails at the same time.
            AnsweredBy.HIGH_WATERMARK: readable.find_times(least, size),
            _PART_FAILS: _min(request, size, self._failure_times(rows, readable)),
            AnsweredBy.TIMEOUT: _min(request, size, np.where(is_timeout, self._answered[rows], _NEVER)),
        }
        all_times = np.stack(list(times.values()))
        answered = all_times.min(axis=0)
        how = np.array(list(times))[all_times.argmin(axis=0)]
        how[at_once] = AnsweredBy.AT_ONCE
        how[answered == _NEVER] = AnsweredBy.WAITING
        # Where the leaders of all parts have failed, no broker is left to answer.
        all_lost = _min(request, size, np.where(readable.lost_at <= answered[request], 1, 0)) == 1
        all_lost &= how == _PART_FAILS
        how[all_lost], answered[all_lost] = _ALL_LEADERS_FAIL, _NEVER
        return how, answered

    def _failure_times(self, rows: Ints, readable: _Readable) -> Ints:
        """Return when each part failed, its leader's failure included; _NEVER = it did not."""
        failed = self._error[rows] != RequestError.NONE
        return np.minimum(np.where(failed, self._answered[rows], _NEVER), readable.lost_at)

    def _fails_before(self, rows: Ints, how: Ints, answered: Ints, readable: _Readable) -> Bools:
        at_once = (how == AnsweredBy.AT_ONCE) & (self._by[rows] == AnsweredBy.AT_ONCE)
        before = (how == _PART_FAILS) & (self._failure_times(rows, readable) <= answered)
        return np.asarray((self._error[rows] != RequestError.NONE) & (at_once | before | (how == _ALL_LEADERS_FAIL)))

    def _set_messages(self, rows: Ints, readable: _Readable, until: Ints, failed: Bools) -> None:
        """Set what each part read. until: when the answer was sent; -1 = with what was readable at arrival."""
        is_unread = failed | (self._answered[rows] == _NEVER)
        size = np.where(is_unread, 0, readable.count_bytes(until))
        messages = size // np.maximum(self._ints("message_bytes", 1)[rows], 1)
        end = self._ints("base_offset", 0)[rows] + messages
        self._messages[rows] = messages
        high_watermark = np.where(self._answered[rows] == _NEVER, -1, self._high_watermark[rows])
        self._high_watermark[rows] = np.where(messages > 0, end, high_watermark)


def _sum(group: Ints, size: int, values: npt.NDArray[Any]) -> Ints:
    out = np.zeros(size, np.int64)
    np.add.at(out, group, values)
    return out


def _min(group: Ints, size: int, values: Ints) -> Ints:
    out = np.full(size, _NEVER)
    np.minimum.at(out, group, values)
    return out


def _max(group: Ints, size: int, values: Ints) -> Ints:
    out = np.full(size, -1)
    np.maximum.at(out, group, values)
    return out
