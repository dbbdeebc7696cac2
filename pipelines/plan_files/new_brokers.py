"""Brokers that are live but in no source, as they have no replicas yet: named by the user, or proposed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pipelines.errors import SettingsError
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.verdict.naming import name_with_noun
from udfs.planning.plan_request import PlanRequest
from udfs.plurals import join_names

ADDED = "named in --add-brokers"  # reason why a broker counts as live
UNKNOWN_RACK = "RACK"  # where a proposal cannot name the rack


@dataclass(frozen=True)
class NewBroker:
    """A broker to add to a snapshot."""

    broker_id: int
    rack: str | None = None

    def __str__(self) -> str:
        """Return the broker as --add-brokers has it."""
        return f"{self.broker_id}" if self.rack is None else f"{self.broker_id}:{self.rack}"


def add_new_brokers(snapshot: Snapshot, brokers: Sequence[NewBroker]) -> Snapshot:
    """Add live brokers without replicas to a snapshot. Those that it has already stay as they are.

    Raises:
        SettingsError: A source shows another rack of a broker, or racks of all others and the new one has none.

    """
    racks = read_racks(snapshot)
    rows = []
    for broker in brokers:
        known_rack = racks.get(broker.broker_id)
        if broker.broker_id in racks:
            if broker.rack is not None and known_rack not in (None, broker.rack):
                problem = f"the sources show broker {broker.broker_id} in rack {known_rack}"
                raise SettingsError(f"--add-brokers {broker}: {problem}. Leave it out, or write this rack")
            continue
        if broker.rack is None and racks and None not in racks.values():
            problem = "all other brokers have a rack, and Kafka ignores all racks if one broker has none"
            raise SettingsError(
                f"--add-brokers {broker}: {problem}. Add its rack, as in {broker}:{min(racks.values(), key=str)}"
            )
        row = dict.fromkeys(snapshot.brokers.column_names)
        row |= {"broker_id": broker.broker_id, "rack": broker.rack, "live": True}
        row |= {"live_reason": ADDED, "controller": False, "draining": False}
        rows.append(row | {"replicas": 0, "leaders": 0})
    added = pa.Table.from_pylist(rows, snapshot.brokers.schema)
    return replace(snapshot, brokers=pa.concat_tables([snapshot.brokers, added]))


def list_added_brokers(snapshot: Snapshot) -> list[NewBroker]:
    """List the brokers that no source shows, and that were added to the snapshot."""
    columns = (snapshot.brokers[name].to_pylist() for name in ("broker_id", "rack", "live_reason"))
    return [NewBroker(id_, rack) for id_, rack, reason in zip(*columns, strict=True) if reason == ADDED]


def list_unknown_brokers(snapshot: Snapshot, brokers: Sequence[NewBroker]) -> list[NewBroker]:
    """List those of some brokers that the snapshot does not have."""
    known = set(snapshot.brokers["broker_id"].to_pylist())
    return [broker for broker in brokers if broker.broker_id not in known]


def explain_assumption(brokers: Sequence[NewBroker]) -> str:
    """Explain why brokers that no source shows count as live when a plan is checked."""
    names = name_with_noun([broker.broker_id for broker in brokers])
    return f"no source shows {names}, added with --add-brokers when the plan was made: counted as live"


def propose_new_brokers(snapshot: Snapshot, request: PlanRequest) -> list[NewBroker]:
    """Propose to add the brokers that a request fills and that no source shows; a replacement gets the old rack."""
    racks = read_racks(snapshot)
    has_racks = bool(racks) and None not in racks.values()
    old_of = {new: old for old, new in request.replacements}
    named = old_of.keys() if request.goal == "replace" else request.brokers if request.goal == "expand" else ()
    if not set(old_of.values()) <= racks.keys():
        return []
    return [
        NewBroker(id_, (racks[old_of[id_]] if id_ in old_of else UNKNOWN_RACK) if has_racks else None)
        for id_ in sorted(set(named) - racks.keys())
    ]


def explain_proposal(snapshot: Snapshot, proposed: Sequence[NewBroker]) -> tuple[str, str]:
    """Return the problem of an error about unknown brokers, and the remedy without the command that follows it."""
    names = name_with_noun([broker.broker_id for broker in proposed])
    problem = f"no source shows {names}: a broker without replicas is in no source but a list of brokers"
    if all(broker.rack is None for broker in proposed):
        return problem, "If live, add"
    known = join_names(sorted({str(rack) for rack in read_racks(snapshot).values()}))
    return problem, f"If live, add with the right rack (racks now: {known})"


def read_racks(snapshot: Snapshot) -> Mapping[int, str | None]:
    """Read the racks of all brokers by id; None where no source shows one."""
    columns = (snapshot.brokers[name].to_pylist() for name in ("broker_id", "rack"))
    return dict(zip(*columns, strict=True))
