"""Text from outside on a terminal: escaped in one place, short in errors."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest

from pipelines.cli import main, text_format
from pipelines.cli.text_format import print_error, print_grid, print_line
from pipelines.logging_setup import LogLevel, configure_logging
from udfs.wording import escape_text, quote_value, shorten_text

COMMANDS = Path(text_format.__file__).parent
# Help and version; the JSON of an answer; data of `assign`, whose lines cannot have control characters.
WRITERS = {"text_format.py", "__init__.py", "common_options.py"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[2J\x00\x07\x7f\x9b", r"\x1b[2J\x00\x07\x7f\x9b"),
        ("\u202eab\u2066\u200f\u061c", r"\u202eab\u2066\u200f\u061c"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\ud800 a\udcffb", r"\ud800 a\xffb"),
        ("größe 東京 🙂 \\ \xa0 \u200b", "größe 東京 🙂 \\ \xa0 \u200b"),
    ],
)
def test_what_a_terminal_obeys_is_visible(text: str, shown: str) -> None:
    assert escape_text(text) == shown


def test_lines_and_cells_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("a\nforged: line")
    print_grid(("one", "two"), [["x\ny", "\x1b[2J"]])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [r"a\nforged: line", "one   two", r"x\ny  \x1b[2J"]


def test_an_error_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(["begin " + "x" * 100_000 + "\x1b end", *["line"] * 1_000])
    err = capsys.readouterr().err
    assert len(err) < 5_000
    assert err.startswith("kafka-placement: begin xxx")
    assert "more characters)" in err
    assert err.splitlines()[0].endswith(r"x\x1b end")
    assert err.splitlines()[-1] == "and 951 more lines"


def test_an_error_with_lines_of_its_own_keeps_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[run]\nseed = "a\\nb"\nschemes = ["\\u001b"]\n')
    assert main(["run", str(tmp_path), "--conf", str(tmp_path / "a.toml")]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(r"a.toml: run.seed = 'a\nb': write a whole number, as in 7")
    assert r"a.toml: run.schemes = ['\x1b']: there is no scheme '\x1b'" in second


def test_the_log_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("pipelines")
    before = logger.handlers, logger.level
    try:
        configure_logging(LogLevel.INFO)
        try:
            raise ValueError("\x1b[2J")
        except ValueError:
            logger.exception("a\nforged: line")
    finally:
        logger.handlers, logger.propagate = before[0], True
        logger.setLevel(before[1])
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith(r"ERROR pipelines: a\nforged: line")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == r"ValueError: \x1b[2J"


def test_a_quoted_value_is_short() -> None:
    for value in (10**5_000, -(16**9_000), "x" * 100_000, list(range(10**5)), {"a": {"b": {"c": {"d": {}}}}}):
        assert len(quote_value(value)) <= 80
    assert quote_value(10**5_000) == "a number of about 5,000 digits"


def test_a_quoted_value_may_be_nested_without_end() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert quote_value(deep) == "[[[[...]]]]"
    assert shorten_text("x" * 81) == "x" * 77 + "..."


def list_prints(path: Path) -> list[str]:
    """Return the calls of a module that write to the terminal."""
    calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    names = (ast.unparse(call.func) for call in calls)
    return [name for name in names if name in ("print", "typer.echo", "typer.secho", "sys.stdout.write")]


def test_commands_print_through_the_functions_that_escape() -> None:
    found = {path.name: list_prints(path) for path in COMMANDS.glob("*.py") if path.name not in WRITERS}
    assert {name: calls for name, calls in found.items() if calls} == {}
