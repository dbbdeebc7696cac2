"""The page itself: one HTML file with its data, styles, scripts and chart libraries inside; it asks no network."""

from __future__ import annotations

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from pipelines import __version__
from pipelines.errors import SettingsError
from pipelines.report.report_data import Facts

# Of pages that show charts without a network: D3 and Observable Plot, both ISC, as their packages have them.
_LIBRARIES = ("d3.min.js", "plot.umd.min.js")
_SCRIPTS = ("heat.js", "report.js")


def page_of(facts: Facts) -> str:
    """The page's HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_asset("report.html"))
    return template.render(
        title=_title(facts),
        clusters=facts.clusters,
        made_at=facts.made_at,
        version=__version__,
        style=_asset("report.css"),
        libraries=[_asset(name) for name in _LIBRARIES],
        scripts=[_asset(name) for name in _SCRIPTS],
        data=_embedded([_plain(cluster) for cluster in facts.clusters]),
    )


def write_page(facts: Facts, file: Path) -> None:
    """Nothing; the page is this file: as a whole, or as it was before."""
    text = page_of(facts)
    beside = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        raise SettingsError(f"--report {file}: cannot be written: {error.strerror}. Name a file in a folder") from error


def _asset(name: str) -> str:
    return (resources.files("pipelines.report") / "assets" / name).read_text(encoding="utf-8")


def _title(facts: Facts) -> str:
    names = [cluster["cluster_id"] for cluster in facts.clusters]
    return names[0] if len(names) == 1 else f"{len(names)} Kafka clusters"


def _embedded(value: Any) -> str:
    """JSON that no text of it can leave: `<` would end the element that holds it, and so might a comment begin."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any) -> Any:
    """As JSON has it: shorter numbers, no such that it lacks."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)
