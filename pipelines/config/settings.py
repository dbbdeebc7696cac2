"""The only module that reads settings: conf/, the environment, options. Later wins; a wrong key or value is named."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pipelines.config.conf_files import conf_text
from pipelines.errors import SettingsError
from udfs.placement.schemes import MANUAL, SCHEMES
from udfs.planning.goals import GOALS
from udfs.planning.plan_request import PRIORITIES

ENV_PREFIX = "KAFKA_PLACEMENT_"
# Read elsewhere, before there are settings: where the jars are, and which conf file to read.
_ENV_OTHERS = frozenset({"KAFKA_PLACEMENT_JARS", "KAFKA_PLACEMENT_IVY_SETTINGS", "KAFKA_PLACEMENT_CONF"})


def _known_schemes(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in SCHEMES:
            raise ValueError(f"there is no scheme {name!r}; there are {', '.join(SCHEMES)}")
        if name == MANUAL:
            raise ValueError(
                f"{name} places nothing by itself: it takes an assignment, as `kafka-placement assign` does"
            )
    if len(set(names)) != len(names):
        raise ValueError("a scheme is named twice")
    return names


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):  # else true would be 1
        raise ValueError("a number is expected, not true or false")
    return value


Whole = Annotated[int, BeforeValidator(_no_truth_value)]
Number = Annotated[float, BeforeValidator(_no_truth_value)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RunSettings(_Section):
    seed: Whole = Field(ge=-(2**63), lt=2**63)
    schemes: Annotated[tuple[str, ...], AfterValidator(_known_schemes)] = Field(min_length=1)
    parallel_stages: Whole = Field(ge=1, le=16)


class TopicSettings(_Section):
    min_insync_replicas: Whole = Field(ge=1)
    unclean_leader_election: bool


class HotspotSettings(_Section):
    hot_ratio: Number = Field(gt=0)
    seeds: Whole = Field(ge=1, le=100_000)
    thresholds: tuple[Annotated[Number, Field(gt=0)], ...]
    work: Whole = Field(ge=1)


def _brokers_lists(text: str) -> str:
    failure_lists(text)
    return text


def failure_lists(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """[(cluster, or "" for every cluster, broker ids rising)] of failures.lists: "1,2; prod=3,4"."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        cluster, _, ids = part.rpartition("=")
        numbers = [number.strip() for number in ids.split(",")]
        if not all(number.isascii() and number.isdigit() for number in numbers):
            raise ValueError(f"{part!r} is no list of broker ids, as 1,2 or prod=1,2 is")
        found.append((cluster.strip(), tuple(sorted({int(number) for number in numbers}))))
    return found


def _distinct(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(numbers)) != len(numbers):
        raise ValueError("a number is named twice")
    return numbers


_Failures = Annotated[tuple[Annotated[Whole, Field(ge=1, le=5)], ...], AfterValidator(_distinct)]


class FailureSettings(_Section):
    lists: Annotated[str, AfterValidator(_brokers_lists)]
    random_failures: Annotated[tuple[Annotated[Whole, Field(ge=1, le=100)], ...], AfterValidator(_distinct)]
    random_sets: Whole = Field(ge=0, le=10_000)
    seeds: Whole = Field(ge=1, le=10_000)
    work: Whole = Field(ge=0)
    max_pairs: Whole = Field(ge=0)
    pair_loads: bool


class DurabilitySettings(_Section):
    failures: Annotated[_Failures, Field(min_length=1)]
    steps: Whole = Field(ge=0)
    trials: Whole = Field(ge=1)


class CapacitySettings(_Section):
    headroom: Number = Field(ge=0)
    file: str


