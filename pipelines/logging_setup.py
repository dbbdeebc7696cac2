"""Configure the log of the command line. Modules log to loggers of their own names, which print nothing by default."""

from __future__ import annotations

import logging

from pipelines.errors import SettingsError

LEVELS = ("debug", "info", "warning", "error")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure_logging(level: str) -> None:
    """Print the log of this program to stderr.

    Args:
        level: Lowest level to print, one of LEVELS.

    Raises:
        SettingsError: If there is no such level.
    """
    if level.lower() not in LEVELS:
        raise SettingsError(f"there is no log level {level!r}; there are {', '.join(LEVELS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    logger = logging.getLogger(__package__)
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(level.upper())
