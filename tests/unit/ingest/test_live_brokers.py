"""Which brokers are live, down or of unknown state, and why: one case per kind of evidence, and which one wins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines.assignment.assign_requests import read_cluster_request
from pipelines.cli.hotspots_command import find_snapshot_hotspots
from pipelines.cli.inspect_command import build_answer, render_snapshot
from pipelines.cli.what_if_rendering import format_cluster, format_failure
from pipelines.ingest.merge.cluster_merge import merge_facts
from pipelines.ingest.merge.live_brokers import get_down_brokers, get_live_brokers, get_unknown_brokers, infer_brokers
from pipelines.ingest.merge.shard_facts import SOURCED_FACTS
from pipelines.ingest.merge.topic_merge import infer_state
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot, parse_facts
from pipelines.ingest.sources import find_source
from pipelines.simulation.source_snapshots import read_initial_state
from pipelines.verdict.verdict_points import Level
from pipelines.what_if.what_if_answers import evaluate_brokers, evaluate_failure
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults
from udfs.hotspots.hotspot_distribution import TrialOptions
from udfs.json_answers import to_json
from udfs.origin.topic_origins import read_brokers
from udfs.placement.schemes import NAIVE
from udfs.planning.cluster_model import build_model

Fact = dict[str, Any]
UNKNOWN_STATE = "only in partitions of which no source shows leader and ISR"
WAITING = "only in leaderless partitions, whose ISR no broker can join"
FILTERED = "only in a filtered or incomplete listing"
LAGS = "in no ISR of its 1 replica, which may only lag"
SHOWN_AS_DOWN = "shown as down by rpk, Cruise Control or a Java client"
DELETED = {"kind": "topic", "topic": "t", "marked_for_deletion": True}


def header(count: int | None = 1) -> Fact:
    return {"kind": "topic", "topic": "t", "partition_count": count, "replication_factor": 3}


def partition(
    number: int, leader: int | None, replicas: list[int] | None, isr: list[int] | None, **others: Any
) -> Fact:
    state = {"partition": number, "leader": leader, "replicas": replicas, "isr": isr}
    return {"kind": "partition", "topic": "t", **state, **others}


def broker(number: int, **others: Any) -> Fact:
    return {"kind": "broker", "broker_id": number, **others}


def build_facts(*rows: Fact) -> pa.Table:
    """Return facts of schema SOURCED_FACTS; of format describe unless they name another."""
    numbered = [
        {"source": "x.txt", "format": "describe", "home": True, "record_number": i, "line_number": i + 1} | row
        for i, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(numbered, schema=SOURCED_FACTS)


def infer(*rows: Fact) -> dict[int, tuple[bool | None, str]]:
    """Return {broker id: (live, reason)}."""
    entities = merge_facts(build_facts(*rows))
    brokers, _ = infer_brokers(entities.registrations, entities.usage)
    return {row["broker_id"]: (row["live"], row["live_reason"]) for row in brokers.to_pylist()}


def listed(state: str) -> list[Fact]:
    """Return the facts of a list of brokers 1 to 3 that has a state for broker 3."""
    states = {3: {"listed_state": state}}
    return [broker(number, listed=True, **states.get(number, {}), format="broker-list") for number in (1, 2, 3)]


def asked(*ids: int) -> list[Fact]:
    """Return the facts of brokers that answer kafka-broker-api-versions."""
    return [broker(number, registered=True, format="broker-api-versions") for number in ids]


# What the sources say of broker 3 (its facts) -> whether it is live, and why.
REGISTERED_1 = broker(1, registered=True, format="kraft-log")
LED_BY_1 = partition(0, 1, [1, 2, 3], [1, 2])
CASES: dict[str, tuple[list[Fact], bool | None, str]] = {
    "leads": ([header(), partition(0, 3, [3, 1], [3, 1])], True, "leads 1 partition"),
    "leads two": ([partition(i, 3, [3, 1], [3]) for i in (0, 1)], True, "leads 2 partitions"),
    "in the ISR": ([partition(0, 1, [1, 3], [1, 3])], True, "in the ISR of 1 partition that has a leader"),
    "only a leader": ([partition(0, 3, None, None)], True, "leads 1 partition"),
    "one replica": ([header(), partition(0, 3, [3], [3])], True, "leads 1 partition"),
    "fenced, but leads": (
        [broker(3, registered=True, fenced=True, format="kraft-log"), partition(0, 3, [3, 1], [3, 1])],
        True,
        "leads 1 partition, which is later than its registration as fenced",
    ),
    "leads, but listed as fenced": (
        [broker(3, registered=True, fenced=True, format="cluster-endpoints"), partition(0, 3, [3, 1], [3, 1])],
        None,
        "leads 1 partition, but shown as fenced",
    ),
    "leads, but fenced in the metadata": (
        [broker(3, registered=True, fenced=True, format="metadata-shell"), partition(0, 3, [3, 1], [3, 1])],
        None,
        "leads 1 partition, but shown as fenced",
    ),
    "fenced, but in the ISR": (
        [broker(3, registered=True, fenced=True, format="cluster-endpoints"), partition(0, 1, [1, 3], [1, 3])],
        None,
        "in the ISR of 1 partition that has a leader, but shown as fenced",
    ),
    "fenced, and the last in the ISR": (
        [broker(3, registered=True, fenced=True, format="cluster-endpoints"), partition(0, -1, [3], [3])],
        False,
        "fenced",
    ),
    "fenced": ([broker(3, registered=True, fenced=True, format="kraft-log")], False, "fenced"),
    "unregistered, but leads": (
        [broker(3, registered=False, format="zookeeper-cli"), partition(0, 3, [3, 1], [3, 1])],
        False,
        "unregistered",
    ),
    "not offline": (
        [header(), partition(0, 1, [1, 3], [1], offline_replicas=[])],
        True,
        "1 of its replicas is listed as online",
    ),
    "one log directory offline": (
        [header(2), *(partition(i, 1, [1, 3], [1], offline_replicas=[3] * i) for i in (0, 1))],
        True,
        "1 of its replicas is listed as online",
    ),
    "offline": (
        [*(partition(i, 1, [1, 3], [1], offline_replicas=[3]) for i in (0, 1)), REGISTERED_1],
        False,
        "its 2 replicas are listed as offline",
    ),
    "in the ISR, but offline": (
        [partition(i, 1, [1, 3], [1, 3], offline_replicas=[3]) for i in (0, 1)],
        None,
        "in the ISR of 2 partitions that have a leader, but its replicas there are listed as offline",
    ),
    "leads, but offline": (
        [partition(0, 3, [3, 1], [3, 1], offline_replicas=[3])],
        None,
        "leads 1 partition, but its replica there is listed as offline",
    ),
    "leads without ISR, but offline": (
        [partition(0, 3, [3, 1], None, offline_replicas=[3])],
        None,
        "leads 1 partition, but its replica there is listed as offline",
    ),
    "in the ISR, but offline in one of two": (
        [partition(i, 1, [1, 3], [1, 3], offline_replicas=[3] * i) for i in (0, 1)],
        True,
        "in the ISR of 2 partitions that have a leader",
    ),
    "registered": ([broker(3, registered=True, format="zookeeper-json"), header(), LED_BY_1], True, "registered"),
    "answers": (
        [broker(3, registered=True, format="log-dirs"), header(), LED_BY_1],
        True,
        "answers kafka-log-dirs or kafka-broker-api-versions",
    ),
    "controller": ([broker(3, controller=True, format="zookeeper-cli"), LED_BY_1], True, "the active controller"),
    "not registered": ([REGISTERED_1, header(None), LED_BY_1], False, "not registered"),
    "no full list of registrations": (
        [broker(1, registered=True, host="h", format="zookeeper-cli"), LED_BY_1],
        None,
        FILTERED,
    ),
    "a rejected registration": (
        [REGISTERED_1, {"kind": "rejected", "reasons": ["cut"], "format": "kraft-log"}, LED_BY_1],
        None,
        FILTERED,
    ),
    "a list of ids": ([broker(1, registered=True, format="zookeeper-cli"), LED_BY_1], False, "not registered"),
    "leaderless": (
        [partition(0, -1, [3, 1], [3]), partition(1, 1, [1, 3], [1])],
        False,
        "only in the ISR of leaderless partitions",
    ),
    "leaderless, one replica": (
        [header(), partition(0, -1, [3], [3])],
        False,
        "only in the ISR of leaderless partitions",
    ),
    "leaderless, assignment unknown": (
        [partition(0, -1, None, [3])],
        False,
        "only in the ISR of leaderless partitions",
    ),
    "leaderless, ELR": (
        [partition(0, -1, [3, 1], [], elr=[3], last_known_elr=[]), partition(1, 1, [1, 3], [1])],
        False,
        "only in the ELR of leaderless partitions",
    ),
    "leaderless, last known leader": (
        [header(), partition(0, -1, [3], [], elr=[], last_known_elr=[3])],
        False,
        "only in leaderless partitions with an empty ISR",
    ),
    "leaderless, empty ISR": ([partition(0, -1, [3, 1], [])], False, "only in leaderless partitions with an empty ISR"),
    "in no ISR": ([header(), LED_BY_1], None, LAGS),
    "in no ISR of several": ([header(2), LED_BY_1, LED_BY_1 | {"partition": 1}], False, "in no ISR of its 2 replicas"),
    "in no ISR, and in an inventory": (
        [*(broker(i, listed=True, format="broker-list") for i in (1, 2, 3)), header(), LED_BY_1],
        None,
        LAGS,
    ),
    "in no ISR, but the last in sync": (
        [header(), partition(0, -1, [3, 1], [], elr=[3], last_known_elr=[])],
        False,
        "only in the ELR of leaderless partitions",
    ),
    "in an inventory": (
        [broker(3, listed=True, format="broker-list")],
        None,
        "only in a broker list, which does not show whether it is live",
    ),
    "in an inventory and in a plan": (
        [broker(3, listed=True, format="broker-list"), partition(0, None, [3], None, format="reassignment")],
        True,
        "in the broker list",
    ),
    "up in an inventory": (listed("Running"), True, 'listed as "Running"'),
    "up in an inventory, but in no ISR": ([*listed("up"), header(), LED_BY_1], None, LAGS),
    "up in an inventory, but in no ISR of several": (
        [*listed("up"), header(2), LED_BY_1, LED_BY_1 | {"partition": 1}],
        False,
        "in no ISR of its 2 replicas",
    ),
    "up in an inventory, but filtered": ([*listed("up"), LED_BY_1], None, FILTERED),
    "down in an inventory": ([*listed("DOWN"), LED_BY_1], False, 'listed as "DOWN"'),
    "down in an inventory, but leads": (
        [*listed("down"), partition(0, 3, [3], [3])],
        None,
        'leads 1 partition, but listed as "down"',
    ),
    "waiting for the last in sync": ([partition(0, -1, [2, 3], [2]), header()], None, WAITING),
    "not alive in an inventory": (listed("false"), False, 'listed as "false"'),
    "down in an inventory, but registered": (
        [*listed("down"), broker(3, registered=True, format="kcat")],
        True,
        "registered",
    ),
    "in maintenance": (listed("maintenance"), None, 'listed as "maintenance"'),
    "in a model": ([broker(3, listed=True, in_model=True, format="model")], True, "in the broker list"),
    "in a model, with replicas": (
        [*(broker(i, listed=True, format="model") for i in (1, 3)), partition(0, None, [3, 1], None, format="model")],
        True,
        "in the broker list",
    ),
    "in the ISR, but not registered": (
        [REGISTERED_1, partition(0, 1, [1, 3], [1, 3])],
        None,
        "in the ISR of 1 partition that has a leader, but not registered",
    ),
    "leads, but not registered": (
        [REGISTERED_1, partition(0, 3, [1, 3], [1, 3])],
        None,
        "leads 1 partition, but not registered",
    ),
    "leads, and answers, but not registered": (
        [REGISTERED_1, broker(3, registered=True, format="log-dirs"), partition(0, 3, [1, 3], [1, 3])],
        True,
        "leads 1 partition",
    ),
    "shown as down": ([broker(3, registered=True, reported_live=False, format="rpk")], False, SHOWN_AS_DOWN),
    "shown as down, but leads": (
        [broker(3, reported_live=False, format="rpk"), partition(0, 3, [3], None, format="rpk")],
        None,
        f"leads 1 partition, but {SHOWN_AS_DOWN}",
    ),
    "shown as live": (
        [broker(3, reported_live=True, format="cruise-control"), header(), LED_BY_1],
        True,
        "shown as live by rpk or Cruise Control",
    ),
    "no answer": (
        [broker(3, registered=False, format="broker-api-versions")],
        None,
        "did not answer kafka-broker-api-versions",
    ),
    "no answer, and in no ISR": (
        [broker(3, registered=False, format="broker-api-versions"), header(), LED_BY_1],
        False,
        "in no ISR of its 1 replica",
    ),
    "no answer, but in the ISR": (
        [broker(3, registered=False, format="broker-api-versions"), partition(0, 1, [1, 3], [1, 3])],
        None,
        "in the ISR of 1 partition that has a leader, but did not answer kafka-broker-api-versions",
    ),
    "no answer, but leads": (
        [broker(3, registered=False, format="broker-api-versions"), partition(0, 3, [1, 3], [1, 3])],
        None,
        "leads 1 partition, but did not answer kafka-broker-api-versions",
    ),
    "leads, but other brokers are asked": (
        [*asked(1, 2), partition(0, 3, [1, 3], [1, 3])],
        None,
        "leads 1 partition, but not in the output of kafka-broker-api-versions",
    ),
    "leads, but one other broker is shown": ([*asked(1), partition(0, 3, [1, 3], [1, 3])], True, "leads 1 partition"),
    "leads, and the line of its answer is cut": (
        [*asked(1, 2), broker(3, format="broker-api-versions"), partition(0, 3, [1, 3], [1, 3])],
        True,
        "leads 1 partition",
    ),
    "in an unclear listing, but other brokers are asked": ([*asked(1, 2), LED_BY_1], None, FILTERED),
    "not in the list": (
        [broker(1, listed=True, format="model"), broker(3, draining=True, format="model")],
        False,
        "not in the broker list",
    ),
    "adding": ([header(), partition(0, 1, [1, 2, 3], [1, 2], adding_replicas=[3])], None, "only in Adding Replicas"),
    "observer": ([header(), partition(0, 1, [1, 2, 3], [1, 2], observers=[3])], None, "only as an observer"),
    "adding here, an observer there": (
        [header(2), partition(0, 1, [1, 3], [1], adding_replicas=[3]), partition(1, 1, [1, 3], [1], observers=[3])],
        None,
        "only in Adding Replicas and as an observer",
    ),
    "no header": ([LED_BY_1], None, FILTERED),
    "only a mark of deletion": ([DELETED, LED_BY_1], None, "only in topics that are marked for deletion"),
    "marked for deletion, empty ISR": (
        [header(), DELETED, partition(0, -1, [3, 1], [])],
        None,
        "only in topics that are marked for deletion",
    ),
    "marked for deletion, but in the ISR": (
        [header(), DELETED, partition(0, 1, [1, 3], [1, 3])],
        True,
        "in the ISR of 1 partition that has a leader",
    ),
    "two listings differ": (
        [partition(0, 1, [1, 3], [1, 3]), partition(0, 1, [1, 3], [1], source="y.txt")],
        None,
        "only in quarantined records",
    ),
    "partitions missing": ([header(2), LED_BY_1], None, FILTERED),
    "first partition missing": ([header(None), LED_BY_1 | {"partition": 1}], None, FILTERED),
    "no header, but in an inventory": (
        [*(broker(i, listed=True, format="broker-list") for i in (1, 2, 3)), LED_BY_1],
        None,
        FILTERED,
    ),
    "bare reassignment": ([partition(0, None, [3, 1], None, format="reassignment")], None, UNKNOWN_STATE),
    "leader without ISR": ([header(), partition(0, 1, [1, 3], None)], None, UNKNOWN_STATE),
    "a rack alone": ([broker(3, rack="a")], None, "no source shows what it does"),
}


@pytest.mark.parametrize(("rows", "live", "reason"), CASES.values(), ids=CASES)
def test_the_strongest_evidence_decides(rows: list[Fact], live: bool | None, reason: str) -> None:
    assert infer(*rows)[3] == (live, reason)


def test_a_quarantined_partition_does_not_make_a_listing_incomplete() -> None:
    rows = [header(3), LED_BY_1, LED_BY_1 | {"partition": 1}, partition(2, 7, [1, 2], [1])]
    assert infer(*rows)[3] == (False, "in no ISR of its 2 replicas")


def kcat_list(*ids: int, **others: Any) -> list[Fact]:
    return [broker(i, registered=True, format="kcat", **others) for i in ids]


MISSING = "not among the brokers in {}, which is of another moment"


@pytest.mark.parametrize(
    ("rows", "live", "reason"),
    [
        (
            [*kcat_list(1, 2, 3), *kcat_list(1, 2, source="y.txt")],
            None,
            f"registered, but {MISSING.format('y.txt lines 4-5')}",
        ),
        ([*kcat_list(1, source="y.txt"), *kcat_list(1, 3)], None, f"registered, but {MISSING.format('y.txt line 1')}"),
        (
            [*kcat_list(1, 2, 3), *kcat_list(2, 1)],  # one file
            None,
            f"registered, but {MISSING.format('x.txt lines 4-5')}",
        ),
        (
            [*kcat_list(1, 3), *kcat_list(1, source="y.txt"), partition(0, 1, [1, 3], [1, 3])],
            None,
            f"in the ISR of 1 partition that has a leader, but {MISSING.format('y.txt line 3')}",
        ),
        (
            [*kcat_list(1, 3), *kcat_list(1, source="y.txt"), partition(0, 3, [3], [3])],
            None,
            f"leads 1 partition, but {MISSING.format('y.txt line 3')}",
        ),
        ([*kcat_list(1, 3), *kcat_list(3, 1, source="y.txt")], True, "registered"),
        (
            [*kcat_list(1, 3), *kcat_list(1, source="y.txt"), broker(3, registered=True, format="log-dirs")],
            True,
            "registered",
        ),
        # A dump has the names of the znodes, and each znode.
        (
            [*(broker(i, registered=True, format="zookeeper-json") for i in (1, 3, 1)), *kcat_list(1, 3)],
            True,
            "registered",
        ),
        ([*kcat_list(1, 3), broker(1, host="b1", format="kcat", source="y.txt")], True, "registered"),  # cut off
    ],
)
def test_lists_of_brokers_of_two_moments(rows: list[Fact], live: bool | None, reason: str) -> None:
    assert infer(*rows)[3] == (live, reason)


def test_a_list_with_a_rejected_line_lacks_no_broker() -> None:
    rejected = {"kind": "rejected", "reasons": ["cut"], "format": "kcat", "source": "y.txt"}
    rows = [*kcat_list(1, 3), *kcat_list(1, source="y.txt"), rejected]
    assert infer(*rows)[3] == (True, "registered")


def test_replicas_that_are_in_sync_and_offline_are_warned_of() -> None:
    rows = [
        partition(0, 1, [1, 2, 3], [1, 2, 3], offline_replicas=[3]),
        partition(1, 1, [1, 2, 3], [1, 2, 3], offline_replicas=[2]),
        partition(2, 1, [1, 2, 3], [1, 2], offline_replicas=[3]),
        partition(3, 1, [1, 2, 3], [1, 2, 3]),
        partition(5, -1, [3], [3], offline_replicas=[3]),  # it was the last in sync
        partition(4, 1, [1, 3], [1, 3], offline_replicas=[3], source="y.txt"),
    ]
    warnings = merge_facts(build_facts(*rows)).warnings.to_pylist()
    remedy = "one of the two is out of date, run the command again"
    assert [(row["source"], row["line_number"], row["warning"]) for row in warnings] == [
        ("x.txt", 1, f"2 partitions list brokers 2, 3 as in sync and as offline: {remedy}"),
        ("y.txt", 6, f"1 partition lists broker 3 as in sync and as offline: {remedy}"),
    ]


def test_a_damaged_partition_names_no_brokers() -> None:
    """Its ids may be the damage; only partitions on which two sources differ are known to be of real brokers."""
    rows = [header(2), partition(0, 1, [1, 2], [1, 2]), partition(1, 7, [1, 30], [1])]
    assert infer(*rows).keys() == {1, 2}


def test_shards_are_summed() -> None:
    """The counts of a broker in all shards decide, as in silver.brokers."""
    shards = [merge_facts(build_facts(*rows)).usage for rows in ([header(), LED_BY_1], [partition(0, -1, [3], [3])])]
    both = pa.concat_tables(shards).group_by("broker_id").aggregate([(n, "sum") for n in shards[0].schema.names[1:]])
    names = [name.removesuffix("_sum") for name in both.schema.names]
    usage = both.rename_columns(names).select(shards[0].schema.names)
    brokers, _ = infer_brokers(merge_facts(build_facts()).registrations, usage)
    assert brokers["live_reason"].to_pylist()[-1] == "only in the ISR of leaderless partitions"


def test_an_unregistered_broker_that_leads_is_a_conflict() -> None:
    entities = merge_facts(build_facts(*CASES["unregistered, but leads"][0]))
    _, conflicts = infer_brokers(entities.registrations, entities.usage)
    (row,) = conflicts.to_pylist()
    assert (row["entity"], row["value"], row["other_value"]) == ("broker 3", "down: unregistered", "leads 1 partition")


def test_a_fenced_broker_that_leads_is_no_conflict() -> None:
    entities = merge_facts(build_facts(*CASES["fenced, but leads"][0]))
    assert infer_brokers(entities.registrations, entities.usage)[1].num_rows == 0


def test_an_unknown_broker_counts_as_live() -> None:
    entities = merge_facts(build_facts(header(2), partition(0, 1, [1, 3, 2], [1, 2], adding_replicas=[3])))
    brokers, _ = infer_brokers(entities.registrations, entities.usage)
    assert get_live_brokers(brokers).tolist() == [1, 2, 3]
    assert get_unknown_brokers(brokers).tolist() == [3]
    assert get_down_brokers(brokers).tolist() == []


def test_observers_and_offline_replicas_are_carried_through() -> None:
    rows = [
        partition(0, 1, [1, 2, 3], [1, 2], observers=[3], offline_replicas=[]),
        partition(0, 1, [1, 2, 3], [1, 2], source="y.txt"),  # another source without these columns
        partition(1, 1, [1, 2], [1, 2]),
    ]
    partitions = merge_facts(build_facts(*rows)).partitions
    assert partitions["observers"].to_pylist() == [[3], None]
    assert partitions["offline_replicas"].to_pylist() == [[], None]


def test_different_offline_replicas_are_a_conflict() -> None:
    """In any order they are the same."""
    rows = [partition(0, 1, [1, 2, 3], [1], offline_replicas=ids) for ids in ([2, 3], [3, 2])]
    assert merge_facts(build_facts(*rows)).quarantine.num_rows == 0
    rows[1]["offline_replicas"] = [3]
    entities = merge_facts(build_facts(*rows))
    assert [row["field"] for row in entities.conflicts.to_pylist()] == ["offline_replicas"]
    assert entities.quarantine.num_rows == 2


@pytest.mark.parametrize(
    ("leader", "isr", "down", "expected"),
    [
        (None, None, [], (1, [1, 2, 3], True)),
        (None, None, [1], (2, [2, 3], True)),
        (2, None, [3], (2, [1, 2], True)),  # a tool that shows no ISR
        (None, [3, 2], [3], (2, [3, 2], True)),  # one that shows no leader
        (None, [3], [3], (-1, [3], True)),
        (-1, None, [], (-1, [], False)),
        (2, [2], [], (2, [2], False)),
    ],
)
def test_what_is_missing_of_leader_and_isr_is_inferred(
    leader: int | None, isr: list[int] | None, down: list[int], expected: tuple[int, list[int], bool]
) -> None:
    registrations = [broker(i, registered=i not in down, format="zookeeper-cli") for i in (1, 2, 3)]
    entities = merge_facts(build_facts(*registrations, partition(0, leader, [1, 2, 3], isr)))
    brokers, _ = infer_brokers(entities.registrations, entities.usage)
    (row,) = infer_state(entities.partitions, brokers).to_pylist()
    assert (row["leader"], row["isr"], row["state_inferred"]) == expected


@pytest.mark.parametrize("column", ["adding_replicas", "observers"])
def test_replicas_that_need_not_be_in_sync_are_not_inferred_to_be(column: str) -> None:
    entities = merge_facts(build_facts(partition(0, None, [4, 1, 2], None, **{column: [4]})))
    brokers, _ = infer_brokers(entities.registrations, entities.usage)
    (row,) = infer_state(entities.partitions, brokers).to_pylist()
    assert (row["leader"], row["isr"]) == (1, [1, 2])
    entities = merge_facts(build_facts(partition(0, 4, [4, 1, 2], None, **{column: [4]})))
    (row,) = infer_state(entities.partitions, brokers).to_pylist()
    assert (row["leader"], row["isr"]) == (4, [4, 1, 2])  # it leads, so it is in sync


def load(folder: Path, text: str) -> Snapshot:
    (folder / "paste.txt").write_text(text)
    return load_snapshot(find_source(str(folder / "paste.txt")))


MOVING = (
    "Topic: t\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,5\tIsr: 1,2\tAdding Replicas: 5\tRemoving Replicas: 2\n"
    "\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,1,6\tIsr: 2,1\tAdding Replicas: 6\tRemoving Replicas: 1\n"
)


def test_inspect_names_brokers_of_unknown_state(tmp_path: Path) -> None:
    snapshot = load(tmp_path, MOVING)
    lines = list(render_snapshot(snapshot))
    assert "  brokers: 2 live (1, 2), 2 of unknown state (5, 6)" in lines
    assert "  2 brokers of unknown state (5, 6): only in Adding Replicas" in lines
    brokers = to_json(build_answer(snapshot))["brokers"]
    assert [row["live"] for row in brokers] == [True, True, None, None]


def test_what_if_says_that_brokers_of_unknown_state_count_as_live(tmp_path: Path) -> None:
    snapshot = load(tmp_path, MOVING.replace("6", "5"))
    answer = evaluate_brokers(snapshot, TopicDefaults())
    warning = "Unknown whether broker 5 is live: it counts as live (run inspect for details)."
    assert answer.verdict.level is Level.WARNING
    text = format_cluster(answer)
    assert text[0] == "cluster paste, 2 live brokers, 1 broker of unknown state, 2 partitions"
    assert warning in [point.text for point in answer.verdict.points]
    assert [row.failed for row in answer.brokers] == [1, 2, 5]
    failure = evaluate_failure(snapshot, [1], TopicDefaults())
    assert f"  warning: {warning}" in format_failure(failure)
    assert to_json(failure)["summary"]["gaps"]["unknown_brokers"] == [5]


def test_every_command_counts_brokers_of_unknown_state(tmp_path: Path) -> None:
    snapshot = load(tmp_path, MOVING)
    model = build_model("paste", snapshot.brokers, snapshot.partitions, snapshot.topics)
    assert model.broker_ids[model.live].tolist() == [1, 2, 5, 6]
    assert read_brokers(snapshot.brokers, np.empty(0, np.int32)).live.all()
    assert [broker.id for broker in read_cluster_request(snapshot)[1]] == [1, 2, 5, 6]
    facts = parse_facts(snapshot.files)
    assert read_initial_state(snapshot, facts, KAFKA_DEFAULTS).live == {1, 2, 5, 6}
    assert find_snapshot_hotspots(snapshot, TrialOptions((NAIVE,), 0, 1, 10)).live_brokers == 4


def test_observers_are_named_where_they_matter(tmp_path: Path) -> None:
    snapshot = load(tmp_path, MOVING)
    at, observers = snapshot.partitions.schema.get_field_index("observers"), pa.array([[5], [6]], pa.list_(pa.int32()))
    snapshot = replace(snapshot, partitions=snapshot.partitions.set_column(at, "observers", observers))
    assert "  2 partitions with observers, which may be promoted to the ISR" in list(render_snapshot(snapshot))
    note = (
        "  note: 2 partitions have observers, which the topic's placement constraints may promote to the ISR: "
        "offline and below min.insync.replicas may be too pessimistic"
    )
    assert note in format_failure(evaluate_failure(snapshot, [1], TopicDefaults()))
