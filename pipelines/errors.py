"""Define every error that this program raises on purpose; each message names the value at fault and the remedy."""

from pipelines.warehouse_urls import redact_urls

# Exit codes of the commands.
EXIT_INPUT = 1  # wrong input, settings or environment
EXIT_TABLE_FAULT = 2  # the quality gate found a fault in a table
EXIT_INFEASIBLE = 3  # no plan can meet the hard constraints
EXIT_ALERT = 4  # a threshold of --alert is crossed
EXIT_NOT_APPLIED = 5  # apply: the cluster is as before the plan
EXIT_PARTLY_APPLIED = 6  # apply: the plan is partly applied, under way, or changed by another tool
EXIT_THROTTLED = 7  # apply: all is as planned, or as before, but throttles are left
EXIT_WAVES_LEFT = 8  # apply: the waves of --waves, or until --until, are done, and others are left
EXIT_USAGE = 64  # wrong usage
EXIT_SIGNAL = 128  # and the number of the signal that has ended the command


class KafkaPlacementError(Exception):
    """Base class; `args` are the lines of the message, `exit_code` is the exit code of the command."""

    exit_code = EXIT_INPUT

    def __str__(self) -> str:
        """Return the whole message. What a line repeats of the input may have line ends of its own."""
        return "\n".join(map(str, self.args))


class SourceError(KafkaPlacementError):
    """A source cannot be read as a whole (a single invalid line is quarantined instead)."""

    def __init__(self, path: str, problem: str, remedy: str, line_number: int | None = None) -> None:
        position = path if line_number is None else f"{path}, line {line_number}"
        super().__init__(f"{position}: {problem}. {remedy}")
        self.path = path
        self.line_number = line_number


class SettingsError(KafkaPlacementError):
    """A key or value in conf/, the environment or the options is wrong."""


class EnvironmentFault(KafkaPlacementError):
    """Something that this program needs on the machine is missing: Java, jars, a Spark server."""


class StoreError(KafkaPlacementError):
    """A table is missing, damaged, or differs from its contract; secrets in URLs are hidden."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*map(redact_urls, lines))


class DamagedTableError(StoreError):
    """A file of a table, or of its log, is missing or is not what it should be."""


class TableFault(KafkaPlacementError):
    """An expectation of a whole table failed: the run stops before gold."""

    exit_code = EXIT_TABLE_FAULT


class Infeasible(KafkaPlacementError):
    """No plan can meet the hard constraints; the message names the broker, rack or partition that prevents it."""

    exit_code = EXIT_INFEASIBLE
