"""`sql`: several read-only queries in one Spark session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.option_values import flag
from pipelines.cli.query_command import format_json_line, print_rows, run_query
from pipelines.cli.text_format import print_error, print_line, print_message
from pipelines.errors import EXIT_INPUT, KafkaPlacementError
from pipelines.quoted_values import shorten_text

if TYPE_CHECKING:
    from pipelines.spark.store import Store

_PROMPT, _NEXT_PROMPT = "sql> ", "  -> "
_QUIT = ("quit", "exit")


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("sql"))
def sql(
    json_rows: Annotated[bool, flag("json", "Print one JSON object per row, as `query --json -` does.")] = False,
    warehouse: common.WarehouseOption = None,
    conf: common.ConfOption = None,
    options: common.SetOption = None,
) -> None:
    """Run queries from stdin or a prompt in one Spark session; `;` ends a query, `quit` the session.

    Without a terminal, the number and the text of each query come before its rows. A query that fails does not end
    the session; its error names its number. Without a terminal, the exit code is then 1.
    """
    store = common.open_store_to_read(common.read_settings(conf, options, warehouse))
    is_interactive = sys.stdin.isatty()
    if is_interactive:
        with suppress(ImportError):  # its import gives the prompt a history and keys to edit
            import readline  # noqa: F401
        print_message("end a query with ;, and the session with quit")
    failures = 0
    for number, statement in enumerate(_read_statements(is_interactive), 1):
        if not is_interactive and not json_rows:
            print_line(f"query {number}: {shorten_text(' '.join(statement.split()))}")
        failures += not _run_statement(store, statement, number, json_rows)
    if failures and not is_interactive:
        raise typer.Exit(EXIT_INPUT)


def _run_statement(store: Store, statement: str, number: int, json_rows: bool) -> bool:
    """Run a query and print its rows, or its number and why it failed; return whether it succeeded."""
    try:
        columns, rows = run_query(store, statement, as_json=json_rows)
        if json_rows:
            common.write_text(Path("-"), "".join(f"{format_json_line(row)}\n" for row in rows))
        else:
            print_rows(columns, rows)
    except KafkaPlacementError as error:
        first, *others = map(str, error.args)
        print_error([f"query {number}: {first}", *others])
        return False
    except KeyboardInterrupt:
        print_message(f"query {number} cancelled")
        return False
    return True


def _read_statements(is_interactive: bool) -> Iterator[str]:
    """Yield each statement of stdin once its semicolon, or the end, is read; stop at quit."""
    from pipelines.spark.read_only_sql import is_empty, split_statements

    rest = ""
    while (line := _read_line(is_interactive, _PROMPT if is_empty(rest) else _NEXT_PROMPT)) is not None:
        if is_empty(rest) and line.strip().rstrip(";").lower() in _QUIT:
            return
        statements, rest = split_statements(f"{rest}{line}\n")
        yield from (statement.strip() for statement in statements if not is_empty(statement))
    if not is_empty(rest):
        yield rest.strip()


def _read_line(is_interactive: bool, prompt: str) -> str | None:
    """Read the next line of stdin without its end, after a prompt on a terminal; None = there is none."""
    if is_interactive:
        try:
            return input(prompt)
        except EOFError:
            print_line()
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None
