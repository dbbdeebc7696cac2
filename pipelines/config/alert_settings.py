"""[alerts]: what new findings fire an alert, and where alerts go."""

from datetime import date
from typing import Annotated

from pydantic import AfterValidator, Field

from pipelines.config.setting_types import SettingsSection, Text
from pipelines.verdict.levels import Level

_MAX_ENTRIES = 10_000


def _check_pattern(text: str) -> str:
    if not text:
        raise ValueError("the pattern is empty. Write * for all")
    return text


_Pattern = Annotated[Text, AfterValidator(_check_pattern)]


class Acknowledgement(SettingsSection):
    """[[alerts.acknowledged]]: findings that cause no alert until a day. Patterns have *, ? and [...]."""

    cluster: _Pattern = "*"
    issue: _Pattern = "*"
    subject: _Pattern  # topic, or id of a broker
    reason: Text = Field(min_length=1)
    until: date  # the last day (UTC)


class AlertSettings(SettingsSection):
    """[alerts]: what new findings fire an alert, and where alerts go."""

    level: Level
    prometheus_file: Text
    json_file: Text
    webhook: Text
    acknowledged: tuple[Acknowledgement, ...] = Field((), max_length=_MAX_ENTRIES)

    @property
    def have_output(self) -> bool:
        """Whether alerts go anywhere but to stderr."""
        return bool(self.prometheus_file or self.json_file or self.webhook)
