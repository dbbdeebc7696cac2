"""How a plan is executed: its waves, and the elections after them."""

from dataclasses import dataclass, replace

import numpy as np

from udfs.arrow.ragged import find_in_segment, row_of, take_segments
from udfs.planning.broker_log_dirs import ANY
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.elections import PreferredElections, elect_preferred_leaders
from udfs.planning.kernels.log_dir_search import assign_first_waves
from udfs.planning.kernels.wave_steps import NOTHING_ADDED
from udfs.planning.model_log_dirs import find_dir_moves
from udfs.planning.waves import WaveLimits, WaveReport, Waves, report_loads, report_waves, split_into_waves

_LOG_DIRS = "log dirs"  # direction of a wave's busiest broker


@dataclass(frozen=True)
class PlannedWaves:
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

    @property
    def bytes_to_copy(self) -> int:
        """Return the bytes of all copies; 0 where no sizes are known."""
        return sum(report.bytes_to_copy for report in self.wave_reports)


def plan_waves(
    model: ClusterModel, proposal: ProposedAssignment, limits: WaveLimits, *, elects_all: bool = False
) -> PlannedWaves:
    """Split a proposal into waves, and find the elections after them. elects_all: as in elect_preferred_leaders."""
    if len(find_dir_moves(model, proposal)):
        waves = _split_dir_moves(model, proposal, limits)
        reports = tuple(_report_dir_moves(model, proposal, waves))
    else:
        waves = split_into_waves(model, proposal, limits)
        reports = tuple(report_waves(model, waves))
    elections = elect_preferred_leaders(model, proposal, elects_all=elects_all)
    return PlannedWaves(model, proposal, _choose_log_dirs(proposal, waves), reports, elections)


def _choose_log_dirs(proposal: ProposedAssignment, waves: Waves) -> Waves:
    """Return waves whose steps put replicas into the log dirs that a proposal chooses for them."""
    if proposal.log_dirs is None:
        return waves
    planned, offsets = take_segments(proposal.replicas, proposal.offsets, waves.row)
    chosen = np.append(take_segments(proposal.log_dirs, proposal.offsets, waves.row)[0], np.int32(ANY))
    place = find_in_segment(waves.replicas, waves.offsets, planned, offsets)
    at = np.where(place >= 0, offsets[row_of(waves.offsets)] + place, ANY)
    return replace(waves, log_dirs=chosen[at])


def _split_dir_moves(model: ClusterModel, proposal: ProposedAssignment, limits: WaveLimits) -> Waves:
    """Split moves between log dirs into waves: of each partition in one step, those of most bytes first.

    Each is in the first wave in which the limits allow it on all of its brokers, by what is moved there.
    """
    assert model.log_dirs is not None
    moves = find_dir_moves(model, proposal)
    row, size = model.row[moves], model.log_dirs.size[moves]
    rows, step = np.unique(row, return_inverse=True)
    total = np.bincount(step, size, len(rows))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[np.argsort(-total, kind="stable")] = np.arange(len(rows))
    order = np.argsort(rank[step], kind="stable")
    wave_of_rank = np.zeros(len(rows), dtype=np.int64)
    brokers = model.replicas[moves[order]].astype(np.int64)
    most = (float(limits.bytes_in_flight), int(limits.moves_per_broker))
    assign_first_waves(rank[step][order], brokers, size[order], *most, wave_of_rank)
    wave = wave_of_rank[rank]
    by_wave = np.lexsort((rows, wave))
    replicas, offsets = take_segments(model.replicas, model.offsets, rows[by_wave])
    nothing = np.full(len(rows), NOTHING_ADDED, dtype=np.int32)
    source = model.current_leaders[rows[by_wave]].astype(np.int32)
    deferral = np.zeros(len(rows), dtype=np.int32)
    oversized = np.unique(row[size > limits.bytes_in_flight])
    steps = (wave[by_wave].astype(np.int32), rows[by_wave], offsets, replicas)
    return Waves(limits, *steps, nothing, source, deferral, nothing.copy(), oversized)


def _report_dir_moves(model: ClusterModel, proposal: ProposedAssignment, waves: Waves) -> list[WaveReport]:
    """Report each wave in numbers: the bytes that are moved between log dirs, and the broker that moves most."""
    assert model.log_dirs is not None
    moves = find_dir_moves(model, proposal)
    wave_of_row = np.zeros(model.partitions, dtype=np.int64)
    wave_of_row[waves.row] = waves.wave
    cells = wave_of_row[model.row[moves]] * model.brokers + model.replicas[moves]
    loads = np.bincount(cells, model.log_dirs.size[moves], waves.waves * model.brokers)
    by_wave = np.asarray(loads, dtype=np.float64).reshape(waves.waves, model.brokers)
    return report_loads(model, waves, {_LOG_DIRS: by_wave})
