"""Disks that grow most while a plan copies, compared with a replay of its waves, list by list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.planning.plan_models import models_and_proposals
from tests.unit.planning.small_clusters import lists_of
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.planned_waves import find_disk_growth, plan_waves
from udfs.planning.waves import WaveLimits


@given(models_and_proposals(), st.sampled_from([30.0, 100.0, np.inf]))
def test_disk_grows_as_in_a_replay(case: tuple[ClusterModel, ProposedAssignment], most: float) -> None:
    """A wave removes replicas only after it has copied all others."""
    model, proposal = case
    execution = plan_waves(model, proposal, WaveLimits(bytes_in_flight=most))
    waves, current = execution.waves, lists_of(model)
    disk = [sum(model.size[row] for row, one in enumerate(current) if b in one) for b in range(model.brokers)]
    before, peak = list(disk), list(disk)
    for wave in range(waves.waves):
        steps = np.flatnonzero(waves.wave == wave).tolist()
        new = {int(waves.row[k]): waves.replicas[waves.offsets[k] : waves.offsets[k + 1]].tolist() for k in steps}
        for row, one in new.items():
            for b in set(one) - set(current[row]):
                disk[b] += model.size[row]
        peak = [max(pair) for pair in zip(peak, disk, strict=True)]
        for row, one in new.items():
            for b in set(current[row]) - set(one):
                disk[b] -= model.size[row]
            current[row] = one
    growth = {b: peak[b] - before[b] for b in range(model.brokers)}
    largest = max(growth.values())
    expected = [grown for grown in growth.values() if grown > 0 and grown >= 0.1 * largest]
    room = np.where(np.arange(model.brokers) % 2, 7.0, np.nan)
    found = find_disk_growth(execution, room)
    assert [one.peak_bytes - one.before_bytes for one in found] == sorted(expected, reverse=True)[:3]
    for one in found:
        b = model.broker_ids.tolist().index(one.broker)
        assert one.room_bytes == (7 if b % 2 else None)
        assert (one.before_bytes, one.peak_bytes, one.after_bytes) == (before[b], peak[b], disk[b])
