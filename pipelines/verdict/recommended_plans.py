"""The plans that the next steps of a verdict recommend, read from their commands."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pipelines.verdict.judgement import Verdict
from pipelines.verdict.statements import STATEMENTS

_COMMAND = re.compile(r"kafka-placement plan .*?--goal ([a-z]+)((?: --(?!out )[a-z-]+(?: (?!--)\S+)?)*)")
_OPTION = re.compile(r"--([a-z-]+)(?: ((?!--)\S+))?")
# Findings whose repair spreads replicas over racks: a restart of a broker that is down does not replace it.
_SPREADING_KINDS = frozenset({"rack_offline", "rack_under_min_isr"})
_FACTOR = re.compile(r"--goal rf --rf ([0-9]+) --topics (\S+)")
# Of plans that a run cannot make, as these brokers do not exist yet
_NEW_BROKERS = "--add-brokers"
_NEW_BROKER_LIST = re.compile(rf"--goal expand {_NEW_BROKERS} (.+?) --out ")
# Options as fields of a plan request.
_FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "rf": ("factor", int),
        "topics": ("topics", lambda text: tuple(sorted(text.split(",")))),
        "brokers": ("brokers", lambda text: tuple(sorted(map(int, text.split(","))))),
        "at-min-isr-partitions": ("at_min_isr_partitions", lambda _: True),
        "under-min-isr-partitions": ("under_min_isr_partitions", lambda _: True),
    }
)

# Goals of all plans that next steps can recommend and that a run can make.
RECOMMENDABLE_GOALS = tuple(
    sorted(
        {
            command[1]
            for statement in STATEMENTS.values()
            for text in (statement.step, *(repair.text for repair in statement.repairs))
            for command in _COMMAND.finditer(text)
            if _NEW_BROKERS not in command[0]
        }
    )
)


@dataclass(frozen=True)
class RecommendedPlan:
    """A plan that next steps of a verdict recommend."""

    goal: str
    step: str  # the next step of the most serious finding that recommends it, with its command
    kinds: tuple[str, ...]  # of all findings that recommend it, the most serious first: names of their statements

    @property
    def fields(self) -> dict[str, Any]:
        """The options of the command as fields of a plan request, as in {"factor": 3, "topics": ("a", "b")}."""
        command = _COMMAND.search(self.step)
        options = _OPTION.findall(command[2]) if command else []
        return {name: parse(text) for option, text in options for name, parse in [_FIELDS[option]]}

    @property
    def replaces_restart(self) -> bool:
        """Whether it is a repair only of what brokers that are down lack, so that their restart makes it needless."""
        return self.goal == "repair" and not _SPREADING_KINDS.intersection(self.kinds)

    @property
    def new_broker_racks(self) -> list[str]:
        """The rack of each new broker that the plan needs; empty = a run can make the plan."""
        brokers = _NEW_BROKER_LIST.search(self.step)
        names = shlex.split(brokers[1])[0].split(",") if brokers else []
        return [name.partition(":")[2] for name in names]


def list_recommended_plans(verdict: Verdict) -> list[RecommendedPlan]:
    """List the plans that the next steps recommend and that a run can make, in the order of list_all_plans."""
    return [plan for plan in list_all_plans(verdict) if not plan.new_broker_racks]


def list_all_plans(verdict: Verdict) -> list[RecommendedPlan]:
    """List the plans that the next steps recommend, one per goal, those of the most serious findings first.

    Two steps that raise the replication factor of topics to the same number are one plan. Plans that need new brokers
    are among them.
    """
    steps: dict[str, str] = {}
    kinds: dict[str, tuple[str, ...]] = {}
    for point in verdict.points:
        if goal := point.plan_goal:
            steps[goal] = _add_topics(steps.get(goal, point.step), point.step)
            kinds[goal] = (*kinds.get(goal, ()), point.kind)
    return [RecommendedPlan(goal, step, kinds[goal]) for goal, step in steps.items()]


def _add_topics(step: str, other: str) -> str:
    """Add the topics of another step to the command of a step that sets the same replication factor."""
    both = [_FACTOR.search(text) for text in (step, other)]
    if not both[0] or not both[1] or both[0][1] != both[1][1]:
        return step
    names = dict.fromkeys(name for match in both if match for name in match[2].split(","))
    return f"{step[: both[0].start(2)]}{','.join(names)}{step[both[0].end(2) :]}"
