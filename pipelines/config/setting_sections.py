"""The sections of the settings: their keys, types and limits."""

import re
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pipelines.config.policies import Policy
from pipelines.config.setting_types import (
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_RATIO,
    MAX_WORK,
    BrokerIds,
    Bytes,
    Number,
    SettingsSection,
    Text,
    Whole,
    check_distinct,
    check_names,
)
from pipelines.verdict.verdict_points import Level
from udfs.failures.topic_defaults import NEWEST, parse_release
from udfs.placement.schemes import MANUAL, SCHEMES
from udfs.planning.goal_registry import GOALS
from udfs.planning.plan_request import LOG_DIRS, PRIORITIES, RELIEVE
from udfs.wording import quote_value

if TYPE_CHECKING:
    from udfs.failures.topic_defaults import TopicDefaults


_DURATION = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SECONDS = (604_800, 86_400, 3_600, 60, 1)
_MAX_S = 400 * 86_400
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def parse_duration(text: Any) -> int:
    """Return the seconds of a duration as Prometheus writes it, as in 7d or 1h30m. Raises: ValueError."""
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) and len(text) < 40 else None
    parts = [int(part) if part else 0 for part in match.groups()] if match else [0]
    seconds = sum(part * unit for part, unit in zip(parts, _SECONDS, strict=False))
    if not 0 < seconds <= _MAX_S:
        raise ValueError("write a time of at most 400 days, as in 7d, 12h or 1h30m")
    return seconds


def print_window(seconds: int) -> str:
    """Write a duration as Prometheus does, as in 7d or 1h30m."""
    text = ""
    for unit, letter in zip(_SECONDS[1:], "dhms", strict=True):  # weeks as days
        count, seconds = divmod(seconds, unit)
        text += f"{count}{letter}" if count else ""
    return text


def _check_label(name: str) -> str:
    if name and not _LABEL.fullmatch(name):
        raise ValueError("write the name of a label, as in cluster")
    return name


Duration = Annotated[int, BeforeValidator(parse_duration)]
Label = Annotated[Text, AfterValidator(_check_label)]


class MetricsSettings(SettingsSection):
    """[metrics]: loads from Prometheus or from files; window and step in seconds."""

    window: Duration
    statistic: Literal["mean", "p95", "peak"]
    step: Duration
    cluster_label: Label
    labels: Mapping[Label, Text]
    broker_label: Label
    broker_value: Literal["id", "host"]
    names_file: Text
    headers: Mapping[Annotated[Text, Field(min_length=1)], Text]


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


def _check_release(text: str) -> str:
    if (release := parse_release(text)) is None or release < 8:
        raise ValueError("not a version of Kafka from 0.8 on, as in 3.9")
    return text


class TopicSettings(SettingsSection):
    """[topics]: configs of topics whose sources do not show them, and topics that do not count."""

    min_insync_replicas: Whole = Field(ge=1, lt=2**31)
    unclean_leader_election: bool
    kafka_version: Annotated[str, AfterValidator(_check_release)]
    ignored: tuple[Text, ...] = Field(max_length=MAX_ENTRIES)

    @property
    def defaults(self) -> "TopicDefaults":
        """The settings as the analyses take them."""
        from udfs.failures.topic_defaults import TopicDefaults

        configs = TopicDefaults(self.min_insync_replicas, self.unclean_leader_election, ignored=self.ignored)
        return configs.assume(parse_release(self.kafka_version) or NEWEST)


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


class CapacitySettings(SettingsSection):
    """[capacity]: the load that brokers can bear."""

    headroom: Number = Field(ge=0, le=MAX_RATIO)
    max_disk_ratio: Number = Field(gt=0, le=1)
    file: Text


_Shares = Annotated[dict[Text, Annotated[Number, Field(gt=0, le=MAX_RATIO)]], Field(max_length=MAX_ENTRIES)]


class NetworkSettings(SettingsSection):
    """[network]: where clients are, and which replicas consumers fetch from."""

    follower_fetching: Literal["auto", "on", "off"]
    consumer_zones: _Shares
    producer_zones: _Shares


class PriceSettings(SettingsSection):
    """[prices]: what bytes that cross zones cost."""

    cross_zone_sent_per_gb: Number = Field(ge=0, le=MAX_RATIO)
    cross_zone_received_per_gb: Number = Field(ge=0, le=MAX_RATIO)
    days_per_month: Number = Field(gt=0, le=31)
    currency: Text


class GrowthSettings(SettingsSection):
    """[growth]: how much history a slope needs and uses, and how many partitions Kafka should have."""

    min_samples: Whole = Field(ge=3, le=MAX_ENTRIES)
    min_days: Number = Field(ge=0, le=MAX_RATIO)
    window_days: Number = Field(gt=0, le=MAX_RATIO)
    max_samples: Whole = Field(ge=5, le=500)
    max_partitions_per_broker: Whole = Field(ge=1, le=MAX_WORK)
    max_partitions_per_cluster: Whole = Field(ge=1, le=MAX_WORK)


