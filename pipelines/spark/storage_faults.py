"""Say in words what went wrong with the storage of a table, and how to go on; repeat writes that met others."""

import logging
import random
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from pipelines.errors import DamagedTableError, StoreError

_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_UNWRITABLE = re.compile(r"Read-only file system|Permission denied|Operation not permitted")
# Of Delta, Spark, Parquet and Hadoop, where files of a table are missing or are not what they should be.
_DAMAGED = re.compile(
    r"FAILED_READ_FILE|is not a Parquet file|No such file or directory"
    r"|DELTA_(?:LOG_FILE_NOT_FOUND|FILE_NOT_FOUND|VERSIONS_NOT_CONTIGUOUS|STATE_RECOVER_ERROR|TRUNCATED_TRANSACTION_LOG"
    r"|MISSING_FILES|MISSING_PART_FILES|INCONSISTENT_LOGSTORE|SCHEMA_NOT_SET|CHECKPOINT|TXN_LOG|ADD_FILE_PARSING)\w*"
    r"|(?:JsonParse|JsonEOF|MalformedInput|MismatchedInput|FileNotFound)Exception"
)

# Of Hadoop and its connectors, for warehouses at a URL.
_UNREACHABLE = re.compile(
    r"No FileSystem for scheme|ClassNotFoundException: Class org\.apache\.hadoop"
    r"|java\.net\.(?:UnknownHost|Connect)Exception|(?:AccessDenied|NoAuthWithAWS|UnknownStore|Azure|AbfsRestOperation|GoogleJsonResponse|SdkClient)Exception"
)
_MAX_CAUSES = 10


def make_damage_error(location: Path | str, problem: str) -> DamagedTableError:
    """Make the error for a damaged table: what is wrong, what to remove, what to run again, and what is lost."""
    place = str(location)
    name = ".".join(Path(place.replace("`", "")).parts[-2:])
    if files := _find_damaged_checkpoint(Path(place) / "_delta_log"):
        return DamagedTableError(
            f"table {name} at {place} is damaged: a checkpoint cannot be read, but the rest of the log has all of it",
            f"Remove {' and '.join(map(str, files))}, and repeat the command. No row is lost.",
        )
    lost = "Its history is lost; for rows of earlier snapshots, run their sources too."
    if name == "ops.runs":
        lost = "Every stage runs again, and the times of earlier snapshots are lost until you run their sources too."
    return DamagedTableError(
        f"table {name} at {place} is damaged: {problem}",
        f"To make it again, move {place} away, which holds only this table, and repeat the command that wrote it: "
        f"kafka-placement run SOURCE... (or replay). {lost}",
    )


def _find_damaged_checkpoint(log: Path) -> list[Path]:
    """Find checkpoints that cannot be read, and the file that names the last, if a log can be read without them."""
    damaged, intact = [], 0
    for file in sorted(log.glob("*.checkpoint.parquet")):
        try:
            ParquetFile(file).close()
            intact = int(file.name.partition(".")[0])
        except (pa.ArrowException, OSError):
            damaged.append(file)
    versions = {int(file.stem) for file in log.glob("*.json") if file.stem.isdigit()}
    if not damaged or not versions or not versions.issuperset(range(intact, max(versions) + 1)):
        return []
    return [*damaged, *(hint for hint in [log / "_last_checkpoint"] if hint.exists())]


def make_access_error(location: Path | str, file: Path | str) -> StoreError:
    """Make the error for a table of which this user may not read a file or folder."""
    return StoreError(f"table at {location}: no permission to read {file}. Make it readable for this user.")


def explain_storage_fault(
    error: BaseException, written: str | None = None, locations: Sequence[str] = ()
) -> StoreError | None:
    """Explain an error of Spark, Delta or the system that the storage has caused; None = it has another cause.

    written: the table or file that was being written, and where; locations: where tables are.
    """
    text = _read_causes(error)
    target = written or "files"
    again = "Then repeat the command: it skips finished stages, and nothing reads half-written rows."
    if match := _FULL.search(text):
        space = "Free space there, or in the folder for temporary files (TMPDIR)"
        return StoreError(f"the disk is full, while writing {target}: {match[0]}. {space}. {again}")
    if written is not None and (match := _UNWRITABLE.search(text)):
        remedy = "Make the folder writable, or choose another one: --warehouse DIR"
        return StoreError(f"{target} cannot be written: {match[0]}. {remedy}. {again}")
    if (match := _DAMAGED.search(text)) and (location := _find_location(text, match.start(), locations)):
        return make_damage_error(location, _get_line(text, match.start()))
    if match := _UNREACHABLE.search(text):
        remedy = "Check its URL, the credentials, and that Spark has the jars for it (docs/spark-cluster.md)"
        return StoreError(f"the warehouse cannot be reached: {_get_line(text, match.start())}. {remedy}.")
    return None


def _find_location(text: str, position: int, locations: Sequence[str]) -> str | None:
    """Find the location that an error names first, from a position on, as a path or as a part of a URL."""
    positions = {}
    for location in locations:
        for place in {location, quote(location)}:
            if match := re.compile(re.escape(place) + r"(?!\w)").search(text, position):
                positions[location] = match.start()
    return min(positions, key=positions.__getitem__, default=None)


def read_message(error: BaseException) -> str:
    """Return the message of an error of Spark: one of Delta's makes Spark fail in looking for its text."""
    get_message = getattr(error, "getMessage", None)
    for read in (get_message, error.__str__):
        try:
            if read is not None and (message := read()):
                return str(message)
        except Exception:
            continue
    return type(error).__name__


def _read_causes(error: BaseException) -> str:
    """Return the messages of an error and its causes, of Java too."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < _MAX_CAUSES:
        texts.append(f"{read_message(cause)}\n{getattr(cause, '_stackTrace', None) or ''}")
        cause = cause.__cause__ or cause.__context__
    return "\n".join(texts)


def _get_line(text: str, position: int) -> str:
    """Return the line at a position, shortened, without the class of the error."""
    begin = text.rfind("\n", 0, position) + 1
    line = text[begin : begin + 1000].partition("\n")[0].strip()
    return re.sub(r"^(?:Caused by)?:? ?[\w.$]+(?:Exception|Error): ", "", line)[:300]


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
