"""Syntax trees of source files, each parsed once for all contract tests of a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parse_tree(file: Path) -> ast.Module:
    """Parse a file; callers must not change the tree."""
    return ast.parse(file.read_text(encoding="utf-8"))