def _known_priorities(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in PRIORITIES:
            raise ValueError(f"there is no priority {name!r}; there are {', '.join(PRIORITIES)}")
    if len(set(names)) != len(names):
        raise ValueError("a priority is named twice")
    return names


def _known_goal(name: str) -> str:
    if name and name not in GOALS:
        raise ValueError(f'there is no goal {name!r}; there are {", ".join(GOALS)}, and "" for none')
    if name in _ASKING_GOALS:
        raise ValueError(f"{name} needs to be told more than a goal: use `kafka-placement plan`")
    return name


_ASKING_GOALS = ("replace", "rf")
_Target = Annotated[Number, Field(ge=1, le=1000)]


class PlanSettings(_Section):
    goal: Annotated[str, AfterValidator(_known_goal)]
    priorities: Annotated[tuple[str, ...], AfterValidator(_known_priorities)] = Field(min_length=1)
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
    warehouse: str = Field(min_length=1)
    catalog: str

    @property
    def in_folder(self) -> bool:
        """Whether the tables are in a folder, by its path: not in a catalog, and not at a URI."""
        return not self.catalog and "://" not in self.warehouse


class IngestSettings(_Section):
    shard_bytes: Whole = Field(ge=1024)
    small_input_bytes: Whole = Field(ge=0)


class Settings(_Section):
    """All settings. Frozen: what a stage is given cannot change under it."""

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
    """Values by key, each with where it came from."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}
        self.origin: dict[tuple[str, ...], str] = {}

    def add(self, section: str, key: str, value: Any, origin: str) -> None:
        self.values.setdefault(section, {})[key] = value
        self.origin[section, key] = origin

    def add_toml(self, text: str, origin: str) -> None:
        try:
            parsed = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{origin}: {error}") from error
        for section, table in parsed.items():
            if not isinstance(table, dict):
                raise SettingsError(f"{origin}: {section} = {table!r} stands outside of a [section]")
            for key, value in table.items():
                self.add(section, key, value, origin)


def _typed(section: str, key: str, text: str) -> Any:
    """A setting's value from the environment or an option: as text where that is wanted, else as JSON where it is JSON.

    a,b,c is a list.
    """
    kind = _kind(section, key)
    if kind is str:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = text.strip()
    if kind is not None and get_origin(kind) is tuple and not isinstance(value, list):
        return [part.strip() for part in text.split(",")]
    return value


def _kind(section: str, key: str) -> Any:
    """The type of a setting; None where there is no such setting."""
    sections = Settings.model_fields
    fields = sections[section].annotation.model_fields if section in sections else {}  # type: ignore[union-attr]
    return fields[key].annotation if key in fields else None


def _listed(values: dict[str, dict[str, Any]]) -> None:
    # `schemes = "kafka"` in a file names one scheme: a list of one.
    for section, key in (("run", "schemes"), ("plans", "priorities")):
        if isinstance(values.get(section, {}).get(key), str):
            values[section][key] = [values[section][key]]


def load_settings(
    options: Sequence[str] = (), conf: str | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings in force. options: "section.key=value" texts; conf: a TOML file over the defaults."""
    env = os.environ if environ is None else environ
    layers = _Layers()
    layers.add_toml(conf_text("pipeline.toml"), "conf/pipeline.toml")
    conf = conf or env.get("KAFKA_PLACEMENT_CONF")
    if conf:
        try:
            layers.add_toml(Path(conf).read_text(encoding="utf-8"), conf)
        except OSError as error:
            raise SettingsError(f"cannot read the settings file {conf}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            problem = f"byte {error.start} is not UTF-8, as TOML is"
            raise SettingsError(f"cannot read the settings file {conf}: {problem}. Save it as UTF-8") from error
    for name, text in sorted(env.items()):
        if not name.startswith(ENV_PREFIX) or name in _ENV_OTHERS:
            continue
        section, separator, key = name.removeprefix(ENV_PREFIX).lower().partition("__")
        if not separator:
            raise SettingsError(
                f"environment variable {name}: write {ENV_PREFIX}SECTION__KEY, as in {ENV_PREFIX}RUN__SEED"
            )
        layers.add(section, key, _typed(section, key, text), f"environment variable {name}")
    for option in options:
        path, separator, text = option.partition("=")
        section, dot, key = path.partition(".")
        if not separator or not dot:
            raise SettingsError(f"--set {option}: write section.key=value, as in run.seed=7")
        layers.add(section, key, _typed(section, key, text), f"--set {option}")
    _listed(layers.values)
    try:
        return Settings.model_validate(layers.values)
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(e, layers) for e in error.errors())) from error


def _explain(error: Any, layers: _Layers) -> str:
    where = tuple(str(part) for part in error["loc"][:2])
    name = ".".join(where)
    origin = layers.origin.get(where) or next((o for k, o in layers.origin.items() if k[0] == where[0]), "settings")
    if error["type"] == "extra_forbidden":
        known = Settings.model_fields
        if len(where) > 1 and where[0] in known:
            section = known[where[0]].annotation
            names = ", ".join(f"{where[0]}.{k}" for k in section.model_fields)  # type: ignore[union-attr]
        else:
            names = ", ".join(known)
        return f"{origin}: there is no setting {name}; there are {names}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{origin}: {name} = {error['input']!r}: {message}"
