"""Settings from conf/, the environment and options, in this order: a later value wins. Errors name key and origin."""

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, get_origin

from pydantic import ValidationError

from pipelines.config.setting_sections import Settings
from pipelines.config.setting_types import NOT_UTF8, parse_toml, parse_value, read_settings_file
from pipelines.errors import SettingsError
from udfs.wording import quote_value

ENV_PREFIX = "KAFKA_PLACEMENT_"
_MAX_PROBLEMS = 10  # that one error lists
_MAX_QUOTED = 200  # characters of an option or a key
# Read elsewhere: the folder of the jars, a mirror of Maven Central, the settings file, and the level of the log.
_OTHER_VARIABLES = frozenset(ENV_PREFIX + name for name in ("JARS", "IVY_SETTINGS", "CONF", "LOG_LEVEL"))


class _Layers:
    """Values by section and key, each with its origin."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}
        self.origins: dict[tuple[str, ...], str] = {}

    def add(self, section: str, key: str, value: Any, origin: str) -> None:
        """Set a value over those of earlier layers; a single value of a list setting is a list of one."""
        if isinstance(value, str) and _type_of(section, key) is tuple:
            value = [value]
        self.values.setdefault(section, {})[key] = value
        self.origins[section, key] = origin

    def add_toml(self, text: str, origin: str) -> None:
        """Set the values of a TOML file."""
        for section, table in parse_toml(text, origin).items():
            if not isinstance(table, dict):
                where = "is outside a section. Write [SECTION] above it, as in [run]"
                raise SettingsError(f"{origin}: {section} = {quote_value(table)} {where}")
            for key, value in table.items():
                self.add(section, key, value, origin)

    def add_text(self, section: str, key: str, text: str, origin: str) -> None:
        """Set a value given as text: JSON where it is JSON and no text is wanted; a,b,c is a list."""
        value: Any = text
        if (kind := _type_of(section, key)) is not str:
            value = parse_value(text, origin)
            if kind is tuple and not isinstance(value, list):
                value = [part.strip() for part in text.split(",")]
        self.add(section, key, value, origin)


def _fields_of(section: str) -> dict[str, Any]:
    """Return the fields of a section by key; none where there is no such section."""
    sections = Settings.model_fields
    return sections[section].annotation.model_fields if section in sections else {}  # type: ignore[union-attr]


def _type_of(section: str, key: str) -> Any:
    """Return the type of a setting, `tuple` for every list; None where there is no such setting."""
    fields = _fields_of(section)
    annotation = fields[key].annotation if key in fields else None
    return get_origin(annotation) or annotation


def load_settings(
    options: Sequence[str] = (),
    conf: str | None = None,
    environ: Mapping[str, str] | None = None,
    warehouse: str | None = None,
) -> Settings:
    """Load the settings in force; raise SettingsError if a file cannot be read, or a key or value is wrong.

    Args:
        options: Texts of the form section.key=value, which win over everything else.
        conf: A TOML file over the defaults; without it, the one that KAFKA_PLACEMENT_CONF names.
        environ: Environment variables; without them, the process's own. KAFKA_PLACEMENT_RUN__SEED sets run.seed.
        warehouse: Value of --warehouse, which wins over everything else.
    """
    environ = os.environ if environ is None else environ
    layers = _Layers()
    layers.add_toml(read_conf_file("pipeline.toml"), "conf/pipeline.toml")
    conf = conf or environ.get("KAFKA_PLACEMENT_CONF")
    if conf:
        layers.add_toml(read_settings_file(conf), conf)
    for name, text in sorted(environ.items()):
        if not name.startswith(ENV_PREFIX) or name in _OTHER_VARIABLES:
            continue
        section, separator, key = name.removeprefix(ENV_PREFIX).lower().partition("__")
        if not separator:
            example = f"{ENV_PREFIX}RUN__SEED"
            raise SettingsError(f"environment variable {name}: write {ENV_PREFIX}SECTION__KEY, as in {example}")
        layers.add_text(section, key, text, f"environment variable {name}")
    for option in options:
        path, separator, text = option.partition("=")
        section, dot, key = path.partition(".")
        if not separator or not dot:
            raise SettingsError(f"--set {quote_value(option)}: write section.key=value, as in run.seed=7")
        layers.add_text(section, key, text, f"--set {option if len(option) <= _MAX_QUOTED else quote_value(option)}")
    if warehouse is not None:
        layers.add("store", "warehouse", warehouse, "--warehouse")
    try:
        return Settings.model_validate(layers.values)
    except ValidationError as error:
        problems = _keep_causes(error.errors(include_url=False))
        more = len(problems) - _MAX_PROBLEMS
        rest = [f"and {more:,} more"] if more > 0 else []
        raise SettingsError(*(_explain(e, layers) for e in problems[:_MAX_PROBLEMS]), *rest) from error


def _keep_causes(errors: Sequence[Any]) -> list[Any]:
    """Leave out that a list is too short: pydantic also says so if the values that it has are wrong."""
    return [
        error
        for error in errors
        if error["type"] != "too_short"
        or not any(other["loc"][:-1] == error["loc"] and other is not error for other in errors)
    ]


def _explain(error: Any, layers: _Layers) -> str:
    path = tuple(str(part) for part in error["loc"])
    name = ".".join(part if len(part) <= _MAX_QUOTED else quote_value(part) for part in path)
    section_origins = (origin for key, origin in layers.origins.items() if key[0] == path[0])
    origin = layers.origins.get(path[:2]) or next(section_origins, "settings")
    if error["type"] == "extra_forbidden" and len(path) < 3:
        fields = _fields_of(path[0]) if len(path) > 1 else {}
        names = [f"{path[0]}.{key}" for key in fields] or Settings.model_fields
        return f"{origin}: there is no setting {name}. Choose from {', '.join(names)}"
    return f"{origin}: {name} = {quote_value(error['input'])}: {_describe_fault(error)}"


_WHOLE, _TABLE, _EMPTY = (
    "write a whole number, as in 7",
    "write a table of keys and values",
    "it is empty. Write a value",
)
_BYTES, _FLAG = "write bytes, as in 7, 500MB or 20GiB", "write true or false"
# What is allowed, by pydantic's types of errors; other messages are our own.
_FAULTS = {
    "greater_than_equal": "write {ge} or more",
    "greater_than": "write more than {gt}",
    "less_than_equal": "write at most {le}",
    "less_than": "write less than {lt}",
    "finite_number": "write a finite number, as in 2",
    **dict.fromkeys(("float_type", "float_parsing"), "write a number, as in 1.5"),
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), _WHOLE),
    **dict.fromkeys(("byte_size", "byte_size_unit"), _BYTES),
    **dict.fromkeys(("bool_type", "bool_parsing"), "write true or false"),
    "string_type": "write text",
    "string_unicode": NOT_UTF8,
    "tuple_type": "write a list",
    "literal_error": "write one of {expected}",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "write a table of keys and values"),
    "missing": "a value is missing",
    **dict.fromkeys(("too_short", "string_too_short"), "it is empty. Write a value"),
    "too_long": "write at most {max_length} values",
}


def _describe_fault(error: Any) -> str:
    """Describe what is wrong with a value, and what is allowed."""
    text = _FAULTS.get(error["type"])
    if text is None:
        return str(error["msg"].removeprefix("Value error, "))
    return text.format(**{key: _format_limit(limit) for key, limit in error.get("ctx", {}).items()})


def _format_limit(limit: Any) -> str:
    is_whole = isinstance(limit, float) and limit.is_integer()
    return f"{limit:,.0f}" if is_whole else f"{limit:,}" if isinstance(limit, int | float) else str(limit)


def read_conf_file(name: str) -> str:
    """Read a file of conf/: from the package in a wheel (zipped or not), or from the top of the source tree."""
    packaged = files("pipelines") / "_conf" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    source_file = Path(__file__).resolve().parents[2] / "conf" / name
    if source_file.is_file():
        return source_file.read_text(encoding="utf-8")
    raise SettingsError(f"conf/{name} is neither in the package nor in {source_file.parent}. Reinstall the package")
