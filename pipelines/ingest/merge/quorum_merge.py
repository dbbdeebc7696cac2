"""Merges what sources show of the controller quorum: its voters, its leader, and which of them lag."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.entities import QUORUM, QUORUM_NODES
from pipelines.ingest.merge.fact_merge import merge_by_key
from pipelines.ingest.merge.live_brokers import get_down_brokers
from pipelines.ingest.merge.shard_facts import ShardFacts
from pipelines.ingest.source_format import FactKind
from udfs.arrow.columns import FLAG, TEXT, to_flags, to_numpy
from udfs.failures.scenarios import UNKNOWN_VOTER, QuorumVoters, find_lags
from udfs.plurals import join_names

_FIELDS = (*("voter", "controller", "directory_id", "host", "port", "log_end_offset", "offset_lag"), "caught_up_ms")

_ORIGIN = ("source", "record_number", "line_number")


def get_voters(nodes: Iterable[Any], down: Collection[int]) -> QuorumVoters:
    """Return the voters of a quorum. nodes: rows with the columns of QUORUM; down: ids of brokers that are down."""
    rows = [row for row in nodes if row["voter"]]
    lagging = (row["node_id"] for row in rows if row["caught_up"] is False or row["node_id"] in down)
    leader = next((row["node_id"] for row in rows if row["leader"]), None)
    return QuorumVoters(tuple(row["node_id"] for row in rows), tuple(lagging), leader)


def find_voters(quorum: pa.Table, brokers: pa.Table) -> QuorumVoters:
    """Return the voters of a quorum (schema QUORUM) of a cluster with these brokers (id, and whether they are live)."""
    return get_voters(quorum.to_pylist(), set(get_down_brokers(brokers).tolist()))


def describe_nodes(quorum: pa.Table, brokers: pa.Table) -> pa.Table:
    """Add to the nodes of a quorum (schema QUORUM) what its brokers show, with id, rack and live (QUORUM_NODES)."""
    racks = dict(zip(*(brokers[name].to_pylist() for name in ("broker_id", "rack")), strict=True))
    voters, nodes = find_voters(quorum, brokers), quorum["node_id"].to_pylist()
    columns = {
        "broker": pa.array([node in racks for node in nodes], FLAG),
        "rack": pa.array([racks.get(node) for node in nodes], TEXT),
        "can_fail": pa.array([voters.elects_without({node}) for node in nodes], FLAG),
    }
    for name, values in columns.items():
        quorum = quorum.append_column(name, values)
    return quorum.cast(QUORUM_NODES)


def compare_voters(shard: ShardFacts) -> Iterator[dict[str, Any]]:
    """Yield warnings (rows of WARNINGS) of lists that lack voters which others show: once of equal lists.

    A list of --status, of settings or of a log is one record; --replication shows one voter in each row.
    """
    facts = shard.select(FactKind.QUORUM)
    facts = facts.filter(pc.and_(facts["home"], facts["voter"])).select(["broker_id", "log_end_offset", *_ORIGIN])
    lists: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    for row in facts.to_pylist():
        record = row["record_number"] if row.pop("log_end_offset") is None else None
        lists.setdefault((row["source"], record), []).append(row)
    distinct = {frozenset(row["broker_id"] for row in rows): rows[0] for rows in reversed(lists.values())}
    every = frozenset().union(*distinct)
    for voters, first in distinct.items():
        if missing := every - voters:
            text = f"voters of the controller quorum that others show are missing here ({join_names(sorted(missing))})"
            warning = f"{text}: all of them count; leave out what is of another moment"
            yield {**{name: first[name] for name in _ORIGIN}, "warning": warning}


def merge_quorum(shard: ShardFacts) -> pa.Table:
    """Merge the facts about nodes of the quorum (schema QUORUM); without voters, nothing is known of it.

    Listings of two moments differ in offsets and times: those of the first one are used.
    """
    facts = shard.select(FactKind.QUORUM)
    merged = merge_by_key(facts, to_numpy(facts["broker_id"]).astype(np.int64), _FIELDS)
    shard.ignore_duplicates(facts, merged)
    home = to_flags(facts["home"])
    for conflict in (one for one in merged.conflicts if one.field == "voter" and home[one.row]):
        shard.add_conflict(f"node {facts['broker_id'][conflict.row].as_py()} of the quorum", facts, conflict)
    table = merged.table
    states = pc.and_(pc.equal(shard.facts["kind"], FactKind.IGNORED), pc.invert(shard.facts["controller"]))
    has_controller = not pc.any(states).as_py()
    if not to_flags(table["voter"]).any():
        lost = {"node_id": UNKNOWN_VOTER, "voter": True, "leader": False, "caught_up": False}
        return pa.Table.from_pylist([] if has_controller else [lost], QUORUM)
    leads = pa.array(to_flags(table["controller"]))
    lag_ms, follows = find_lags(table["log_end_offset"], table["caught_up_ms"], leads)
    # Without a controller, brokers show by themselves whether they are live; no source shows it of other voters.
    if not has_controller:
        is_broker = pc.is_in(pa.array(merged.keys), shard.select(FactKind.BROKER)["broker_id"].cast(pa.int64()))
        follows = pc.if_else(is_broker, follows, False)
    columns = {
        "node_id": pa.array(merged.keys.astype(np.int32)),
        "voter": pc.fill_null(table["voter"], False),
        "leader": leads,
        **{name: table[name] for name in ("directory_id", "host", "port", "log_end_offset")},
        "lag": table["offset_lag"],
        "lag_ms": lag_ms,
        "caught_up": follows,
    }
    return pa.table(columns).select(QUORUM.names).cast(QUORUM)
