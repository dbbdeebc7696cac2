"""Scans partition lines of `kafka-topics --describe`, as Kafka and Confluent's distribution print them.

The grammar is strict: a line that differs in anything is left to the tolerant parser.
Source: TopicCommand.PartitionDescription.printDescription of Kafka 4.1.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

# Lists of broker ids, in the order of their columns in a line.
REPLICAS, ISR, ADDING, REMOVING, ELR, LAST_KNOWN_ELR, OFFLINE, OBSERVERS = range(8)
_LISTS = 8
_MAX_DIGITS, _MAX_PARTITION_DIGITS = 9, 6  # nine digits always fit an int32; a partition id is below 1,000,000
# Labels and values, in lower case: a line may have them in any case.
_TOPIC, _PARTITION, _LEADER, _REPLICAS, _ISR, _NONE, _NOT_AVAILABLE = (
    np.frombuffer(text, dtype=np.uint8)
    for text in (b"topic:", b"partition:", b"leader:", b"replicas:", b"isr:", b"none", b"n/a")
)
_ADDING, _REMOVING, _ELR, _KNOWN, _OFFLINE, _OBSERVERS = (
    np.frombuffer(text, dtype=np.uint8)
    for text in (b"adding replicas:", b"removing replicas:", b"elr:", b"lastknownelr:", b"offline:", b"observers:")
)
_TAB, _BLANK, _COMMA, _BAR, _MORE = 9, 32, 44, 124, 62
_ZERO, _NINE, _MINUS, _ONE, _DOT, _UNDERSCORE = 48, 57, 45, 49, 46, 95


class PartitionLines(NamedTuple):
    """The lines that match, of n lines with b bytes; the first `count` of each array are filled."""

    row: npt.NDArray[np.int64]  # int64 (n), which line it is
    topic: Bytes  # uint8 (b), the names of the topics, one behind the other
    topic_offsets: Ids  # int32 (n + 1)
    partition: Ids  # int32 (n)
    leader: Ids  # int32 (n), -1 = none
    ids: Ids  # int32 (8, b / 2 + 1), broker ids of each list
    id_offsets: Ids  # int32 (8, n + 1)
    present: Bools  # bool (8, n), whether the line has the list; N/A counts as absent


def allocate_partition_lines(lines: int, size: int) -> PartitionLines:
    """Return arrays for so many lines with so many bytes."""
    return PartitionLines(
        np.empty(lines, dtype=np.int64),
        np.empty(size, dtype=np.uint8),
        np.zeros(lines + 1, dtype=np.int32),
        np.empty(lines, dtype=np.int32),
        np.empty(lines, dtype=np.int32),
        np.empty((_LISTS, size // 2 + 1), dtype=np.int32),
        np.zeros((_LISTS, lines + 1), dtype=np.int32),
        np.zeros((_LISTS, lines), dtype=np.bool_),
    )


@part
def _is_digit(data: Bytes, i: int, end: int) -> bool:
    return i < end and _ZERO <= data[i] <= _NINE


@part
def _skip_blanks(data: Bytes, i: int, end: int) -> int:
    while i < end and (data[i] == _BLANK or data[i] == _TAB):
        i += 1
    return i


@part
def _skip_text(data: Bytes, i: int, end: int, text: Bytes) -> int:
    """Return the position behind a text in any case (it is given in lower case), or -1 if it is not there."""
    if i + len(text) > end:
        return -1
    for k in range(len(text)):
        byte = data[i + k]
        if byte != text[k] and not (65 <= byte <= 90 and byte + 32 == text[k]):
            return -1
    return i + len(text)


@part
def _skip_number(data: Bytes, i: int, end: int, digits: int) -> int:
    """Return the position behind a number of at most so many digits, or -1."""
    begin = i
    while _is_digit(data, i, end):
        i += 1
    return i if begin < i <= begin + digits else -1


@part
def _read_number(data: Bytes, begin: int, end: int) -> int:
    number = 0
    for i in range(begin, end):
        number = 10 * number + data[i] - _ZERO
    return number


@part
def _value_of(data: Bytes, i: int, end: int) -> int:
    """Return where the value behind a colon begins: one blank may be in between."""
    return i + 1 if i < end and data[i] == _BLANK else i


@part
def _read_list(lines: PartitionLines, which: int, count: int, data: Bytes, i: int, end: int, may_lack: int) -> int:
    """Read a list of ids behind a colon, and return the position behind it, or -1. i: may be -1.

    may_lack: 0 = it has an id; 1 = it may be empty; 2 = it may also be N/A, which counts as absent.
    """
    if i < 0:
        return -1
    begin = lines.id_offsets[which, count]
    lines.id_offsets[which, count + 1] = begin
    value = _value_of(data, i, end)
    lines.present[which, count] = True
    if not _is_digit(data, value, end):
        if may_lack == 2 and _skip_text(data, value, end, _NOT_AVAILABLE) >= 0:
            lines.present[which, count] = False
            return value + len(_NOT_AVAILABLE)
        return i if may_lack else -1
    number = begin
    while True:
        behind = _skip_number(data, value, end, _MAX_DIGITS)
        if behind < 0:
            return -1
        lines.ids[which, number] = _read_number(data, value, behind)
        number += 1
        if not (behind < end and data[behind] == _COMMA):
            break
        value = behind + 1
    lines.id_offsets[which, count + 1] = number
    return behind


@part
def _read_topic(lines: PartitionLines, count: int, data: Bytes, i: int, end: int) -> int:
    """Read a topic's name behind its colon, and return the position behind it, or -1."""
    i = _value_of(data, i, end)
    begin, at = i, lines.topic_offsets[count]
    while i < end:
        byte = data[i]
        is_letter = 97 <= byte <= 122 or 65 <= byte <= 90 or _ZERO <= byte <= _NINE
        if not (is_letter or byte in (_DOT, _UNDERSCORE, _MINUS)):
            break
        lines.topic[at + i - begin] = byte
        i += 1
    lines.topic_offsets[count + 1] = at + i - begin
    return i if i > begin and data[i - 1] != _DOT else -1


