"""Writes docs/verdicts.md from the statements; `make docs` calls it."""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from pipelines.verdict.failure_causes import CAUSES
from pipelines.verdict.statements import STATEMENTS
from pipelines.verdict.verdict_points import Level, NextPlan, Statement

_INTRODUCTION = """# Verdicts

`what-if`, the end of `run`, the report and the views judge a cluster by the same sentences. A verdict has the level of
its most serious sentence, which is its headline; the others follow, the most serious first.

| level | meaning |
|---|---|
| At risk | partitions are, or after one failure would be, offline; or they block producers; or a broker is down |
| Warning | nothing is offline, but something should be done |
| Unknown | no problem is known, but the sources do not show enough for OK |
| OK | any single broker can fail, and any single rack if there are several |

Each section is named as the finding in `gold.findings` and in JSON. It says when the finding applies, then its
sentence, also for several brokers or racks, and what to do next.

In the sentences, `{n}` is a count, `[one|several]` depends on it, and names in braces are filled in. `{topics}`
names the topics with most of the partitions, with their number of partitions. SOURCE is the cluster's file or folder:
`what-if` and `run` print its path, also in the report that `run` writes. CLUSTER is its name. In Kafka's commands,
host and port of a live broker stand for `localhost:9092` where the sources show them.

The conditions refer to `silver.partitions` (`online`, `under_replicated`, `under_min_isr`, `successor`,
`rack_successor`) and to `gold.failure_summary` of the scheme `observed`; see [tables.md](tables.md).
"""

_CAUSES = """## Causes of a failure's effects

`what-if --fail` says why partitions would go offline or block producers:
"""

_COMMAND = re.compile(r"(?<=: )(echo|kafka-)[^;]*?(?=\{others\}|\{repair_first\}|;|$)")
# Options of the commands of plans, by goal.
_OPTIONS: dict[str, dict[str, Any]] = {
    "rf": {"factor": "N", "topics": ("TOPICS",)},
    "expand": {"new_brokers": ("ID:RACK",)},
}


def render_page() -> str:
    """Return docs/verdicts.md."""
    lines = [_INTRODUCTION]
    for level in Level:
        lines.append(f"## {level.label.capitalize() if level is not Level.OK else level.label}\n")
        lines += _render((kind, one) for kind, one in STATEMENTS.items() if one.level is level)
    return "\n".join([*lines, _CAUSES, *_render(("", cause) for cause in CAUSES)]).rstrip() + "\n"


def _render(statements: Iterable[tuple[str, Statement]]) -> Iterator[str]:
    """Yield for each statement its kind, if it has one, as a heading, then when it is said, its text and next steps."""
    for kind, statement in statements:
        if kind:
            yield f"### {kind}\n"
        yield f"{statement.condition}\n"
        texts = filter(None, (statement.text, statement.worst_case))
        yield from (f"> {text}\n" for text in texts)
        for one in statement.repairs:
            step = _name_plan(statement.step.replace("{repair}", one.text), one.goal)
            yield f"- {f'If {one.condition}' if one.condition else 'Else'}: {_mark_commands(step)}"
        if statement.step and not statement.repairs:
            yield f"- Next: {_mark_commands(_name_plan(statement.step, statement.goal))}"
        if statement.step:
            yield ""


def _mark_commands(step: str) -> str:
    return _COMMAND.sub(r"`\g<0>`", step)


def _name_plan(step: str, goal: str) -> str:
    """Show the command of a plan in a step."""
    return step.replace("{plan}", NextPlan(goal, **_OPTIONS.get(goal, {})).command)


if __name__ == "__main__":
    sys.stdout.write(render_page())
