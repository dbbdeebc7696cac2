"""The page in a real Chromium: it loads from a file, asks no network, draws every chart, and is read by keyboard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.report.html_page import write_page
from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterEvidence, ClusterFindings, PartitionIssue
from pipelines.verdict.judgement import judge_cluster
from tests.report.made_up import cluster_of, facts_of_clusters
from tests.report.seen import counted, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a cluster of 215 brokers."""
    file = tmp_path_factory.mktemp("large") / "report.html"
    write_page(facts_of_clusters(cluster_of(215), cluster_of(3, "small")), file)
    return file


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_every_chart_of_215_brokers(chromium: Browser, large: Path, width: int, scheme: str) -> None:
    with opened(chromium, large, width, scheme) as seen:
        assert seen.faults == []
        assert seen.asked == [large.as_uri()]
        every = {"charts": 16, "drawn": 16, "pictures": 16, "broken": 0, "lines": 4, "beyond": 0}
        assert counted(seen.page) == every
        painted = seen.page.evaluate(
            """() => [...document.querySelectorAll("#c0 .heat canvas")].map((one) => {
              const data = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
              return new Set(Array.from({length: 300}, (_, i) => data[4 * (i * 641 % (data.length / 4))])).size;
            })"""
        )
        assert len(painted) == 5
        assert min(painted) > 3  # colours, not one ground


def test_drawn_again_at_another_width(chromium: Browser, large: Path) -> None:
    from playwright.sync_api import expect

    with opened(chromium, large) as seen:
        wide = seen.page.locator("#c0 [data-chart=leaders] svg").first.bounding_box()
        seen.page.set_viewport_size({"width": 390, "height": 844})
        expect(seen.page.locator("#c0 [data-chart=leaders]")).to_have_attribute("data-drawn", re.compile(r"[123]\d\d"))
        narrow = seen.page.locator("#c0 [data-chart=leaders] svg").first.bounding_box()
        assert wide is not None
        assert narrow is not None
        assert narrow["width"] < wide["width"]
        assert seen.faults == []


def test_tables_sort_by_mouse_and_keyboard(chromium: Browser, large: Path) -> None:
    with opened(chromium, large) as seen:
        table = seen.page.locator("#c0 table.sortable").first
        lead = table.locator("thead button", has_text=re.compile("^leaders$"))
        lead.click()
        values = [int(text) for text in table.locator("tbody tr td:nth-child(3)").all_text_contents()]
        assert values == sorted(values)
        lead.focus()
        seen.page.keyboard.press("Enter")
        values = [int(text) for text in table.locator("tbody tr td:nth-child(3)").all_text_contents()]
        assert values == sorted(values, reverse=True)
        assert table.locator("th[aria-sort=descending]").count() == 1


def test_heat_maps_are_read_by_keyboard(chromium: Browser, large: Path) -> None:
    with opened(chromium, large) as seen:
        heat = seen.page.locator("#c0 [data-chart=takeovers] .heat").first
        heat.locator("canvas").focus()
        seen.page.keyboard.press("ArrowDown")
        assert "broker 3 takes over" in heat.locator("output").inner_text()


def test_names_are_text(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(cluster_of(4, HOSTILE, HOSTILE)), file)
    with opened(chromium, file) as seen:
        assert seen.faults == []
        assert seen.asked == [file.as_uri()]
        assert HOSTILE in seen.page.title()
        assert seen.page.locator("h2", has_text="onerror").first.inner_text() == HOSTILE
        assert seen.page.locator("main img").count() == 0


def test_one_broker_alone(chromium: Browser, tmp_path: Path) -> None:
    """Nothing to compare with: each figure says why it is empty."""
    alone = cluster_of(1)
    empty = {"pairs": [], "racks": [], "durability": [], "plans": [], "moves": [], "trend": [], "worst": {}}
    alone |= empty | {"takeovers": {"ids": [1], "schemes": {}}, "origin": None, "topics": []}
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(alone | {"hotspots": {}, "failures": []}), file)
    with opened(chromium, file) as seen:
        assert seen.faults == []
        assert counted(seen.page)["drawn"] == 8
        assert seen.page.locator(".nothing").count() == 7


