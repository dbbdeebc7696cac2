"""The names of metrics for the tests of loads."""

from __future__ import annotations

import pytest

from pipelines.config.setting_types import read_settings_file
from pipelines.metrics.metric_names import MetricNames, parse_metric_names
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def names() -> MetricNames:
    """The names that the program comes with."""
    return parse_metric_names(read_settings_file(str(ROOT / "conf" / "metrics.toml")), "conf/metrics.toml")
