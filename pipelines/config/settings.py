"""Settings from conf/, the environment and options, in this order: a later value wins. Errors name key and origin."""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pipelines.errors import SettingsError
from udfs.placement.schemes import MANUAL, SCHEMES
from udfs.planning.goal_registry import GOALS
from udfs.planning.plan_request import PRIORITIES

ENV_PREFIX = "KAFKA_PLACEMENT_"
# Read elsewhere: the folder of the jars, a mirror of Maven Central, the settings file, and the level of the log.
_OTHER_VARIABLES = frozenset(ENV_PREFIX + name for name in ("JARS", "IVY_SETTINGS", "CONF", "LOG_LEVEL"))


def _check_names(what: str, known: Iterable[str]) -> AfterValidator:
    def check(names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in known:
                raise ValueError(f"there is no {what} {name!r}. Choose from {', '.join(known)}")
            if name == MANUAL:
                raise ValueError(f"{name} needs an assignment: use `kafka-placement assign`")
        return _check_distinct(names)

    return AfterValidator(check)


def _check_distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) != len(values):
        raise ValueError("a value is listed twice")
    return values


def _reject_booleans(value: Any) -> Any:
    if isinstance(value, bool):  # pydantic would take true for 1
        raise ValueError("expected a number, not true or false")
    return value


Whole = Annotated[int, BeforeValidator(_reject_booleans)]
Number = Annotated[float, BeforeValidator(_reject_booleans)]


