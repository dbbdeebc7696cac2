"""Can this broker fail? Answers for brokers and verdicts on clusters, for commands, report and views."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

# A survivor that leads more than this many times the mean is hot.
HOT_RATIO = 1.25
_MAX_NAMED = 6  # brokers or topics in a sentence, and warnings


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


@dataclass(frozen=True)
class ClusterFindings:
    """What is wrong with a cluster already, and what its sources lack. Lists of names may be shortened."""

    down_brokers: Sequence[int] = ()
    under_replicated_partitions: int = 0
    offline_partitions_of_deleted_topics: int = 0  # of topics that are marked for deletion
    reassigned_partitions: int = 0  # replicas are being added or removed
    quarantined_records: int = 0
    unused_files: Sequence[str] = ()  # of which nothing is used
    incomplete_topics: int = 0  # of which the sources do not show, or may not show, all partitions
    incomplete_topic_names: Sequence[str] = ()
    missing_partitions: int = 0  # that topics declare, but no source shows
    unplaced_partitions: int = 0  # of which no source shows the replicas: no answer covers them
    inferred_partitions: int = 0  # no source shows their leader or ISR: they count as healthy
    unknown_brokers: Sequence[int] = ()  # no source shows whether they are live
    identity_conflicts: int = 0  # two ids of a topic, or two hosts of a broker
    config_conflicts: int = 0  # two values of a config that decides which failures a topic survives
    warnings: Sequence[str] = ()  # sentences without full stop: a failed command, a listing of selected partitions


def judge_cluster(
    now: Mapping[str, Any] | None, failures: Sequence[Mapping[str, Any]], findings: ClusterFindings = ClusterFindings()
) -> Verdict:
    """Judge a cluster by its row of gold.leader_hotspots, its single failures (broker: `failed`) and its findings."""
    deleted = findings.offline_partitions_of_deleted_topics
    points = []
    if now is not None and (offline := now["partitions"] - now["leaders"] - deleted):
        points.append(VerdictPoint(Level.BAD, f"{_count(offline, 'partition is', 'partitions are')} offline now."))
    is_known = now is not None and len(failures) > 0
    if not is_known:
        points.append(VerdictPoint(Level.WARNING, "No live broker is known: failures cannot be evaluated."))
    points += _judge_present(findings, now["partitions"] if now is not None else 0)
    if is_known:
        points += _judge_failures(failures)
    points += [VerdictPoint(Level.WARNING, text) for text in describe_source_findings(findings)]
    if is_known:
        points += _judge_load(now, failures)
    if not is_known:
        return Verdict(points[0].level, points[0].text, tuple(points[1:]))
    level = next(level for level in Level if level is Level.GOOD or any(point.level is level for point in points))
    sentence = next((point.text for point in points if point.level is level), "")
    if level is Level.GOOD:
        ratio = max(row["worst_survivor_ratio"] or 0 for row in failures)
        heat = f", and no survivor leads more than {ratio:.2f} times the mean" if ratio else ""
        sentence = f"Any single broker can fail: no partition goes offline{heat}."
    return Verdict(level, sentence, tuple(points))


def _judge_present(findings: ClusterFindings, partitions: int) -> Iterable[VerdictPoint]:
    if down := findings.down_brokers:
        names, is_one = name_some(down), len(down) == 1
        yield VerdictPoint(Level.WARNING, f"Broker {names} is down." if is_one else f"Brokers {names} are down.")
    if count := findings.under_replicated_partitions:
        verb = "is" if count == 1 else "are"
        text = f"{count} of {_count(partitions, 'partition', 'partitions')} {verb} under-replicated."
        yield VerdictPoint(Level.WARNING, text)
    if count := findings.offline_partitions_of_deleted_topics:
        subject = _count(count, "offline partition belongs", "offline partitions belong")
        yield VerdictPoint(Level.GOOD, f"{subject} to topics that are marked for deletion.")
    if count := findings.reassigned_partitions:
        yield VerdictPoint(Level.GOOD, f"{_count(count, 'partition is', 'partitions are')} being reassigned.")


def describe_source_findings(findings: ClusterFindings) -> Iterable[str]:
    """Say in sentences what the sources lack, so that any answer on the cluster may be wrong."""
    yield from (f"{warning}." for warning in findings.warnings[:_MAX_NAMED])
    if (more := len(findings.warnings) - _MAX_NAMED) > 0:
        yield f"{_count(more, 'more warning', 'more warnings')}: run inspect."
    if count := findings.quarantined_records:
        subject = _count(count, "record of the sources is", "records of the sources are")
        yield f"{subject} quarantined and left out of every answer: run inspect to see why."
    if files := findings.unused_files:
        count_text = _count(len(files), "file", "files")
        yield f"Nothing is used of {count_text} ({name_some(files)}): run inspect to see why."
    if count := findings.incomplete_topics:
        names = name_some(findings.incomplete_topic_names, count)
        missing = findings.missing_partitions
        lack = f"; {_count(missing, 'partition is', 'partitions are')} missing" if missing else ""
        subject = _count(count, "topic is", "topics are")
        yield f"{subject} not fully shown by the sources ({names}){lack}: no answer covers what is missing."
    if count := findings.unplaced_partitions:
        yield f"No source shows the replicas of {_count(count, 'partition', 'partitions')}: no answer covers them."
    if count := findings.inferred_partitions:
        subject = _count(count, "partition", "partitions")
        yield f"The sources do not show leader or ISR of {subject}: healthy is assumed."
    if findings.identity_conflicts:
        yield "The sources name different ids of a topic or different hosts of a broker: they may be of two clusters."
    if count := findings.config_conflicts:
        conflicts = _count(count, "conflict", "conflicts")
        yield (
            "The sources show different values of min.insync.replicas or unclean.leader.election.enable "
            f"({conflicts}): the first is used (run inspect for details)."
        )
    if findings.unknown_brokers:
        yield f"{describe_unknown_brokers(findings.unknown_brokers)}."


def _judge_load(now: Mapping[str, Any] | None, failures: Sequence[Mapping[str, Any]]) -> Iterable[VerdictPoint]:
    hot = max(failures, key=lambda row: row["worst_survivor_ratio"] or 0)
    if (ratio := hot["worst_survivor_ratio"]) is not None:
        leads = f"broker {hot['worst_survivor']} leads {ratio:.2f} times the mean"
        yield VerdictPoint(_heat_level(ratio), f"After the worst failure (broker {hot['failed']}), {leads}.")
    if now is not None and (ratio := now["max_over_mean_ratio"]) is not None:
        text = f"Broker {now['hottest_broker']} leads the most partitions now: {ratio:.2f} times the mean."
        yield VerdictPoint(_heat_level(ratio), text)


def name_some(items: Sequence[object], count: int | None = None) -> str:
    """Name the first items, as in `1, 2, 3, 4, 5, 6 and 2 more`. count: how many there are, if not all are given."""
    more = (count or len(items)) - min(len(items), _MAX_NAMED)
    return ", ".join(map(str, items[:_MAX_NAMED])) + (f" and {more} more" if more else "")


def describe_unknown_brokers(ids: Sequence[int]) -> str:
    """Say that it is unknown whether these brokers are live, and what follows."""
    names = name_some(ids)
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
