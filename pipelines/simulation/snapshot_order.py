"""Snapshots of a replay: whether they are of one cluster, in the order in which they were taken.

Only what sources show counts. A topic that has another id was deleted and created again: its epochs begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.snapshot import Snapshot
from pipelines.simulation.source_state import FILTERED, Shown
from udfs.simulation.cluster_events import Key

_ONE = "Name snapshots of one cluster; another cluster is a replay of its own."
_EARLIEST_FIRST = "Epochs never go back: name the snapshots in their order, the earliest first."


def check_order(snapshots: Sequence[Shown]) -> tuple[str, ...]:
    """What is odd about them. SourceError with the first that cannot follow the one before it."""
    odd = []
    for one in snapshots if len(snapshots) > 1 else ():
        for name in one.filtered:
            remedy = "Others would count as removed: give a describe of all topics."
            raise SourceError(one.path, f"{name} {FILTERED}" if name not in one.path else FILTERED, remedy)
    for before, after in pairwise(snapshots):
        if _only_brokers_in_common(before, after):
            odd.append(f"{after.path}: shows no topic that {before.path} shows. Are they of one cluster?")
        for whose, was, now in () if after.gaps else _epochs(before, after):
            if now < was:
                problem = f"the epoch of {whose} is {now}, and {was} in {before.path}"
                raise SourceError(after.path, problem, _EARLIEST_FIRST)
    return tuple(odd)


def _only_brokers_in_common(before: Shown, after: Shown) -> bool:
    """Whether only brokers are in both. SourceError if not even they are, or the clusters' ids differ."""
    if before.cluster is not None and after.cluster is not None:
        if before.cluster != after.cluster:
            problem = f"is of cluster {after.cluster}, {before.path} of cluster {before.cluster}"
            raise SourceError(after.path, problem, _ONE)
        return False
    if _share(_topic_ids(before.snapshot), _topic_ids(after.snapshot)):
        return False
    if _share(_addresses(before.snapshot), _addresses(after.snapshot)):
        return True
    raise SourceError(after.path, f"shows no broker and no topic that {before.path} shows", _ONE)


def _share(was: Mapping[Any, Any], now: Mapping[Any, Any]) -> bool:
    """Whether a name stands for the same in both, as far as is known."""
    return any(None in (was[name], now[name]) or was[name] == now[name] for name in was.keys() & now.keys())


def _topic_ids(of: Snapshot) -> dict[str, str | None]:
    """{topic: its id, None = not known}."""
    return dict(zip(of.topics["topic"].to_pylist(), of.topics["topic_id"].to_pylist(), strict=True))


def _addresses(of: Snapshot) -> dict[int, tuple[str, int] | None]:
    """{broker: (host, port), None = not known}."""
    columns = (of.brokers[name].to_pylist() for name in ("broker_id", "host", "port"))
    return {broker: None if host is None else (host, port) for broker, host, port in zip(*columns, strict=True)}


def _epochs(before: Shown, after: Shown) -> Iterator[tuple[str, int, int]]:
    """(whose epoch, what it was, what it is) of all that is the same in both, where both are known."""
    if after.controller_epoch:
        yield "the controller", before.begin.controller_epoch, after.controller_epoch
    held = {one.key: one for one in before.begin.partitions}
    was_ids, ids = _topic_ids(before.snapshot), _topic_ids(after.snapshot)
    leader_epochs = _leader_epochs(after.snapshot)
    for one in after.begin.partitions:
        was, (topic, number) = held.get(one.key), one.key
        if was is not None and one.controller_epoch:
            yield f"the controller that wrote {topic}-{number}", was.controller_epoch, one.controller_epoch
        if was is not None and one.key in leader_epochs and ids[topic] is not None and ids[topic] == was_ids[topic]:
            yield f"the leader of {topic}-{number}", was.leader_epoch, leader_epochs[one.key]


def _leader_epochs(of: Snapshot) -> dict[Key, int]:
    """Leader epochs, of partitions of which a source shows them."""
    told = of.partitions.filter(pc.is_valid(of.partitions["leader_epoch"]))
    keys = zip(told["topic"].to_pylist(), told["partition"].to_pylist(), strict=True)
    return dict(zip(keys, told["leader_epoch"].to_pylist(), strict=True))