class RetentionSettings(SettingsSection):
    """[retention]: which snapshots stay in the tables, and how many files."""

    all_days: Number = Field(ge=0, le=100_000)
    weekly_days: Number = Field(ge=0, le=100_000)
    monthly_days: Number = Field(ge=0, le=100_000)
    max_files: Whole = Field(ge=2, le=MAX_WORK)
    unused_file_days: Number = Field(ge=0, le=100_000)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        spans = [days for days in (self.all_days, self.weekly_days, self.monthly_days) if days]
        if spans != sorted(spans):
            raise ValueError("all_days, weekly_days and monthly_days must rise")
        return self


class BrokerSetSettings(SettingsSection):
    """[[plans.broker_sets]]: brokers for some topics only."""

    name: Text = Field(min_length=1)
    brokers: BrokerIds = Field(min_length=1, max_length=MAX_ENTRIES)
    topics: tuple[Text, ...] = Field((), max_length=MAX_ENTRIES)  # Patterns
    cluster: Text = ""  # The cluster; empty = every cluster


RECOMMENDED = "recommended"


def _check_goals(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in (RECOMMENDED, *GOALS):
            raise ValueError(f"there is no goal {quote_value(name)}. Choose from {', '.join((RECOMMENDED, *GOALS))}")
        if name in (LOG_DIRS, RELIEVE):
            raise ValueError(f"{name} is only for the command plan. Leave it out")
        if name != RECOMMENDED and GOALS[name].required_options:
            options = " and ".join(GOALS[name].required_options)
            raise ValueError(f"{name} needs {options}: use `kafka-placement plan`")
    return check_distinct(names)


_Target = Annotated[Number, Field(ge=1, le=1000)]


class PlanSettings(SettingsSection):
    """[plans]: the goals of gold.plans, targets, and limits of waves."""

    goals: Annotated[tuple[str, ...], AfterValidator(_check_goals)]
    priorities: Annotated[tuple[str, ...], check_names("priority", PRIORITIES)] = Field(min_length=1)
    target_replicas: _Target
    target_leaders: _Target
    target_disk: _Target
    target_bytes_in: _Target
    target_bytes_out: _Target
    target_failover: _Target
    target_failover_out: _Target
    target_loose_bytes: _Target
    target_loose_bytes_out: _Target
    target_min_over_mean: Number = Field(ge=0, le=1)
    broker_replicas: Whole = Field(ge=0, le=MAX_WORK)
    broker_bytes: Bytes = Field(ge=0, le=MAX_BYTES)
    throttle_bytes_per_s: Bytes = Field(ge=1, le=MAX_BYTES)
    wave_bytes_per_broker: Bytes = Field(ge=0, le=MAX_BYTES)
    wave_moves_per_broker: Whole = Field(ge=0, le=MAX_WORK)
    broker_sets: tuple[BrokerSetSettings, ...] = Field((), max_length=MAX_ENTRIES)
    broker_set_rule: Literal["hard", "soft"]
    rack_separator: Text
    rack_rule: Literal["hard", "soft"]


_Pattern = Annotated[Text, Field(min_length=1)]  # * for all


class Acknowledgement(SettingsSection):
    """[[alerts.acknowledged]]: findings that cause no alert until a day. Patterns have *, ? and [...]."""

    cluster: _Pattern = "*"
    issue: _Pattern = "*"
    subject: _Pattern  # topic, or id of a broker
    reason: Text = Field(min_length=1)
    until: date  # the last day (UTC)


class AlertSettings(SettingsSection):
    """[alerts]: what new findings fire an alert, and where alerts go."""

    level: Level
    prometheus_file: Text
    json_file: Text
    webhook: Text
    acknowledged: tuple[Acknowledgement, ...] = Field((), max_length=MAX_ENTRIES)

    @property
    def have_output(self) -> bool:
        """Whether alerts go anywhere but to stderr."""
        return bool(self.prometheus_file or self.json_file or self.webhook)


class OperationSettings(SettingsSection):
    """[operation]: plans that runs propose, and that are carried out once they are approved."""

    proposals: Text = Field(min_length=1)
    git_repository: Text
    git_branch: Text = Field(min_length=1)
    policies: tuple[Policy, ...] = Field((), max_length=MAX_ENTRIES)

    @model_validator(mode="after")
    def _check_once(self) -> Self:
        check_distinct(tuple(f"{policy.goal} of {policy.cluster}" for policy in self.policies))
        return self


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
    operation: OperationSettings
    store: StoreSettings
    ingest: IngestSettings
