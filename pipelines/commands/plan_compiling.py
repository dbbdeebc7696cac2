"""A word before kernels are compiled: it is silent, and may take a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core.event import Event, Listener, install_listener

SAID = "compiling its kernels, once after an installation or update: about a minute"


class _First(Listener):
    """Says it when something is compiled; what is read from where it was kept is no compilation."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say: Callable[[str], None] | None = say

    def on_start(self, event: Event) -> None:
        """numba begins to compile a function."""
        say, self._say = self._say, None
        if say is not None:
            say(SAID)

    def on_end(self, event: Event) -> None:
        """Nothing: what follows speaks for itself."""


@contextmanager
def told(say: Callable[[str], None]) -> Iterator[None]:
    """What is done within says once, and before the first, that kernels are being compiled, if they are."""
    with install_listener("numba:compile", _First(say)):
        yield
