"""Compiling kernels with numba: once per machine where that can be kept, else once per process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """`function` as machine code, made at its first call; it holds no lock on Python meanwhile.

    A division by zero gives what numpy gives, as Java's would have been refused before.
    """
    try:
        made = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # no folder to keep it in: imported from a zip, or nothing here is writable
        made = numba.njit(nogil=True, error_model="numpy")(function)
    return made  # type: ignore[return-value]
