"""Answers on a screen of 80 columns and 40 rows: what is left out, how sentences wrap, and where commands stand."""

from pathlib import Path

import pytest

from pipelines.cli.text_format import COLUMNS, ROWS, count_rows, lay_out
from tests.commands import call
from tests.unit.sixty_brokers import write_sources

SOURCES = {"healthy": {}, "down": {"down": (2, 17)}, "sick": {"down": range(0, 60, 9), "empty": (59,)}}


@pytest.mark.parametrize("question", [[], ["--fail", "5"], ["--fail", "r1"]], ids=["any", "broker", "rack"])
@pytest.mark.parametrize("state", SOURCES)
def test_an_answer_on_sixty_brokers_fits_on_a_screen(
    state: str, question: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sources(tmp_path / "prod", **SOURCES[state])
    monkeypatch.setenv("COLUMNS", f"{COLUMNS}")
    lines = call("what-if", "prod", *question, folder=tmp_path).stdout.splitlines()
    assert count_rows(lines) <= ROWS, "\n".join(lines)
    wide = [line for line in lines if len(line) > COLUMNS and not line.strip().startswith("kafka-")]
    assert not wide, "only commands are not wrapped, so that they can be copied"
    assert not [line for line in lines if "kafka-" in line.strip()[1:] and not line.strip().startswith("kafka-")]
    others = sum(line.startswith("  - ") for line in lines)
    assert others == 2 if state != "healthy" and not question else others <= 3, "beside the first finding"
    complete = call("what-if", "prod", *question, "--all", folder=tmp_path).stdout
    assert ": --all" not in complete
    assert complete.count("\n") > len(lines)


def test_commands_stand_on_lines_of_their_own() -> None:
    step = "    next: raise it: kafka-placement plan 'a; b' --goal rf; then watch: kafka-topics --describe; or wait"
    assert list(lay_out([step], None)) == [
        "    next: raise it:",
        "        kafka-placement plan 'a; b' --goal rf",
        "      then watch:",
        "        kafka-topics --describe",
        "      or wait",
    ]
    alone = ["  or: kafka-placement apply plan    # shows it; --execute does it", "    kafka-topics --describe; x", ""]
    assert list(lay_out(alone, None)) == ["  or:", f"      {alone[0][6:]}", *alone[1:]]


def test_sentences_wrap_and_commands_do_not() -> None:
    lines = ["  - one two three four", "  kafka-topics --describe --all", "  a   b   c   d   e   f   g"]
    assert list(lay_out(lines, 12)) == ["  - one two", "    three", "    four", *lines[1:]]
