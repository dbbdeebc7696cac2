"""The log: silent by default, and with stages, seconds and levels when it is configured."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from pipelines.cli import main
from pipelines.logging_setup import LogLevel, configure_logging
from pipelines.stages.scheduler import run_steps


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    logger = logging.getLogger("pipelines")
    handlers, level = logger.handlers, logger.level
    yield
    logger.handlers, logger.propagate = handlers, True
    logger.setLevel(level)


def run_step(step: str) -> None:
    if step == "broken":
        raise ValueError("no rows")


def test_nothing_is_printed_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no rows"):
        run_steps(["first", "broken"], {"broken": ["first"]}, run_step, 2)
    assert tuple(capsys.readouterr()) == ("", "")


def test_the_log_has_times_levels_steps_and_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogLevel.INFO)
    with pytest.raises(ValueError, match="no rows"):
        run_steps(["first", "broken"], {"broken": ["first"]}, run_step, 2)
    out, err = capsys.readouterr()
    lines = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", "", line) for line in err.splitlines()]
    assert out == ""
    assert lines == [
        "INFO pipelines.stages.scheduler: first: started",
        "INFO pipelines.stages.scheduler: first: finished in 0.0 s",
        "INFO pipelines.stages.scheduler: broken: started",
        "ERROR pipelines.stages.scheduler: broken: failed after 0.0 s",
    ]


def test_lower_levels_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogLevel.WARNING)
    run_steps(["first"], {}, run_step, 1)
    assert capsys.readouterr().err == ""


def test_an_unknown_level_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nowhere.txt", "--log-level", "loud"]) == 64
    assert "--log-level: 'loud' is not a level. Write debug, info, warning, error" in capsys.readouterr().err


def test_the_level_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PLACEMENT_LOG_LEVEL", "info")
    assert main(["run", "nowhere.txt"]) == 1  # there is no such source
    assert logging.getLogger("pipelines").level == logging.INFO
