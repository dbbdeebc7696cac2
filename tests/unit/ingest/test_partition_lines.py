"""The compiled scanner of partition lines, against the same grammar as a regular expression."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seed_sampler import count_cases
from udfs.text.kernels.partition_lines import allocate_partition_lines, scan_partition_lines

SAMPLES = Path(__file__).parents[3] / "data_samples"
_SMALL = r"[0-9]{1,9}"
_IDS = rf"{_SMALL}(?:,{_SMALL})*"
GRAMMAR = re.compile(
    r"[ \t>|]*topic: ?(?P<topic>[a-z0-9._-]*[a-z0-9_-])[ \t]+partition: ?(?P<partition>[0-9]{1,6})"
    rf"[ \t]+leader: ?(?P<leader>{_SMALL}|-1|none)[ \t]+replicas: ?(?P<replicas>{_IDS})[ \t]+isr: ?(?P<isr>|{_IDS})"
    rf"(?P<rest>(?:[ \t]+adding replicas: ?(?P<adding>|{_IDS})[ \t]+removing replicas: ?(?P<removing>|{_IDS}))?"
    rf"(?:[ \t]+elr: ?(?P<elr>|N/A|{_IDS})[ \t]+lastknownelr: ?(?P<known>|N/A|{_IDS}))?"
    rf"(?:[ \t]+offline: ?(?P<offline>|{_IDS}))?(?:[ \t]+observers: ?(?P<observers>|{_IDS}))?)[ \t]*",
    re.ASCII | re.IGNORECASE,
)
LISTS = ("replicas", "isr", "adding", "removing", "elr", "known", "offline", "observers")


def scan(lines: list[str]) -> dict[int, tuple[object, ...]]:
    """Return {line: (topic, partition, leader, lists)} of the lines that the scanner knows."""
    encoded = [line.encode() for line in lines]
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    found = allocate_partition_lines(len(lines), len(data))
    result = {}
    for i in range(scan_partition_lines(found, data, offsets)):
        topic = found.topic[found.topic_offsets[i] : found.topic_offsets[i + 1]].tobytes().decode()
        lists = tuple(
            found.ids[k, found.id_offsets[k, i] : found.id_offsets[k, i + 1]].tolist() if found.present[k, i] else None
            for k in range(len(LISTS))
        )
        result[int(found.row[i])] = (topic, int(found.partition[i]), int(found.leader[i]), lists)
    return result


def match(line: str) -> tuple[object, ...] | None:
    found = GRAMMAR.fullmatch(line)
    if found is None or (found["isr"] == "" and found["rest"] == "" and found["leader"].lower() not in ("-1", "none")):
        return None
    texts = (found[name] for name in LISTS)
    lists = tuple(
        None if text is None or text.lower() == "n/a" else [int(i) for i in text.split(",")] if text else []
        for text in texts
    )
    leader = -1 if found["leader"].lower() == "none" else int(found["leader"])
    return found["topic"], int(found["partition"]), leader, lists


def check(lines: list[str]) -> int:
    """Compare both on all lines, and return how many match."""
    expected = {i: value for i, line in enumerate(lines) if (value := match(line)) is not None}
    assert scan(lines) == expected
    return len(expected)


@pytest.mark.parametrize(
    "path", sorted(SAMPLES.rglob("*describe*.txt")), ids=lambda path: str(path.relative_to(SAMPLES))
)
def test_samples(path: Path) -> None:
    check(path.read_text(encoding="utf-8", errors="replace").split("\n"))


def test_a_capture_is_scanned_completely() -> None:
    lines = (SAMPLES / "kafka-4.1.1-kraft" / "topics-describe.txt").read_text().split("\n")
    assert check(lines) == sum("\tPartition: " in line for line in lines) == 743


_ids = st.lists(st.integers(0, 10**10), min_size=0, max_size=4).map(lambda ids: ",".join(map(str, ids)))
_value = st.sampled_from(["", " ", "  ", "\t"])
_gap = st.sampled_from(["\t", " ", "  ", "", "\n", " \t "])
_labels = ("Topic", "Partition", "Leader", "Replicas", "Isr")
_optional = ("Adding Replicas", "Removing Replicas", "Elr", "LastKnownElr", "Offline", "Observers")


@st.composite
def _line(draw: st.DrawFn) -> str:
    values = [
        draw(st.sampled_from(["t", "a.b_c-d", "x.", "ü", "", "T9"])),
        draw(st.sampled_from(["0", "7", "999999", "1000000", "x", ""])),
        draw(st.sampled_from(["1", "none", "-1", "-2", "None", "1234567890", ""])),
        draw(_ids),
        draw(_ids),
    ]
    some = [name for name in _optional if draw(st.booleans())] if draw(st.booleans()) else []
    if some and draw(st.booleans()):
        some = list(_optional[: draw(st.sampled_from([2, 4, 5, 6]))])
    names = [name if draw(st.integers(0, 19)) else name.upper() for name in (*_labels, *some)]
    values += [draw(st.one_of(_ids, st.sampled_from(["N/A", "n/a"]))) for _ in some]
    gaps = [draw(_gap) if not draw(st.integers(0, 9)) else "\t" for _ in names]
    blanks = [draw(_value) if not draw(st.integers(0, 4)) else " " for _ in names]
    pieces = (
        f"{gap}{name}:{blank}{value}" for gap, name, blank, value in zip(gaps, names, blanks, values, strict=True)
    )
    line = "".join(pieces) + draw(st.sampled_from(["", "\t", " ", "x", "\n"]))
    cut = draw(st.integers(0, 9 * len(line)))
    return line[:cut]


@pytest.mark.slow
@settings(max_examples=count_cases(400))
@given(st.lists(_line(), max_size=8))
def test_generated_lines(lines: list[str]) -> None:
    check(lines)


@settings(max_examples=count_cases(100))
@given(st.lists(st.text(max_size=40), max_size=8))
def test_any_text(lines: list[str]) -> None:
    check(lines)


def test_no_line() -> None:
    assert scan([]) == {}
