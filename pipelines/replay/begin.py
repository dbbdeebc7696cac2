"""A snapshot of a source as the begin of a replay."""

from __future__ import annotations

import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.formats.kraft_log import FORMAT as KRAFT_LOG
from pipelines.ingest.snapshot import Snapshot, framed
from pipelines.ingest.sources import Source
from udfs.replay.events import Begin, Held, Rules


def begin_of(source: Source, snapshot: Snapshot, min_isr: int, unclean: bool, format_name: str | None = None) -> Begin:
    """The begin. min_isr, unclean: of topics whose source shows none. SourceError where no source shows replicas."""
    epochs, controller, cluster_epoch = _epochs(source, format_name)
    partitions = snapshot.partitions.filter(pc.is_valid(snapshot.partitions["replicas"]))
    if not partitions.num_rows:
        remedy = "Add a kafka-topics --describe of the cluster, or a dump of its ZooKeeper."
        raise SourceError(snapshot.cluster_id, "its sources show no replicas", remedy)
    brokers = {row["broker_id"]: row for row in snapshot.brokers.to_pylist()}
    topics = {row["topic"]: row for row in snapshot.topics.to_pylist()}
    held = []
    for row in partitions.sort_by([("topic", "ascending"), ("partition", "ascending")]).to_pylist():
        topic = topics.get(row["topic"], {})
        allowed, least = topic.get("unclean_leader_election"), topic.get("min_insync_replicas")
        key = (row["topic"], row["partition"])
        held.append(
            Held(
                key,
                tuple(row["replicas"]),
                tuple(row["isr"] or ()),
                row["leader"] if row["leader"] is not None and row["leader"] >= 0 else None,
                row["leader_epoch"] or 0,
                epochs.get(key, 0),
                tuple(row["elr"] or ()),
                unclean if allowed is None else allowed,
                min_isr if least is None else least,
            )
        )
    elr = any(row is not None for row in partitions["elr"].to_pylist())
    kraft = elr or KRAFT_LOG.name in snapshot.formats.values()
    return Begin(
        tuple(sorted(brokers)),
        frozenset(b for b, row in brokers.items() if row["alive"]),
        tuple(held),
        controller,
        max([cluster_epoch, *epochs.values()]),
        Rules(kraft, elr),
    )


def _epochs(source: Source, format_name: str | None) -> tuple[dict[tuple[str, int], int], int | None, int]:
    """(controller epoch that wrote each partition, the controller, its epoch), where znodes show them."""
    epochs: dict[tuple[str, int], int] = {}
    controller, cluster_epoch = None, 0
    for _, chosen, records in framed(source, format_name):
        facts = chosen.parse(records)
        said = facts.filter(pc.or_(pc.is_valid(facts["controller_epoch"]), pc.fill_null(facts["controller"], False)))
        for row in said.select(["topic", "partition", "broker_id", "controller", "controller_epoch"]).to_pylist():
            if row["controller"]:
                controller = row["broker_id"]
            elif row["topic"] is None:
                cluster_epoch = row["controller_epoch"]
            else:
                epochs[row["topic"], row["partition"]] = row["controller_epoch"]
    return epochs, controller, cluster_epoch
