"""What is said of a cluster: how serious it is, as a point of the verdict, and which points what-if answers have."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


_ZOOKEEPER = "--zookeeper localhost:2181"
_SERVERS = r"--bootstrap-server \S+"
# The release from which on a tool has what the pattern matches, and what to write before. With ZooKeeper, whose option
# tools of that age have, as they have no other or, for configs of topics, one that only some releases know.
_OLDER = (
    (202, re.compile(rf"\bkafka-topics {_SERVERS}"), f"kafka-topics {_ZOOKEEPER}"),
    (203, re.compile(r"--(?:under|at)-min-isr-partitions"), "--under-replicated-partitions"),
    (206, re.compile(rf"\bkafka-configs {_SERVERS}"), f"kafka-configs {_ZOOKEEPER}"),
    (206, re.compile(r", or cancel (?:it|them): .*", re.S), ", as tools cancel reassignments only since Kafka 2.6"),
    (206, re.compile(rf"\bkafka-reassign-partitions {_SERVERS}"), f"kafka-reassign-partitions {_ZOOKEEPER}"),
    (
        204,
        re.compile(rf"\bkafka-leader-election {_SERVERS} --election-type (?i:preferred)(?: --all-topic-partitions)?"),
        f"kafka-preferred-replica-election {_ZOOKEEPER}",
    ),
    (300, re.compile(r"; after one, find open transactions: .*"), ""),
)


def use_older_commands(text: str, release_before: int | None) -> str:
    """Return a text with commands that releases before this one have, as 307 for Kafka 3.7; None = not known."""
    for release, pattern, older in _OLDER:
        if release_before is not None and release_before <= release:
            text = pattern.sub(older, text)
    return text


_SOURCE = re.compile(r"(?<=kafka-placement )([a-z-]+) SOURCE\b")
_FOLDER = re.compile(r"(?<=--out plan-)CLUSTER(?=-[a-z]+)")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")  # in the name of a folder
DEFAULT_SERVER = "localhost:9092"  # where no source shows host and port of a live broker
_SERVER = f"--bootstrap-server {DEFAULT_SERVER}"
_FORMS = re.compile(r"\[([^\[\]|]*)\|([^\[\]|]*)\]")


@dataclass(frozen=True)
class NextPlan:
    """A plan that a next step recommends: fields of a plan request."""

    goal: str
    folder: str = ""  # what the name of its folder ends with; empty = the goal
    factor: int | None = None
    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    at_min_isr_partitions: bool = False
    under_min_isr_partitions: bool = False
    new_brokers: tuple[str, ...] = ()  # that do not exist yet, as in 13:eu-1c

    @property
    def command(self) -> str:
        """The command that makes the plan."""
        options = {
            "--rf": str(self.factor or ""),
            "--topics": ",".join(self.topics),
            "--at-min-isr-partitions": self.at_min_isr_partitions,
            "--under-min-isr-partitions": self.under_min_isr_partitions,
            "--brokers": ",".join(map(str, self.brokers)),
            "--add-brokers": ",".join(self.new_brokers),
        }
        chosen = [(name, value) for name, value in options.items() if value]
        words = [name if value is True else f"{name} {shlex.quote(str(value))}" for name, value in chosen]
        folder = f"--out plan-CLUSTER-{self.folder or self.goal}"
        return " ".join(["kafka-placement plan SOURCE --goal", self.goal, *words, folder])


class NextStep(NamedTuple):
    """What to do next, with the first plan that it recommends."""

    text: str
    plan: NextPlan | None = None


NO_STEP = NextStep("")
_SUBJECTS = ("log_dirs", "racks", "rack", "brokers", "broker", "failed")  # values that name what a sentence is about


class Step(NamedTuple):
    """What to do next under a condition, as {repair} of a statement's step."""

    condition: str  # in words, for docs/verdicts.md; empty = else
    text: str
    goal: str = ""  # of the plan whose command {plan} stands for

    def fill(self, n: int = 0, plan: NextPlan | None = None, **values: object) -> NextStep:
        """Return the step for these values; plan: by default, one with the goal alone."""
        return fill_step(self.text, n, plan or NextPlan(self.goal), **values)


class Statement(NamedTuple):
    """A sentence of a verdict."""

    level: Level
    condition: str  # in words, for docs/verdicts.md
    text: str
    step: str = ""  # what to do next; empty = nothing
    worst_case: str = ""  # the text where several brokers or racks have this effect, of which {worst} is the worst
    repairs: tuple[Step, ...] = ()  # what {repair} in the step stands for: the first whose condition holds
    goal: str = ""  # of the plan whose command {plan} in the step stands for

    def fill(
        self, n: int = 0, plan: NextPlan | None = None, topic_names: Sequence[str] = (), **values: object
    ) -> "VerdictPoint":
        """Return the sentence for these values.

        n: the count that decides between singular and plural; topic_names: the first topics that it affects.
        """
        text = self.worst_case if "worst" in values else self.text
        step = fill_step(self.step, n, plan or NextPlan(self.goal), **values)
        subject = next((f"{values[name]}" for name in _SUBJECTS if name in values), None)
        head = (self.level, fill_forms(text, n, **values), step.text, KINDS.get(self, ""), step.plan)
        return VerdictPoint(*head, n, tuple(topic_names), subject)


def fill_step(template: str, n: int, plan: NextPlan, **values: object) -> NextStep:
    """Fill in a next step; {plan} is the command of the plan, and values that are steps bring theirs."""
    plans = [value.plan for value in values.values() if isinstance(value, NextStep) and value.plan]
    plans += [plan] if "{plan}" in template else []
    texts = {name: value.text if isinstance(value, NextStep) else value for name, value in values.items()}
    return NextStep(fill_forms(template, n, plan=plan.command, **texts), next(iter(plans), None))


@dataclass(frozen=True)
class VerdictPoint:
    """A sentence about one cluster."""

    level: Level
    text: str
    step: str = ""
    kind: str = ""  # the name of its statement in STATEMENTS, as in broker_offline
    plan: NextPlan | None = None  # that the next step makes first
    affected: int = 0  # what it counts: partitions, brokers, topics or records
    topics: tuple[str, ...] = ()  # the first topics that it affects
    subject: str | None = None  # brokers, racks or log dirs that it is about; None = the cluster

    def omit_step(self) -> "VerdictPoint":
        """Leave out the next step."""
        return replace(self, step="", plan=None)

    def name_source(self, source: str, cluster: str) -> "VerdictPoint":
        """Replace the placeholders of the cluster's source and name in the commands of the next step.

        The source must be quoted for a shell.
        """
        folder_name = _UNSAFE.sub("-", cluster)
        step = _SOURCE.sub(lambda command: f"{command[1]} {source}", self.step)
        return replace(self, step=_FOLDER.sub(lambda _: folder_name, step))

    def name_server(self, server: str | None, release_before: int | None = None) -> "VerdictPoint":
        """Name the bootstrap server (host:port) in the commands of the next step; None = they stay as they are.

        release_before: brokers run an earlier release than this one, whose commands are used; None = not known.
        """
        step = self.step.replace(_SERVER, f"--bootstrap-server {server or DEFAULT_SERVER}")
        return replace(self, step=use_older_commands(step, release_before))


def fill_forms(text: str, n: int, **values: object) -> str:
    """Fill in {n} (with thousands separated) and other names, and choose the form of each `[singular|plural]` by n."""
    forms = _FORMS.sub(r"\1" if n == 1 else r"\2", text)
    return forms.format(n=f"{n:,}", **values)


# The names of the statements that every verdict may have.
KINDS: dict[Statement, str] = {}
