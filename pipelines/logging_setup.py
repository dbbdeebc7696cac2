"""Configure the log of the command line. Modules log to loggers of their own names, which print nothing by default."""

import logging
from enum import StrEnum
from typing import Any

from udfs.wording import escape_text

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogLevel(StrEnum):
    """The lowest level that is printed."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _EscapingFormatter(logging.Formatter):
    """Writes each message as one line, and escapes every line of a traceback."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line of a record."""
        return escape_text(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return the lines of a traceback."""
        return "\n".join(map(escape_text, super().formatException(ei).split("\n")))


def configure_logging(level: LogLevel | None) -> LogLevel | None:
    """Print the log of this program to stderr; None = none. Returns the level, as callbacks of options do."""
    if level is not None:
        handler = logging.StreamHandler()
        handler.setFormatter(_EscapingFormatter(_FORMAT))
        logger = logging.getLogger(__package__)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    return level
