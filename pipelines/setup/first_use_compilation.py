"""When kernels are compiled: at set-up what the first commands call, the rest with a message on first use.

Compiling is silent and takes a while. Machine code is kept beside the kernels' sources, so that it happens once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from numba.core.event import Event, Listener, install_listener

from pipelines.errors import EnvironmentFault
from udfs.kernel_compiler import SOURCES_DIGEST, cache_folder

MESSAGE = "compiling kernels, once after an installation or update: up to a minute"

# Groups of kernels: what pipelines/setup/kernel_compilation.py compiles together.
PLACEMENT, FAILURES, REPLAY = "placement", "failures", "replay"


def plan_group(goal: str) -> str:
    """Return the name of the group of kernels that plans for this goal call."""
    return f"plan-{goal}"


# What `run`, `what-if` and `plan --goal leaders` call.
SETUP = (PLACEMENT, FAILURES, plan_group("leaders"))


def note(folder: Path, group: str) -> Path:
    """Return the empty file that tells that the group's machine code is in this folder."""
    return folder / f"{group}-{SOURCES_DIGEST}.compiled"


def missing(groups: Sequence[str]) -> list[str]:
    """Return those of these groups that are not compiled yet; none where machine code cannot be kept."""
    folder = cache_folder()
    return [group for group in groups if folder is not None and not note(folder, group).is_file()]


def compile_missing(groups: Sequence[str], say: Callable[[str], None] = lambda message: None) -> None:
    """Compile those of these groups that are not compiled yet, in processes side by side, after a message.

    For kernels that Spark's workers call: they would compile without a word, each for itself. Where machine code cannot
    be kept, that is what happens.

    Raises:
        EnvironmentFault: if a process ends with an error; its output is on stderr.
    """
    left = missing(groups)
    if not left:
        return
    say(MESSAGE)
    # The others have kernels in common. Each of these takes about as long as they do.
    alone = [[group] for group in left if group in (PLACEMENT, REPLAY)]
    rest = [group for group in left if [group] not in alone]
    parts = [*alone, *([rest] if rest else [])]
    running = [subprocess.Popen([sys.executable, "-m", "pipelines.setup.kernel_compilation", *part]) for part in parts]
    ended = [process.wait() for process in running]
    if any(ended):
        raise EnvironmentFault("the kernels could not be compiled; the reason is above")


class _FirstCompilation(Listener):
    """Sends the message when the first function is compiled. Loading kept machine code is no compilation."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say: Callable[[str], None] | None = say

    def on_start(self, event: Event) -> None:
        """Send the message, once."""
        say, self._say = self._say, None
        if say is not None:
            say(MESSAGE)

    def on_end(self, event: Event) -> None:
        """Ignore the end of a compilation."""


@contextmanager
def announced(say: Callable[[str], None]) -> Iterator[None]:
    """Call `say` with a message before the first kernel that is compiled within, if any is: compiling is silent."""
    with install_listener("numba:compile", _FirstCompilation(say)):
        yield
