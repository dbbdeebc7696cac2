"""What a plan changes, in few words: what is better after it, what is worse, and what to know before it is executed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.quantities import format_bytes
from udfs.plurals import count_of

_MAX_PARTS = 3
_MIN_CHANGE = 0.1  # of a number of partitions, as a share of the larger number
_MIN_RATIO_CHANGE, _EVEN_RATIO = 0.05, 1.1  # of a ratio to the mean; a ratio up to _EVEN_RATIO is not worse
_LARGE_GROWTH = 1.5  # bytes of the fullest broker after the plan over those before
_BECAUSE = " because "  # in frozen_reasons, as in `2 because of an ongoing reassignment`
_RACKS = "_of_racks"  # the end of metrics about the failure of a rack
# Metrics of gold.plan_metrics, the most important first.
_COUNTS = {
    "under_replicated_partitions": "under-replicated partitions {} -> {}",
    "newly_offline_partitions": "offline if a broker fails: up to {} -> {}",
    f"newly_offline_partitions{_RACKS}": "offline if a rack fails: up to {} -> {}",
    "under_min_isr_partitions": "acks=all blocked if a broker fails: up to {} -> {}",
    f"under_min_isr_partitions{_RACKS}": "acks=all blocked if a rack fails: up to {} -> {}",
    "rack_violations": "rack violations {} -> {}",
}
_RATIOS = {
    "worst_survivor_ratio": "worst survivor",
    "leaders_max_over_mean": "most leaders on a broker",
    "disk_max_over_mean": "fullest disk",
    "replicas_max_over_mean": "most replicas on a broker",
    "bytes_in_max_over_mean": "most bytes into a broker",
    "bytes_out_max_over_mean": "most bytes out of a broker",
}


class PlanEffects(NamedTuple):
    """What a plan changes, each the most important first, and caveats."""

    better: list[str]
    worse: list[str]
    caveats: list[str]


def describe_effects(plan: Mapping[str, Any] | None, has_racks: bool) -> PlanEffects | None:
    """Describe the effects of a plan (a row of gold.plans with its metrics); None if there is no plan.

    has_racks: whether there are several racks, so that the failure of one matters.
    """
    if not plan or not plan["feasible"]:
        return None
    changes = [*_compare_counts(plan, has_racks), *_compare_ratios(plan)]
    better, worse = ([text for is_better, text in changes if is_better is side][:_MAX_PARTS] for side in (True, False))
    return PlanEffects(better, worse, list(_list_caveats(plan)))


def _compare_counts(plan: Mapping[str, Any], has_racks: bool) -> Iterator[tuple[bool, str]]:
    """Yield each number of partitions that changes: whether it is better then, and the change in words."""
    for name, text in _COUNTS.items():
        before, after = plan["metrics"][name]
        if before is None or after is None or (name.endswith(_RACKS) and not has_racks):
            continue
        if before != after and abs(after - before) >= _MIN_CHANGE * max(before, after):
            yield after < before, text.format(f"{before:,.0f}", f"{after:,.0f}")


def _compare_ratios(plan: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield each load that changes, as a ratio to the mean: whether it is better then, and the change in words."""
    for name, noun in _RATIOS.items():
        before, after = plan["metrics"][name]
        if before is None or after is None or abs(after - before) < _MIN_RATIO_CHANGE:
            continue
        if max(before, after) > _EVEN_RATIO:
            yield after < before, f"{noun} {before:.2f} -> {after:.2f} times the mean"


def _list_caveats(plan: Mapping[str, Any]) -> Iterator[str]:
    frozen, missed = plan["frozen_reasons"], plan["missed_targets"]
    # The missed targets of the goal rf name the partitions of its topics that must stay; the others do not matter.
    if frozen and plan["goal"] != "rf":
        yield _explain_frozen(plan["frozen_partitions"], frozen)
        reasons = tuple(map(_get_reason, frozen))
        missed = [target for target in missed if not target.endswith(reasons)]
    yield from (f"not reached: {target}" for target in missed)
    if plan["copied_bytes"] and (count := plan["unsized_partitions"]):
        yield f"the size of {count_of(count, 'partition')} is unknown and counts as 0 bytes"
    before, after = plan["metrics"]["fullest_broker_bytes"]
    if before is not None and after > _LARGE_GROWTH * before:
        grows = f"broker {plan['fullest_broker']}: {format_bytes(before)} -> {format_bytes(after)}"
        yield f"{grows}, check that it has room"


def _explain_frozen(count: int, reasons: Sequence[str]) -> str:
    stay = f"{count_of(count, 'partition')} {'stays as it is' if count == 1 else 'stay as they are'}"
    return f"{stay}: {_get_reason(reasons[0]) if len(reasons) == 1 else '; '.join(reasons)}"


def _get_reason(text: str) -> str:
    return text.partition(_BECAUSE)[2].removeprefix("of ")
