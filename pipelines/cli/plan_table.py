"""A plan's metrics before and after, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from udfs.planning.plan_rows import value_at

_BALANCE = (
    ("replicas", "replicas"),
    ("leaders (preferred)", "leaders"),
    ("disk", "size_bytes"),
    ("bytes in", "bytes_in_per_s"),
    ("bytes out", "bytes_out_per_s"),
)
_MOST_AND_LEAST = ("max_over_mean", "min_over_mean")
_WIDTHS = (36, 11, 10, 13, 10)


def table(figures: dict[str, Any]) -> Iterator[str]:
    """The metrics of a plan, line by line."""
    before, after = figures["before"], figures["after"]
    yield _row("", "before", "", "after", "")
    yield _row("", "max/mean", "min/mean", "max/mean", "min/mean")
    for title, name in _BALANCE:
        cells = [_ratio(state["balance"][name][part]) for state in (before, after) for part in _MOST_AND_LEAST]
        yield _row(title, *cells)

    def both(title: str, *path: str, digits: int | None = 3) -> str:
        values = [value_at(state, path) for state in (before, after)]
        return _row(title, _ratio(values[0], digits), "", _ratio(values[1], digits), "")

    yield both("worst survivor of a failure: leaders", "balance", "worst_survivor_leaders")
    yield both("  bytes out", "balance", "worst_survivor_bytes_out")
    for kind, title in (("pair", "  of two failures: leaders"), ("rack", "  of a rack's failure: leaders")):
        if before["failures"][kind] is not None:
            yield both(title, "failures", kind, "worst_survivor_ratio")
    if any(state["durability"]["already_lost_partitions"] for state in (before, after)):
        yield both("partitions without a live replica", "durability", "already_lost_partitions", digits=None)
    yield both("rack violations", "balance", "rack_violations", digits=None)
    yield both("copysets", "durability", "copysets", digits=None)
    chances = [state["durability"]["loss_probability"] for state in (before, after)]
    failures = sorted({*chances[0], *chances[1]})
    for k in [k for k in failures if any(chance.get(k) for chance in chances)] or failures[-1:]:
        yield _row(f"P(loss if {k} {'fails' if k == '1' else 'fail'})", *_with_gaps([c.get(k) for c in chances]))
    if any(before["balance"][name]["max_over_mean"] is None for _, name in _BALANCE):
        yield "  (-: not known, or nothing to compare)"
    counted, live = before["balance"]["brokers"], before["failures"]["live_brokers"]
    if counted < live:
        yield f"  (down to the worst survivor of a failure: over the {counted} brokers that go on, of {live} that live)"


def _with_gaps(values: Sequence[float | None]) -> list[str]:
    return [cell for value in values for cell in (_ratio(value, 6), "")]


def _row(*cells: str) -> str:
    first = "  " + cells[0].ljust(_WIDTHS[0])
    return (first + "".join(c.rjust(w) for c, w in zip(cells[1:], _WIDTHS[1:], strict=True))).rstrip()


def _ratio(value: float | None, digits: int | None = 3) -> str:
    return "-" if value is None else f"{value}" if digits is None else f"{value:.{digits}f}"
