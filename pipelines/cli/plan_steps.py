"""The commands that carry a plan out, and those that take it back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from pipelines.cli.plan_output import Made
from pipelines.cli.units import bytes_text, many
from pipelines.plan_files.kafka_json import not_given_back, to_elect
from pipelines.plan_files.plan_folder import ELECTION, ROLLBACK
from pipelines.plan_files.plan_json import not_in_rollback, wave_file, wave_names
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment, moved
from udfs.planning.plan_summary import not_led_by_first, texts
from udfs.planning.waves import reports, to_change

_NAMED = 6  # partitions


def steps(made: Made, out: Path, server: str) -> Iterator[str]:
    """The commands, in order. out: the plan's folder.   server: of Kafka's commands."""
    model, proposal, waves = made.planned.model, made.planned.proposal, made.planned.waves
    changed = int(to_change(model, proposal).sum())
    elects = bool(to_elect(model, proposal))
    if not changed and texts(proposal.certificate, "missed"):
        yield "  nothing is to be reassigned: see what was missed"
    elif not changed and not model.live.any():
        yield "  nothing can be reassigned: no broker lives"
    elif not changed:
        yield "  nothing is to be reassigned: the cluster is as the goal wants it, as far as it can be"
    if not changed and not elects:
        return
    to = f"--bootstrap-server {shlex.quote(server)}"

    def reassign(file: str, rest: str) -> str:
        return f"    kafka-reassign-partitions {to} --reassignment-json-file {shlex.quote(str(out / file))} {rest}"

    election = (
        f"    kafka-leader-election {to} --election-type preferred "
        f"--path-to-json-file {shlex.quote(str(out / ELECTION))}"
    )
    names = wave_names(waves.waves)
    copies = any(report.replicas_added for report in reports(model, waves))
    limit = f" --throttle {int(waves.limits.throttle_bytes_per_s)}"
    throttle = limit if copies else ""
    yield "  to carry it out:"
    if changed:
        yield reassign(wave_file(names[0]), f"--execute{throttle}")
        yield reassign(wave_file(names[0]), "--verify") + (
            "    # once complete, it lifts the throttle" if copies else ""
        )
        if len(names) > 1:
            yield f"    and so on to {wave_file(names[-1])}, each once --verify finds the one before complete"
    if elects:
        unled = not_led_by_first(model)
        theirs = "is not led by its" if unled == 1 else "are not led by their"
        yield election + ("" if changed else f"    # {many(unled, 'partition')} {theirs} preferred leader now")
    if not changed:
        return
    kept = not_in_rollback(model, proposal)
    back = changed - kept["partitions"]
    if back:
        again = _copies_back(model, proposal)
        rate = f", at {bytes_text(waves.limits.throttle_bytes_per_s)}/s a broker" if again else ""
        at_once = f" ({back:,} partitions at once, not in waves{rate})" if back > 1 and again else ""
        yield f"  to take it back{at_once}:"
        yield reassign(ROLLBACK, f"--execute{limit if again else ''}")
        yield reassign(ROLLBACK, "--verify")
        if elects:
            yield election
    if kept["partitions"]:
        first = ", ".join(kept["first"][:_NAMED])
        more = f" and {kept['partitions'] - _NAMED} more" if kept["partitions"] > _NAMED else ""
        yield f"  {ROLLBACK} cannot take back {many(kept['partitions'], 'partition')}: {first}{more}: {kept['why']}"


def _copies_back(model: ClusterModel, proposal: ProposedAssignment) -> bool:
    """Whether rollback.json copies: some broker has given up what it gives back."""
    gone = moved(model.placed(proposal.offsets, proposal.replicas), model.offsets, model.replicas)
    rows = to_change(model, proposal)
    rows[not_given_back(model, proposal)] = False
    return bool((gone & rows[model.row]).any())
