"""How serious a finding is, and whether a broker can fail: the answer in Python and in SQL."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple


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


class FailureRisk(NamedTuple):
    """The answer to "can this broker fail?"."""

    level: Level
    answer: str


@dataclass(frozen=True)
class FailureRule:
    """A reason why brokers should not fail: `column` of gold.failure_summary is above 0."""

    level: Level
    column: str
    answer: str  # with {count} and {partitions} (the noun)

    def count(self, row: Mapping[str, Any]) -> int:
        """Return the partitions."""
        return row[self.column] or 0

    @property
    def answer_sql(self) -> str:
        """The answer as SQL over gold.failure_summary."""
        noun = f"', if({self.column} = 1, 'partition', 'partitions'), '"
        text = self.answer.format(count=f"', {self.column}, '", partitions=noun)
        return f"concat('{text}')"


NEWLY_OFFLINE = FailureRule(Level.AT_RISK, "newly_offline_partitions", "No: {count} {partitions} would go offline")
UNCLEAN = FailureRule(
    Level.WARNING, "unclean_elections", "Risky: unclean elections could lose messages in {count} {partitions}"
)
NEWLY_UNDER_MIN_ISR = FailureRule(
    Level.WARNING,
    "newly_under_min_isr_partitions",
    "Risky: {count} {partitions} would fall below min.insync.replicas (acks=all blocked)",
)
NO_MAJORITY = "No: no majority of voters would be left, so that no leader could be elected"
# The first rule that applies gives the answer.
FAILURE_RULES = (NEWLY_OFFLINE, UNCLEAN, NEWLY_UNDER_MIN_ISR)
_SAFE, _HOT = "Yes", "Yes, but broker {} would be hot"
_HOT_TEXT = _HOT.format("', hot_survivor, '")
_ANSWERS_SQL = " ".join(f"WHEN {rule.column} > 0 THEN {rule.answer_sql}" for rule in FAILURE_RULES)
_STOPS_SQL = "CASE WHEN NOT leaves_majority THEN"
_HOT_SQL = f"WHEN hot_survivor IS NOT NULL THEN concat('{_HOT_TEXT}') ELSE '{_SAFE}' END"
ANSWER_SQL = f"{_STOPS_SQL} '{NO_MAJORITY}' {_ANSWERS_SQL} {_HOT_SQL}"
_LEVELS_SQL = " ".join(f"WHEN {rule.column} > 0 THEN '{rule.level}'" for rule in FAILURE_RULES)
LEVEL_SQL = (
    f"{_STOPS_SQL} '{Level.AT_RISK}' {_LEVELS_SQL} "
    f"WHEN hot_survivor IS NOT NULL THEN '{Level.WARNING}' ELSE '{Level.OK}' END"
)


def assess_failure(row: Mapping[str, Any]) -> FailureRisk:
    """Answer "can this broker fail?". row: of gold.failure_summary."""
    if row["leaves_majority"] is False:
        return FailureRisk(Level.AT_RISK, NO_MAJORITY)
    for rule in FAILURE_RULES:
        if (count := rule.count(row)) > 0:
            noun = "partition" if count == 1 else "partitions"
            return FailureRisk(rule.level, rule.answer.format(count=count, partitions=noun))
    if row["hot_survivor"] is not None:
        return FailureRisk(Level.WARNING, _HOT.format(row["hot_survivor"]))
    return FailureRisk(Level.OK, _SAFE)
