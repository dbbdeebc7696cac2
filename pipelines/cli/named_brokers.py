"""Brokers that fail or return together, as options of `what-if` name them: by id or by rack."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import typer

from pipelines.cli.option_values import parse_broker_ids
from pipelines.quoted_values import quote_value

if TYPE_CHECKING:
    from pipelines.ingest.snapshot_reader import Snapshot

RACK_PREFIX = "rack:"


def find_brokers(option: str, text: str, snapshot: Snapshot) -> list[int]:
    """Return the ids that `2,5` or `eu-1a` name, without repetitions; a rack stands for all its brokers.

    `rack:1` is the rack 1, where `1` is the broker 1.

    Raises: typer.BadParameter, which names the option, for a part that is neither a broker id nor a rack.
    """
    ids: list[int] = []
    try:
        for part in map(str.strip, text.split(",")):
            is_id = part.isdecimal() or not part
            ids += parse_broker_ids(part) if is_id else _find_brokers(part, snapshot)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error
    return list(dict.fromkeys(ids))


def _find_brokers(part: str, snapshot: Snapshot) -> list[int]:
    """Return the brokers of a rack; raise ValueError if the cluster has no such rack."""
    brokers, racks = snapshot.brokers, defaultdict(list)
    for broker, rack in zip(brokers["broker_id"].to_pylist(), brokers["rack"].to_pylist(), strict=True):
        if rack is not None:
            racks[rack].append(broker)
    name = part.removeprefix(RACK_PREFIX)
    if name not in racks:
        names = ", ".join(sorted(racks)) or "none is known"
        raise ValueError(
            f"{quote_value(part)} is neither a broker id nor a rack of cluster {snapshot.cluster_id}. "
            f"Its racks: {names}. Write ids or racks separated by commas, as in 2,5"
        )
    return racks[name]
