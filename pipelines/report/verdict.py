"""Can this broker fail? Answers for brokers and verdicts on clusters, for commands, report and views."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

# A survivor that leads more than this many times the mean is hot.
HOT_RATIO = 1.25
_MAX_NAMED = 6  # brokers in a sentence


class Level(StrEnum):
    """How serious a finding is."""

    BAD = "bad"
    WARNING = "warning"
    GOOD = "good"


LEVELS = {Level.BAD: "AT RISK", Level.WARNING: "WARNING", Level.GOOD: "FINE"}


class FailureRisk(NamedTuple):
    """The answer to "can this broker fail?"."""

    level: Level
    answer: str


@dataclass(frozen=True)
class RiskRule:
    """A reason why brokers should not fail: `column` less `baseline` of gold.failure_summary exceeds `limit`."""

    level: Level
    column: str
    # For one broker, with {count} (the difference), {partitions} (the noun) and {worst_survivor}. one, several: What
    # losing one broker, or any of several, does to a cluster, with {count} (partitions of the worst case, from
    # `column`) and {worst}; empty = nothing to say.
    answer: str
    one: str = ""
    several: str = ""
    baseline: str | None = None
    limit: float = 0

    def measure(self, row: Mapping[str, Any]) -> float:
        """Return the difference that is compared with the limit."""
        difference: float = (row[self.column] or 0) - (row[self.baseline] if self.baseline else 0)
        return difference

    def to_sql(self) -> str:
        """Return the rule as a branch of a CASE expression over gold.failure_summary."""
        count = f"{self.column} - {self.baseline}" if self.baseline else self.column
        nouns = f"', if({count} = 1, 'partition', 'partitions'), '"
        text = self.answer.format(count=f"', {count}, '", partitions=nouns, worst_survivor="', worst_survivor, '")
        return f"WHEN {count} > {self.limit} THEN concat('{text}')"


# The first rule that applies to a broker gives the answer. Where nothing goes offline, partitions that are below
# min.insync.replicas now stay below it, so that the rest is the failure's.
RISK_RULES = (
    RiskRule(
        Level.BAD,
        "newly_offline_partitions",
        "No: {count} {partitions} would go offline",
        "takes {count} offline",
        "takes partitions offline (worst case: {worst}, {count})",
    ),
    RiskRule(
        Level.WARNING,
        "unclean_elections",
        "Risky: unclean elections could lose messages in {count} {partitions}",
        "causes unclean elections that could lose messages in {count}",
        "causes unclean elections that could lose messages (worst case: {worst}, {count})",
    ),
    RiskRule(
        Level.WARNING,
        "under_min_isr_partitions",
        "Risky: {count} {partitions} would fall below min.insync.replicas (acks=all blocked)",
        "blocks acks=all producers ({count} below min.insync.replicas)",
        "blocks acks=all producers (worst case: {worst}, {count} below min.insync.replicas)",
        baseline="under_min_isr_before_partitions",
    ),
    RiskRule(Level.WARNING, "worst_survivor_ratio", "Yes, but broker {worst_survivor} would be hot", limit=HOT_RATIO),
)
_SAFE = FailureRisk(Level.GOOD, "Yes")
RISK_SQL = f"CASE {' '.join(rule.to_sql() for rule in RISK_RULES)} ELSE '{_SAFE.answer}' END"


def assess_failure(row: Mapping[str, Any]) -> FailureRisk:
    """Answer "can this broker fail?". row: of gold.failure_summary."""
    for rule in RISK_RULES:
        if (count := rule.measure(row)) > rule.limit:
            noun = "partition" if count == 1 else "partitions"
            answer = rule.answer.format(count=count, partitions=noun, worst_survivor=row["worst_survivor"])
            return FailureRisk(rule.level, answer)
    return _SAFE


@dataclass(frozen=True)
class VerdictPoint:
    """One finding on a cluster."""

    level: Level
    text: str


@dataclass(frozen=True)
class Verdict:
    """The state of a cluster: its worst level, the sentence to read first, and all findings."""

    level: Level
    sentence: str
    points: tuple[VerdictPoint, ...]

    @property
    def headline(self) -> str:
        """The level and the sentence, as in AT RISK: losing broker 2 takes 11 partitions offline."""
        return f"{LEVELS[self.level]}: {self.sentence[0].lower()}{self.sentence[1:]}"


def judge_cluster(
    now: Mapping[str, Any] | None,
    failures: Sequence[Mapping[str, Any]],
    quarantined: int = 0,
    unknown_brokers: Sequence[int] = (),
    missing_partitions: int = 0,
) -> Verdict:
    """Judge a cluster by its row of gold.leader_hotspots and its single failures (broker: `failed`).

    quarantined: rejected records; unknown_brokers: those that may be down, as no source shows whether they are live;
    missing_partitions: those that topics declare, but no source shows.
    """
    points = []
    if now is not None and (offline := now["partitions"] - now["leaders"]):
        points.append(VerdictPoint(Level.BAD, f"{_count(offline, 'partition is', 'partitions are')} offline now."))
    is_known = now is not None and len(failures) > 0
    if is_known:
        points += _judge_failures(failures)
        if now is not None and (ratio := now["max_over_mean_ratio"]) is not None:
            text = f"Broker {now['hottest_broker']} leads the most partitions now: {ratio:.2f} times the mean."
            points.append(VerdictPoint(_heat_level(ratio), text))
    else:
        points.append(VerdictPoint(Level.WARNING, "No live broker is known: failures cannot be evaluated."))
    if quarantined:
        count = _count(quarantined, "record of the sources was", "records of the sources were")
        points.append(
            VerdictPoint(Level.WARNING, f"{count} rejected: run inspect, or see the table silver.quarantine.")
        )
    if missing_partitions:
        missing = _count(missing_partitions, "partition of the topics is", "partitions of the topics are")
        points.append(VerdictPoint(Level.WARNING, f"{missing} not in the sources: no answer covers what is missing."))
    if unknown_brokers:
        points.append(VerdictPoint(Level.WARNING, f"{describe_unknown_brokers(unknown_brokers)}."))
    if not is_known:
        return Verdict(points[0].level, points[0].text, tuple(points[1:]))
    level = next(level for level in Level if level is Level.GOOD or any(point.level is level for point in points))
    sentence = next((point.text for point in points if point.level is level), "")
    if level is Level.GOOD:
        ratio = max(row["worst_survivor_ratio"] or 0 for row in failures)
        heat = f", and no survivor leads more than {ratio:.2f} times the mean" if ratio else ""
        sentence = f"Any single broker can fail: no partition goes offline{heat}."
    return Verdict(level, sentence, tuple(points))


def describe_unknown_brokers(ids: Sequence[int]) -> str:
    """Say that it is unknown whether these brokers are live, and what follows."""
    names = ", ".join(map(str, ids[:_MAX_NAMED])) + (", ..." if len(ids) > _MAX_NAMED else "")
    subject = f"broker {names} is live: it counts" if len(ids) == 1 else f"brokers {names} are live: they count"
    return f"Unknown whether {subject} as live (run inspect for details)"


def _judge_failures(failures: Sequence[Mapping[str, Any]]) -> Iterable[VerdictPoint]:
    for rule in RISK_RULES:
        if rule.baseline and (below := failures[0][rule.baseline]):
            count = _count(below, "partition is", "partitions are")
            block = "blocks" if below == 1 else "block"
            yield VerdictPoint(rule.level, f"{count} below min.insync.replicas now and {block} acks=all producers.")
        rows = [row for row in failures if rule.measure(row) > rule.limit]
        if rows and rule.one:
            worst = max(rows, key=lambda row: row[rule.column])
            count = _count(worst[rule.column], "partition", "partitions")
            effect = (rule.one if len(rows) == 1 else rule.several).format(
                count=count, worst=f"broker {worst['failed']}"
            )
            yield VerdictPoint(rule.level, f"Losing {_name_brokers(rows, len(failures))} {effect}.")
    hot = max(failures, key=lambda row: row["worst_survivor_ratio"] or 0)
    if (ratio := hot["worst_survivor_ratio"]) is not None:
        leads = f"broker {hot['worst_survivor']} leads {ratio:.2f} times the mean"
        yield VerdictPoint(_heat_level(ratio), f"After the worst failure (broker {hot['failed']}), {leads}.")


def _heat_level(ratio: float) -> Level:
    return Level.WARNING if ratio > HOT_RATIO else Level.GOOD


def _name_brokers(rows: Sequence[Mapping[str, Any]], total: int) -> str:
    if len(rows) == total > 1:
        return "any single broker"
    ids = [str(row["failed"]) for row in rows]
    if len(ids) > _MAX_NAMED:
        return f"broker {', '.join(ids[:_MAX_NAMED])} or one of {len(ids) - _MAX_NAMED} more"
    return f"broker {', '.join(ids[:-1])} or {ids[-1]}" if len(ids) > 1 else f"broker {ids[0]}"


def _count(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"
