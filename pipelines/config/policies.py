"""Policies: the plans that a run may propose by itself, and when they are carried out once they are approved.

Without a policy, nothing is proposed. What a policy never allows: other replication factors, emptied or replaced
brokers, unclean elections, and anything but a repair while a broker is down.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, model_validator

from pipelines.config.setting_types import (
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_RATIO,
    MAX_WORK,
    Bytes,
    Number,
    SettingsSection,
    Text,
    Whole,
    check_distinct,
)
from udfs.planning.plan_request import RELIEVE
from udfs.wording import quote_value

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
REPAIR = "repair"
_COPY_NOTHING = ("leaders", "failover")
_GOALS = (*_COPY_NOTHING, "balance", RELIEVE, REPAIR)
_REQUIRED, _NONE = "required", "none"


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {quote_value(name)}. Write it as in Europe/Berlin") from error
    return name


def _check_goal(goal: str) -> str:
    if goal not in _GOALS:
        problem = f"no policy may propose plans for {quote_value(goal)}"
        raise ValueError(f"{problem}. Choose from {', '.join(_GOALS)}, or make the plan with kafka-placement plan")
    return goal


class MaintenanceWindow(SettingsSection):
    """[[operation.policies.windows]]: when waves may be carried out; one may end on the next day."""

    days: Annotated[tuple[Literal[DAYS], ...], Field(min_length=1), AfterValidator(check_distinct)] = DAYS  # type: ignore[valid-type]
    begins: time
    ends: time
    time_zone: Annotated[Text, AfterValidator(_check_zone)] = "UTC"

    def find_end(self, at: datetime) -> datetime | None:
        """Return when the window ends that a moment is in (UTC); None outside of it."""
        zone = ZoneInfo(self.time_zone)
        today = at.astimezone(zone).date()
        for day in (today - timedelta(days=1), today):
            begin = datetime.combine(day, self.begins, zone).astimezone(UTC)
            last = day if self.ends > self.begins else day + timedelta(days=1)
            end = datetime.combine(last, self.ends, zone).astimezone(UTC)
            if DAYS[day.weekday()] in self.days and begin <= at < end:
                return end
        return None


class Policy(SettingsSection):
    """[[operation.policies]]: plans for one goal of one cluster."""

    cluster: Text = Field(min_length=1)
    goal: Annotated[Text, AfterValidator(_check_goal)]
    findings: tuple[Text, ...] = Field((), max_length=MAX_ENTRIES)  # kinds; empty = all that recommend the goal
    stable_runs: Whole = Field(2, ge=2, le=MAX_ENTRIES)  # how many runs in a row must have the finding
    max_bytes: Bytes | None = Field(None, ge=1, le=MAX_BYTES)
    max_moves: Whole | None = Field(None, ge=1, le=MAX_WORK)
    max_hours: Number | None = Field(None, gt=0, le=MAX_RATIO)  # of the broker that copies longest, at the throttle
    least_gain_per_tb: Number | None = Field(None, gt=0, le=MAX_RATIO)  # of the fullest disk, in percent of the mean
    approval: Literal[_REQUIRED, _NONE] = _REQUIRED  # type: ignore[valid-type]
    expires_days: Number = Field(7, gt=0, le=MAX_RATIO)  # from the proposal to the last moment to begin
    cool_down_days: Number = Field(1, ge=0, le=MAX_RATIO)  # from the end of a proposal to the next one
    stop_after_failures: Whole = Field(2, ge=1, le=MAX_ENTRIES)  # in a row
    if_failed: Literal["stop", "roll-back"] = "stop"
    repair_after_hours: Number | None = Field(None, ge=0, le=MAX_RATIO)  # that brokers have been down
    windows: tuple[MaintenanceWindow, ...] = Field(min_length=1, max_length=MAX_ENTRIES)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.approval == _NONE and self.goal not in _COPY_NOTHING:
            raise ValueError(f'approval = "none" is only for {" and ".join(_COPY_NOTHING)}, which copy nothing')
        if self.least_gain_per_tb is not None and self.goal != "balance":
            raise ValueError("least_gain_per_tb is only for balance: other plans are not for even disks. Leave it out")
        if (self.goal == REPAIR) != (self.repair_after_hours is not None):
            raise ValueError(f"repair_after_hours is needed for {REPAIR}, and only for it: hours that a broker is down")
        return self

    @property
    def needs_approval(self) -> bool:
        """Whether somebody must approve a plan before it is carried out."""
        return bool(self.approval == _REQUIRED)

    def make_fields(self, throttle_bytes_per_s: float) -> dict[str, Any]:
        """Return the fields of a plan request that keep the budget."""
        seconds = None if self.max_hours is None else self.max_hours * 3600
        budget = None if seconds is None else int(seconds * throttle_bytes_per_s)
        values = {"max_bytes": self.max_bytes, "max_moves": self.max_moves, "max_broker_bytes": budget}
        return {name: value for name, value in values.items() if value is not None}

    def find_window_end(self, at: datetime) -> datetime | None:
        """Return when the last of the windows ends that a moment is in (UTC); None outside of all."""
        return max(filter(None, (window.find_end(at) for window in self.windows)), default=None)
