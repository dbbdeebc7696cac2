"""Compiling kernels with numba: once per machine where that can be kept, else once per process."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config

import llvmlite.binding as ll
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher

_orig = Dispatcher.get_call_template

def _canon(t):
    t = types.unliteral(t)
    if isinstance(t, types.Integer) and t is not types.int64 and t.signed: return types.int64
    return t

def _gct(self, args, kws):
    m = self.py_func.__module__
    if m.startswith("udfs."):
        args = tuple(map(_canon, args))
        kws = {k: _canon(v) for k, v in kws.items()}
    return _orig(self, args, kws)

Dispatcher.get_call_template = _gct

class _NoEnv:
    @staticmethod
    def set_env(*a): pass

class _PartLibrary(JITCodeLibrary):
    def _optimize_final_module(self): pass
    def _finalize_final_module(self):
        self._finalized = True
    @property
    def codegen(self):
        return _NoEnv
    def get_pointer_to_function(self, name):
        return 0

class _PartCompiler(Compiler):
    def __init__(self, typingctx, targetctx, library, *rest):
        library = _PartLibrary(targetctx.codegen(), "part")
        super().__init__(typingctx, targetctx, library, *rest)

Function = TypeVar("Function", bound=Callable[..., Any])

_HERE = Path(__file__).parent
_PREFIX = "compiled-"


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


def compiled(function: Function) -> Function:
    """`function` as machine code, made at its first call; it holds no lock on Python meanwhile.

    A division by zero gives what numpy gives, as Java's would have been refused before.
    """
    others = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = _FOLDER or others  # type: ignore[attr-defined]
    try:
        made = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # no folder to keep it in: nothing here is writable
        made = numba.njit(nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = others  # type: ignore[attr-defined]
    return made  # type: ignore[return-value]


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
    no_entry: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": counted}
    decorate: Callable[[Function], Function] = numba.njit(nogil=True, error_model="numpy", pipeline_class=_PartCompiler, **no_entry)
    return decorate(function)
