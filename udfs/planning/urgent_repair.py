"""The part of a repair that producers wait for: partitions with fewer in-sync replicas than min.insync.replicas."""

from dataclasses import dataclass, replace

import numpy as np

from udfs.arrow.ragged import row_of
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest, build_rules
from udfs.planning.failed_dirs import split_failed_dirs
from udfs.planning.plan_execution import prepare_execution
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest
from udfs.planning.waves import WaveLimits

_LISTED = 3  # partitions by name


@dataclass(frozen=True)
class UrgentRepair:
    """A repair of only the partitions below min.insync.replicas."""

    partitions: int
    first_partitions: list[str]
    bytes_to_copy: int | None  # None = of unknown size
    seconds: float  # Estimated duration of copying


def find_urgent_repair(
    model: ClusterModel, request: PlanRequest, proposal: ProposedAssignment, limits: WaveLimits
) -> UrgentRepair | None:
    """Find the repair of only the partitions below min.insync.replicas; None if a plan repairs none, or no others."""
    if request.goal != "repair" or request.at_min_isr_partitions or request.under_min_isr_partitions:
        return None
    urgent = replace(request, under_min_isr_partitions=True)
    if build_rules(split_failed_dirs(model)[0], urgent).fixed.all():
        return None
    try:
        first = make_plan(model, urgent)
    except InfeasibleRequest:
        return None
    copied_rows = row_of(first.offsets)[model.find_copied(first)]
    rows = np.unique(copied_rows)
    if not len(rows) or len(rows) >= int(model.find_changed(proposal).sum()):
        return None
    size = round(float(model.size[copied_rows].sum())) if model.known[0] else None
    names = [model.name(row) for row in rows[:_LISTED].tolist()]
    return UrgentRepair(len(rows), names, size, prepare_execution(model, first, limits).seconds)
