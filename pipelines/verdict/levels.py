"""How serious a finding is."""

from enum import StrEnum


class Level(StrEnum):
    """The level of a finding or of a verdict, the most serious first."""

    AT_RISK = "at_risk"
    WARNING = "warning"
    UNKNOWN = "unknown"  # the sources do not show enough for OK
    OK = "ok"

    @property
    def label(self) -> str:
        """The level as people read it, as in AT RISK."""
        return self.value.replace("_", " ").upper()
