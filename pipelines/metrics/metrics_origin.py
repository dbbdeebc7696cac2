"""What --metrics names: a Prometheus server, or files."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pipelines.config.setting_types import VARIABLE
from pipelines.errors import SourceError
from pipelines.ingest.sources import select_option
from pipelines.warehouse_urls import redact_urls

_SERVER = re.compile(r"(?:(?P<name>[^=]*)=)?prometheus=(?P<url>.*)", re.S)
_URL = re.compile(r"https?://[^\s/]+.*", re.S)


class MetricsOrigin(NamedTuple):
    """Where metrics are: the URL of a server, or a file or folder; one of the two is None."""

    url: str | None
    path: Path | None

    def __str__(self) -> str:
        """The origin without secrets."""
        return str(self.path) if self.url is None else f"prometheus={redact_urls(self.url)}"


def select_origin(texts: Sequence[str], cluster: str) -> MetricsOrigin | None:
    """Return the origin for a cluster; None = there is none.

    texts: values of --metrics, ORIGIN or NAME=ORIGIN; those that name the cluster come first.
    Raises: SettingsError if two are for the cluster; SourceError if a file does not exist.
    """
    place = select_option("--metrics", map(_split_name, texts), cluster)
    return None if place is None else _parse_place(place)


def write_option(texts: Sequence[str], cluster: str) -> str:
    """Return --metrics for a command in any folder on this cluster alone, without secrets, quoted for a shell."""
    place = select_option("--metrics", map(_split_name, texts), cluster) or ""
    origin = _parse_place(place)
    text = hide_secrets(place) if origin.path is None else str(origin.path.absolute())
    return shlex.join(("--metrics", text))


def check_places(texts: Sequence[str]) -> None:
    """Raise SourceError if a value of --metrics names no server and no file, before anything else takes time."""
    for text in texts:
        _parse_place(_split_name(text)[1])


def find_unused(texts: Sequence[str], clusters: Sequence[str]) -> list[str]:
    """Return the values of --metrics that name a cluster which is not among these."""
    return [redact_urls(text) for text in texts if (name := _split_name(text)[0]) is not None and name not in clusters]


def hide_secrets(text: str) -> str:
    """Return a value of --metrics for people; one that names variables of the environment has no secret."""
    return text if VARIABLE.search(text) else redact_urls(text)


def _split_name(text: str) -> tuple[str | None, str]:
    """Return the cluster's name, None without one, and the place."""
    if match := _SERVER.fullmatch(text):
        return match["name"], f"prometheus={match['url']}"
    name, separator, rest = text.partition("=")
    return (None, text) if not separator or os.path.lexists(text) else (name, rest)


def _parse_place(place: str) -> MetricsOrigin:
    if place.startswith("prometheus="):
        url = place.removeprefix("prometheus=")
        if not _URL.fullmatch(url):
            problem = "is not the URL of a Prometheus server"
            raise SourceError(
                redact_urls(f"prometheus={url}"), problem, "Write it as in prometheus=http://prometheus:9090"
            )
        return MetricsOrigin(url, None)
    if "://" in place:
        raise SourceError(redact_urls(place), "is not a file", "For a Prometheus server, write prometheus=http://...")
    path = Path(place)
    if not path.exists():
        remedy = "Name a file, a folder, or a server as prometheus=http://prometheus:9090"
        raise SourceError(place, "there is no such file or folder of metrics", remedy)
    return MetricsOrigin(None, path)
