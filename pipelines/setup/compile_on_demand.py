"""Compile groups of kernels before they are needed: at setup those of the first commands, the others on first use.

Machine code is kept beside the kernels' sources, so that a group is compiled once per installation.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from numba.core.event import Event, Listener, install_listener

from pipelines.errors import EnvironmentFault
from udfs.kernel_compiler import SOURCES_DIGEST, cache_folder

MESSAGE = "compiling kernels, once after an installation or update: up to a minute"

# Groups of kernels that pipelines/setup/kernel_compilation.py compiles together.
PLACEMENT, FAILURES, REPLAY = "placement", "failures", "replay"

_log = logging.getLogger(__name__)


def plan_group(goal: str) -> str:
    """Return the name of the kernel group of a plan goal."""
    return f"plan-{goal}"


# The groups of `run`, whose plans search as `balance` does, `what-if` and `plan --goal leaders`.
SETUP = (PLACEMENT, FAILURES, *map(plan_group, ("leaders", "repair", "rf", "failover", "balance")))


def get_marker(folder: Path, group: str) -> Path:
    """Return the empty file that marks the group as compiled in a folder."""
    return folder / f"{group}-{SOURCES_DIGEST}.compiled"


def compile_missing(groups: Sequence[str], notify: Callable[[str], None] = lambda message: None) -> None:
    """Compile the groups that are not compiled yet, in parallel processes, after calling `notify` with a message.

    Call this before Spark's workers need the kernels: each worker would compile them for itself, without a message. If
    machine code cannot be kept, that is what happens. Raises: EnvironmentFault if a process fails.
    """
    folder = cache_folder()
    missing = [group for group in groups if folder is not None and not get_marker(folder, group).is_file()]
    if not missing:
        return
    notify(MESSAGE)
    began = monotonic()
    # These two take about as long as all others together, which have kernels in common.
    batches = [[group] for group in missing if group in (PLACEMENT, REPLAY)]
    if others := [group for group in missing if [group] not in batches]:
        batches.append(others)
    command = [sys.executable, "-m", "pipelines.setup.kernel_compilation"]
    processes = [subprocess.Popen([*command, *batch]) for batch in batches]
    exit_codes = [process.wait() for process in processes]
    if any(exit_codes):
        raise EnvironmentFault("the kernels could not be compiled; the reason is above")
    _log.info("compiled the kernels of %s in %.1f s", ", ".join(missing), monotonic() - began)


class _CompilationListener(Listener):
    """Sends a message when the first kernel is compiled. Loading machine code is no compilation."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify: Callable[[str], None] | None = notify

    def on_start(self, event: Event) -> None:
        if self._notify is not None:
            self._notify(MESSAGE)
            self._notify = None

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def announce_compilation(notify: Callable[[str], None]) -> Iterator[None]:
    """Call `notify` with a message before the first kernel that is compiled in the block, if any is."""
    with install_listener("numba:compile", _CompilationListener(notify)):
        yield