@part
def _read_leader(lines: PartitionLines, count: int, data: Bytes, i: int, end: int) -> int:
    i = _value_of(data, i, end)
    lines.leader[count] = -1
    if i + 1 < end and data[i] == _MINUS and data[i + 1] == _ONE:
        return i + 2
    behind = _skip_text(data, i, end, _NONE)
    if behind < 0:
        behind = _skip_number(data, i, end, _MAX_DIGITS)
        if behind >= 0:
            lines.leader[count] = _read_number(data, i, behind)
    return behind


@part
def _next_label(data: Bytes, i: int, end: int, label: Bytes) -> int:
    """Return the position behind blanks, of which there must be one, and a label, or -1. i: may be -1."""
    behind = _skip_blanks(data, i, end) if i >= 0 else i
    return _skip_text(data, behind, end, label) if behind > i else -1


@part
def _read_optional(
    lines: PartitionLines, which: int, count: int, data: Bytes, i: int, end: int, label: Bytes, may_lack: int
) -> int:
    """Read an optional list; return the position behind it, i if it is absent, or -1. i: may be -1."""
    behind = _next_label(data, i, end, label)
    return _read_list(lines, which, count, data, behind, end, may_lack) if behind >= 0 else i


@part
def _read_pair(
    lines: PartitionLines, first: int, count: int, data: Bytes, i: int, end: int, label: Bytes, second: Bytes
) -> int:
    """Read two optional lists that come together; return the position behind them, i if they are absent, or -1."""
    may_lack = 2 if first == ELR else 1
    behind = _read_optional(lines, first, count, data, i, end, label, may_lack)
    if behind <= i:
        return behind
    return _read_list(lines, first + 1, count, data, _next_label(data, behind, end, second), end, may_lack)


@part
def _read_line(lines: PartitionLines, count: int, data: Bytes, i: int, end: int) -> bool:
    """Read a line from i to end - 1 as the line of number `count`, and return whether it is as Kafka prints it."""
    while i < end and (data[i] == _BLANK or data[i] == _TAB or data[i] == _MORE or data[i] == _BAR):
        i += 1
    i = _skip_text(data, i, end, _TOPIC)
    if i < 0:
        return False
    i = _next_label(data, _read_topic(lines, count, data, i, end), end, _PARTITION)
    if i < 0:
        return False
    begin = _value_of(data, i, end)
    i = _skip_number(data, begin, end, _MAX_PARTITION_DIGITS)
    if i < 0:
        return False
    lines.partition[count] = _read_number(data, begin, i)
    i = _next_label(data, i, end, _LEADER)
    if i < 0:
        return False
    for which in range(ADDING, _LISTS):
        lines.present[which, count] = False
        lines.id_offsets[which, count + 1] = lines.id_offsets[which, count]
    i = _next_label(data, _read_leader(lines, count, data, i, end), end, _REPLICAS)
    i = _next_label(data, _read_list(lines, REPLICAS, count, data, i, end, 0), end, _ISR)
    after_isr = i = _read_list(lines, ISR, count, data, i, end, 1)
    i = _read_pair(lines, ADDING, count, data, i, end, _ADDING, _REMOVING)
    i = _read_pair(lines, ELR, count, data, i, end, _ELR, _KNOWN)
    i = _read_optional(lines, OFFLINE, count, data, i, end, _OFFLINE, 1)
    i = _read_optional(lines, OBSERVERS, count, data, i, end, _OBSERVERS, 1)
    if i < 0 or _skip_blanks(data, i, end) < end:
        return False
    # With a leader and an empty ISR at its end, a line is perhaps cut off: the other parser has to judge.
    has_isr = lines.id_offsets[ISR, count + 1] > lines.id_offsets[ISR, count]
    return has_isr or i > after_isr or lines.leader[count] < 0


@compiled
def scan_partition_lines(lines: PartitionLines, data: Bytes, offsets: Ids) -> int:
    """Scan lines for partitions, and return how many are as Kafka prints them.

    lines: filled; data: uint8 (b), lines in UTF-8 one behind the other; offsets: int32 (n + 1), where they begin in it.
    """
    count = 0
    for row in range(len(offsets) - 1):
        if _read_line(lines, count, data, offsets[row], offsets[row + 1]):
            lines.row[count] = row
            count += 1
    return count
