"""The page in a real Chromium: it loads from a file, asks no network, draws every chart, and is read by keyboard."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.report.html_page import write_page
from pipelines.report.report_data import select_plans
from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterEvidence, ClusterFindings, PartitionIssue
from pipelines.verdict.judgement import judge_cluster
from pipelines.verdict.verdict_points import Level, NextPlan, VerdictPoint
from tests.report.made_up import cluster_of, facts_of_clusters
from tests.report.seen import counted, opened, unfold

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
        unfold(seen.page)
        every = {"charts": 18, "drawn": 18, "pictures": 18, "broken": 0, "lines": 4, "beyond": 0}
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
        seen.page.locator("#c0 [data-chart=leaders]").scroll_into_view_if_needed()
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
        table = seen.page.locator("#c1 table.sortable").first
        lead = table.locator("thead button", has_text=re.compile("^leaders lost$"))
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
        unfold(seen.page)
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
    empty = {
        "pairs": [],
        "racks": [],
        "durability": [],
        "plans": {},
        "plan": None,
        "moves": [],
        "trend": [],
        "worst": {},
    }
    alone |= empty | {
        "takeovers": {"names": ["1"], "schemes": {}, "survivors": None},
        "origin": None,
        "manual_topics": [],
        "topics": [],
    }
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(alone | {"hotspots": {}, "failures": []}), file)
    with opened(chromium, file) as seen:
        unfold(seen.page)
        assert seen.faults == []
        assert counted(seen.page)["drawn"] == 8
        assert seen.page.locator(".nothing").count() == 6


def test_a_cluster_in_which_nobody_lives(chromium: Browser, tmp_path: Path) -> None:
    """Its partitions and sources are told; of brokers, nothing but that none is known."""
    down = cluster_of(3)
    now = down["hotspots"]["observed"] | {"brokers": 0, "leaders": 0, "max_over_mean_ratio": None}
    offline = {PartitionIssue.OFFLINE: AffectedPartitions(3, 1, ["t"], [3])}
    findings = ClusterFindings(issues=offline, partitions=3, counted_partitions=3, quarantined_records=14)
    nobody: dict[str, Any] = {
        "brokers": [],
        "failures": [],
        "custom_failures": [],
        "rack_failures": [],
        "worst": {},
        "pairs": [],
        "racks": [],
        "durability": [],
    }
    nobody |= {
        "takeovers": {"names": [], "schemes": {}, "survivors": None},
        "headroom": [],
        "plan": None,
        "moves": [],
        "origin": None,
        "manual_topics": [],
    }
    nobody |= {
        "hotspots": {"observed": now},
        "verdict": judge_cluster(ClusterEvidence(now, [], [], findings)),
        "trend": down["trend"][:2],
    }
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(down | nobody), file)
    with opened(chromium, file) as seen:
        unfold(seen.page)
        assert seen.faults == []
        said = seen.page.locator(".nothing").all_inner_texts()
        assert said.count("No live broker is known.") == 6
        (other,) = (one for one in said if not one.startswith("No live broker"))
        assert other.startswith("There is one run for this cluster.")
        points = seen.page.locator(".points li").all_inner_texts()
        assert points == [
            "No live broker is known: failures cannot be evaluated.",
            "14 records of the sources are quarantined and left out of every answer: run inspect to see why.",
        ]
        assert seen.page.locator("h3").all_inner_texts() == [
            "Compared with Kafka's own placement, and possible data loss",
            "Sources (1)",
        ]


@pytest.mark.parametrize("width", [1280, 390])
def test_no_label_is_cut_off(chromium: Browser, large: Path, width: int) -> None:
    with opened(chromium, large, width) as seen:
        unfold(seen.page)
        cut = seen.page.evaluate(
            """() => [...document.querySelectorAll("[data-chart] svg text")].filter((one) => {
              const label = one.getBoundingClientRect(), chart = one.closest("[data-chart]").getBoundingClientRect();
              return label.width && (label.left < chart.left - 1 || label.right > chart.right + 1);
            }).map((one) => one.textContent)"""
        )
        assert cut == []


def test_small_heat_maps_show_their_brokers_and_large_ones_some(chromium: Browser, large: Path) -> None:
    with opened(chromium, large) as seen:
        unfold(seen.page)
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
        unfold(seen.page)
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
        unfold(seen.page)
        assert "naive is off the scale: 41.00 to 45.00" in seen.page.locator("[data-chart=worst]").inner_text()
        assert "4 partitions or more" in seen.page.locator("[data-chart=takeovers]").inner_text()


def test_the_verdict_is_said_once(chromium: Browser, large: Path) -> None:
    with opened(chromium, large) as seen:
        unfold(seen.page)
        for cluster in ("#c0", "#c1"):
            sentence = seen.page.locator(f"{cluster} .verdict").inner_text().split(maxsplit=2)[2]
            points = seen.page.locator(f"{cluster} .points li").all_inner_texts()
            assert points
            assert all(point not in sentence for point in points)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of 100 clusters."""
    file = tmp_path_factory.mktemp("fleet") / "report.html"
    write_page(facts_of_clusters(*(cluster_of(12, f"cluster-{i:02}", seed=i) for i in range(100))), file)
    return file


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a cluster of 1,000 brokers."""
    file = tmp_path_factory.mktemp("thousand") / "report.html"
    write_page(facts_of_clusters(cluster_of(1000)), file)
    return file


def test_a_fleet_is_folded_and_draws_what_is_looked_at(chromium: Browser, fleet: Path) -> None:
    from playwright.sync_api import expect

    with opened(chromium, fleet) as seen:
        assert counted(seen.page)["drawn"] == 0
        seen.page.locator("#clusters a", has_text="cluster-07").click()
        cluster = seen.page.locator("details.cluster[data-name=cluster-07]")
        expect(cluster).to_have_attribute("open", "")
        chart = cluster.locator("[data-chart=leaders]")
        for _ in range(20):  # the browser may still scroll to the cluster after the test scrolls to the chart
            chart.scroll_into_view_if_needed()
            seen.page.wait_for_timeout(250)
            if chart.locator("svg").count():
                break
        expect(chart.locator("svg").first).to_be_visible()
        assert 0 < counted(seen.page)["drawn"] <= 5
        cluster.locator("summary").first.click()
        expect(cluster.locator("[data-chart=leaders]")).to_be_hidden()
        seen.page.locator("#clusters a", has_text="cluster-07").click()
        expect(cluster.locator("[data-chart=leaders]")).to_be_visible()
        assert seen.faults == []


def test_clusters_are_searched_by_name_and_level(chromium: Browser, fleet: Path) -> None:
    with opened(chromium, fleet) as seen:
        rows = seen.page.locator("#clusters tbody tr:visible")
        assert rows.count() == 100
        seen.page.locator("#find-cluster").fill("CLUSTER-9")
        assert rows.count() == seen.page.locator("details.cluster:visible").count() == 10
        assert seen.page.locator("#matches").inner_text() == "10 clusters"
        seen.page.locator("#find-cluster").fill("")
        button = seen.page.locator("[data-filter]").last
        button.focus()
        seen.page.keyboard.press("Enter")
        assert f"{rows.count()}" == button.inner_text().split()[-1]
        assert button.get_attribute("aria-pressed") == "true"


def test_topics_at_risk_are_searched_by_topic_and_cluster(chromium: Browser, fleet: Path) -> None:
    with opened(chromium, fleet) as seen:
        section = seen.page.locator("#at-risk")
        rows, heads = section.locator("tr[data-name]:visible"), section.locator(".group-head:visible")
        assert (rows.count(), heads.count()) == (30, 3)
        assert "go offline if one broker fails: 12 topics, 24 partitions, 36 GB" in heads.first.inner_text()
        assert "The 30 most serious of 1,200 rows; 1,170 more are not shown" in section.locator("p").inner_text()
        assert "Next: add replicas (a failed disk would lose the only copy): " in heads.first.inner_text()
        section.locator("#find-topic-at-risk").fill("CLUSTER-42")
        assert (rows.count(), heads.count()) == (12, 1)
        assert section.locator("output").inner_text() == "12 rows"
        section.locator("#find-topic-at-risk").fill("orders-1")
        assert rows.count() == 30
        assert section.locator("output").inner_text().endswith("rows, the first 30")
        section.locator("#find-topic-at-risk").fill("")
        assert rows.count() == 30
        assert seen.faults == []


def test_a_topic_is_searched_and_shows_its_brokers(chromium: Browser, large: Path) -> None:
    with opened(chromium, large) as seen:
        section = seen.page.locator("#c1 .topics")
        section.get_by_label("Find a topic").fill("ders-3")
        assert section.locator("tbody th").all_inner_texts() == ["orders-3"]
        section.get_by_role("button", name="orders-3").focus()
        seen.page.keyboard.press("Enter")
        text = section.locator(".topic").inner_text()
        assert "97 partitions, replication factor 3, replicas on 3 brokers. 1 partition offline, 2 partitions" in text
        assert "Spread: 40 % of the brokers" in text
        assert section.locator(".topic svg[aria-label='Brokers of orders-3']").count() == 1
        assert seen.faults == []


def test_a_thousand_brokers_are_shown_rack_by_rack(chromium: Browser, thousand: Path) -> None:
    with opened(chromium, thousand) as seen:
        unfold(seen.page)
        result = counted(seen.page)
        assert (result["drawn"], result["pictures"], result["broken"], result["beyond"]) == (9, 9, 0, 0)
        groups = seen.page.locator("#c0 .group > summary")
        assert [text.split(",")[0] for text in groups.all_inner_texts()] == [
            "rack r0: 334 brokers",
            "rack r1: 333 brokers",
            "rack r2: 333 brokers",
        ]
        groups.nth(1).click()
        assert seen.page.locator("#c0 .group[open] tbody tr").count() == 333
        leaders = seen.page.locator("#c0 [data-chart=leaders]")
        leaders.get_by_label("Show").select_option("rack r1")
        assert leaders.locator("svg [aria-label=bar] rect").count() == 333
        takeovers = seen.page.locator("#c0 [data-chart=takeovers]")
        assert "Choose a broker" in takeovers.inner_text()
        takeovers.get_by_label("Show").select_option("17")
        assert takeovers.locator("svg[aria-label='Survivors of broker 17']").count() == 1
        assert seen.faults == []


def test_two_clusters_print_on_few_pages(chromium: Browser, tmp_path: Path) -> None:
    """A4, each cluster with all its sections but folded ones; nothing is wider than the paper."""
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(cluster_of(12), cluster_of(12, "other", seed=8)), file)
    with opened(chromium, file) as seen:
        printed = seen.page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page\b[^s]", printed)) <= 6
        assert re.search(rb"/MediaBox\s*\[0 0 59[45][\d.]* 84[12][\d.]*\]", printed)
        seen.page.emulate_media(media="print")
        seen.page.set_viewport_size({"width": 710, "height": 1000})  # 188 mm between the margins
        beyond = seen.page.evaluate(
            """() => [...document.querySelectorAll("main *")].filter((one) => {
              const box = one.getBoundingClientRect();
              return box.width && box.right > innerWidth + 1;
            }).map((one) => one.outerHTML.slice(0, 80))"""
        )
        assert beyond == []
        assert counted(seen.page)["drawn"] >= 10


def test_collapsed_clusters_print_their_findings(chromium: Browser, tmp_path: Path) -> None:
    """What Warning and worse say, with next steps, is printed of each collapsed cluster, and once of an open one."""
    from playwright.sync_api import expect

    made = [cluster_of(12, f"cluster-{i}", seed=i) for i in range(4)]
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(*made), file)
    with opened(chromium, file) as seen:
        expect(seen.page.locator(".digest").first).to_be_hidden()
        seen.page.locator("#c1 > summary").click()
        seen.page.emulate_media(media="print")
        digests = seen.page.locator(".digest")
        expect(digests.nth(1)).to_be_hidden()
        for i in (0, 2, 3):
            text = digests.nth(i).inner_text()
            points = [point for point in made[i]["verdict"].points if point.level in ("at_risk", "warning")]
            assert points
            assert all(point.text in text and point.step in text for point in points)


def test_the_overview_says_where_to_start_and_explains_its_words(chromium: Browser, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    file = tmp_path / "report.html"
    write_page(facts_of_clusters(cluster_of(12, HOSTILE), cluster_of(12, "other", seed=8)), file)
    with opened(chromium, file) as seen:
        expect(seen.page.locator(".priority")).to_contain_text(f"Start with {HOSTILE}: losing ")
        assert seen.page.locator(".priority a").get_attribute("href") == "#c0"
        due = seen.page.locator(".horizons dd").all_inner_texts()
        assert due[0] == "Nothing."
        assert due[1].startswith(
            f"The failure of one broker takes partitions offline: {HOSTILE} (up to 2 partitions), "
        )
        assert seen.page.locator(".horizons dt").all_inner_texts() == ["Today", "This week", "Watch"]
        glossary = seen.page.locator("#overview .glossary")
        expect(glossary.locator("dd").first).to_be_hidden()
        glossary.locator("summary").click()
        expect(glossary.locator("dd").last).to_be_visible()
        words = set(glossary.locator("dt").all_inner_texts())
        assert {"acks=all", "max/mean", "takeover", "in-sync replica (ISR)", "min.insync.replicas"} <= words
        glossary.locator("summary").click()
        seen.page.emulate_media(media="print")
        expect(glossary).to_be_hidden()
        assert seen.faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_next_steps_are_as_readable_as_text_and_their_commands_wrap(
    chromium: Browser, tmp_path: Path, scheme: str
) -> None:
    made, path = [cluster_of(4), cluster_of(4, "other")], f"/srv/{'very-long-name/' * 20}prod"
    for cluster in made:
        cluster["verdict"] = cluster["verdict"].name_source(path, cluster["cluster_id"])
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(*made), file)
    with opened(chromium, file, 390, scheme) as seen:
        steps = seen.page.evaluate(
            """() => [...document.querySelectorAll(".step")].filter((one) => one.clientHeight).map((one) => {
              const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
              const light = (text) => rgb(text).slice(0, 3).map((x) => x / 255)
                .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
                .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
              let ground = one;
              while (rgb(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
              const both = [light(getComputedStyle(one).color), light(getComputedStyle(ground).backgroundColor)];
              const [dark, bright] = both.sort((a, b) => a - b);
              return [parseFloat(getComputedStyle(one).fontSize), (bright + 0.05) / (dark + 0.05)];
            })"""
        )
        assert len(steps) >= 6
        assert min(size for size, _ in steps) >= 16
        assert min(contrast for _, contrast in steps) >= 4.5  # WCAG AA
        command = seen.page.locator("#c0 .verdict .step code").first
        assert command.inner_text() == (
            f"kafka-placement plan {path} --goal rf --rf 3 --topics orders --out plan-made-up-rf"
        )
        assert command.evaluate("(one) => getComputedStyle(one).userSelect") == "all"
        assert counted(seen.page)["beyond"] == 0
        cut = seen.page.evaluate(
            """() => [...document.querySelectorAll(".step code")].filter((one) =>
              one.clientWidth > innerWidth || one.getBoundingClientRect().right > innerWidth).length"""
        )
        assert cut == 0
        assert seen.faults == []


def test_only_plans_that_the_verdict_recommends_are_shown(chromium: Browser, tmp_path: Path) -> None:
    made = cluster_of(4)
    unasked = {"goal": "leaders", "feasible": True}
    made |= select_plans(made["verdict"], [unasked], [{"goal": "leaders", "topic": "unasked"}])
    made["topics"], long = [], cluster_of(4, "long")
    long["plan"] |= {"changed_partitions": 60}
    long["moves"] *= 50
    no_sizes = cluster_of(4, "no-sizes")
    no_sizes["plans"]["rf"] |= {"copied_bytes": None, "fullest_broker": None, "copy_duration_s": 0.0}
    no_sizes["plans"]["rf"]["metrics"]["fullest_broker_bytes"] = [None, None]
    pages = {}
    for cluster in (cluster_of(4, "recommended"), made, long, no_sizes):
        file = tmp_path / f"{cluster['cluster_id']}.html"
        write_page(facts_of_clusters(cluster), file)
        with opened(chromium, file) as seen:
            unfold(seen.page)
            pages[cluster["cluster_id"]] = seen.page.locator("main").inner_text()
            assert seen.page.locator(".plans tbody tr").count() == 1
            assert seen.page.locator("[data-chart=plan]").count() == (cluster is not made)
            assert seen.faults == []
    work, after = "raise the replication factor (rf)", "\noffline if a broker fails: up to 4 -> 0\n"
    assert f"{work}\t4\t8\t12 GB\t4 min\t{after}\tbroker 3: 80 GB, then 84 GB\tadd replicas" in pages["recommended"]
    assert f"{work}\t4\t8\tunknown\tunknown\t{after}\tadd replicas" in pages["no-sizes"]
    assert f"The plan to {work}: before and after" in pages["recommended"]
    assert f"Replica changes of the plan to {work} (first 1 of 4)" in pages["recommended"]
    assert f"Replica changes of the plan to {work} (first 50 of 60)" in pages["long"]
    assert "Times are for copies at 50 MB/s per broker (plans.throttle_bytes_per_s);" in pages["recommended"]
    assert "Not computed: the command previews it." in pages["made-up"]
    assert "Replica changes" not in pages["made-up"]
    assert "unasked" not in pages["made-up"]


def cluster_with_down_broker(name: str) -> dict[str, Any]:
    """A cluster that needs a restart of broker 9, or a repair, and new brokers in rack r2."""
    down = cluster_of(4, name)
    lagging = {PartitionIssue.UNDER_REPLICATED: AffectedPartitions(3, 1, ["t"], [3], on_down_brokers=3)}
    findings = ClusterFindings(lagging, 3, 3, 2, 3.0, 4, down_brokers=(9,))
    verdict = judge_cluster(ClusterEvidence(down["hotspots"]["observed"], [], [], findings))
    plan = NextPlan("expand", new_brokers=("10:r2", "11:r2"))
    text = "Losing rack r0 takes 9 partitions offline."
    small_rack = VerdictPoint(Level.AT_RISK, text, f"add brokers: {plan.command}", "rack_offline", plan)
    verdict = replace(verdict, points=(*verdict.points, small_rack))
    repair = down["plan"] | {"goal": "repair"}
    repair["metrics"] |= {"disk_max_over_mean": [1.26, 1.66]}
    repair |= {"frozen_partitions": 2, "frozen_reasons": ["2 because of an ongoing reassignment"]}
    repair |= {"copy_duration_s": 26_160.0}
    down["worst_failures"] |= {"rack": 9}
    return down | {"findings": findings, "verdict": verdict, **select_plans(verdict, [repair], [])}


def test_the_work_of_a_fleet(chromium: Browser, tmp_path: Path) -> None:
    """A repair that replaces a broker that is down says so, in the overview and at its cluster."""
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(cluster_with_down_broker("down"), cluster_of(4, "single")), file)
    condition = "only if broker 9 stays down; a restart makes it needless"
    effects = (
        "offline if a broker fails: up to 4 -> 0",
        "worse: fullest disk 1.26 -> 1.66 times the mean",
        "2 partitions left unchanged because of an ongoing reassignment",
    )
    with opened(chromium, file) as seen:
        rows = [row.replace("\n", "|") for row in seen.page.locator("#overview .work tbody tr").all_inner_texts()]
        assert rows == [
            "Today\tdown\trestart broker 9\tnothing to order: copies catch up by themselves\t"
            "with replicas there: 3 under-replicated partitions",
            f"Today\tdown\trepair replicas (repair), {condition}\t4\t8\t12 GB\t7 h 16 min\t|{'|'.join(effects)}",
            "This week\tdown\tfill new brokers (expand), needs 2 new brokers (r2)\tNot computed: kafka-placement plan "
            "SOURCE --goal expand --add-brokers 10:r2,11:r2 --out plan-CLUSTER-expand previews it.\t-",
            "This week\tsingle\traise the replication factor (rf)\t4\t8\t12 GB\t4 min\t"
            "|offline if a broker fails: up to 4 -> 0",
        ]
        summary, assumptions = seen.page.locator(".work p").all_inner_texts()
        assert summary.startswith("Due today and this week: 1 plan, 4 partitions to change, 12 GB to copy, 4 min")
        assert assumptions.startswith("Times are for copies at 50 MB/s per broker (plans.throttle_bytes_per_s);")
        plans = seen.page.locator("#c0 .plans tbody tr").all_inner_texts()
        assert [row.split("\t")[0] for row in plans] == [
            f"repair replicas (repair), {condition}",
            "fill new brokers (expand), needs 2 new brokers (r2)",
        ]
        assert effects[1] in plans[0]
        assert "Not computed: the command previews it." in plans[1]
        seen.page.locator(".work thead button", has_text="bytes to copy").click()
        works = seen.page.locator("#overview .work tbody td:nth-child(3)").all_inner_texts()
        assert [work.split()[0] for work in works] == ["fill", "restart", "repair", "raise"]
        assert seen.faults == []


def test_the_work_prints_whole_names(chromium: Browser, tmp_path: Path) -> None:
    """No name of a cluster, time or number breaks on A4, and no heading of the overview is high."""
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(cluster_with_down_broker("checkout"), cluster_of(4, "tracking")), file)
    with opened(chromium, file) as seen:
        seen.page.emulate_media(media="print")
        seen.page.set_viewport_size({"width": 710, "height": 1000})  # 188 mm between the margins
        cells = ".work tbody th a, .work td:first-child, .work td.n, .change, #clusters tbody th a"
        lines = seen.page.evaluate(
            """(cells) => [...document.querySelectorAll(cells)].map((one) => {
              const text = document.createRange();
              text.selectNodeContents(one);
              return new Set([...text.getClientRects()].map((box) => Math.round(box.top))).size;
            })""",
            cells,
        )
        assert set(lines) == {1}
        beyond = seen.page.evaluate(
            """() => [...document.querySelectorAll(".work td, .work th, .plans td, .plans th")].filter((one) =>
              one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"""
        )
        assert beyond == []
        heights = seen.page.evaluate(
            """() => [...document.querySelectorAll("#clusters thead th, .work thead th")].map((one) =>
              one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).fontSize))"""
        )
        assert max(heights) < 8  # five lines and the padding


def test_a_single_rack_is_no_good_news(chromium: Browser, tmp_path: Path) -> None:
    """It is a note in the cluster, is printed, and its failure does not count in the overview."""
    made = [cluster_of(4, f"cluster-{i}") for i in range(4)]
    text = "All live brokers are in rack a: nothing survives its failure."
    for cluster in made:
        point = VerdictPoint(Level.OK, text, kind="one_rack")
        cluster["verdict"] = replace(cluster["verdict"], points=(*cluster["verdict"].points, point))
        cluster["worst_failures"] = {"broker": 2, "rack": 400, "blocked": 0, "blocked_by_rack": 0}
        cluster["rack_failures"] = cluster["rack_failures"][:1]
    file = tmp_path / "report.html"
    write_page(facts_of_clusters(*made), file)
    with opened(chromium, file) as seen:
        counts = seen.page.locator("#clusters tbody tr").first.locator("td.n").all_inner_texts()
        assert counts[3:7] == ["2", "all: one rack", "0", "-"]
        assert seen.page.locator("#c0 .points li.note", has_text=text).count() == 1
        assert seen.page.locator("#c0 .points li.ok", has_text=text).count() == 0
        seen.page.emulate_media(media="print")
        assert f"– {text}" in seen.page.locator(".digest").first.inner_text()


def test_a_fleet_prints_on_few_pages(chromium: Browser, fleet: Path) -> None:
    with opened(chromium, fleet) as seen:
        assert seen.page.locator(".work[open]").count() == 0
        printed = seen.page.pdf(prefer_css_page_size=True)
        assert seen.page.locator(".work[open]").count() == 1
    assert len(re.findall(rb"/Type\s*/Page\b[^s]", printed)) <= 26


def test_snapshots_show_their_time(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    old = cluster_of(3, "old") | {"as_of": "2026-11-19T23:30:00+00:00"}
    write_page(facts_of_clusters(cluster_of(3, "new"), old), file)
    with opened(chromium, file) as seen:
        snapshots = "from snapshots of 2026-11-21 00:00 UTC; the oldest is of 2026-11-19 23:30 UTC (old)."
        assert seen.page.locator("header p").inner_text().endswith(snapshots)
        heads = seen.page.locator("details.cluster > summary").all_inner_texts()
        times = {head.split()[0]: head[-20:] for head in heads}
        assert times == {"old": "2026-11-19 23:30 UTC", "new": "2026-11-21 00:00 UTC"}
