"""[capacity], [network], [prices] and [growth]: what brokers can bear, what bytes cost, and how loads grow."""

from typing import Annotated, Literal

from pydantic import Field

from pipelines.config.setting_types import MAX_ENTRIES, MAX_RATIO, MAX_WORK, Number, SettingsSection, Text, Whole


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
