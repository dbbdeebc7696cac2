"""Segments of flat arrays, against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from udfs.arrow import ragged

SEGMENTS = st.lists(st.lists(st.integers(-3, 3), max_size=5), max_size=8)


def arrays(segments: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    flat = np.array([v for s in segments for v in s], dtype=np.int32)
    return flat, ragged.offsets_of(np.array([len(s) for s in segments], dtype=np.int64))


@given(SEGMENTS)
def test_first_true_and_counts(segments: list[list[int]]) -> None:
    flat, offsets = arrays(segments)
    first = ragged.first_true(flat > 0, offsets)
    for i, segment in enumerate(segments):
        hits = [int(offsets[i]) + k for k, v in enumerate(segment) if v > 0]
        assert first[i] == (hits[0] if hits else -1)
    assert ragged.count_true(flat > 0, offsets).tolist() == [sum(v > 0 for v in s) for s in segments]
    assert ragged.has_repeat(flat, offsets).tolist() == [len(set(s)) < len(s) for s in segments]
    assert ragged.position_of(offsets).tolist() == [k for s in segments for k in range(len(s))]


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4), st.lists(st.sampled_from([0, -1, 7]), max_size=4)
        ),
        max_size=6,
    )
)
def test_elements_in_other_segments(pairs: list[tuple[list[int], list[int]]]) -> None:
    left = [a + b[:1] for a, b in pairs]
    flat, offsets = arrays(left)
    other, other_offsets = arrays([b for _, b in pairs])
    expected = [v in b for (_, b), a in zip(pairs, left, strict=True) for v in a]
    assert ragged.is_in_segment(flat, offsets, other, other_offsets).tolist() == expected
    places = [b.index(v) if v in b else -1 for (_, b), a in zip(pairs, left, strict=True) for v in a]
    assert ragged.find_in_segment(flat, offsets, other, other_offsets).tolist() == places


@given(SEGMENTS, st.data())
def test_take_segments(segments: list[list[int]], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(segments) - 1), max_size=6)) if segments else []
    flat, offsets = ragged.take_segments(*arrays(segments), np.array(rows, dtype=np.int64))
    assert [p.tolist() for p in np.split(flat, offsets[1:-1])] == ([segments[r] for r in rows] or [[]])
