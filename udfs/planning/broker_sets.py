"""Broker sets: topics whose replicas belong on some of the brokers. Each set is planned as a cluster of its own."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from udfs.arrow.ragged import any_true, offsets_of, position_of, row_of
from udfs.network.traffic_rows import NetworkAssumptions, list_zones, name_zones, share_clients
from udfs.planning.certificates import Certificate, Proof
from udfs.planning.cluster_model import FREE, ClusterModel, FreezeReason, Int32s, Ints, ProposedAssignment, take
from udfs.planning.constraints import COPYING_GOALS, InfeasibleRequest, find_receiving_brokers
from udfs.planning.plan_request import ZONES, BrokerSet, PlanRequest

Plan = Callable[[ClusterModel, PlanRequest], ProposedAssignment]
REST = "other brokers"  # the set of the brokers that are in no other
# Fields of ClusterModel.
_OF_BROKERS, _OF_REPLICAS = (
    ("broker_ids", "live", "fetching", "unknown", "cordoned", "disk_room", "disk_excess"),
    ("in_sync", "failed", "adding", "replica_size"),
)
_OF_PARTITIONS = ("topic", "partition", "size", "rate_in", "rate_out", "topic_min_isr", "unrated", "topic_factor")
# Goals that also move replicas into the set of their topic.
_GATHERING = ("balance", "expand", "drain")


@dataclass(frozen=True)
class SetCertificate:
    """What is proven about the plan of one set. outside: replicas on brokers of another set, before and after it."""

    name: str
    brokers: list[int]
    partitions: int
    outside_before: int
    outside: int
    certificate: Certificate


@dataclass(frozen=True)
class BrokerSetsCertificate(Certificate):
    """What is proven about the plan of each broker set."""

    goal: str
    sets: list[SetCertificate]

    @property
    def proofs(self) -> list[Proof]:
        """Return the bounds of all sets, each with the name of its set."""
        return [
            replace(proof, quantity=f"{proof.quantity} (broker set {one.name})")
            for one in self.sets
            for proof in one.certificate.proofs
        ]


@dataclass(frozen=True)
class SetMembers:
    """Which set each broker and each partition of a model belongs to."""

    names: tuple[str, ...]  # (s)
    of_broker: Ints  # int64 (n)
    of_partition: Ints  # int64 (p)


def assign_sets(model: ClusterModel, sets: Sequence[BrokerSet]) -> SetMembers:
    """Assign brokers and topics to sets. A topic that no pattern matches is of the set with most of its replicas.

    Raise InfeasibleRequest if a broker or a topic is of two sets.
    """
    own = [one for one in sets if one.cluster in ("", model.cluster_id)]
    names = (*(one.name for one in own), REST)
    of_broker = np.full(model.brokers, len(own), dtype=np.int64)
    of_topic = np.full(len(model.topic_names), -1, dtype=np.int64)
    for number, one in enumerate(own):
        members = np.isin(model.broker_ids, one.brokers)
        matches = np.array([any(fnmatch.fnmatchcase(name, text) for text in one.topics) for name in model.topic_names])
        for kind, known, chosen, labels in (
            ("broker", of_broker < len(own), members, model.broker_ids),
            ("topic", of_topic >= 0, matches.astype(np.bool_), np.array(model.topic_names)),
        ):
            if (both := known & chosen).any():
                raise InfeasibleRequest([f"{kind} {labels[both][0]} is in two broker sets, one of which is {one.name}"])
        of_broker[members] = number
        of_topic[matches.astype(np.bool_)] = number
    votes = np.zeros((len(of_topic), len(names)), dtype=np.int64)
    np.add.at(votes, (model.topic[model.row], of_broker[model.replicas]), 1)
    of_topic = np.where(of_topic >= 0, of_topic, votes.argmax(axis=1) if len(of_topic) else of_topic)
    return SetMembers(names, of_broker, of_topic[model.topic])


class _Part(NamedTuple):
    """One set of a model as a model of its own. brokers, rows: their indices in the whole model."""

    name: str
    model: ClusterModel
    brokers: Ints
    rows: Ints
    outsiders: tuple[int, ...]  # ids of brokers of other sets that hold replicas of its topics


def plan_in_sets(model: ClusterModel, request: PlanRequest, plan: Plan) -> ProposedAssignment:
    """Plan each set by itself, and put the plans together. plan: plans one model.

    Where sets are hard, the goals balance, expand and drain also move replicas into the set of their topic; where they
    are soft, partitions with such replicas stay as they are. Raise InfeasibleRequest if a set makes no sense.
    """
    members = assign_sets(model, request.broker_sets)
    length, reason = model.factor, np.full(model.partitions, -1, dtype=np.int16)
    parts, reasons, certificates = [], list[str](), []
    budget = request if request.goal != ZONES else replace(request, network=fix_zones(model, request.network))
    for number in range(len(members.names)):
        rows = np.flatnonzero(members.of_partition == number)
        if not len(rows):
            continue
        part = _select_part(model, members, number, rows, request)
        proposal = _plan_part(part, budget, plan)
        copied = part.model.find_copied(proposal)
        spent = {"max_bytes": part.model.size[row_of(proposal.offsets)[copied]].sum(), "max_moves": copied.sum()}
        limits = ((name, getattr(budget, name)) for name in spent)
        left: dict[str, Any] = {name: max(int(most - spent[name]), 0) for name, most in limits if most is not None}
        budget = replace(budget, **left)
        length[rows] = np.diff(proposal.offsets)
        parts.append((part, proposal))
        reason[rows] = np.where(proposal.reason >= 0, proposal.reason + len(reasons), -1)
        reasons += proposal.reasons
        certificates.append(_certify(model, members, number, part, proposal))
    offsets = offsets_of(length)
    replicas = np.empty(offsets[-1], dtype=np.int32)
    for part, proposal in parts:
        row = part.rows[row_of(proposal.offsets)]
        replicas[offsets[row] + position_of(proposal.offsets)] = part.brokers[proposal.replicas]
    relaxed, missed = (
        [f"{text} (broker set {one.name})" for one in certificates for text in getattr(one.certificate, kind)]
        for kind in ("relaxed", "missed")
    )
    certificate = BrokerSetsCertificate(goal=request.goal, sets=certificates, relaxed=relaxed, missed=missed)
    return ProposedAssignment(offsets, replicas, reason, tuple(reasons), certificate)


def fix_zones(model: ClusterModel, assumptions: NetworkAssumptions) -> NetworkAssumptions:
    """Return the assumptions with the shares of clients in the zones of the whole cluster: a set may lack some."""
    racks = tuple(model.rack_names[rack] for rack in model.rack[model.live].tolist()) if model.rack_names else ()
    zones = list_zones(racks, assumptions)
    names = name_zones(zones, assumptions)

    def fix(shares: Mapping[str, float]) -> dict[str, float]:
        known = share_clients(zones, names, shares)[:-1].tolist() if names else []
        return {name: share for name, share in zip(names, known, strict=True) if share > 0}

    return assumptions._replace(
        consumer_zones=fix(assumptions.consumer_zones), producer_zones=fix(assumptions.producer_zones)
    )


def _certify(
    model: ClusterModel, members: SetMembers, number: int, part: _Part, proposal: ProposedAssignment
) -> SetCertificate:
    def count_outside(replicas: Int32s) -> int:
        return int((members.of_broker[part.brokers[replicas]] != number).sum())

    return SetCertificate(
        name=members.names[number],
        brokers=model.ids(np.flatnonzero(members.of_broker == number)),
        partitions=len(part.rows),
        outside_before=count_outside(part.model.replicas),
        outside=count_outside(proposal.replicas),
        certificate=proposal.certificate,
    )


def _select_part(model: ClusterModel, members: SetMembers, number: int, rows: Ints, request: PlanRequest) -> _Part:
    """Select the brokers and partitions of a set, and as brokers to be emptied those of others with such partitions."""
    selected = np.zeros(model.partitions, dtype=np.bool_)
    selected[rows] = True
    slots = selected[model.row]
    replicas, own = model.replicas[slots], members.of_broker == number
    outside = np.zeros(model.brokers, dtype=np.bool_)
    outside[replicas] = True
    outside &= ~own
    brokers = np.flatnonzero(own | outside)
    place = np.full(model.brokers, -1, dtype=np.int32)
    place[brokers] = np.arange(len(brokers), dtype=np.int32)
    offsets = offsets_of(model.factor[rows])
    frozen, draining, rack = model.frozen[rows].copy(), model.draining | outside, model.rack.copy()
    if request.soft_broker_sets:
        strays = any_true(outside[replicas], offsets) & (frozen == FREE)
        frozen[strays] = FreezeReason.OUTSIDE_SET
    if own.any() and request.goal in COPYING_GOALS and request.goal != ZONES:  # no rack counts that only others are in
        rack[outside] = rack[np.flatnonzero(own)[0]]

    place_or_none = np.append(place, np.int32(-1))  # of no broker, -1, there is none
    axes = ((_OF_BROKERS, brokers), (_OF_PARTITIONS, rows), (_OF_REPLICAS, slots))
    own_values: dict[str, Any] = {name: take(getattr(model, name), at) for names, at in axes for name in names}
    references = {"source_replicas": slots, "barred": slots, "leader": rows}
    own_values |= {
        name: None if (of_part := take(getattr(model, name), at)) is None else place_or_none[of_part]
        for name, at in references.items()
    }
    part = replace(
        model,
        **own_values,
        rack=rack[brokers],
        draining=draining[brokers],
        offsets=offsets,
        replicas=place[replicas],
        frozen=frozen,
        log_dirs=None,  # those of all sets are chosen together
    )
    return _Part(members.names[number], part, brokers, rows, tuple(model.ids(np.flatnonzero(outside))))


def _plan_part(part: _Part, request: PlanRequest, plan: Plan) -> ProposedAssignment:
    """Plan one set: with what the request asks of its brokers, and of those of others with its partitions."""
    model, known = part.model, set(part.model.broker_ids.tolist())
    named = tuple(id_ for id_ in request.brokers if id_ in known)
    replacements = tuple(pair for pair in request.replacements if pair[0] in known)
    own_ids = known - {*part.outsiders}
    for old, new in replacements:
        if new not in own_ids:
            topics = f"topics on broker {old} are of the broker set {part.name}, but broker {new} is not"
            raise InfeasibleRequest([f"{topics}: choose one that is, or first plan --goal balance"])
    own = replace(
        request,
        broker_sets=(),
        brokers=named,
        replacements=replacements,
        exclude_brokers=tuple(id_ for id_ in request.exclude_brokers if id_ in known),
        topics=tuple(name for name in request.topics if name in model.topic_names),
    )
    gathers = request.goal in _GATHERING and not request.soft_broker_sets and bool(part.outsiders)
    if gathers:
        emptied = named if request.goal == "drain" else ()
        own = replace(own, goal="drain", brokers=tuple(sorted({*emptied, *part.outsiders})))
    unchanged = ProposedAssignment(model.offsets, model.replicas, np.full(model.partitions, -1, dtype=np.int16), ())
    is_empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    asks_nothing = {
        "drain": not own.brokers and not model.draining.any(),
        "expand": not own.brokers and not (is_empty & find_receiving_brokers(model)).any(),
        "replace": not own.replacements,
    }
    return unchanged if not gathers and asks_nothing.get(own.goal, False) else plan(model, own)
