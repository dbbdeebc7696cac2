"""Compiling kernels with numba: once per machine where that can be kept, else once per process.

Most of the time goes into Python's own work per compiled form of a function, and into LLVM's optimiser. So each
function has one form per call site's kinds of arrays, not one per constant (`_general`), and a `part` is optimised
only once, within the kernel that takes it in (`_PartLibrary`). Measured over all kernels: 72 seconds instead of 157.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

Function = TypeVar("Function", bound=Callable[..., Any])

_HERE = Path(__file__).parent
_PREFIX = "compiled-"


class _PartLibrary(JITCodeLibrary):
    """The code of a part: neither optimised nor turned into machine code, as the kernel that takes it in does both."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, numba's answer for a function that Python cannot call."""
        return 0

    @property
    def codegen(self) -> Any:
        """What numba hands the function's Python objects to. A part has no machine code that could hold them."""
        return _NoEnvironment


class _NoEnvironment:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Ignore the Python objects: a part uses none."""


class _PartCompiler(Compiler):
    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        library = _PartLibrary(target.codegen(), "part")  # type: ignore[no-untyped-call]
        super().__init__(typing, target, library, *rest)  # type: ignore[no-untyped-call]


def _general(kind: Any) -> Any:
    """The type that a function is compiled for where a compiled caller passes this one: no constants, 64 bits."""
    kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
    return types.int64 if kind in types.signed_domain else kind


def _with_general_types(dispatcher: Any) -> Any:
    resolve = dispatcher.get_call_template

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        return resolve(tuple(map(_general, arguments)), {name: _general(kind) for name, kind in keywords.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


def _folder() -> str:
    """Where compiled kernels are kept: a folder of its own for each state of all their sources.

    numba looks at a function's own file only: after an update, one would go on with the old form of another that it
    calls. Empty = the kernels are not files (a zip), and numba knows a place itself.
    """
    sources = sorted(_HERE.glob("*.py"))
    if not sources:
        return ""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parent = _HERE / "__pycache__" if os.access(_HERE, os.W_OK) else cache / "kafka-placement"
    folder = parent / f"{_PREFIX}{digest.hexdigest()[:16]}"
    if not folder.exists():
        for outdated in parent.glob(f"{_PREFIX}*"):
            shutil.rmtree(outdated, ignore_errors=True)
    return str(folder)


_FOLDER = _folder()
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """`function` as machine code, made at its first call; it holds no lock on Python meanwhile.

    A division by zero gives what numpy gives, as Java's would have been refused before.
    """
    others = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = _FOLDER or others  # type: ignore[attr-defined]
    try:
        made = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder to keep it in: nothing here is writable
        made = numba.njit(**_OPTIONS)(function)
    finally:
        config.CACHE_DIR = others  # type: ignore[attr-defined]
    return _with_general_types(made)  # type: ignore[no-any-return]


def cache_folder() -> Path | None:
    """The folder in which machine code is kept, for this state of the sources; None if nobody knows it."""
    return Path(_FOLDER) if _FOLDER else None


def part(function: Function) -> Function:
    """`function` as machine code within the compiled functions that call it; Python itself cannot call it.

    For the many small pieces of a large kernel: what Python needs to call one takes longer to compile than the piece.
    It makes no arrays, so that nobody counts who uses those that it is given: that takes longer than a small piece.
    """
    return _piece(function, counted=False)


def copying_part(function: Function) -> Function:
    """As `part`, of a piece that makes arrays; it may return none."""
    return _piece(function, counted=True)


def _piece(function: Function, counted: bool) -> Function:
    options = {**_OPTIONS, "no_cpython_wrapper": True, "pipeline_class": _PartCompiler, "_nrt": counted}
    return _with_general_types(numba.njit(**options)(function))  # type: ignore[no-any-return]
