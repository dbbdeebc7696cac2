"""[metrics]: where the loads of topics and brokers are from, and which of them count."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from pipelines.config.setting_types import SettingsSection, Text

_DURATION = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SECONDS = (604_800, 86_400, 3_600, 60, 1)
_MAX_S = 400 * 86_400
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def parse_duration(text: Any) -> int:
    """Return the seconds of a duration as Prometheus writes it, as in 7d or 1h30m. Raises: ValueError."""
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) and len(text) < 40 else None
    parts = [int(part) if part else 0 for part in match.groups()] if match else [0]
    seconds = sum(part * unit for part, unit in zip(parts, _SECONDS, strict=False))
    if not 0 < seconds <= _MAX_S:
        raise ValueError("write a time of at most 400 days, as in 7d, 12h or 1h30m")
    return seconds


def print_window(seconds: int) -> str:
    """Write a duration as Prometheus does, as in 7d or 1h30m."""
    text = ""
    for unit, letter in zip(_SECONDS[1:], "dhms", strict=True):  # weeks as days
        count, seconds = divmod(seconds, unit)
        text += f"{count}{letter}" if count else ""
    return text


def _check_label(name: str) -> str:
    if name and not _LABEL.fullmatch(name):
        raise ValueError("write the name of a label, as in cluster")
    return name


Duration = Annotated[int, BeforeValidator(parse_duration)]
Label = Annotated[Text, AfterValidator(_check_label)]


class MetricsSettings(SettingsSection):
    """[metrics]: loads from Prometheus or from files; window and step in seconds."""

    window: Duration
    statistic: Literal["mean", "p95", "peak"]
    step: Duration
    cluster_label: Label
    labels: Mapping[Label, Text]
    broker_label: Label
    broker_value: Literal["id", "host"]
    names_file: Text
    headers: Mapping[Annotated[Text, Field(min_length=1)], Text]
