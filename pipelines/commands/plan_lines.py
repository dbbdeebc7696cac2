"""A plan as a person judges it: before and after, what is proved, its waves, and how to run it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipelines.commands.plan import Made
from pipelines.plans.documents import to_elect
from pipelines.plans.folder import ELECTION, ROLLBACK
from pipelines.plans.plan_file import wave_file, wave_names
from udfs.planning.plan_rows import value_at
from udfs.planning.planned import Proof, not_led_by_first, proofs, texts
from udfs.planning.sense import chosen_brokers, ids_text
from udfs.planning.waves import WaveReport, reports, to_change

_BALANCE = (
    ("replicas", "replicas"),
    ("leaders (preferred)", "leaders"),
    ("disk", "size_bytes"),
    ("bytes in", "bytes_in_per_s"),
    ("bytes out", "bytes_out_per_s"),
)
_SHOWN = 6  # of texts, and of waves
_WIDTHS = (34, 11, 10, 13, 10)
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def lines(made: Made, out: Path, server: str) -> Iterator[str]:
    """The plan, line by line. out: the folder it was written to.   server: of Kafka's commands."""
    found, goal = made.planned, made.wishes.goal
    problem, figures = found.problem, found.metrics
    chosen = ids_text(chosen_brokers(problem, made.wishes))
    which = f"{goal} {chosen}" if chosen else goal
    counted = f"{int(problem.living.sum())} living brokers, {problem.partitions:,} partitions"
    yield f"cluster {problem.cluster_id}: {which}; {counted}"
    yield from _table(figures)
    certificate = found.draft.certificate
    moves, size = figures["moves"], figures["bytes_to_copy"]
    if moves:
        yield f"  copied: {moves:,} replicas, {'of unknown size' if size is None else _bytes(size)}"
    else:
        yield "  nothing is copied"
    yield f"  lists that change: {figures['lists_changed']:,}, preferred leaders: {figures['leader_changes']:,}"
    for proof in proofs(certificate, goal):
        yield f"  {_proof(proof)}"
    for name in ("relaxed", "missed"):
        yield from _some(name, texts(certificate, name))
    yield from _waves(reports(problem, found.waves), found.waves.limits.throttle_bytes_per_s)
    large = [problem.name(row) for row in found.waves.oversized.tolist()]
    if large:
        more = f" and {len(large) - _SHOWN} more" if len(large) > _SHOWN else ""
        yield f"    larger than a wave's limit, so their brokers copy nothing beside: {', '.join(large[:_SHOWN])}{more}"
    yield f"  took: {', '.join(f'{part} {seconds:.1f} s' for part, seconds in made.seconds.items())}"
    yield f"  written to {out}:"
    yield f"    {', '.join(_file_names(made.files))}"
    yield from _steps(made, out, server)


def _table(figures: dict[str, Any]) -> Iterator[str]:
    before, after = figures["before"], figures["after"]
    yield _row("", "before", "", "after", "")
    yield _row("", "max/mean", "min/mean", "max/mean", "min/mean")
    for title, name in _BALANCE:
        cells = [_ratio(state["balance"][name][part]) for state in (before, after) for part in _MOST_AND_LEAST]
        yield _row(title, *cells)

    def both(title: str, *path: str, digits: int | None = 3) -> str:
        values = [value_at(state, path) for state in (before, after)]
        return _row(title, _ratio(values[0], digits), "", _ratio(values[1], digits), "")

    yield both("worst survivor of a death: leaders", "balance", "worst_survivor_leaders")
    yield both("  bytes out", "balance", "worst_survivor_bytes_out")
    for kind, title in (("pair", "  of two deaths: leaders"), ("rack", "  of a rack's death: leaders")):
        if before["failures"][kind] is not None:
            yield both(title, "failures", kind, "leaders_worst_over_mean")
    yield both("rack violations", "balance", "rack_violations", digits=None)
    yield both("copysets", "durability", "copysets", digits=None)
    chances = [state["durability"]["loss_probability"] for state in (before, after)]
    deaths = sorted({*chances[0], *chances[1]})
    for k in [k for k in deaths if any(chance.get(k) for chance in chances)] or deaths[-1:]:
        yield _row(f"P(loss if {k} {'dies' if k == '1' else 'die'})", *_with_gaps([c.get(k) for c in chances]))


_MOST_AND_LEAST = ("max_over_mean", "min_over_mean")


