"""Plans that copy nothing: preferred leaders first, then who leads after them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.planning.failover import Limits, failover
from udfs.planning.leaders import leaders
from udfs.planning.order import MOST_REASONS
from udfs.planning.problem import Draft, Flags, Problem, changed
from udfs.planning.topic_leaders import topic_leaders


def zero_byte(
    problem: Problem,
    keep_leaders: bool = False,
    may_lead: Flags | None = None,
    by_topic: bool = False,
    target: float = 1.03,
    limits: Limits = "each",
) -> Draft:
    """The lists with even leaders (kept as they are if asked) and the least worst survivor after any single death.

    by_topic: each topic's leaders spread as well (topic_leaders).   Others: as in leaders and failover.
    """
    if keep_leaders:
        led = Draft(problem.offsets, problem.replicas, np.full(problem.partitions, -1, dtype=np.int16), ())
    else:
        led = topic_leaders(problem, may_lead) if by_topic else leaders(problem, may_lead)
    placed = problem.placed(led.offsets, led.replicas)
    ordered = failover(placed, may_lead, target, limits, changed(problem, led.offsets, led.replicas))
    reason, reasons = _joined(led, ordered)
    differs = changed(problem, ordered.offsets, ordered.replicas)
    certificate = {
        "goal": "failover",
        "lists_changed": int(differs.sum()),
        "leaders": dict(led.certificate) or None,
        "failover": dict(ordered.certificate),
    }
    return Draft(ordered.offsets, ordered.replicas, reason, reasons, certificate)


def _joined(first: Draft, second: Draft) -> tuple[npt.NDArray[np.int16], tuple[str, ...]]:
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
