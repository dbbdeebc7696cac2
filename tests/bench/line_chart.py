"""Draw lines over nights as an SVG image, for the documentation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

_WIDTH, _HEIGHT, _LEFT, _TOP, _PANEL = 760, 360, 60, 40, 480
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#ff7f0e")


def draw_lines(lines: Mapping[str, Sequence[tuple[float, float]]], title: str, x_name: str, file: Path) -> None:
    """Draw each line from its points, with its name and last value at its end; both axes begin at 0."""
    x_max = max(x for points in lines.values() for x, _ in points)
    y_max = 20 * math.ceil(max(y for points in lines.values() for _, y in points) / 20)
    bottom = _HEIGHT - 50

    def place(x: float, y: float) -> tuple[float, float]:
        return round(_LEFT + _PANEL * x / x_max, 1), round(bottom - (bottom - _TOP) * y / y_max, 1)

    parts = [svg_text(_LEFT, 22, title, 15)]
    for tick in range(5):
        y = y_max * tick / 4
        parts.append(f'<path d="M{_LEFT} {place(0, y)[1]}h{_PANEL}" stroke="#ccc"/>')
        parts.append(svg_text(_LEFT - 8, place(0, y)[1] + 4, f"{y:.0f}", anchor="end"))
    marks = sorted({x for points in lines.values() for x, _ in points})
    parts += [svg_text(place(x, 0)[0], bottom + 18, f"{x:.0f}", anchor="middle") for x in marks]
    parts.append(svg_text(_LEFT + _PANEL / 2, bottom + 38, x_name, anchor="middle"))
    ends = sorted(((place(*points[-1])[1], name) for name, points in lines.items()), key=lambda end: end[0])
    label = 0.0
    for y_end, name in ends:
        points, colour = lines[name], _COLOURS[list(lines).index(name) % len(_COLOURS)]
        path = " ".join(",".join(map(str, place(*point))) for point in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = max(y_end + 4, label + 16)  # labels do not cover each other
        parts.append(svg_text(_LEFT + _PANEL + 10, label, f"{name}: {points[-1][1]:.1f}", colour=colour))
    write_svg(parts, _WIDTH, _HEIGHT, file)


def write_svg(parts: Sequence[str], width: int, height: int, file: Path) -> None:
    """Write the elements of an image on a white ground."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    body = "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"])
    file.write_text(f"{body}\n", encoding="utf-8")


def svg_text(x: float, y: float, text: str, size: int = 12, anchor: str = "start", colour: str = "#333") -> str:
    """Return an element of text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{escape(text, quote=False)}'
        "</text>"
    )
