"""Configure the log of the command line. Modules log to loggers of their own names, which print nothing by default."""

import logging
from enum import StrEnum

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogLevel(StrEnum):
    """The lowest level that is printed."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logging(level: LogLevel | None) -> LogLevel | None:
    """Print the log of this program to stderr; None = none. Returns the level, as callbacks of options do."""
    if level is not None:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger = logging.getLogger(__package__)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    return level