def test_a_cluster_in_which_nobody_lives(chromium: Browser, tmp_path: Path) -> None:
    """Its partitions and sources are told; of brokers, nothing but that none is known."""
    down = cluster_of(3)
    now = down["hotspots"]["observed"] | {"brokers": 0, "leaders": 0, "max_over_mean_ratio": None}
    offline = {PartitionIssue.OFFLINE: AffectedPartitions(3, 1, ["t"], [3])}
    findings = ClusterFindings(issues=offline, partitions=3, quarantined_records=14)
    nobody: dict[str, Any] = {
        "brokers": [],
        "failures": [],
        "custom_failures": [],
        "worst": {},
        "pairs": [],
        "racks": [],
        "durability": [],
    }
    nobody |= {"takeovers": {"ids": [], "schemes": {}}, "headroom": [], "moves": [], "origin": None, "quarantined": 14}
    nobody |= {
        "hotspots": {"observed": now},
        "verdict": judge_cluster(ClusterEvidence(now, [], [], findings)),
        "trend": down["trend"][:2],
    }
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(down | nobody), file)
    with opened(chromium, file) as seen:
        assert seen.faults == []
        said = seen.page.locator(".nothing").all_inner_texts()
        assert said.count("No live broker is known.") == 7
        (other,) = (one for one in said if not one.startswith("No live broker"))
        assert other.startswith("There is one run for this cluster.")
        points = seen.page.locator(".points li").all_inner_texts()
        assert points == [
            "No live broker is known: failures cannot be evaluated.",
            "14 records of the sources are quarantined and left out of every answer: run inspect to see why.",
        ]
        assert seen.page.locator("h3").all_inner_texts() == ["Sources"]
        assert seen.page.locator("main > section.card tbody td").last.inner_text() == "14"


@pytest.mark.parametrize("width", [1280, 390])
def test_no_label_is_cut_off(chromium: Browser, large: Path, width: int) -> None:
    with opened(chromium, large, width) as seen:
        cut = seen.page.evaluate(
            """() => [...document.querySelectorAll("[data-chart] svg text")].filter((one) => {
              const label = one.getBoundingClientRect(), chart = one.closest("[data-chart]").getBoundingClientRect();
              return label.width && (label.left < chart.left - 1 || label.right > chart.right + 1);
            }).map((one) => one.textContent)"""
        )
        assert cut == []


def test_small_heat_maps_show_their_brokers_and_large_ones_some(chromium: Browser, large: Path) -> None:
    with opened(chromium, large) as seen:
        few = seen.page.locator("#c1 [data-chart=takeovers] .heat").first.locator(".across span")
        assert few.all_inner_texts() == ["1", "2", "3"]
        many = seen.page.locator("#c0 [data-chart=takeovers] .heat").first.locator(".down span").all_inner_texts()
        assert 4 <= len(many) <= 7
        assert {int(one) for one in many} < set(range(1, 216))


def test_a_scheme_that_was_added_is_shown_everywhere(chromium: Browser, tmp_path: Path) -> None:
    made = cluster_of(4)
    made["worst"]["mirror"] = [[1, 1.5]]
    made["takeovers"]["schemes"]["mirror"] = [0] * 16
    for rows in ("racks", "durability"):
        made[rows] += [{**row, "scheme": "mirror"} for row in made[rows] if row["scheme"] == "kafka"]
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(made), file)
    with opened(chromium, file) as seen:
        assert seen.faults == []
        for chart in ("worst", "takeovers", "racks", "copysets"):
            assert "mirror" in seen.page.locator(f"[data-chart={chart}]").inner_text(), chart


def test_a_naive_placement_far_off_does_not_flatten_the_others(chromium: Browser, tmp_path: Path) -> None:
    made = cluster_of(5)
    made["worst"]["naive"] = [[one, 40.0 + one] for one in range(1, 6)]
    made["takeovers"]["schemes"]["naive"] = [900] * 25
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(made), file)
    with opened(chromium, file) as seen:
        assert "naive is off the scale: 41.00 to 45.00" in seen.page.locator("[data-chart=worst]").inner_text()
        assert "4 partitions or more" in seen.page.locator("[data-chart=takeovers]").inner_text()


def test_the_verdict_is_said_once(chromium: Browser, large: Path) -> None:
    with opened(chromium, large) as seen:
        for cluster in ("#c0", "#c1"):
            sentence = seen.page.locator(f"{cluster} .verdict").inner_text().split(maxsplit=2)[2]
            points = seen.page.locator(f"{cluster} .points li").all_inner_texts()
            assert points
            assert all(point not in sentence for point in points)
