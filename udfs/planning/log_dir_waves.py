"""Waves of moves between the log dirs of brokers: each needs disk, and no network."""

import numpy as np

from udfs.arrow.ragged import take_segments
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.kernels.log_dir_search import assign_first_waves
from udfs.planning.kernels.wave_steps import NOTHING_ADDED
from udfs.planning.model_log_dirs import find_dir_moves
from udfs.planning.waves import WaveLimits, WaveReport, Waves

LOG_DIRS = "log dirs"  # direction of a wave's busiest broker


def split_dir_moves(model: ClusterModel, proposal: ProposedAssignment, limits: WaveLimits) -> Waves:
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
    steps = (wave[by_wave].astype(np.int32), rows[by_wave], offsets, replicas.astype(np.int32, copy=False))
    return Waves(limits, *steps, nothing, source, deferral, nothing.copy(), oversized)


def report_dir_moves(model: ClusterModel, proposal: ProposedAssignment, waves: Waves) -> list[WaveReport]:
    """Report each wave in numbers: the bytes that are moved between log dirs, and the broker that moves most."""
    assert model.log_dirs is not None
    moves = find_dir_moves(model, proposal)
    wave_of_row = np.zeros(model.partitions, dtype=np.int64)
    wave_of_row[waves.row] = waves.wave
    wave, size = wave_of_row[model.row[moves]], model.log_dirs.size[moves]
    loads = np.bincount(wave * model.brokers + model.replicas[moves], size, waves.waves * model.brokers)
    partitions = np.bincount(waves.wave, minlength=waves.waves).tolist()
    reports = []
    for number, load in enumerate(loads.reshape(waves.waves, model.brokers)):
        busiest = int(load.argmax())
        broker, direction = (int(model.broker_ids[busiest]), LOG_DIRS) if load[busiest] > 0 else (None, None)
        seconds = round(float(load[busiest]) / waves.limits.throttle_bytes_per_s, 1)
        moved, most = round(float(load.sum())), round(float(load[busiest]))
        reports.append(WaveReport(number + 1, partitions[number], 0, moved, broker, direction, most, seconds, ()))
    return reports
