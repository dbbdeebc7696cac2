"""A plan as a person judges it: before and after, what is proved, its waves, and how to run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.cli.plan_output import Made
from pipelines.cli.plan_steps import steps
from pipelines.cli.plan_table import table
from pipelines.cli.units import bytes_text, duration, many
from udfs.planning.plan_request import MIN_MOVES
from udfs.planning.plan_summary import Planned, Proof, proofs, texts
from udfs.planning.request_checks import chosen_brokers, ids_text
from udfs.planning.waves import WaveReport, reports

_SHOWN = 6  # of texts, and of waves
_COPIED, _MOVED, _CHANGED = "bytes copied", "replicas copied", "preferred leaders changed"  # as proofs name them


def lines(made: Made, out: Path, server: str) -> Iterator[str]:
    """The plan, line by line. out: the folder it was written to.   server: of Kafka's commands."""
    found, goal = made.planned, made.request.goal
    model, figures = found.model, found.metrics
    chosen = ids_text(chosen_brokers(model, made.request))
    which = f"{goal} {chosen}" if chosen else goal
    counted = f"{many(int(model.live.sum()), 'live broker')}, {many(model.partitions, 'partition')}"
    yield f"cluster {model.cluster_id}: {which}; {counted}"
    yield from table(figures)
    moves, size = figures["moves"], figures["bytes_to_copy"]
    if moves:
        yield f"  copied: {many(moves, 'replica')}, {'of unknown size' if size is None else bytes_text(size)}"
    else:
        yield "  nothing is copied"
    lists, leaders = many(figures["lists_changed"], "replica list"), many(figures["leader_changes"], "preferred leader")
    yield f"  changed: {lists}, {leaders}"
    certificate = found.proposal.certificate
    for proof in proofs(certificate, goal):
        if proof.value and (proof.what != _COPIED or model.known[0]):
            yield f"  {_proof(proof, certificate.get('objective') == MIN_MOVES)}"
    yield from _prices(certificate)
    for name in ("relaxed", "missed"):
        yield from _some(name, texts(certificate, name))
    yield from _waves(found)
    yield f"  took: {', '.join(f'{part} {seconds:.1f} s' for part, seconds in made.seconds.items())}"
    yield f"  written to {out}:"
    yield f"    {', '.join(_file_names(made.files))}"
    yield from steps(made, out, server)


def _proof(proof: Proof, by_moves: bool) -> str:
    """by_moves: whether replicas copied are what the plan made small, and not bytes."""
    shown = bytes_text if proof.what.startswith("bytes") else "{:,.10g}".format
    said = f"{proof.what}: {shown(proof.value)}, {_whose(proof.what)} at least {shown(proof.bound)}"
    if proof.gap <= 1e-9 * abs(proof.bound):
        return f"{said}: proven to be the least"
    if proof.what == _MOVED and not by_moves:
        return f"{said}; but bytes were kept few, not replicas"
    return f"{said}: gap {proof.gap / proof.bound:.2%}" if proof.bound else f"{said}: gap {shown(proof.gap)}"


def _whose(what: str) -> str:
    """What a bound is of."""
    if "survivor" in what:  # only followers' order was left to choose
        return "with these leaders any order gives"
    if what == _CHANGED:
        return "leaders as even as these need"
    return "any plan that reaches as much needs" if what in (_COPIED, _MOVED) else "any plan has"


def _prices(certificate: Mapping[str, Any]) -> Iterator[str]:
    """What was paid in preferred leaders for more than their being even."""
    part = certificate.get("leaders")
    leaders = part if isinstance(part, Mapping) else certificate
    topics, failover = leaders.get("price_of_topics"), leaders.get("price_of_failover")
    if topics is not None:
        cost = f"{topics['changes']:+,} changed preferred leaders"
        if topics["max"] or topics["min"]:
            cost += f", {topics['max']:+,} on the fullest broker, {topics['min']:+,} on the emptiest"
        left = many(topics["topics_above_least_without"], "topic")
        yield f"  price of --per-topic: {cost}; without it, {left} would be less spread than can be"
    if failover is not None and failover["changes"]:
        yield f"  price of failover: {failover['changes']:+,} changed preferred leaders"


def _some(title: str, listed: Sequence[str]) -> Iterator[str]:
    for text in listed[:_SHOWN]:
        yield f"  {title}: {text}"
    if len(listed) > _SHOWN:
        yield f"  {title}: {len(listed) - _SHOWN} more, see plan.json"


def _waves(found: Planned) -> Iterator[str]:
    model, waves = found.model, found.waves
    listed, sized = reports(model, waves), model.known[0]
    if not any(report.replicas_added for report in listed):
        return
    throttle = f"{bytes_text(waves.limits.throttle_bytes_per_s)}/s a broker"
    total = sum(report.seconds for report in listed)
    time = (
        f", {_about(total)} of copying at {throttle}"
        if sized
        else f"; how long at {throttle} is not known without sizes"
    )
    yield f"  {many(len(listed), 'wave')}{time}"
    for report in listed[:_SHOWN]:
        yield f"    wave {report.wave}: {_wave(report, sized)}"
    if len(listed) > _SHOWN:
        yield f"    {len(listed) - _SHOWN} more, see plan.json"
    large = [model.name(row) for row in waves.oversized.tolist()]
    if large:
        more = f" and {len(large) - _SHOWN} more" if len(large) > _SHOWN else ""
        yield f"    larger than a wave's limit, so their brokers copy nothing beside: {', '.join(large[:_SHOWN])}{more}"


def _about(seconds: float) -> str:
    said = duration(seconds)
    return said if said.startswith("under") else f"about {said}"


def _wave(report: WaveReport, sized: bool) -> str:
    words = f"{many(report.partitions, 'partition')}, {many(report.replicas_added, 'replica')}"
    if not sized:
        return words
    words += f", {bytes_text(report.bytes_to_copy)}"
    if report.busiest_broker is None:
        return words
    way = "receives" if report.busiest_direction == "in" else "sends"
    busy = f"broker {report.busiest_broker} {way} {bytes_text(report.busiest_bytes)}"
    return f"{words}; {busy}: {duration(report.seconds)}"


def _file_names(files: Sequence[Path]) -> list[str]:
    """The names of the files, waves in short."""
    names = [path.name for path in files]
    waves = [name for name in names if name.startswith("wave-")]
    if len(waves) < 3:
        return names
    at = names.index(waves[0])
    return [*names[:at], f"{waves[0]} to {waves[-1]}", *names[at + len(waves) :]]
