"""[plans]: goals, targets and limits of plans, and broker sets."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pipelines.config.setting_types import (
    MAX_BYTES,
    MAX_ENTRIES,
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
from pipelines.quoted_values import quote_value
from udfs.planning.goal_registry import GOALS
from udfs.planning.plan_request import LOG_DIRS, PRIORITIES


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
        if name == LOG_DIRS:
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
    target_extra_moves: Number = Field(ge=0, le=1000)
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
