"""Runs commands as the pages print them, within this process, in a folder that has the files they name."""

from __future__ import annotations

import doctest
import io
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from unittest import mock

import pytest

from pipelines.cli import main
from pipelines.errors import EXIT_ALERT
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.report.html_page import write_report
from pipelines.report.report_data import ReportData
from pipelines.runner import Run
from pipelines.spark.store import Store
from pipelines.stages.stage_registry import STEPS
from tests.docs.pages import ROOT, Command, blocks
from tests.unit.operation.test_approvals import propose

SAMPLES = ROOT / "data_samples"
REAL = SAMPLES / "kafka-4.1.1-kraft"
# Programs that are not run here, and where they are tested instead.
ELSEWHERE = {
    **dict.fromkeys(
        ("kafka-topics.sh", "kafka-broker-api-versions.sh", "kafka-log-dirs.sh"),
        "needs a Kafka; its output is data_samples/",
    ),
    "spark-submit": "needs a cluster; tests/where_it_runs starts one",
    "jobs/spark-submit.sh": "likewise; tests/jobs looks at the command line that it makes",
    "databricks": "needs a workspace",
    "export": "is the shell's",
    "pip": "needs a package that was published; tests/where_it_runs installs the wheel",
}
OVER_TABLES = ("run", "report", "query", "tables", "doctor")
# What `run` is given on the pages: the first run has the tables of all of them.
SOURCES = ("prod=dumps/prod", "eu=dumps/eu.txt", "mine=mine.txt", "prod-describe.txt")
# Of this cluster the tables hold an older snapshot, that of tests.shared_runs.SMALL. Its twin is of the same
# describe, and
# was seen once.
OLDER, TWIN = "mine", "prod-describe"
# Few placements: what is shown of the schemes is that of run.seed.
FEW_SEEDS = ("--set", "failures.seeds=2", "--set", "hotspots.seeds=20", "--set", "failures.random_sets=10")
_REQUEST = (
    '{"algorithm":"kafka","topic":"orders","brokers":[{"id":1,"rack":"a"},{"id":2,"rack":"b"}],"partitions":2,'
    '"replication_factor":2,"seed":7}\n'
)


def furnish(folder: Path) -> None:
    """Nothing; the folder has every file that the pages name."""
    shutil.copytree(REAL, folder / "dumps" / "prod")
    shutil.copy(SAMPLES / "kafka-2.8.2-zookeeper" / "topics-describe.txt", folder / "dumps" / "eu.txt")
    for name in ("mine.txt", "prod-describe.txt"):
        shutil.copy(REAL / "topics-describe.txt", folder / name)
    shutil.copy(
        SAMPLES / "captures" / "kafka-4.1.1-kraft" / "cluster-metadata-dump.until-broker-2-down.txt",
        folder / "metadata-log.txt",
    )
    (folder / "requests.jsonl").write_text(_REQUEST)
    (folder / "data_samples").symlink_to(SAMPLES)
    (folder / "data").mkdir()
    (folder / "data" / "placement").symlink_to(folder / "warehouse")
    propose(folder / "proposals", "prod-balance-20270104-020000")
    (scenario,) = blocks(ROOT / "docs" / "replay.md", "yaml")
    (folder / "scenario.yaml").write_text(scenario.text)


def found_there(run: Run, steps: Sequence[str], clock: object) -> None:
    """In place of Run.go: the tables hold what this run would write; the first run has written it."""
    assert set(steps) <= set(STEPS)
    for key in run._context.snapshots:
        assert not run._store.read("gold.scheme_comparison", [key]).isEmpty(), f"add {key.cluster_id} to SOURCES"


class Once:
    """In place of Store.register and of the report of a run: what has been done is not done again.

    Tables that a session knows by name stay known (by Delta, which sees later rows, too), and runs over the same tables
    write the same page.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[str, str] = {}
        self._pages: dict[tuple[object, ...], tuple[Path, ReportData]] = {}
        self._register, self._report = Store.register, write_report

    @property
    def register(self) -> Callable[[Store, Sequence[str], bool], list[str]]:
        def register(store: Store, names: Sequence[str], only_rows: bool = False) -> list[str]:
            new = [name for name in names if self._places.get(name) != store.location(name)]
            self._places |= {name: store.location(name) for name in self._register(store, new)}
            return [name for name in names if self._places.get(name) == store.location(name)]

        return register

    def report(
        self,
        store: Store,
        file: Path,
        clusters: Sequence[str] = (),
        sources: Mapping[SnapshotKey, Source] = MappingProxyType({}),
        only_these: bool = False,
    ) -> ReportData:
        """Of a run: the page of its clusters alone, or of all."""
        key = (store.warehouse, only_these, *clusters, *(sources if only_these else ()))
        if key not in self._pages:
            kept = self._folder / f"{len(self._pages)}.html"
            self._pages[key] = kept, self._report(store, kept, clusters, sources, only_these)
        page, facts = self._pages[key]
        shutil.copy(page, file)
        return facts


@dataclass
class Machine:
    """folder: where commands run.   printed: what commands over the tables have printed; again, they print the same."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    printed: dict[tuple[str, ...], str]

    def run(self, command: Command) -> str:
        """What it prints. Fails where it is not understood, or ends otherwise than its page says."""
        words = command.words
        if words[0] in ELSEWHERE:
            return ""
        if words[0] == "make":
            assert "=" not in words[1]
            done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return ""
        assert words[0] == "kafka-placement", f"{command.text}: neither run here nor listed in ELSEWHERE"
        arguments = [word.replace("/data/", f"{self.folder}/data/") for word in words[1:]]
        queries = "SELECT 1;\n"
        if arguments[-2:-1] == ["<"]:  # the shell's
            del arguments[-2:]
        key = tuple(arguments)
        if key in self.printed and command.expected is None:
            return self.printed[key]
        before = Path.cwd()
        os.chdir(self.folder)
        self.capture.readouterr()
        try:
            with mock.patch("sys.stdin", io.StringIO(queries)):
                code = main(arguments)
        finally:
            os.chdir(before)
        out, err = self.capture.readouterr()
        assert code in ({0, EXIT_ALERT} if "--alert" in arguments else {0}), f"{command.text}: {code}\n{out}{err}"
        assert "Traceback" not in err
        if arguments[0] in OVER_TABLES:
            self.printed[key] = out
        assert out or {"assign", "--json"} & {*arguments}, command.text
        if command.expected is not None:
            same = doctest.OutputChecker().check_output(command.expected, out, doctest.ELLIPSIS)
            assert same, f"{command.text}: the page says\n{command.expected}and it prints\n{out}"
        return out
