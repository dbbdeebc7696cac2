"""Read an asset bundle as its tool does: include files, resolve variables, and check every key and value.

The allowed keys of a job come from Databricks' SDK (Apache-2.0), whose classes follow the Jobs API. The JSON schema of
the tool itself is not used: its license permits it only for Databricks' services.
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

from ruamel.yaml import YAML

# Keys of a bundle outside its jobs, from its reference: those that are used here.
TOP_KEYS = {"bundle", "include", "sync", "artifacts", "variables", "resources", "targets"}
SECTION_KEYS = {
    "bundle": {"name", "databricks_cli_version"},
    "sync": {"paths", "include", "exclude"},
    "artifacts": {"type", "build", "files", "path"},
    "variables": {"description", "type", "default", "lookup"},
    "targets": {"mode", "default", "workspace", "variables", "presets", "run_as"},
}
# Keys of a bundle's job that the API does not have.
ONLY_IN_BUNDLES = {"permissions", "run_as", "lifecycle"}


class InvalidBundle(ValueError):
    """The tool, or the API behind it, would reject a key or value."""


def load_bundle(folder: Path) -> dict[str, Any]:
    """Load databricks.yml and the files that it includes, with unresolved variables."""
    bundle = _read_yaml(folder / "databricks.yml")
    if unknown := bundle.keys() - TOP_KEYS:
        raise InvalidBundle(f"databricks.yml: {', '.join(sorted(unknown))}")
    for section, known in SECTION_KEYS.items():
        content = bundle.get(section, {})
        for name, entry in {"": content}.items() if section in ("bundle", "sync") else content.items():
            if unknown := entry.keys() - known:
                raise InvalidBundle(f"databricks.yml: {section}.{name}: {', '.join(sorted(unknown))}")
    included = [file for pattern in bundle.get("include", []) for file in sorted(folder.glob(pattern))]
    loaded: dict[str, Any] = {}
    for file in included:
        content = _read_yaml(file)
        if content.keys() != {"resources"} or content["resources"].keys() != {"jobs"}:
            raise InvalidBundle(f"{file.name}: must contain only resources.jobs")
        for name, job in content["resources"]["jobs"].items():
            if name in loaded:
                raise InvalidBundle(f"{file.name}: {name} is defined twice")
            loaded[name] = job
    return {**bundle, "jobs": loaded, "included": included}


def _read_yaml(file: Path) -> dict[str, Any]:
    return YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))


def resolve(value: Any, variables: Mapping[str, Any]) -> Any:
    """Replace every ${...} in a value by its variable, such as "var.name".

    Raises:
        InvalidBundle: If one is unknown.
    """
    if isinstance(value, dict):
        return {key: resolve(part, variables) for key, part in value.items()}
    if isinstance(value, list):
        return [resolve(part, variables) for part in value]
    if not isinstance(value, str):
        return value
    if whole := re.fullmatch(r"\$\{([^}]+)\}", value):
        return resolve(_get_variable(whole.group(1), variables), variables)
    return re.sub(
        r"\$\{([^}]+)\}", lambda match: str(resolve(_get_variable(match.group(1), variables), variables)), value
    )


def _get_variable(name: str, variables: Mapping[str, Any]) -> Any:
    if name not in variables:
        raise InvalidBundle(f"${{{name}}} is not known")
    return variables[name]


def check_job(name: str, job: Mapping[str, Any]) -> None:
    """Check a job against the Jobs API.

    Raises:
        InvalidBundle: If a key, a value or its type is unknown, or a required key is missing.
    """
    from databricks.sdk.service.jobs import JobSettings  # takes seconds, and every worker imports this module

    check_value({key: value for key, value in job.items() if key not in ONLY_IN_BUNDLES}, JobSettings, name)


def check_value(value: Any, expected_type: Any, place: str) -> None:
    """Check a YAML value against a type of the SDK, with all keys below it.

    Raises:
        InvalidBundle: If it has another type.
    """
    origin = typing.get_origin(expected_type)
    if origin in (typing.Union, types.UnionType):  # all that the SDK has are Optional
        (expected_type,) = (part for part in typing.get_args(expected_type) if part is not type(None))
        check_value(value, expected_type, place)
    elif origin is list:
        if not isinstance(value, list):
            raise InvalidBundle(f"{place}: {value!r} is no list")
        for number, part in enumerate(value):
            check_value(part, typing.get_args(expected_type)[0], f"{place}[{number}]")
    elif origin is dict:
        if not isinstance(value, dict):
            raise InvalidBundle(f"{place}: {value!r} is no mapping")
        for key, part in value.items():
            check_value(part, typing.get_args(expected_type)[1], f"{place}.{key}")
    elif dataclasses.is_dataclass(expected_type):
        _check_fields(value, expected_type, place)
    elif isinstance(expected_type, type) and issubclass(expected_type, enum.Enum):
        if value not in [member.value for member in expected_type]:
            raise InvalidBundle(f"{place}: {value!r} is none of {', '.join(member.value for member in expected_type)}")
    elif expected_type is not Any and type(value) is not expected_type:
        raise InvalidBundle(f"{place}: {value!r} is no {expected_type.__name__}")


def _check_fields(value: Any, expected_type: Any, place: str) -> None:
    if not isinstance(value, dict):
        raise InvalidBundle(f"{place}: {value!r} is no mapping")
    from databricks.sdk.service import compute, jobs

    module = vars(__import__(expected_type.__module__, fromlist=["_"]))
    hints = typing.get_type_hints(expected_type, globalns=dict(module), localns={"compute": compute, "jobs": jobs})
    for key, part in value.items():
        if key not in hints:
            raise InvalidBundle(f"{place}: there is no {key}; there are {', '.join(sorted(hints))}")
        check_value(part, hints[key], f"{place}.{key}")
    for field in dataclasses.fields(expected_type):
        is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if is_required and field.name not in value:
            raise InvalidBundle(f"{place}: {field.name} is missing")
