"""Options of `what-if` for a larger, smaller or busier cluster: --add, --remove and --grow."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.named_brokers import find_brokers
from pipelines.cli.option_values import decimal_number, whole_number
from pipelines.cli.text_format import print_message
from udfs.plurals import count_of, join_names

if TYPE_CHECKING:
    from pipelines.config.setting_sections import Settings
    from pipelines.ingest.snapshot_reader import Snapshot
    from pipelines.plan_files.hypothetical_cluster import Hypothesis, PlanningOptions

_MAX_BROKERS, _MAX_FACTOR = 1000, 1000


@dataclass(frozen=True)
class HypotheticalOptions:
    """The options as they were written."""

    add: Annotated[
        int | None,
        typer.Option(
            help="Answer as if so many new brokers were added, and filled as plan --goal expand does.",
            metavar="N",
            parser=whole_number(1, _MAX_BROKERS),
            show_default="none",
        ),
    ] = None
    remove: Annotated[
        str | None,
        typer.Option(
            help="Ids or racks of brokers: answer as if plan --goal drain had emptied them, and they were gone.",
            metavar="IDS",
            show_default="none",
        ),
    ] = None
    grow: Annotated[
        float | None,
        typer.Option(
            help="Answer as if all sizes and rates were so many times as large, as in 1.3.",
            metavar="FACTOR",
            parser=decimal_number(0.001, _MAX_FACTOR, "1.3"),
            show_default="1",
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether an answer is about another cluster than that of the sources."""
        return any(value is not None for value in vars(self).values())

    @property
    def text(self) -> str:
        """The options as a command repeats them, with a space in front; empty without any."""
        values = {f"--{name}": value for name, value in vars(self).items() if value is not None}
        return "".join(f" {option} {shlex.quote(f'{value}')}" for option, value in values.items())

    def apply(self, snapshot: Snapshot, settings: Settings) -> tuple[Snapshot, Hypothesis | None]:
        """Return the snapshot of the other cluster, and how it differs; say so.

        Loads grow first, then new brokers are filled, then others are emptied.

        Raises: Infeasible, SourceError, or typer.BadParameter for brokers that the cluster does not have.
        """
        if not self.is_given:
            return snapshot, None
        from pipelines.plan_files.hypothetical_cluster import Hypothesis, grow_loads

        hypothesis = Hypothesis()
        if self.grow is not None:
            snapshot, hypothesis = grow_loads(snapshot, self.grow), replace(hypothesis, load_factor=self.grow)
            print_message(f"as if all sizes and rates were {self.grow:g} times as large")
        if self.add is not None:
            snapshot, hypothesis = self._add(snapshot, hypothesis, settings)
        if self.remove is not None:
            snapshot, hypothesis = self._remove(snapshot, hypothesis, settings)
        return snapshot, hypothesis

    def _add(self, snapshot: Snapshot, hypothesis: Hypothesis, settings: Settings) -> tuple[Snapshot, Hypothesis]:
        from pipelines.config.plan_parameters import build_request
        from pipelines.plan_files.hypothetical_cluster import carry_out, name_new_brokers
        from pipelines.plan_files.new_brokers import add_new_brokers

        brokers = name_new_brokers(snapshot, self.add or 0)
        request = build_request(settings, "expand", brokers=tuple(broker.broker_id for broker in brokers))
        after, copied = carry_out(add_new_brokers(snapshot, brokers), request, _build_options(settings))
        count = len(brokers)
        names = f"{'broker' if count == 1 else 'brokers'} {join_names(brokers)} {'was' if count == 1 else 'were'} added"
        moves = f"filled as plan --goal expand does ({count_of(copied, 'replica')} copied)"
        print_message(f"as if {names}, and {moves}")
        return after, replace(
            hypothesis, added_brokers=tuple(brokers), copied_replicas=hypothesis.copied_replicas + copied
        )

    def _remove(self, snapshot: Snapshot, hypothesis: Hypothesis, settings: Settings) -> tuple[Snapshot, Hypothesis]:
        from pipelines.config.plan_parameters import build_request
        from pipelines.plan_files.hypothetical_cluster import carry_out, remove_brokers
        from pipelines.verdict.naming import name_with_noun

        ids = find_brokers("--remove", self.remove or "", snapshot)
        known = snapshot.brokers["broker_id"].to_pylist()
        if unknown := [broker for broker in ids if broker not in known]:
            problem = f"{snapshot.cluster_id} has no broker {join_names(unknown)}"
            raise typer.BadParameter(f"--remove: {problem}. Its brokers: {join_names(sorted(known), 50)}")
        request = build_request(settings, "drain", brokers=tuple(ids))
        after, copied = carry_out(snapshot, request, _build_options(settings))
        moves = f"emptied as plan --goal drain does ({count_of(copied, 'replica')} copied)"
        print_message(f"as if {name_with_noun(ids)} {'was' if len(ids) == 1 else 'were'} {moves}, and removed")
        changes: dict[str, Any] = {
            "removed_brokers": tuple(ids),
            "copied_replicas": hypothesis.copied_replicas + copied,
        }
        return remove_brokers(after, ids), replace(hypothesis, **changes)


def _build_options(settings: Settings) -> PlanningOptions:
    from pipelines.config.plan_parameters import build_metric_options, build_wave_limits
    from pipelines.plan_files.hypothetical_cluster import PlanningOptions

    return PlanningOptions(build_wave_limits(settings), build_metric_options(settings), settings.topics.defaults)
