"""The comparison of planners: its models, and which plan dominates another."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from tests.bench.planners.__main__ import COLUMNS, TARGETS, find_dominating, measure, read_recorded
from tests.bench.planners.models import Shape, make_model
from tests.bench.planners.our_plan import read_model


def test_the_same_seed_is_the_same_model() -> None:
    text = json.dumps(make_model(Shape(brokers=12, racks=3, topics=60, new=2), 7))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "7449fa68b9227930"


def test_models_are_read_without_loss() -> None:
    document = make_model(Shape(brokers=12, topics=60, uneven=True), 3)
    model = read_model(document)
    assert model.replicas.tolist() == [b for one in document["partitions"] for b in one["replicas"]]
    assert np.isclose(model.size.sum(), 1e6 * sum(one["size_mb"] for one in document["partitions"]))
    assert len(set(model.rack.tolist())) == 6


def test_a_plan_is_dominated_where_another_is_nowhere_worse() -> None:
    rows = dict(read_recorded(9201, TARGETS))
    assert set(rows) == {"Cruise Control (light)", "Cruise Control (default)", "Cruise Control (own)"}
    light = rows["Cruise Control (light)"]
    assert light["met"] == 2
    assert {*light} - {"met"} <= {*COLUMNS}
    rows["worse"] = light | {"gb": light["gb"] + 1}
    assert find_dominating(rows, "worse") == ["Cruise Control (light)"]
    assert find_dominating(rows, "Cruise Control (light)") == []


def test_as_it_is_copies_nothing() -> None:
    row = measure(make_model(Shape(brokers=12, racks=3, topics=60), 7), {}, TARGETS)
    assert (row["gb"], row["moves"], row["racks"]) == (0, 0, 0)
    assert row["disk"] > 1.0 < row["surv_out"]
