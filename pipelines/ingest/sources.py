"""Sources on the command line: a source is one cluster, as a file or as a folder of its files."""

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import SettingsError, SourceError
from pipelines.warehouse_urls import redact_urls
from udfs.wording import join_names

# Names of what was read from a running cluster, of which the user has no file.
RUNNING_CLUSTER = "running cluster"
ANSWER = "answer to "
_ANSWER = re.compile(f"^({RUNNING_CLUSTER}|{ANSWER}[A-Z][A-Za-z]*)$")
_MAX_SKIPPED = 6  # skipped entries that a warning names


@dataclass(frozen=True, order=True)
class SnapshotKey:
    """One snapshot of one cluster."""

    cluster_id: str
    snapshot_id: str


@dataclass(frozen=True)
class Source:
    """One cluster's files."""

    cluster_id: str
    files: tuple[Path, ...]  # sorted
    skipped: tuple[str, ...] = ()  # other entries of its folder, such as sub-folders, without hidden ones
    address: str | None = None  # how a command names it if not by its files, as in NAME=kafka://host:9092
    options: str = ""  # that a command needs to read it, quoted for a shell
    own_files: tuple[Path, ...] = ()  # files that this program wrote, beside those that the user named

    @property
    def size_bytes(self) -> int:
        """Size of all files."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def argument(self) -> str:
        """The source as an argument of a command in any folder, with the options to read it, quoted for a shell."""
        return f"{shlex.quote(self.name_place())} {self.options}".rstrip()

    def name_place(self) -> str:
        """Return its address, or NAME=PATH for a command in any folder; without the name that the path gives it."""
        if self.address is not None:
            return self.address
        path = self.files[0].absolute()
        if is_folder := len(self.files) > 1 or bool(self.skipped):
            path = path.parent
        text = os.fsencode(path).decode("utf-8", "backslashreplace")
        is_default = self.cluster_id == (path.name if is_folder else path.stem)
        return text if is_default else f"{self.cluster_id}={text}"

    def choose_format(self, file: Path, format_name: str | None) -> str | None:
        """Return the format to read a file in, None = recognise it. format_name: of the files that the user named."""
        return None if file in self.own_files else format_name

    @property
    def warnings(self) -> list[str]:
        """What the user should know before trusting the answer."""
        if not self.skipped:
            return []
        names = join_names(self.skipped, _MAX_SKIPPED)
        return [f"{self.files[0].parent}: ignored, because only files directly in the folder are read: {names}"]


def get_name(path: Path) -> str:
    """Return a file's name as text; bytes that are not UTF-8 become backslash escapes."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


def name_line(source: str, line_number: int) -> str:
    """Name a line of a source's file; or the answer of a running cluster, which has no lines."""
    return source if _ANSWER.match(source) else f"{source} line {line_number}"


def is_live(argument: str) -> bool:
    """Return whether an argument is the address of a running cluster: kafka://... or NAME=kafka://..."""
    return argument.partition("kafka://")[0][-1:] in ("", "=") and "kafka://" in argument


def find_source(argument: str) -> Source:
    """Return the source of an argument `PATH` or `NAME=PATH`; without a name, the file or folder names the cluster."""
    name, separator, rest = argument.partition("=")
    try:
        path = Path(argument)
        if separator and not path.exists():
            path = Path(rest)
            for what, text in (("cluster's name before", name), ("path after", rest)):
                if not text.strip():
                    raise SourceError(argument, f"the {what} '=' is empty", "Write NAME=PATH.")
        else:
            name = ""
        if not path.exists():
            remedy = "Save the output of kafka-topics --describe to a file and give its path."
            raise SourceError(str(path), "there is no such file or folder", remedy)
        own_name = get_name(path.resolve())
        name = os.fsencode(name).decode("utf-8", "backslashreplace")
        if not path.is_dir():
            if not (stat.S_ISREG(mode := path.stat().st_mode) or stat.S_ISFIFO(mode)):
                remedy = "Save the output of kafka-topics --describe to a file and give its path."
                raise SourceError(str(path), "is a device or a socket, not a file", remedy)
            return Source(name or Path(own_name).stem or own_name, (path,))
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        files = tuple(entry for entry in entries if entry.is_file())
        others = (entry for entry in entries if not entry.is_file())
        skipped = [f"{get_name(entry)}/" if entry.is_dir() else get_name(entry) for entry in others]
    except OSError as error:  # a folder without permission, a name longer than the disk allows
        raise _unreadable(argument, error) from None
    if not files:
        content = f"no files, only {', '.join(skipped)}" if skipped else "no files"
        raise SourceError(str(path), f"the folder has {content}", "Name a file, or a folder of one cluster's files.")
    return Source(name or own_name, files, tuple(skipped))


def find_sources(arguments: Sequence[str]) -> list[Source]:
    """Return the sources of all arguments. Raises: SourceError if two are of one cluster."""
    sources = list(map(find_source, arguments))
    check_names(sources)
    return sources


def check_names(sources: Iterable[Source]) -> None:
    """Raise SourceError if two sources are of one cluster."""
    known: dict[str, Source] = {}
    for source in sources:
        if source.cluster_id in known:
            both = " and ".join(one.address or str(one.files[0]) for one in (known[source.cluster_id], source))
            remedy = "Put one cluster's files into one folder, or name the clusters: NAME=PATH."
            raise SourceError(both, f"two sources are named {source.cluster_id!r}", remedy)
        known[source.cluster_id] = source


def select_option(option: str, values: Iterable[tuple[str | None, str]], cluster: str | None) -> str | None:
    """Return the value of an option for a cluster: one that names it, else one without a name, else None.

    values: name of the cluster (None = every cluster) and value. Raises: SettingsError if two are for the cluster.
    """
    general, named = [], []
    for name, value in values:
        if name is None:
            general.append(value)
        elif name == cluster:
            named.append(value)
    chosen = named or general
    if len(chosen) > 1:
        both = " and ".join(map(redact_urls, chosen[:2]))
        raise SettingsError(f"{option}: {both} are for the same cluster. Keep one of them")
    return chosen[0] if chosen else None


def compute_snapshot_id(source: Source, format_name: str | None) -> str:
    """Return 16 hex digits that stand for the source's content: the same files again are the same snapshot."""
    digest = hashlib.sha256((format_name or "").encode())
    for file in source.files:
        digest.update(b"\0" + os.fsencode(file.name) + b"\0")
        try:
            if file.is_fifo():
                raise SourceError(str(file), "is a pipe, but a run reads a source more than once", "Save it to a file.")
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise _unreadable(str(file), error) from None
    return digest.hexdigest()[:16]


def _unreadable(path: str, error: OSError) -> SourceError:
    return SourceError(path, f"cannot be read ({error.strerror})", "Check the path and its permissions.")
