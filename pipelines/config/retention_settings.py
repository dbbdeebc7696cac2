"""Settings of the section [retention]."""

from pydantic import Field, model_validator

from pipelines.config.setting_types import MAX_WORK, Number, SettingsSection, Whole

_MAX_DAYS = 100_000


class RetentionSettings(SettingsSection):
    """[retention]: which snapshots stay in the tables, and how many files."""

    all_days: Number = Field(ge=0, le=_MAX_DAYS)
    weekly_days: Number = Field(ge=0, le=_MAX_DAYS)
    monthly_days: Number = Field(ge=0, le=_MAX_DAYS)
    max_files: Whole = Field(ge=2, le=MAX_WORK)
    unused_file_days: Number = Field(ge=0, le=_MAX_DAYS)

    @model_validator(mode="after")
    def _check_order(self) -> "RetentionSettings":
        spans = [days for days in (self.all_days, self.weekly_days, self.monthly_days) if days]
        if spans != sorted(spans):
            raise ValueError("all_days, weekly_days and monthly_days must rise")
        return self
