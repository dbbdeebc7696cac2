"""The sentences that a verdict consists of, and the texts that they are made from; statements.py has these."""

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from pipelines.verdict.levels import Level

_SOURCE = re.compile(r"(?<=kafka-placement )([a-z-]+) SOURCE\b")
_FOLDER = re.compile(r"(?<=--out plan-)CLUSTER(?=-[a-z]+)")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")  # in the name of a folder
_PLAN = re.compile(r"kafka-placement plan .*?--goal ([a-z]+)")
DEFAULT_SERVER = "localhost:9092"  # where no source shows host and port of a live broker
_SERVER = f"--bootstrap-server {DEFAULT_SERVER}"
_FORMS = re.compile(r"\[([^\[\]|]*)\|([^\[\]|]*)\]")


class Step(NamedTuple):
    """What to do next under a condition, as {repair} of a statement's step."""

    condition: str  # in words, for docs/verdicts.md; empty = else
    text: str


class Statement(NamedTuple):
    """A sentence of a verdict."""

    level: Level
    condition: str  # in words, for docs/verdicts.md
    text: str
    step: str = ""  # what to do next; empty = nothing
    worst_case: str = ""  # the text where several brokers or racks have this effect, of which {worst} is the worst
    repairs: tuple[Step, ...] = ()  # what {repair} in the step stands for: the first whose condition holds

    def fill(self, n: int = 0, **values: object) -> "VerdictPoint":
        """Return the sentence for these values. n: the count that decides between singular and plural."""
        text = self.worst_case if "worst" in values else self.text
        kind = KINDS.get(self, "")
        return VerdictPoint(self.level, fill_forms(text, n, **values), fill_forms(self.step, n, **values), kind)


@dataclass(frozen=True)
class VerdictPoint:
    """A sentence about one cluster."""

    level: Level
    text: str
    step: str = ""
    kind: str = ""  # the name of its statement in STATEMENTS, as in broker_offline

    @property
    def plan_goal(self) -> str | None:
        """The goal of the plan that the next step makes, as in repair; None = it makes no plan."""
        command = _PLAN.search(self.step)
        return command[1] if command else None

    def name_source(self, source: str, cluster: str) -> "VerdictPoint":
        """Replace the placeholders of the cluster's source and name in the commands of the next step.

        The source must be quoted for a shell.
        """
        folder_name = _UNSAFE.sub("-", cluster)
        step = _SOURCE.sub(lambda command: f"{command[1]} {source}", self.step)
        return replace(self, step=_FOLDER.sub(lambda _: folder_name, step))

    def name_server(self, server: str | None) -> "VerdictPoint":
        """Name the bootstrap server (host:port) in the commands of the next step; None = they stay as they are."""
        return replace(self, step=self.step.replace(_SERVER, f"--bootstrap-server {server or DEFAULT_SERVER}"))


def fill_forms(text: str, n: int, **values: object) -> str:
    """Fill in {n} (with thousands separated) and other names, and choose the form of each `[singular|plural]` by n."""
    forms = _FORMS.sub(r"\1" if n == 1 else r"\2", text)
    return forms.format(n=f"{n:,}", **values)


# The names of the statements that every verdict may have.
KINDS: dict[Statement, str] = {}
