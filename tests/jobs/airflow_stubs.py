"""Airflow's names that the DAGs import, as stubs: Airflow, with its hundred libraries, is not installed here."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest


class AirflowException(Exception):
    pass


class AirflowFailException(AirflowException):
    pass


class AirflowSkipException(AirflowException):
    pass


def load_dag(file: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load the module; `tasks` and `options` are those it declares, `values` its variables."""
    values: dict[str, str] = {}
    tasks: dict[str, Callable[..., Any]] = {}
    options: dict[str, dict[str, Any]] = {}

    def task(function: Any = None, **settings: Any) -> Any:
        if function is None:
            return lambda decorated: task(decorated, **settings)
        tasks[function.__name__], options[function.__name__] = function, settings
        return lambda *arguments: None  # a call in the DAG runs the task later

    def make_dag(**settings: Any) -> Any:
        options["dag"] = settings

        def declare(function: Callable[[], None]) -> Callable[[], None]:
            return function

        return declare

    sdk = types.ModuleType("airflow.sdk")
    sdk.Variable = types.SimpleNamespace(get=lambda name, default: values.get(name, default))  # type: ignore[attr-defined]
    sdk.dag, sdk.task = make_dag, task  # type: ignore[attr-defined]
    now = types.SimpleNamespace(run_after=datetime(2026, 11, 22, 2, 15, tzinfo=UTC))
    sdk.get_current_context = lambda: {"dag_run": now}  # type: ignore[attr-defined]
    exceptions = types.ModuleType("airflow.sdk.exceptions")
    for error in (AirflowException, AirflowFailException, AirflowSkipException):
        setattr(exceptions, error.__name__, error)
    for module in (types.ModuleType("airflow"), sdk, exceptions):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.tasks, module.options, module.values = tasks, options, values
    return module
