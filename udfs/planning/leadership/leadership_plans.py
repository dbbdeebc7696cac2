"""Plans that copy nothing: preferred leaders first, then who leads after them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.planning.cluster_model import ClusterModel, Flags, Ints, ProposedAssignment, changed
from udfs.planning.leadership.preferred_leaders import (
    Choices,
    Gates,
    Spread,
    drafted,
    leader_certificate,
    leader_choices,
    spread,
    spread_evenly,
)
from udfs.planning.leadership.takeover_order import Limits, crowded_failures, failover
from udfs.planning.leadership.topic_leaders import topic_leaders
from udfs.planning.replica_order import MOST_REASONS

# So often leaders are chosen anew for the sake of what their failures would do.
_ROUNDS = 10


def zero_byte(
    model: ClusterModel,
    keep_leaders: bool = False,
    may_lead: Flags | None = None,
    by_topic: bool = False,
    target: float = 1.03,
    limits: Limits = "each",
) -> ProposedAssignment:
    """The lists with even leaders (kept as they are if asked) and the least worst survivor after any single failure.

    by_topic: each topic's leaders spread as well (topic_leaders).   Others: as in leaders and failover. Where leaders
    with the fewest changes miss the target, others that are as even are tried; the certificate has the price.
    """
    if keep_leaders:
        led = ProposedAssignment(model.offsets, model.replicas, np.full(model.partitions, -1, dtype=np.int16), ())
    elif by_topic:
        led = topic_leaders(model, may_lead)
    else:
        led = _leaders_for_failover(model, may_lead, target)
    placed = model.placed(led.offsets, led.replicas)
    ordered = failover(placed, may_lead, target, limits, changed(model, led.offsets, led.replicas))
    reason, reasons = _joined(led, ordered)
    differs = changed(model, ordered.offsets, ordered.replicas)
    certificate = {
        "goal": "failover",
        "lists_changed": int(differs.sum()),
        "leaders": dict(led.certificate) or None,
        "failover": dict(ordered.certificate),
    }
    return ProposedAssignment(ordered.offsets, ordered.replicas, reason, reasons, certificate)


def _leaders_for_failover(model: ClusterModel, may_lead: Flags | None, target: float) -> ProposedAssignment:
    """Leaders as even as can be that let all failures meet the target, or come nearest, of the choices tried.

    Where a failure misses it, some brokers alone can take what is too much of the down one's: of such partitions, it
    may
    lead only so many as they can bear, and the leaders are chosen anew.
    """
    choices = leader_choices(model, may_lead)
    fewest = found = spread(choices)
    best, nearest = fewest, np.inf
    gates, aim = Gates.none(choices), target
    for _ in range(_ROUNDS):
        proposal = drafted(model, choices, found, {})
        ratio, down, room, tight = crowded_failures(model.placed(proposal.offsets, proposal.replicas), may_lead, aim)
        if ratio < nearest - 1e-9:
            best, nearest = found, ratio
        if not len(down) or not fewest.even:
            break
        gates = _with_gates(choices, gates, found, down, room, tight)
        other = spread_evenly(choices, gates)
        if other is None:  # too much at once: from the best, half the way
            other, gates, aim = best, Gates.none(choices), (aim + nearest) / 2
        found = other
    certificate = leader_certificate(model, choices, best) | {
        "goal": "leaders",
        "bound": fewest.changes_bound,
        "gap": best.changes - fewest.changes_bound,
        "price_of_failover": {"changes": best.changes - fewest.changes},
    }
    return drafted(model, choices, best, certificate)


def _with_gates(choices: Choices, gates: Gates, found: Spread, down: Ints, room: Ints, tight: Flags) -> Gates:
    """Also limits what each of these brokers leads of what only its `tight` can take to their `room`."""
    of, broker, capacity = gates.of.copy(), gates.broker.tolist(), gates.capacity.tolist()
    could = np.bincount(choices.item, minlength=len(choices.partition))
    leads = np.zeros(len(choices.item), dtype=np.bool_)
    leads[found.chosen] = True
    for failure, (place, most) in enumerate(zip(down.tolist(), room.tolist(), strict=True)):
        within = np.bincount(choices.item, tight[failure][choices.broker], len(could)) == could - 1
        concerned = (choices.broker == place) & (could > 1)[choices.item] & within[choices.item]
        # What has a limit keeps it, as a part of this one.
        inner = np.unique(of[concerned & (of >= 0)])
        mine = concerned & (of < 0)
        if not mine.any():
            for gate in inner.tolist():  # the same set once more: tighter by one
                capacity[gate] = max(min(capacity[gate], int(leads[of == gate].sum())) - 1, 0)
            continue
        of[mine] = len(broker)
        broker.append(place)
        capacity.append(max(most - sum(capacity[gate] for gate in inner.tolist()), 0))
    return Gates(of, np.array(broker, dtype=np.int64), np.array(capacity, dtype=np.int64))


def _joined(first: ProposedAssignment, second: ProposedAssignment) -> tuple[npt.NDArray[np.int16], tuple[str, ...]]:
    # A list that both change has both reasons, if texts are not too many for that.
    width = len(second.reasons) + 1
    codes = (first.reason.astype(np.int64) + 1) * width + second.reason + 1
    distinct, which = np.unique(codes, return_inverse=True)
    if len(distinct) > MOST_REASONS:
        codes = np.where(first.reason >= 0, codes - codes % width, codes)
        distinct, which = np.unique(codes, return_inverse=True)
    words, others = ("", *first.reasons), ("", *second.reasons)
    texts = ["; ".join(filter(None, (words[code // width], others[code % width]))) for code in distinct.tolist()]
    if len(distinct) and distinct[0] == 0:
        return (which - 1).astype(np.int16), tuple(texts[1:])
    return which.astype(np.int16), tuple(texts)
