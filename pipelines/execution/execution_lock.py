"""One execution per cluster: a lock of this machine that ends with its process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import SettingsError


@contextmanager
def lock_cluster(cluster_id: str) -> Iterator[None]:
    """Hold the lock of a cluster. Raises: SettingsError if another process of this machine holds it."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "kafka-placement"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{cluster_id}.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            problem = f"{holder} is applying a plan to cluster {cluster_id}"
            raise SettingsError(f"{problem} (lock: {path}). Wait for it, or stop it first") from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield
