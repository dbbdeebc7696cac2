"""An asset bundle as its tool would read it: files included, variables put in, every key and value checked.

What a job may say is asked of Databricks' SDK, whose classes follow the Jobs API (Apache-2.0). The tool's own JSON
schema is under the Databricks License, which permits no use apart from Databricks' services: it is not here.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from databricks.sdk.service import compute, jobs
from ruamel.yaml import YAML

_SDK = {"compute": compute, "jobs": jobs}
# Keys of a bundle's top and of what is beside jobs, as its reference lists them: those that are used here.
TOP = {"bundle", "include", "sync", "artifacts", "variables", "resources", "targets"}
BELOW = {
    "bundle": {"name", "databricks_cli_version"},
    "sync": {"paths", "include", "exclude"},
    "artifacts": {"type", "build", "files", "path"},
    "variables": {"description", "type", "default", "lookup"},
    "targets": {"mode", "default", "workspace", "variables", "presets", "run_as"},
}
# What a bundle's job has beside the settings of the API.
ONLY_IN_BUNDLES = {"permissions", "run_as", "lifecycle"}


class WrongBundle(ValueError):
    """A key or value that the tool, or the API behind it, would reject."""


def load(folder: Path) -> dict[str, Any]:
    """The bundle of databricks.yml and all that it includes, variables not put in."""
    bundle = _yaml(folder / "databricks.yml")
    if unknown := bundle.keys() - TOP:
        raise WrongBundle(f"databricks.yml: {', '.join(sorted(unknown))}")
    for section, known in BELOW.items():
        held = bundle.get(section, {})
        for name, one in {"": held}.items() if section in ("bundle", "sync") else held.items():
            if unknown := one.keys() - known:
                raise WrongBundle(f"databricks.yml: {section}.{name}: {', '.join(sorted(unknown))}")
    included = [file for pattern in bundle.get("include", []) for file in sorted(folder.glob(pattern))]
    found: dict[str, Any] = {}
    for file in included:
        content = _yaml(file)
        if content.keys() != {"resources"} or content["resources"].keys() != {"jobs"}:
            raise WrongBundle(f"{file.name}: is to hold resources.jobs alone")
        for name, job in content["resources"]["jobs"].items():
            if name in found:
                raise WrongBundle(f"{file.name}: {name} is there twice")
            found[name] = job
    return {**bundle, "jobs": found, "included": included}


def _yaml(file: Path) -> dict[str, Any]:
    return YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))


def resolved(value: Any, variables: Mapping[str, Any]) -> Any:
    """The value with every ${...} put in; WrongBundle where one is not known. variables: by "var.name" and the like."""
    if isinstance(value, dict):
        return {key: resolved(one, variables) for key, one in value.items()}
    if isinstance(value, list):
        return [resolved(one, variables) for one in value]
    if not isinstance(value, str):
        return value
    if whole := re.fullmatch(r"\$\{([^}]+)\}", value):
        return resolved(_known(whole.group(1), variables), variables)
    return re.sub(r"\$\{([^}]+)\}", lambda found: str(resolved(_known(found.group(1), variables), variables)), value)


def _known(name: str, variables: Mapping[str, Any]) -> Any:
    if name not in variables:
        raise WrongBundle(f"${{{name}}} is not known")
    return variables[name]


def check_job(name: str, job: Mapping[str, Any]) -> None:
    """Nothing; WrongBundle where a key, a value or its type is none of the Jobs API's, or a needed one is missing."""
    check({key: value for key, value in job.items() if key not in ONLY_IN_BUNDLES}, jobs.JobSettings, name)


def check(value: Any, kind: Any, where: str) -> None:
    """Nothing; WrongBundle where a value, as YAML has it, is not of a type of the SDK's, all keys below it included."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):  # all that the SDK has are Optional
        (kind,) = (one for one in typing.get_args(kind) if one is not type(None))
        check(value, kind, where)
    elif origin is list:
        if not isinstance(value, list):
            raise WrongBundle(f"{where}: {value!r} is no list")
        for number, one in enumerate(value):
            check(one, typing.get_args(kind)[0], f"{where}[{number}]")
    elif origin is dict:
        if not isinstance(value, dict):
            raise WrongBundle(f"{where}: {value!r} is no mapping")
        for key, one in value.items():
            check(one, typing.get_args(kind)[1], f"{where}.{key}")
    elif dataclasses.is_dataclass(kind):
        _check_fields(value, kind, where)
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        if value not in [member.value for member in kind]:
            raise WrongBundle(f"{where}: {value!r} is none of {', '.join(member.value for member in kind)}")
    elif kind is not Any and type(value) is not kind:
        raise WrongBundle(f"{where}: {value!r} is no {kind.__name__}")


def _check_fields(value: Any, kind: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise WrongBundle(f"{where}: {value!r} is no mapping")
    module = vars(__import__(kind.__module__, fromlist=["_"]))
    hints = typing.get_type_hints(kind, globalns=dict(module), localns=_SDK)
    for key, one in value.items():
        if key not in hints:
            raise WrongBundle(f"{where}: there is no {key}; there are {', '.join(sorted(hints))}")
        check(one, hints[key], f"{where}.{key}")
    for field in dataclasses.fields(kind):
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and field.name not in value:
            raise WrongBundle(f"{where}: {field.name} is missing")
