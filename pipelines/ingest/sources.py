"""What the user names on the command line: a source is one cluster, as a file or as a folder of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import SourceError

_NAMED = 6  # of what a folder holds beside its files


@dataclass(frozen=True, order=True)
class SnapshotKey:
    """One snapshot of one cluster."""

    cluster_id: str
    snapshot_id: str


@dataclass(frozen=True)
class Source:
    """One cluster's files. cluster_id: its name; files: sorted.

    skipped: names of what else its folder holds, sub-folders above all; hidden ones are left out quietly.
    """

    cluster_id: str
    files: tuple[Path, ...]
    skipped: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def warnings(self) -> list[str]:
        """What the user should know before trusting the answer."""
        if not self.skipped:
            return []
        more = f" and {len(self.skipped) - _NAMED} more" if len(self.skipped) > _NAMED else ""
        names = f"{', '.join(self.skipped[:_NAMED])}{more}"
        return [f"{self.files[0].parent}: not read, only files right in the folder are: {names}"]


def find_source(argument: str) -> Source:
    """The source that `PATH` or `NAME=PATH` names. Without a name, the file's or folder's own does."""
    try:
        return _find(argument)
    except OSError as error:  # a folder that may not be entered, a name longer than the disk allows
        problem = f"cannot be read ({error.strerror})"
        raise SourceError(argument, problem, "Check the path and its permissions.") from None


def _find(argument: str) -> Source:
    name, separator, rest = argument.partition("=")
    path = Path(argument)
    if separator and not path.exists():
        path = Path(rest)
        if not name.strip():
            raise SourceError(argument, "the cluster's name before '=' is empty", "Write NAME=PATH.")
        if not rest.strip():
            raise SourceError(argument, "the path behind '=' is empty", "Write NAME=PATH.")
    else:
        name = ""
    skipped: tuple[str, ...] = ()
    if path.is_dir():
        files, skipped = _content(path)
    elif path.exists():
        files = (path,)
    else:
        raise SourceError(str(path), "there is no such file or folder", "Name what kafka-topics --describe printed.")
    plain = path.resolve().name
    return Source(name or (plain if path.is_dir() else Path(plain).stem or plain), files, skipped)


def _content(folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """(files, names of what else is there) of a folder, without what is hidden."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    files = tuple(entry for entry in entries if entry.is_file())
    skipped = tuple(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries if not entry.is_file())
    if not files:
        held = f"no files, only {', '.join(skipped)}" if skipped else "no files"
        raise SourceError(str(folder), f"the folder has {held}", "Name a file, or a folder of one cluster's files.")
    return files, skipped


def find_sources(arguments: Sequence[str]) -> list[Source]:
    """The sources of all arguments; two for one cluster are rejected."""
    sources = [find_source(argument) for argument in arguments]
    seen: dict[str, Source] = {}
    for source in sources:
        if source.cluster_id in seen:
            both = f"{seen[source.cluster_id].files[0]} and {source.files[0]}"
            remedy = "Put one cluster's files into one folder, or name the clusters: NAME=PATH."
            raise SourceError(both, f"two sources are named {source.cluster_id!r}", remedy)
        seen[source.cluster_id] = source
    return sources


def snapshot_id_of(source: Source, format_name: str | None) -> str:
    """16 hex digits that stand for the source's content: the same files again are the same snapshot."""
    digest = hashlib.sha256((format_name or "").encode())
    for file in source.files:
        digest.update(b"\0" + file.name.encode() + b"\0")
        try:
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
            raise SourceError(str(file), problem, "Check the path and its permissions.") from None
    return digest.hexdigest()[:16]
