"""What a fold of consumer groups told, as rows with names: the Arrow tables of schema.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from udfs.simulation.groups.group_simulation import GroupsReplayed, answers, transitions
from udfs.simulation.simulation_schemas import GROUP_REQUESTS, GROUP_TRANSITIONS


def group_requests(of: GroupsReplayed, cluster: str, snapshot: str) -> pa.Table:
    """Joins, syncs, heartbeats and leaves, and how each ended."""
    return _table(answers(of), GROUP_REQUESTS, cluster, snapshot)


def group_transitions(of: GroupsReplayed, cluster: str, snapshot: str) -> pa.Table:
    """Every change of a group's state."""
    steps: Counter[str] = Counter()
    rows = []
    for row in transitions(of):
        rows.append({**row, "step": steps[row["group"]]})
        steps[row["group"]] += 1
    return _table(rows, GROUP_TRANSITIONS, cluster, snapshot)


def _table(rows: Sequence[dict[str, Any]], schema: pa.Schema, cluster: str, snapshot: str) -> pa.Table:
    key = {"cluster_id": cluster, "snapshot_id": snapshot}
    return pa.Table.from_pylist([{**key, **row, "group_id": row["group"]} for row in rows], schema=schema)
