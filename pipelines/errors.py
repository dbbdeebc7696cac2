"""Every error that this program raises on purpose. Each names the value at fault and the remedy.

Exit codes: 1 bad input, settings or environment; 2 a table fault found by the quality gate; 3 hard constraints leave no
plan; 4 a threshold of --alert is crossed; 64 wrong usage.
"""

from __future__ import annotations

EXIT_INPUT = 1
EXIT_TABLE_FAULT = 2
EXIT_INFEASIBLE = 3
EXIT_ALERT = 4
EXIT_USAGE = 64


class KafkaPlacementError(Exception):
    """Base of all; `exit_code` is what the command ends with."""

    exit_code = EXIT_INPUT


class SourceError(KafkaPlacementError):
    """A source that cannot be read as a whole (a single bad line is quarantined instead)."""

    def __init__(self, path: str, problem: str, remedy: str, line_number: int | None = None) -> None:
        where = path if line_number is None else f"{path}, line {line_number}"
        super().__init__(f"{where}: {problem}. {remedy}")
        self.path = path
        self.line_number = line_number


class SettingsError(KafkaPlacementError):
    """A wrong key or value in conf/, the environment or the options."""


class EnvironmentFault(KafkaPlacementError):
    """Something this program needs on the machine is missing: Java, jars, a Spark server."""


class StoreError(KafkaPlacementError):
    """A table that is missing or is not what its contract says."""


class TableFault(KafkaPlacementError):
    """An expectation on a whole table failed: the run stops before gold."""

    exit_code = EXIT_TABLE_FAULT


class Infeasible(KafkaPlacementError):
    """No plan can meet the hard constraints; the message says which broker, rack or partition forbids it."""

    exit_code = EXIT_INFEASIBLE
