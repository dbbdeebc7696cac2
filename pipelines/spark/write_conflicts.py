"""Repeat a write to a table while other runs write to it at the same time."""

import logging
import random
import re
import time
from collections.abc import Callable

from pipelines.errors import StoreError

# Delta's errors where another writer was faster: it wrote to the table, created it, or is about to.
_CONFLICT = re.compile(
    r"DELTA_(CONCURRENT_\w+|PROTOCOL_CHANGED|METADATA_CHANGED|CREATE_TABLE_WITH_NON_EMPTY_LOCATION)"
    r"|\b(Concurrent\w+|ProtocolChanged|MetadataChanged)Exception\b"
)
# Each conflict means that another write succeeded, so this many runs can write to one table at the same time.
_MAX_ATTEMPTS = 12
_MAX_WAIT_SECONDS = 4.0

_log = logging.getLogger(__name__)


def repeat_after_conflicts(write: Callable[[], None], name: str, location: str) -> None:
    """Write to a table, and try again after a short wait if another writer was faster; raise StoreError in the end."""
    for attempt in range(_MAX_ATTEMPTS):
        try:
            write()
            return
        except Exception as error:
            if not _CONFLICT.search(str(error)):
                raise
            conflict = error
        _log.info("%s: another run wrote at the same time; attempt %d failed", name, attempt + 1)
        longest = min(0.25 * 2**attempt, _MAX_WAIT_SECONDS)
        time.sleep(random.uniform(0.1, 1) * longest)  # at random, so that two runs do not meet again
    problem = f"other runs kept writing to {location}: {_MAX_ATTEMPTS} attempts to write failed"
    raise StoreError(f"{problem}. Run again when they have ended.") from conflict
