"""Bytes first: loads, bytes between zones and growth in a real Chromium, where they are known and where not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.report.html_page import write_page
from pipelines.report.load_sections import GrowthDate, GrowthSummary, LoadSummary, ZoneComparisonRow
from tests.report.made_up import cluster_of, facts_of_clusters
from tests.report.seen import counted, opened, unfold

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
MB = 1e6
RATES_UNKNOWN = "Bytes per second are unknown, so loads are numbers of partitions."


def cluster_with_loads(brokers: int = 4, name: str = "loaded") -> dict[str, Any]:
    """A cluster whose rates, capacities, zones, prices and growth are known, but for the bytes into broker 2."""
    cluster = cluster_of(brokers, name)
    ids = [row["broker_id"] for row in cluster["brokers"]]
    rates = {"producer_bytes_in_per_s": MB, "replication_bytes_in_per_s": 2 * MB, "replication_bytes_out_per_s": 2 * MB}
    rates |= {"consumer_bytes_out_per_s": 5 * MB, "network_bytes_in_per_s": 3 * MB, "network_bytes_out_per_s": 7 * MB}
    cluster["network"] = [{"broker_id": one, **rates} for one in ids]
    cluster["network"][1] |= {"network_bytes_in_per_s": None}
    for row in cluster["failures"][1:]:
        row["survivor_bytes"] = {"broker_id": 1, "bytes_out_per_s": (10 + row["failed"]) * MB, "over_mean_ratio": 1.25}
    cluster["loads"] = LoadSummary("scrapes, 7d, p95", ["80 % of the partitions as sources show them"], ["A gap."])
    cluster["capacity_source"] = "file"
    over = {"quantity": "fetch_per_s", "broker_id": 3, "failures": 2, "scenario": "broker:2"}
    cluster["over_capacity"] = [over | {"load_after": 14 * MB, "capacity": 12 * MB}]
    cluster["zone_traffic"] = [
        ZoneComparisonRow("now", 4 * MB, 2 * MB, MB, 1234.5),
        ZoneComparisonRow("placed by naive", 4 * MB, 2 * MB, None, None),
    ]
    values = ("10", "9 to 12", "3 TB", "100 GB", "4 TB", "this week", 1)
    date = GrowthDate("disk full", "broker 3", "2026-12-04", 10.2, *values)
    cluster["growth"] = GrowthSummary([date], 2, ["Another limit is unknown."])
    return cluster


def show(chromium: Browser, file: Path, *clusters: dict[str, Any], width: int = 1280) -> tuple[str, dict[str, int]]:
    """Return the text of the page, and what counted counts."""
    write_page(facts_of_clusters(*clusters), file)
    with opened(chromium, file, width) as seen:
        unfold(seen.page)
        assert seen.faults == []
        return seen.page.locator("main").inner_text(), counted(seen.page)


@pytest.mark.parametrize("width", [1280, 390])
def test_bytes_are_shown_before_counts(chromium: Browser, tmp_path: Path, width: int) -> None:
    text, counts = show(chromium, tmp_path / "report.html", cluster_with_loads(), width=width)
    assert (counts["broken"], counts["beyond"]) == (0, 0)
    assert "Rates are known for 80 % of the partitions as sources show them (from scrapes, 7d, p95). A gap." in text
    assert "3\tbytes out, with replication\t14 MB/s\t12 MB/s\tbroker 2\t2" in text
    assert "Capacities are those of capacity.file." in text
    assert "now\t7 MB/s\t1,234\t4 MB/s\t2 MB/s\t1 MB/s" in text
    assert "Costs are in EUR (prices.currency)." in text
    assert "placed by naive\tunknown\tunknown\t4 MB/s\t2 MB/s\tunknown" in text
    assert "disk full\tbroker 3\t2026-12-04\t10\t9 to 12\t3 TB\t100 GB\t4 TB" in text
    assert "The soonest; 2 more are not shown." in text
    assert "Another limit is unknown." in text
    assert "12 MB/s, broker 1\t1.25\t" in text  # if broker 2 fails
    assert "\tunknown\t-\t" in text  # if broker 1 fails
    assert text.index("Bytes out per broker, and their mean") < text.index("Leaders per broker, and their mean")
    assert "The rates of 1 broker are unknown." in text
    assert RATES_UNKNOWN not in text


def test_without_loads_nothing_is_0(chromium: Browser, tmp_path: Path) -> None:
    plain = cluster_of(4, "plain") | {"growth": GrowthSummary([], 0, ["Too little history: 1 sample."])}
    text, _ = show(chromium, tmp_path / "report.html", plain)
    assert text.count(RATES_UNKNOWN) == 1
    assert text.count("Growth: Too little history: 1 sample.") == 1
    absent = (
        "Bytes per second\n",
        "Bytes between zones",
        "most bytes out of a survivor",
        "Bytes out per broker",
        "0 B/s",
    )
    assert [one for one in absent if one in text] == []


def test_zones_need_racks_and_costs_need_prices(chromium: Browser, tmp_path: Path) -> None:
    no_racks = cluster_with_loads() | {"zone_traffic": [], "racks_known": False}
    text, _ = show(chromium, tmp_path / "racks.html", no_racks)
    assert "Bytes between zones are unknown: the sources do not show the racks of brokers." in text
    free = cluster_with_loads() | {"zone_traffic": [ZoneComparisonRow("now", MB, MB, MB, None)], "over_capacity": []}
    text, _ = show(chromium, tmp_path / "prices.html", free)
    assert "now\t3 MB/s\t1 MB/s\t1 MB/s\t1 MB/s" in text
    assert "cost" not in text.partition("Bytes between zones")[2].partition("Can this broker fail")[0]
    assert "No failure of a broker or rack takes a survivor over its capacity for bytes." in text
    assumed = cluster_with_loads() | {"capacity_source": "uniform"}
    assert "Survivors over their capacity" not in show(chromium, tmp_path / "assumed.html", assumed)[0]


def test_rates_of_many_brokers_are_drawn_group_by_group(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(cluster_with_loads(70)), file)
    with opened(chromium, file) as seen:
        unfold(seen.page)
        assert seen.page.locator("[data-chart=bytes_out] svg circle").count() == 70
        assert seen.page.locator("[data-chart=bytes_in] svg circle").count() == 69
        assert seen.faults == []
