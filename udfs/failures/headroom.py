"""Which survivors would be over their capacity, and how much headroom every failure of a kind takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.failures.failure_rows import Outcome, followed
from udfs.failures.kernels.failure_sums import BYTES_IN, BYTES_OUT, FETCH, LEADERS

Floats = npt.NDArray[np.float64]

RESOURCES = {"leaders": LEADERS, "bytes_in_per_s": BYTES_IN, "bytes_out_per_s": BYTES_OUT, "fetch_per_s": FETCH}
UNIFORM, FILE = "uniform", "file"
HEADROOM = pa.schema(
    [
        ("scenario_kind", pa.string()),
        ("resource", pa.string()),
        ("capacity_source", pa.string()),
        ("required_headroom_ratio", pa.float64()),
        ("worst_scenario", pa.string()),
        ("worst_broker", pa.int32()),
        ("worst_load", pa.float64()),
        ("scenarios", pa.int64()),
        ("scenarios_over_capacity", pa.int64()),
    ]
)
OVER = pa.schema(
    [
        ("scenario_kind", pa.string()),
        ("scenario", pa.string()),
        ("failed_brokers", pa.list_(pa.int32())),
        ("broker_id", pa.int32()),
        ("resource", pa.string()),
        ("load_after", pa.float64()),
        ("capacity", pa.float64()),
        ("excess_load", pa.float64()),
        ("load_over_capacity_ratio", pa.float64()),
    ]
)


def capacity(outcome: Outcome, limits: Floats | None, headroom: float) -> tuple[pa.Table, pa.Table]:
    """(rows of HEADROOM, rows of OVER).

    limits: float64 (n, loads) capacities, NaN = no limit; None = the same for all, 1 + headroom times the mean load of
    a live broker as it is.   required_headroom_ratio: by how much capacities (uniform: the mean) must be exceeded so
    that no survivor of any failure of this kind is over.
    """
    led = outcome.array("led")
    mean = led.mean(axis=0) if len(led) else np.zeros(led.shape[1])
    unit = np.broadcast_to(mean, led.shape) if limits is None else limits
    room = unit * (1 + headroom) if limits is None else unit
    needed, over = [], []
    for one in followed(outcome):
        kind, names, failed = one.after.kind, one.after.name.to_pylist(), one.after.failed_lists.to_pylist()
        for resource, load in RESOURCES.items():
            if not outcome.rates_known[load] or not one.survive.any() or not led[:, load].any():
                continue
            shown = np.where(one.survive, one.then[:, :, load], np.nan)
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.where(unit[None, :, load] > 0, shown / unit[None, :, load], np.where(shown > 0, np.inf, 0.0))
                share[np.isnan(shown) | np.isnan(unit[None, :, load] + 0 * shown)] = np.nan
                too_much = shown > room[None, :, load]
            if np.isnan(share).all():
                continue
            scenario, broker = np.unravel_index(np.nanargmax(share), share.shape)
            ratio = float(share[scenario, broker]) - 1
            needed.append(
                {
                    "scenario_kind": kind,
                    "resource": resource,
                    "capacity_source": UNIFORM if limits is None else FILE,
                    "required_headroom_ratio": ratio if np.isfinite(ratio) else None,
                    "worst_scenario": names[scenario],
                    "worst_broker": int(outcome.ids[broker]),
                    "worst_load": float(shown[scenario, broker]),
                    "scenarios": len(names),
                    "scenarios_over_capacity": int(too_much.any(axis=1).sum()),
                }
            )
            for s, b in zip(*np.nonzero(too_much), strict=True):
                load_after, limit = float(shown[s, b]), float(room[b, load])
                over.append(
                    {
                        "scenario_kind": kind,
                        "scenario": names[s],
                        "failed_brokers": failed[s],
                        "broker_id": int(outcome.ids[b]),
                        "resource": resource,
                        "load_after": load_after,
                        "capacity": limit,
                        "excess_load": load_after - limit,
                        "load_over_capacity_ratio": load_after / limit if limit > 0 else None,
                    }
                )
    return pa.Table.from_pylist(needed, schema=HEADROOM), pa.Table.from_pylist(over, schema=OVER)
