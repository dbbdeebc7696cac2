"""Options of `what-if` for a larger, smaller or busier cluster: --add, --remove and --grow."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pipelines.cli.option_values import decimal_number, find_known_brokers, option, whole_number
from pipelines.cli.text_format import print_message
from udfs.plurals import count_of, join_names

if TYPE_CHECKING:
    from pipelines.config.setting_sections import Settings
    from pipelines.ingest.snapshot_reader import Snapshot
    from pipelines.plan_files.hypothetical_cluster import Hypothesis

_MAX_BROKERS, _MAX_FACTOR = 1000, 1000


@dataclass(frozen=True)
class HypotheticalOptions:
    """The options as they were written."""

    add: Annotated[
        int | None,
        option(
            "Answer as if so many new brokers were added, and filled as plan --goal expand does.",
            "N",
            parser=whole_number(1, _MAX_BROKERS),
            default="none",
        ),
    ] = None
    remove: Annotated[
        str | None,
        option(
            "Ids or racks of brokers: answer as if plan --goal drain had emptied them, and they were gone.",
            "IDS",
            default="none",
        ),
    ] = None
    grow: Annotated[
        float | None,
        option(
            "Answer as if all sizes and rates were so many times as large, as in 1.3.",
            "FACTOR",
            parser=decimal_number(0.001, _MAX_FACTOR, "1.3"),
            default="1",
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
        from pipelines.config.plan_parameters import build_metric_options, build_request, build_wave_limits
        from pipelines.plan_files import hypothetical_cluster as other
        from pipelines.plan_files.new_brokers import add_new_brokers
        from pipelines.verdict.naming import name_with_noun

        hypothesis, defaults = other.Hypothesis(), settings.topics.defaults
        options = other.PlanningOptions(build_wave_limits(settings), build_metric_options(settings), defaults)
        if self.grow is not None:
            snapshot, hypothesis = other.grow_loads(snapshot, self.grow), replace(hypothesis, load_factor=self.grow)
            print_message(f"as if all sizes and rates were {self.grow:g} times as large")
        if self.add is not None:
            brokers = other.name_new_brokers(snapshot, self.add)
            request = build_request(settings, "expand", brokers=tuple(broker.broker_id for broker in brokers))
            snapshot, copied = other.assume_planned(add_new_brokers(snapshot, brokers), request, options)
            moves = f"filled as plan --goal expand does ({count_of(copied, 'replica')} copied)"
            were = "broker {} was" if len(brokers) == 1 else "brokers {} were"
            print_message(f"as if {were.format(join_names(brokers))} added, and {moves}")
            hypothesis = replace(hypothesis, added_brokers=tuple(brokers), copied_replicas=copied)
        if self.remove is not None:
            ids = find_known_brokers("--remove", self.remove, snapshot)
            emptied, copied = other.assume_planned(
                snapshot, build_request(settings, "drain", brokers=tuple(ids)), options
            )
            snapshot = other.remove_brokers(emptied, ids)
            moves = f"emptied as plan --goal drain does ({count_of(copied, 'replica')} copied)"
            print_message(f"as if {name_with_noun(ids)} {'was' if len(ids) == 1 else 'were'} {moves}, and removed")
            copied += hypothesis.copied_replicas
            hypothesis = replace(hypothesis, removed_brokers=tuple(ids), copied_replicas=copied)
        return snapshot, hypothesis
