"""Keep the tree readable: unique names, short files, few parameters."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.contracts.source_trees import parse_tree

ROOT = Path(__file__).parents[2]
FILES = sorted(file for package in ("pipelines", "udfs") for file in (ROOT / package).rglob("*.py"))
MAX_LINES = 400
MAX_PARAMETERS = 8


def list_classes() -> Iterator[tuple[str, str]]:
    """Name and file of every class."""
    for file in FILES:
        for node in ast.walk(parse_tree(file)):
            if isinstance(node, ast.ClassDef):
                yield node.name, str(file.relative_to(ROOT))


def list_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Place and definition of every function."""
    for file in FILES:
        for node in ast.walk(parse_tree(file)):
            if isinstance(node, ast.FunctionDef):
                yield f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}", node


def is_command(function: ast.FunctionDef) -> bool:
    """Whether typer declares its parameters as options."""
    return any(
        isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith((".command", ".callback"))
        for decorator in function.decorator_list
    )


def test_no_two_modules_have_one_name() -> None:
    places = defaultdict(list)
    for file in FILES:
        if not file.stem.startswith("__"):
            places[file.stem].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for name, file in list_classes():
        places[name].append(file)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_file_is_too_long() -> None:
    lines = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {file: count for file, count in lines.items() if count > MAX_LINES} == {}


def test_no_function_has_too_many_parameters() -> None:
    long = {
        place: count
        for place, function in list_functions()
        if not is_command(function)
        and (count := len([*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]))
        > MAX_PARAMETERS + (bool(function.args.args) and function.args.args[0].arg in ("self", "cls"))
    }
    assert long == {}