class _Section(BaseModel):
    """A section; frozen, so that no stage can change what another one reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunSettings(_Section):
    """[run]: what every stage shares."""

    seed: Whole = Field(ge=-(2**63), lt=2**63)
    schemes: Annotated[tuple[str, ...], _check_names("scheme", SCHEMES)] = Field(min_length=1)
    parallel_stages: Whole = Field(ge=1, le=16)


class TopicSettings(_Section):
    """[topics]: configs of topics whose sources do not show them."""

    min_insync_replicas: Whole = Field(ge=1)
    unclean_leader_election: bool


class HotspotSettings(_Section):
    """[hotspots]: how uneven leadership is, now and over many seeds."""

    hot_ratio: Number = Field(gt=0)
    seeds: Whole = Field(ge=1, le=100_000)
    thresholds: tuple[Annotated[Number, Field(gt=0)], ...]
    max_placed_topics: Whole = Field(ge=1)


class CustomFailure(_Section):
    """[[failures.custom]]: brokers that fail together."""

    # Their ids
    brokers: Annotated[tuple[Annotated[Whole, Field(ge=0)], ...], AfterValidator(_check_distinct)] = Field(min_length=1)
    cluster: str = ""  # The cluster; empty = every cluster that has all of these brokers


class FailureSettings(_Section):
    """[failures]: the failures to evaluate."""

    custom: tuple[CustomFailure, ...] = ()
    random_failure_sizes: Annotated[tuple[Annotated[Whole, Field(ge=1, le=100)], ...], AfterValidator(_check_distinct)]
    random_sets: Whole = Field(ge=0, le=10_000)
    seeds: Whole = Field(ge=1, le=10_000)
    max_placed_partitions: Whole = Field(ge=0)
    max_pairs: Whole = Field(ge=0)
    pair_loads: bool


class DurabilitySettings(_Section):
    """[durability]: the chance that failures lose data for good."""

    failure_counts: Annotated[tuple[Annotated[Whole, Field(ge=1, le=5)], ...], AfterValidator(_check_distinct)] = Field(
        min_length=1
    )
    max_exact_steps: Whole = Field(ge=0)
    monte_carlo_samples: Whole = Field(ge=1)


class CapacitySettings(_Section):
    """[capacity]: the load that brokers can bear."""

    headroom: Number = Field(ge=0)
    file: str


def _check_goal(name: str) -> str:
    if name and name not in GOALS:
        raise ValueError(f'there is no goal {name!r}. Choose from {", ".join(GOALS)}, or "" for none')
    if name and GOALS[name].required_options:
        options = " and ".join(GOALS[name].required_options)
        raise ValueError(f"{name} needs {options}: use `kafka-placement plan`")
    return name


_Target = Annotated[Number, Field(ge=1, le=1000)]


class PlanSettings(_Section):
    """[plans]: the goal of gold.plans, targets, and limits of waves."""

    goal: Annotated[str, AfterValidator(_check_goal)]
    priorities: Annotated[tuple[str, ...], _check_names("priority", PRIORITIES)] = Field(min_length=1)
    target_replicas: _Target
    target_leaders: _Target
    target_disk: _Target
    target_bytes_in: _Target
    target_bytes_out: _Target
    target_failover: _Target
    target_failover_out: _Target
    target_loose_bytes: _Target
    target_extra_moves: Number = Field(ge=0, le=1000)
    target_min_over_mean: Number = Field(ge=0, le=1)
    broker_replicas: Whole = Field(ge=0)
    broker_bytes: Whole = Field(ge=0)
    throttle_bytes_per_s: Whole = Field(ge=1)
    wave_bytes_per_broker: Whole = Field(ge=0)
    wave_moves_per_broker: Whole = Field(ge=0)


class StoreSettings(_Section):
    """[store]: where the tables are."""

    warehouse: str = Field(min_length=1)
    catalog: str

    @property
    def in_folder(self) -> bool:
        """Whether the tables are in a folder of this machine, not in a catalog or at a URI."""
        return not self.catalog and "://" not in self.warehouse


class IngestSettings(_Section):
    """[ingest]: how sources are split for Spark."""

    shard_bytes: Whole = Field(ge=1024)
    small_input_bytes: Whole = Field(ge=0)


class Settings(_Section):
    """All settings, by section."""

    run: RunSettings
    topics: TopicSettings
    hotspots: HotspotSettings
    failures: FailureSettings
    durability: DurabilitySettings
    capacity: CapacitySettings
    plans: PlanSettings
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
        try:
            sections = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{origin}: {error}") from error
        for section, table in sections.items():
            if not isinstance(table, dict):
                raise SettingsError(f"{origin}: {section} = {table!r} is outside a [section]")
            for key, value in table.items():
                self.add(section, key, value, origin)

    def add_text(self, section: str, key: str, text: str, origin: str) -> None:
        """Set a value given as text: JSON where it is JSON and no text is wanted; a,b,c is a list."""
        value: Any = text
        if (kind := _type_of(section, key)) is not str:
            try:
                value = json.loads(text)
            except ValueError:
                value = text.strip()
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
    options: Sequence[str] = (), conf: str | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Load the settings in force; raise SettingsError if a file cannot be read, or a key or value is wrong.

    Args:
        options: Texts of the form section.key=value, which win over everything else.
        conf: A TOML file over the defaults; without it, the one that KAFKA_PLACEMENT_CONF names.
        environ: Environment variables; without them, the process's own. KAFKA_PLACEMENT_RUN__SEED sets run.seed.
    """
    environ = os.environ if environ is None else environ
    layers = _Layers()
    layers.add_toml(read_conf_file("pipeline.toml"), "conf/pipeline.toml")
    conf = conf or environ.get("KAFKA_PLACEMENT_CONF")
    if conf:
        try:
            layers.add_toml(Path(conf).read_text(encoding="utf-8"), conf)
        except OSError as error:
            raise SettingsError(f"cannot read the settings file {conf}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            problem = f"byte {error.start} is not UTF-8, as TOML is"
            raise SettingsError(f"cannot read the settings file {conf}: {problem}. Save it as UTF-8") from error
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
            raise SettingsError(f"--set {option}: write section.key=value, as in run.seed=7")
        layers.add_text(section, key, text, f"--set {option}")
    try:
        return Settings.model_validate(layers.values)
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(e, layers) for e in error.errors())) from error


def _explain(error: Any, layers: _Layers) -> str:
    path = tuple(str(part) for part in error["loc"])
    name = ".".join(path)
    section_origins = (origin for key, origin in layers.origins.items() if key[0] == path[0])
    origin = layers.origins.get(path[:2]) or next(section_origins, "settings")
    if error["type"] == "extra_forbidden" and len(path) < 3:
        fields = _fields_of(path[0]) if len(path) > 1 else {}
        names = [f"{path[0]}.{key}" for key in fields] or Settings.model_fields
        return f"{origin}: there is no setting {name}. Choose from {', '.join(names)}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{origin}: {name} = {error['input']!r}: {message}"


def read_conf_file(name: str) -> str:
    """Read a file of conf/: from the package in a wheel (zipped or not), or from the top of the source tree."""
    packaged = files("pipelines") / "_conf" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    source_file = Path(__file__).resolve().parents[2] / "conf" / name
    if source_file.is_file():
        return source_file.read_text(encoding="utf-8")
    raise SettingsError(f"conf/{name} is neither in the package nor in {source_file.parent}. Reinstall the package")
