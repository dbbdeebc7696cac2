"""Settings from conf/, the environment and options, in this order: a later value wins. Errors name key and origin."""

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin

from pydantic import AfterValidator, Field, ValidationError

from pipelines.config.alert_settings import AlertSettings
from pipelines.config.capacity_settings import CapacitySettings, GrowthSettings, NetworkSettings, PriceSettings
from pipelines.config.metrics_settings import MetricsSettings
from pipelines.config.plan_settings import PlanSettings
from pipelines.config.retention_settings import RetentionSettings
from pipelines.config.setting_types import (
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_RATIO,
    MAX_WORK,
    NOT_UTF8,
    BrokerIds,
    Bytes,
    Number,
    SettingsSection,
    Text,
    Whole,
    check_distinct,
    check_names,
)
from pipelines.config.settings_text import parse_toml, parse_value, read_settings_file
from pipelines.errors import SettingsError
from pipelines.quoted_values import quote_value
from udfs.placement.schemes import MANUAL, SCHEMES

if TYPE_CHECKING:
    from udfs.failures.topic_defaults import TopicDefaults

ENV_PREFIX = "KAFKA_PLACEMENT_"
_MAX_PROBLEMS = 10  # that one error lists
_MAX_QUOTED = 200  # characters of an option or a key
# Read elsewhere: the folder of the jars, a mirror of Maven Central, the settings file, and the level of the log.
_OTHER_VARIABLES = frozenset(ENV_PREFIX + name for name in ("JARS", "IVY_SETTINGS", "CONF", "LOG_LEVEL"))


def _check_schemes(names: tuple[str, ...]) -> tuple[str, ...]:
    if MANUAL in names:
        raise ValueError(f"{MANUAL} needs an assignment: use `kafka-placement assign`")
    return names


class RunSettings(SettingsSection):
    """[run]: what every stage shares."""

    seed: Whole = Field(ge=-(2**63), lt=2**63)
    schemes: Annotated[tuple[str, ...], check_names("scheme", SCHEMES), AfterValidator(_check_schemes)] = Field(
        min_length=1
    )
    parallel_stages: Whole = Field(ge=1, le=16)
    engine: Literal["auto", "spark"]


class TopicSettings(SettingsSection):
    """[topics]: configs of topics whose sources do not show them, and topics that do not count."""

    min_insync_replicas: Whole = Field(ge=1, lt=2**31)
    unclean_leader_election: bool
    cap_min_insync_replicas: bool
    ignored: tuple[Text, ...] = Field(max_length=MAX_ENTRIES)

    @property
    def defaults(self) -> "TopicDefaults":
        """The settings as the analyses take them."""
        from udfs.failures.topic_defaults import TopicDefaults

        return TopicDefaults(**self.model_dump())


class HotspotSettings(SettingsSection):
    """[hotspots]: how uneven leadership is, now and over many seeds."""

    hot_ratio: Number = Field(gt=0, le=MAX_RATIO)
    seeds: Whole = Field(ge=1, le=100_000)
    thresholds: tuple[Annotated[Number, Field(gt=0, le=MAX_RATIO)], ...] = Field(max_length=100)
    max_placed_topics: Whole = Field(ge=1, le=MAX_WORK)


class CustomFailure(SettingsSection):
    """[[failures.custom]]: brokers that fail together."""

    brokers: BrokerIds = Field(min_length=1, max_length=MAX_ENTRIES)  # Their ids
    cluster: Text = ""  # The cluster; empty = every cluster that has all of these brokers


class FailureSettings(SettingsSection):
    """[failures]: the failures to evaluate."""

    custom: tuple[CustomFailure, ...] = Field((), max_length=MAX_ENTRIES)
    random_failure_sizes: Annotated[tuple[Annotated[Whole, Field(ge=1, le=100)], ...], AfterValidator(check_distinct)]
    random_sets: Whole = Field(ge=0, le=10_000)
    seeds: Whole = Field(ge=1, le=10_000)
    max_placed_partitions: Whole = Field(ge=0, le=MAX_WORK)
    max_pairs: Whole = Field(ge=0, le=MAX_WORK)
    pair_loads: bool


