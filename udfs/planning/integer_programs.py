"""Integer programs, solved by HiGHS: the same program has the same solution, as nodes are counted, and no time."""

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from udfs.planning.cluster_model import Floats, Ints


def solve_program(
    cost: Floats,
    constraints: LinearConstraint | Sequence[LinearConstraint],
    bounds: Bounds | tuple[Any, Any],
    integrality: Ints,
    limits: tuple[int, float],
) -> OptimizeResult:
    """Minimize a cost with scipy.optimize.milp. limits: nodes of branch and bound, and the gap that is small enough."""
    with _print_to_stderr():
        return milp(
            cost,
            constraints=constraints,
            bounds=bounds,
            integrality=integrality,
            options={"node_limit": limits[0], "mip_rel_gap": limits[1]},
        )


@contextmanager
def _print_to_stderr() -> Iterator[None]:
    """Send to stderr what C++ code prints: HiGHS prints a line though it is to be silent, and stdout may be for JSON.

    Source: HighsMipSolverData::transformNewIntegerFeasibleSolution, github.com/ERGO-Code/HiGHS/issues/2783
    """
    flush = ctypes.CDLL(None).fflush
    try:
        stdout = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed
        yield
        return
    try:
        yield
    finally:
        flush(None)
        os.dup2(stdout, 1)
        os.close(stdout)
