"""Draw what plans copy against what a failure does after them, as an SVG image. Lower and further left is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from tests.bench.line_chart import svg_text, write_svg

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 760, 400, 60, 50, 540, 340
_COLOURS = ("#7f7f7f", "#1f77b4", "#17becf", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#ff7f0e", "#e377c2")
_LEAST_TB, _MOST_RATIO, _TARGET = 0.003, 3.0, 1.15


def draw_front(points: Sequence[tuple[str, float, float]], file: Path) -> None:
    """Draw points (planner, TB copied on a logarithmic axis, bytes out of the worst survivor over the mean)."""
    most = max((tb for _, tb, _ in points), default=1.0)
    decades = math.log10(most / _LEAST_TB)

    def place(tb: float, ratio: float) -> tuple[float, float]:
        x = _LEFT + (_RIGHT - _LEFT) * math.log10(max(tb, _LEAST_TB) / _LEAST_TB) / decades
        y = _BOTTOM - (_BOTTOM - _TOP) * (min(ratio, _MOST_RATIO) - 1.0) / (_MOST_RATIO - 1.0)
        return round(x, 1), round(y, 1)

    names = list(dict.fromkeys(name for name, _, _ in points))
    parts = [svg_text(_LEFT, 24, "What plans copy, and the most loaded survivor of any failure after them", 15)]
    for ratio in (1.0, 1.5, 2.0, 2.5, 3.0):
        y = place(1.0, ratio)[1]
        parts.append(
            f'<path d="M{_LEFT} {y}H{_RIGHT}" stroke="#ddd"/>{svg_text(_LEFT - 8, y + 4, f"{ratio:.1f}", anchor="end")}'
        )
    y = place(1.0, _TARGET)[1]
    parts.append(f'<path d="M{_LEFT} {y}H{_RIGHT}" stroke="#d62728" stroke-dasharray="4"/>')
    for tb in (0.01, 0.1, 1, 10, 100):
        if tb <= most:
            x = place(tb, 1.0)[0]
            parts.append(svg_text(x, _BOTTOM + 18, f"{tb:g} TB", anchor="middle"))
    parts.append(svg_text((_LEFT + _RIGHT) / 2, _BOTTOM + 40, "copied; dashed: the target of 1.15", anchor="middle"))
    for name, tb, ratio in points:
        x, y = place(tb, ratio)
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{_COLOURS[names.index(name) % len(_COLOURS)]}"/>')
    for i, name in enumerate(names):
        parts.append(svg_text(_RIGHT + 16, _TOP + 18 * i, name, colour=_COLOURS[i % len(_COLOURS)]))
    write_svg(parts, _WIDTH, _HEIGHT, file)
