"""How a plan is executed: its waves, and the elections after them."""

from dataclasses import dataclass

from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.elections import PreferredElections, elect_preferred_leaders
from udfs.planning.log_dir_waves import report_dir_moves, split_dir_moves
from udfs.planning.model_log_dirs import find_dir_moves
from udfs.planning.waves import WaveLimits, WaveReport, Waves, report_waves, split_into_waves


@dataclass(frozen=True)
class PlanExecution:
    """A proposed assignment for a cluster model, the waves that execute it, and the elections after them."""

    model: ClusterModel
    proposal: ProposedAssignment
    waves: Waves
    wave_reports: tuple[WaveReport, ...]
    elections: PreferredElections

    @property
    def seconds(self) -> float:
        """Return the estimated duration of all copies; 0 where no sizes are known."""
        return round(sum(report.seconds for report in self.wave_reports), 1)


def prepare_execution(model: ClusterModel, proposal: ProposedAssignment, limits: WaveLimits) -> PlanExecution:
    """Split a proposal into waves, and find the elections after them."""
    if len(find_dir_moves(model, proposal)):
        waves = split_dir_moves(model, proposal, limits)
        reports = tuple(report_dir_moves(model, proposal, waves))
    else:
        waves = split_into_waves(model, proposal, limits)
        reports = tuple(report_waves(model, waves))
    return PlanExecution(model, proposal, waves, reports, elect_preferred_leaders(model, proposal))
