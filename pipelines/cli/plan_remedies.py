"""What to do where no plan complies with a request."""

from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.cli.plan_command_line import PlanCommandLine
from pipelines.verdict.cluster_evidence import MAX_COMMAND_TOPICS
from udfs.planning.cluster_model import ClusterModel, FreezeReason, Ints
from udfs.planning.constraints import COPYING_GOALS, Rules, build_rules, count_places
from udfs.planning.plan_making import freeze_partitions_on_down_brokers
from udfs.planning.plan_request import PlanRequest
from udfs.planning.replicas.count_limits import find_lost_racks
from udfs.plurals import count_of, join_names


def list_remedies(model: ClusterModel, request: PlanRequest, command: PlanCommandLine) -> Iterator[str]:
    """List the commands for what must be repaired first, racks without brokers, and too few brokers; else nothing."""
    if request.goal not in COPYING_GOALS:
        return
    model = freeze_partitions_on_down_brokers(model, request)
    rules = build_rules(model, request)
    waits = np.isin(model.frozen, (FreezeReason.DOWN_REPLICA, FreezeReason.FAILED_DIR))
    if request.goal in ("drain", "replace") and (waits[model.row] & rules.must_leave[model.replicas]).any():
        yield f"  first: {PlanCommandLine(command.source, {'--goal': ('repair',)}).change({})}"
    elif lost := find_lost_racks(model, rules):
        yield from _replace_racks(model, command, lost)
    else:
        yield from _find_more_brokers(model, request, rules, command)


def _replace_racks(model: ClusterModel, command: PlanCommandLine, lost: Sequence[int]) -> Iterator[str]:
    first = int(model.broker_ids.max()) + 1
    names = [model.rack_names[rack] for rack in lost]
    ids = ",".join(f"{first + i}:{name}" for i, name in enumerate(names))
    brokers, its = ("another broker", "its id") if len(lost) == 1 else ("other brokers", "their ids")
    racks = f"{'rack' if len(lost) == 1 else 'racks'} {', '.join(names)}"
    yield f"  start {brokers} in {racks}, then use {its} in: {command.change({'--add-brokers': (ids,)})}"
    yield f"  or give up {racks}: {command.with_flag('--allow-empty-racks').change({})}"


def _find_more_brokers(
    model: ClusterModel, request: PlanRequest, rules: Rules, command: PlanCommandLine
) -> Iterator[str]:
    """List what to do where partitions should have more replicas than brokers can hold: more brokers, or fewer."""
    places = count_places(model, rules.receives, rules.must_leave | ~model.live).sum(axis=1)
    short = np.flatnonzero(~rules.fixed & (places < rules.factor))
    if not len(short):
        return
    missing = int((rules.factor - places)[short].max())
    down = model.broker_ids[~model.live & ~np.isin(model.broker_ids, request.exclude_brokers)].tolist()
    restart = f"restart {'broker' if len(down) == 1 else 'brokers'} {join_names(down)}, or " if down else ""
    racks = [model.rack_names[rack] for rack in np.argsort(np.bincount(model.rack[model.live])) if model.rack_names]
    first = int(model.broker_ids.max()) + 1
    ids = ",".join(f"{first + i}:{racks[i % len(racks)]}" if racks else f"{first + i}" for i in range(missing))
    its = "its id" if missing == 1 else "their ids"
    yield f"  {restart}add {count_of(missing, 'broker')}, and use {its} in: {command.change({'--add-brokers': (ids,)})}"
    most = int(places[short].min())
    if most < 1 or most == request.factor:
        return
    gone = f"if {'it does' if len(down) == 1 else 'they do'} not return, " if down else ""
    yield f"  or, {gone}do with fewer replicas: {lower_factor(model, short, most, command.source)}"


def lower_factor(model: ClusterModel, rows: Ints, factor: int, source: str) -> str:
    """Return the command that gives the topics of partitions (int64) fewer replicas."""
    topics = sorted({model.topic_names[topic] for topic in model.topic[rows].tolist()})
    names, more = ",".join(topics[:MAX_COMMAND_TOPICS]), len(topics) - MAX_COMMAND_TOPICS
    options = {"--goal": ("rf",), "--rf": (str(factor),), "--topics": (names,)}
    others = f", and for {count_of(more, 'more topic')}" if more > 0 else ""
    return f"{PlanCommandLine(source, options).change({})}{others}"


def explain_few_brokers(model: ClusterModel, source: str) -> str:
    """Return what to do for the partitions that a repair leaves, as too few live brokers can hold their replicas."""
    rows = np.flatnonzero(model.frozen == FreezeReason.FEW_BROKERS)
    places = count_places(model, model.live & ~model.draining, ~model.live).sum(axis=1)
    lower = lower_factor(model, rows, max(int(places[rows].min()), 1), source)
    return f"Restart or add brokers, or do with fewer replicas: {lower}"