class DurabilitySettings(SettingsSection):
    """[durability]: the chance that failures lose data for good."""

    failure_counts: Annotated[tuple[Annotated[Whole, Field(ge=1, le=5)], ...], AfterValidator(check_distinct)] = Field(
        min_length=1
    )
    max_exact_steps: Whole = Field(ge=0, le=MAX_WORK)
    monte_carlo_samples: Whole = Field(ge=1, le=10**9)


class StoreSettings(SettingsSection):
    """[store]: where the tables are."""

    warehouse: Text = Field(min_length=1)
    catalog: Text

    @property
    def in_folder(self) -> bool:
        """Whether the tables are in a folder of this machine, not in a catalog or at a URI."""
        return not self.catalog and "://" not in self.warehouse


class IngestSettings(SettingsSection):
    """[ingest]: how sources are split for Spark."""

    max_file_bytes: Bytes = Field(ge=1, lt=2**40)
    shard_bytes: Bytes = Field(ge=1024, le=2**30)  # a shard is one binary value, which has less than 2 GiB in Arrow
    small_input_bytes: Bytes = Field(ge=0, le=MAX_BYTES)


class Settings(SettingsSection):
    """All settings, by section."""

    run: RunSettings
    topics: TopicSettings
    hotspots: HotspotSettings
    failures: FailureSettings
    durability: DurabilitySettings
    metrics: MetricsSettings
    capacity: CapacitySettings
    network: NetworkSettings
    prices: PriceSettings
    growth: GrowthSettings
    retention: RetentionSettings
    plans: PlanSettings
    alerts: AlertSettings
    store: StoreSettings
    ingest: IngestSettings


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


def _describe_fault(error: Any) -> str:
    """Describe what is wrong with a value, and what is allowed."""
    limits = error.get("ctx", {})
    match error["type"]:
        case "greater_than_equal":
            return f"write {_format_limit(limits['ge'])} or more"
        case "greater_than":
            return f"write more than {_format_limit(limits['gt'])}"
        case "less_than_equal":
            return f"write at most {_format_limit(limits['le'])}"
        case "less_than":
            return f"write less than {_format_limit(limits['lt'])}"
        case "finite_number":
            return "write a finite number, as in 2"
        case "float_type" | "float_parsing":
            return "write a number, as in 1.5"
        case "int_type" | "int_parsing" | "int_parsing_size" | "int_from_float":
            return "write a whole number, as in 7"
        case "byte_size" | "byte_size_unit":
            return "write bytes, as in 7, 500MB or 20GiB"
        case "bool_type" | "bool_parsing":
            return "write true or false"
        case "string_type":
            return "write text"
        case "string_unicode":
            return NOT_UTF8
        case "tuple_type":
            return "write a list"
        case "literal_error":
            return f"write one of {limits['expected']}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "write a table of keys and values"
        case "missing":
            return "a value is missing"
        case "too_short" | "string_too_short":
            return "it is empty. Write a value"
        case "too_long":
            return f"write at most {limits['max_length']:,} values"
    return str(error["msg"].removeprefix("Value error, "))


def _format_limit(limit: float) -> str:
    return f"{limit:,.0f}" if float(limit).is_integer() and isinstance(limit, float) else f"{limit:,}"


def read_conf_file(name: str) -> str:
    """Read a file of conf/: from the package in a wheel (zipped or not), or from the top of the source tree."""
    packaged = files("pipelines") / "_conf" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    source_file = Path(__file__).resolve().parents[2] / "conf" / name
    if source_file.is_file():
        return source_file.read_text(encoding="utf-8")
    raise SettingsError(f"conf/{name} is neither in the package nor in {source_file.parent}. Reinstall the package")
