"""Groups of brokers, by rack or by id: a large cluster is shown by groups first, then by the brokers of one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MAX_ROWS = 60  # brokers in one table or bar chart; above, one per group
MAX_CELLS = 250  # brokers in a heat map of brokers by brokers; above, groups by groups
_IDS_PER_GROUP = 50
Rows = Sequence[Mapping[str, Any]]


class BrokerGroup(NamedTuple):
    """Brokers that charts show together."""

    name: str
    broker_ids: list[int]


def group_brokers(brokers: Rows) -> list[BrokerGroup]:
    """Group brokers by rack if there are several, else by ranges of ids. brokers: rows with broker_id and rack."""
    racks = {row["broker_id"]: row["rack"] for row in brokers}
    names = sorted({rack for rack in racks.values() if rack is not None})
    if len(names) < 2:
        ids = sorted(racks)
        parts = [ids[i : i + _IDS_PER_GROUP] for i in range(0, len(ids), _IDS_PER_GROUP)]
        return [BrokerGroup(f"brokers {part[0]} to {part[-1]}", part) for part in parts]
    groups = [BrokerGroup(f"rack {name}", sorted(i for i, rack in racks.items() if rack == name)) for name in names]
    without = sorted(i for i, rack in racks.items() if rack is None)
    return [*groups, BrokerGroup("rack unknown", without)] if without else groups


def sum_takeovers(table: pa.Table | None, groups: Sequence[BrokerGroup]) -> dict[str, list[int]]:
    """Return, per scheme, the partitions that a group (column) takes over from brokers of another (row), row by row.

    table: scheme, failed, survivor, takeovers.
    """
    matrices: dict[str, list[int]] = {}
    if table is None or not table.num_rows:
        return matrices
    failed, survivor = (_positions(table[name].to_numpy(), groups) for name in ("failed", "survivor"))
    known = (failed >= 0) & (survivor >= 0)
    scheme, takeovers = np.asarray(table["scheme"].to_pylist(), object), table["takeovers"].to_numpy()
    for name in dict.fromkeys(scheme.tolist()):
        rows = known & (scheme == name)
        sums = np.zeros(len(groups) ** 2, np.int64)
        np.add.at(sums, failed[rows] * len(groups) + survivor[rows], takeovers[rows])
        matrices[name] = sums.tolist()
    return matrices


def list_survivors(table: pa.Table | None) -> dict[int, list[list[int]]]:
    """Return [survivor, takeovers] of each failed broker under the scheme `observed`, the most takeovers first."""
    survivors: dict[int, list[list[int]]] = {}
    if table is None:
        return survivors
    columns = (table[name].to_pylist() for name in ("scheme", "failed", "survivor", "takeovers"))
    for scheme, failed, survivor, takeovers in zip(*columns, strict=True):
        if scheme == "observed":
            survivors.setdefault(failed, []).append([survivor, takeovers])
    return {failed: sorted(pairs, key=lambda pair: (-pair[1], pair[0])) for failed, pairs in survivors.items()}


def sum_pairs(table: pa.Table, groups: Sequence[BrokerGroup]) -> list[list[Any]]:
    """Return, per pair of groups with failures of two brokers, a row for the chart.

    It is [group, group, largest worst_survivor_ratio or None, pairs that take partitions offline, pairs].
    table: one, other, worst_survivor_ratio, newly_offline_partitions.
    """
    one, other = (_positions(table[name].to_numpy(), groups) for name in ("one", "other"))
    known = (one >= 0) & (other >= 0)
    cell = np.minimum(one, other)[known] * len(groups) + np.maximum(one, other)[known]
    size = len(groups) ** 2
    ratios = table["worst_survivor_ratio"].to_numpy()[known].astype(float)
    ratio = np.full(size, -np.inf)
    np.maximum.at(ratio, cell, np.nan_to_num(ratios, nan=-np.inf))
    offline = np.bincount(cell, table["newly_offline_partitions"].to_numpy()[known] > 0, size).astype(np.int64)
    pairs = np.bincount(cell, minlength=size)
    rows: list[list[Any]] = []
    for i in np.flatnonzero(pairs).tolist():
        worst = float(ratio[i]) if np.isfinite(ratio[i]) else None
        rows.append([i // len(groups), i % len(groups), worst, int(offline[i]), int(pairs[i])])
    return rows


def _positions(ids: npt.NDArray[Any], groups: Sequence[BrokerGroup]) -> npt.NDArray[np.int64]:
    """Return the index of each broker's group; -1 = none."""
    members = np.array([broker for group in groups for broker in group.broker_ids], np.int64)
    group = np.repeat(np.arange(len(groups)), [len(group.broker_ids) for group in groups])
    order = np.argsort(members)
    if not len(members):
        return np.full(len(ids), -1)
    place = np.minimum(np.searchsorted(members[order], ids), len(members) - 1)
    return np.where(members[order][place] == ids, group[order][place], -1)