def _with_gaps(values: Sequence[float | None]) -> list[str]:
    return [cell for value in values for cell in (_ratio(value, 6), "")]


def _row(*cells: str) -> str:
    first = "  " + cells[0].ljust(_WIDTHS[0])
    return (first + "".join(c.rjust(w) for c, w in zip(cells[1:], _WIDTHS[1:], strict=True))).rstrip()


def _ratio(value: float | None, digits: int | None = 3) -> str:
    return "-" if value is None else f"{value}" if digits is None else f"{value:.{digits}f}"


def _proof(proof: Proof) -> str:
    shown = _bytes if proof.what.startswith("bytes") else "{:,.10g}".format
    said = f"{proof.what}: {shown(proof.value)}, any plan needs at least {shown(proof.bound)}"
    if proof.gap <= 1e-9 * abs(proof.bound):
        return f"{said}: proven to be the least"
    return f"{said}: gap {proof.gap / proof.bound:.2%}" if proof.bound else f"{said}: gap {shown(proof.gap)}"


def _some(title: str, listed: Sequence[str]) -> Iterator[str]:
    for text in listed[:_SHOWN]:
        yield f"  {title}: {text}"
    if len(listed) > _SHOWN:
        yield f"  {title}: {len(listed) - _SHOWN} more, see plan.json"


def _waves(listed: Sequence[WaveReport], throttle: float) -> Iterator[str]:
    if not any(report.replicas_added for report in listed):
        return
    total = sum(report.seconds for report in listed)
    often = "1 wave" if len(listed) == 1 else f"{len(listed)} waves"
    yield f"  {often}, about {_duration(total)} of copying at {_bytes(throttle)}/s a broker"
    for report in listed[:_SHOWN]:
        words = f"{report.partitions:,} partitions, {report.replicas_added:,} replicas, {_bytes(report.bytes_to_copy)}"
        if report.busiest_broker is not None:
            way = "receives" if report.busiest_direction == "in" else "sends"
            words += (
                f"; broker {report.busiest_broker} {way} {_bytes(report.busiest_bytes)}: {_duration(report.seconds)}"
            )
        yield f"    wave {report.wave}: {words}"
    if len(listed) > _SHOWN:
        yield f"    {len(listed) - _SHOWN} more, see plan.json"


def _file_names(files: Sequence[Path]) -> list[str]:
    """The names of the files, waves in short."""
    names = [path.name for path in files]
    waves = [name for name in names if name.startswith("wave-")]
    if len(waves) < 3:
        return names
    at = names.index(waves[0])
    return [*names[:at], f"{waves[0]} to {waves[-1]}", *names[at + len(waves) :]]


def _steps(made: Made, out: Path, server: str) -> Iterator[str]:
    """The commands that carry the plan out, in order, and the one that takes it back."""
    problem, draft, waves = made.planned.problem, made.planned.draft, made.planned.waves
    changes, elects = bool(to_change(problem, draft).any()), bool(to_elect(problem, draft))
    if not changes:
        yield "  nothing is to be reassigned: the cluster is as the goal wants it, as far as it can be"
    if not changes and not elects:
        return
    to = f"--bootstrap-server {shlex.quote(server)}"

    def reassign(file: str, rest: str) -> str:
        name = shlex.quote(str(out / file))
        return f"    kafka-reassign-partitions {to} --reassignment-json-file {name} {rest}"

    yield "  to carry it out:"
    names = wave_names(waves.waves)
    copies = any(report.replicas_added for report in reports(problem, waves))
    throttle = f" --throttle {int(waves.limits.throttle_bytes_per_s)}" if copies else ""
    if changes:
        yield reassign(wave_file(names[0]), f"--execute{throttle}")
        yield reassign(wave_file(names[0]), "--verify")
        if len(names) > 1:
            yield f"    and so on to {wave_file(names[-1])}, each once --verify finds the one before complete"
    if elects:
        unled = not_led_by_first(problem)
        note = "" if changes else f"    # {unled} partitions are not led by their preferred leader now"
        file = shlex.quote(str(out / ELECTION))
        yield f"    kafka-leader-election {to} --election-type preferred --path-to-json-file {file}{note}"
    if changes:
        yield "  to take it back:"
        yield reassign(ROLLBACK, f"--execute{throttle}")


def _bytes(value: float) -> str:
    """A size in the largest unit that leaves a number of 1 or more."""
    unit = 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
