"""docs/figures.md defines every figure of the report and every metric, and nothing that is not there any more."""

from __future__ import annotations

import re

from pipelines.report.figure_queries import FIGURES, SINCE, TREND
from pipelines.stages.scheme_comparison_stage import METRICS
from pipelines.tables import TABLES
from tests.docs.pages import ROOT
from udfs.planning import plan_rows

PAGE = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
ASSETS = ROOT / "pipelines" / "report" / "assets"
TEMPLATE = "".join((ASSETS / name).read_text(encoding="utf-8") for name in ("cluster.html", "bytes.html", "since.html"))
FLEET_FIGURES = {"topics_at_risk"}  # of all clusters: tests/report/test_page.py
SCRIPT = (ASSETS / "charts.js").read_text(encoding="utf-8")


def cells(heading: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    text = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def test_every_figure_is_defined() -> None:
    defined = {(name.strip("`"), title): formula for name, title, formula in cells("Figures of the report")}
    assert list(defined) == [(figure.name, figure.comment) for figure in (*FIGURES, TREND, *SINCE)]
    assert all(defined.values())


def test_every_metric_is_defined() -> None:
    rows = cells("Metrics of gold.scheme_comparison")
    assert [name for names, _ in rows for name in re.findall(r"`(\w+)`", names)] == list(METRICS)
    assert all(formula for _, formula in rows)
    plan_metrics = cells("Metrics of gold.plan_metrics")
    names = [name for names, _ in plan_metrics for name in re.findall(r"`(\w+)`", names)]
    others = ["under_replicated_partitions", "fullest_broker_bytes"]
    assert names == ["copied_bytes", "moves", "leader_changes", *plan_rows.METRICS, *others]


def test_columns_that_formulas_name_exist() -> None:
    columns = {f"{table.name}.{name}" for table in TABLES.values() for name in table.column_names}
    table = ""
    for _, where, formula in cells("Formulas"):
        assert formula
        for named in re.findall(r"`([\w.]+)`", where):
            table = ".".join(named.split(".")[:2]) if not named.startswith(".") else table
            assert table in TABLES
            if named != table:
                assert f"{table}.{named.split('.')[-1]}" in columns, named


def test_every_figure_has_its_sql_in_the_page() -> None:
    """Of charts by the script, under the chart's name or SQL_OF's; of tables by the template."""
    charts = re.findall(r'm\.chart\("(\w+)"', TEMPLATE)
    renamed = dict(re.findall(r"(\w+): \"(\w+)\"", SCRIPT.split("SQL_OF = {")[1].split("}")[0]))
    shown = {renamed.get(name, name) for name in charts} | set(re.findall(r"c\.sql\.(\w+)", TEMPLATE))
    assert shown | FLEET_FIGURES == {figure.name for figure in (*FIGURES, TREND, *SINCE)}
