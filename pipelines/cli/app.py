"""The command itself: its name, its version, its help."""

import sys
from typing import Annotated

import typer

from pipelines import __version__
from pipelines.cli.help_examples import first_examples
from pipelines.errors import EXIT_USAGE

_PERSON = sys.stdout.isatty()

app = typer.Typer(
    pretty_exceptions_enable=False,
    help="Placement and rebalancing analytics of Kafka clusters, from their metadata alone.",
    # Boxes on a terminal, plain text elsewhere.
    rich_markup_mode="rich" if _PERSON else None,
    # A pipe has no width: a sentence of help need not be cut.
    context_settings={} if _PERSON else {"terminal_width": 120},
    epilog=first_examples(),
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(EXIT_USAGE)
