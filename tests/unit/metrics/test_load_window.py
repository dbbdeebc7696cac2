"""The steps of a window, and windows that are too short."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import SourceError
from pipelines.metrics.series import Window

_DAY = 86_400


@pytest.mark.parametrize(
    ("length_s", "step_s", "scrape_s", "steps", "step_ms"),
    [
        (7 * _DAY, 300, 15, 2016, 299_992),
        (_DAY, 300, 15, 288, 299_945),
        (3_600, 300, 15, 20, 179_212),  # a p95 needs 20 steps
        (300, 300, 15, 18, 15_791),  # of one scrape at least
        (120, 300, 15, 6, 17_375),
        (120, 300, 30, 2, 44_250),
        (120, 300, None, 2, 44_250),  # unknown: a step has four scrapes
        (1, 300, 15, 1, 15_750),  # never none
    ],
)
def test_steps_fill_the_window(length_s: int, step_s: int, scrape_s: float | None, steps: int, step_ms: int) -> None:
    window = Window(1e9, length_s, step_s, scrape_s)
    assert (window.steps, window.step_ms) == (steps, step_ms)


@given(st.integers(60, 10**7), st.integers(1, 10**5), st.floats(0.5, 10_000))
def test_nothing_outside_the_window_is_read(length_s: int, step_s: int, scrape_s: float) -> None:
    window = Window(1e9, max(length_s, math.ceil(4 * scrape_s)), step_s, scrape_s)
    read_ms = window.steps * window.step_ms + window.margin_ms
    assert 1_000 * window.length_s - window.steps <= read_ms <= 1_000 * window.length_s
    assert window.step_ms >= 1_000 * scrape_s - 1
    rank = window.p95_rank * (window.steps - 1)
    assert rank == pytest.approx(round(rank))
    assert round(rank) + 1 >= 0.95 * window.steps > round(rank)


def test_short_window_is_refused_with_the_shortest() -> None:
    with pytest.raises(SourceError) as caught:
        Window(1e9, 119, 300, 30.001).check("prometheus=http://p:9090")
    problem = "prometheus=http://p:9090: the window of 1m59s is too short for scrapes every 30 s. "
    assert str(caught.value) == problem + "Choose --window 2m or longer"
    Window(1e9, 120, 300, 30.001).check("prometheus=http://p:9090")
    Window(1e9, 10, 300, None).check("prometheus=http://p:9090")


def test_two_scrapes_are_enough_if_there_are_no_more() -> None:
    Window(1e9, 10, 300, 10.0).check("scrapes", 10.0)
    with pytest.raises(SourceError, match="Choose --window 10s or longer"):
        Window(1e9, 9, 300, 10.0).check("scrapes", 10.0)
