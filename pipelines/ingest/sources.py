"""What the user names on the command line: a source is one cluster, as a file or as a folder of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import SourceError


@dataclass(frozen=True, order=True)
class SnapshotKey:
    """One snapshot of one cluster."""

    cluster_id: str
    snapshot_id: str


@dataclass(frozen=True)
class Source:
    """One cluster's files. cluster_id: its name; files: sorted."""

    cluster_id: str
    files: tuple[Path, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)


def find_source(argument: str) -> Source:
    """The source that `PATH` or `NAME=PATH` names. Without a name, the file's or folder's own does."""
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
    if path.is_dir():
        files = tuple(sorted(f for f in path.iterdir() if f.is_file() and not f.name.startswith(".")))
        if not files:
            raise SourceError(str(path), "the folder has no files", "Name a file, or a folder of one cluster's files.")
    elif path.exists():
        files = (path,)
    else:
        raise SourceError(str(path), "there is no such file or folder", "Name what kafka-topics --describe printed.")
    plain = path.resolve().name
    return Source(name or (plain if path.is_dir() else Path(plain).stem or plain), files)


def find_sources(arguments: Sequence[str]) -> list[Source]:
    """The sources of all arguments; two for one cluster are refused."""
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
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]
