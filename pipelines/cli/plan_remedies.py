"""What to do where no plan complies with a request."""

from collections.abc import Iterator

from pipelines.cli.plan_command_line import PlanCommandLine
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import COPYING_GOALS, build_rules
from udfs.planning.plan_request import PlanRequest
from udfs.planning.replicas.count_limits import find_lost_racks


def list_remedies(model: ClusterModel, request: PlanRequest, command: PlanCommandLine) -> Iterator[str]:
    """List the commands that avoid that racks lose their last broker; nothing for other reasons."""
    lost = find_lost_racks(model, build_rules(model, request)) if request.goal in COPYING_GOALS else []
    if not len(lost):
        return
    first = int(model.broker_ids.max()) + 1
    names = [model.rack_names[rack] for rack in lost]
    ids = ",".join(f"{first + i}:{name}" for i, name in enumerate(names))
    brokers, its = ("another broker", "its id") if len(lost) == 1 else ("other brokers", "their ids")
    racks = f"{'rack' if len(lost) == 1 else 'racks'} {', '.join(names)}"
    yield f"  start {brokers} in {racks}, then use {its} in: {command.change({'--add-brokers': (ids,)})}"
    yield f"  or give up {racks}: {command.with_flag('--allow-empty-racks').change({})}"
