"""Compiling kernels with numba: once per machine where that can be kept, else once per process.

Most of the time goes into Python's own work per compiled form of a function, and into LLVM's optimiser. So each
function has one form per call site's kinds of arrays, not one per constant (`_general`), and a `part` is optimised
only once, within the kernel that takes it in (`_PartLibrary`). Measured over all kernels: 72 seconds instead of 157.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching, config, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

Function = TypeVar("Function", bound=Callable[..., Any])


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


def _source_files(folder: Traversable, module: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every module that compiled code may come from: in `kernels`, and arrow.ragged."""
    for entry in folder.iterdir():
        name = f"{module}.{entry.name.removesuffix('.py')}"
        if entry.is_dir():
            yield from _source_files(entry, name)
        elif entry.name.endswith(".py") and (module.endswith(".kernels") or name in _OTHER_MODULES):
            yield name, entry.read_bytes()


def _digest_of(sources: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, source in sorted(sources):
        digest.update(name.encode() + b"\0" + source + b"\0")
    return digest.hexdigest()[:16]


@cache
def _module_digest(module: str) -> str:
    """Return a digest of a module and of all that it imports, directly or not, of what may be compiled with it."""
    found, left = {module: _MODULES[module]}, [module]
    while left:
        for package, names in _IMPORT.findall(found[left.pop()]):
            imported = [package, *(package + b"." + name for name in re.findall(rb"\w+", names))]
            for name in map(bytes.decode, imported):
                if name in _MODULES and name not in found:
                    found[name] = _MODULES[name]
                    left.append(name)
    return _digest_of(found.items())


def _folder() -> Path | None:
    """Return the folder of compiled kernels; None = they cannot be kept.

    It is beside the sources, or where these cannot be written (an archive that Spark carried here) in the user's cache.
    """
    if isinstance(_PACKAGE, Path) and os.access(_PACKAGE, os.W_OK):
        return _PACKAGE / "__pycache__" / "compiled"
    try:
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # this user has no home
        return None
    return kept / "kafka-placement" / f"compiled-{SOURCES_DIGEST}"


_PACKAGE = resources.files(__package__)
_OTHER_MODULES = ("udfs.kernel_compiler", "udfs.arrow.ragged")
_IMPORT = re.compile(rb"^\s*from (udfs[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_MODULES = dict(_source_files(_PACKAGE, "udfs"))
SOURCES_DIGEST = _digest_of(_MODULES.items())
_FOLDER = _folder()
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


class Kept(caching.UserProvidedCacheLocator):
    """Tells numba that machine code is in our folder, wherever the sources are, and that it is current there.

    Spark carries an archive to another path for each application. numba's own folders go by path and would be empty.
    """

    def __init__(self, function: Any, file: str) -> None:
        self._py_file = file  # where numba's warnings say that something is
        self._lineno = function.__code__.co_firstlineno
        known = function.__module__ in _MODULES
        own = [*_MODULES.items(), (function.__module__, Path(file).read_bytes())]
        self._stamp = _module_digest(function.__module__) if known else _digest_of(own)

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(_FOLDER)

    def get_source_stamp(self) -> str:
        """Return a digest of the function's module and of all that it imports: numba itself looks at one file only."""
        return self._stamp

    @classmethod
    def from_function(cls, function: Any, file: str) -> Kept | None:
        """Return the locator of a function; None if its machine code cannot be kept."""
        made = cls(function, file)
        try:
            made.ensure_cache_path()  # type: ignore[no-untyped-call]
        except OSError:
            return None
        return made


def compiled(function: Function) -> Function:
    """`function` as machine code, made at its first call; it holds no lock on Python meanwhile.

    A division by zero gives what numpy gives, as Java's would have been rejected before.
    """
    others = config.CACHE_LOCATOR_CLASSES  # type: ignore[attr-defined]
    config.CACHE_LOCATOR_CLASSES = f"{Kept.__module__}.{Kept.__qualname__}"  # type: ignore[attr-defined]
    try:
        made = numba.njit(cache=_FOLDER is not None, **_OPTIONS)(function)
    except RuntimeError:  # nothing can be written there
        made = numba.njit(**_OPTIONS)(function)
    finally:
        config.CACHE_LOCATOR_CLASSES = others  # type: ignore[attr-defined]
    return _with_general_types(made)  # type: ignore[no-any-return]


def cache_folder() -> Path | None:
    """Return the folder in which machine code is kept; None if it cannot be kept."""
    return _FOLDER


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
    made = _with_general_types(numba.njit(**options)(function))
    # It has no machine code for Python to jump to.
    made._insert = lambda *arguments, **named: None
    made._compile_for_args = _reject
    return made  # type: ignore[no-any-return]


def _reject(*arguments: Any, **named: Any) -> None:
    raise TypeError("a part of a kernel is called by compiled functions alone: Python calls what is `compiled`")
