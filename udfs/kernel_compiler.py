"""Compile kernels with numba: once per machine if machine code can be kept, otherwise once per process.

Most of the time goes into Python's work per signature of a function, and into LLVM's optimiser. So each function has
one signature per types of arrays, not one per constant (`_generalize`), and a `part` is optimised only within the
kernels that call it (`_PartLibrary`). Measured over all kernels: 72 seconds instead of 157.
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
from numba.np import linalg

Function = TypeVar("Function", bound=Callable[..., Any])


def _do_without_scipy() -> None:
    """Tell numba that there are no products of matrices: no kernel has any, and SciPy takes 0.2 s to load."""
    raise ImportError


linalg.ensure_blas = _do_without_scipy


class _PartLibrary(JITCodeLibrary):
    """Holds the code of a part without optimising or compiling it: the kernels that call it do both."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0  # as for every function that Python cannot call

    @property
    def codegen(self) -> Any:
        return _NoEnvironment


class _NoEnvironment:
    """Ignores a function's Python objects: a part has no machine code to hold them."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        pass


class _PartCompiler(Compiler):
    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        library = _PartLibrary(target.codegen(), "part")  # type: ignore[no-untyped-call]
        super().__init__(typing, target, library, *rest)  # type: ignore[no-untyped-call]


def _generalize(argument_type: Any) -> Any:
    """Return the type to compile for where a compiled caller passes an argument: no constants or enums, 64 bits."""
    argument_type = types.unliteral(argument_type)  # type: ignore[no-untyped-call]
    is_integer = argument_type in types.signed_domain or isinstance(argument_type, types.IntEnumMember)
    return types.int64 if is_integer else argument_type


def _with_general_types(dispatcher: Any) -> Any:
    resolve = dispatcher.get_call_template

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        general_keywords = {name: _generalize(argument_type) for name, argument_type in keywords.items()}
        return resolve(tuple(map(_generalize, arguments)), general_keywords)

    dispatcher.get_call_template = get_call_template
    return dispatcher


def _source_files(folder: Traversable, module: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every module with compiled functions: those in `kernels`, and arrow.ragged."""
    for entry in folder.iterdir():
        name = f"{module}.{entry.name.removesuffix('.py')}"
        if entry.is_dir():
            yield from _source_files(entry, name)
        elif entry.name.endswith(".py") and (module.endswith(".kernels") or name in _OTHER_MODULES):
            yield name, entry.read_bytes()


def _hash_sources(sources: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, source in sorted(sources):
        digest.update(name.encode() + b"\0" + source + b"\0")
    return digest.hexdigest()[:16]


@cache
def _hash_module(module: str) -> str:
    """Return a digest of a module and of all modules with compiled functions that it imports, directly or not."""
    sources, queue = {module: _MODULES[module]}, [module]
    while queue:
        for package, names in _IMPORT.findall(sources[queue.pop()]):
            imported = [package, *(package + b"." + name for name in re.findall(rb"\w+", names))]
            for name in map(bytes.decode, imported):
                if name in _MODULES and name not in sources:
                    sources[name] = _MODULES[name]
                    queue.append(name)
    return _hash_sources(sources.items())


def _choose_folder() -> Path | None:
    """Choose the folder of machine code; None if it cannot be kept.

    It is beside the sources, or in the user's cache if these cannot be written (an archive that Spark copied here).
    """
    if isinstance(_PACKAGE, Path) and os.access(_PACKAGE, os.W_OK):
        return _PACKAGE / "__pycache__" / "compiled"
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # this user has no home
        return None
    return cache / "kafka-placement" / f"compiled-{SOURCES_DIGEST}"


_PACKAGE = resources.files(__package__)
_OTHER_MODULES = ("udfs.kernel_compiler", "udfs.arrow.ragged")
_IMPORT = re.compile(rb"^\s*from (udfs[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_MODULES = dict(_source_files(_PACKAGE, "udfs"))
SOURCES_DIGEST = _hash_sources(_MODULES.items())
_FOLDER = _choose_folder()
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


class _CacheLocator(caching.UserProvidedCacheLocator):
    """Finds machine code for numba, and knows whether it is current.

    Spark copies an archive to another path for each application; numba's own folders depend on the path.
    """

    def __init__(self, function: Any, file: str) -> None:
        self._py_file = file  # for numba's warnings
        self._lineno = function.__code__.co_firstlineno
        module = function.__module__
        if module in _MODULES:
            self._stamp = _hash_module(module)
        else:  # of another program, or __main__
            try:
                source = Path(file).read_bytes()
            except OSError:  # in an archive
                source = b""
            self._stamp = _hash_sources([*_MODULES.items(), (module, source)])

    def get_cache_path(self) -> str:
        return str(_FOLDER)

    def get_source_stamp(self) -> str:
        return self._stamp  # of the function's module and of what it imports; numba's own covers one file

    @classmethod
    def from_function(cls, function: Any, file: str) -> _CacheLocator | None:
        locator = cls(function, file)
        try:
            locator.ensure_cache_path()  # type: ignore[no-untyped-call]
        except OSError:
            return None
        return locator


def compiled(function: Function) -> Function:
    """Compile a function at its first call; the machine code runs without the GIL.

    A division by zero gives the same as in numpy.
    """
    default_locators = config.CACHE_LOCATOR_CLASSES  # type: ignore[attr-defined]
    config.CACHE_LOCATOR_CLASSES = f"{_CacheLocator.__module__}.{_CacheLocator.__qualname__}"  # type: ignore[attr-defined]
    try:
        dispatcher = numba.njit(cache=_FOLDER is not None, **_OPTIONS)(function)
    except RuntimeError:  # the folder cannot be written
        dispatcher = numba.njit(**_OPTIONS)(function)
    finally:
        config.CACHE_LOCATOR_CLASSES = default_locators  # type: ignore[attr-defined]
    if (file := getattr(dispatcher._cache, "_cache_file", None)) is not None:
        # numba reads no index of another version. Those of other sources may name classes that no longer exist.
        file._version = (file._version, file._source_stamp)
    return _with_general_types(dispatcher)  # type: ignore[no-any-return]


def cache_folder() -> Path | None:
    """Return the folder of machine code; None if it cannot be kept."""
    return _FOLDER


def part(function: Function) -> Function:
    """Compile a function only as a part of the compiled functions that call it; Python cannot call it.

    The wrapper for Python and reference counts would take longer to compile than a small function. So a part creates no
    arrays; a `copying_part` may.
    """
    return _compile_part(function, counts_references=False)


def copying_part(function: Function) -> Function:
    """Compile a function as `part` does, for one that creates arrays; it may return none."""
    return _compile_part(function, counts_references=True)


def inlined_part(function: Function) -> Function:
    """Compile a `part` that is always inlined: for large pieces of a hot loop, as each array argument costs time."""
    return _compile_part(function, counts_references=False, inlined=True)


def _compile_part(function: Function, counts_references: bool, inlined: bool = False) -> Function:
    options = {**_OPTIONS, "no_cpython_wrapper": True, "pipeline_class": _PartCompiler}
    options |= {"_nrt": counts_references, "forceinline": inlined}
    dispatcher = _with_general_types(numba.njit(**options)(function))
    # It has no machine code that Python could call.
    dispatcher._insert = lambda *arguments, **keywords: None
    dispatcher._compile_for_args = _reject_call
    return dispatcher  # type: ignore[no-any-return]


def _reject_call(*_arguments: Any, **_keywords: Any) -> None:
    raise TypeError("only compiled functions can call a part of a kernel; Python calls functions that are `compiled`")
