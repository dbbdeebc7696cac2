"""The Python API: read a cluster, judge it, ask what failures do, plan, and check plans. Nothing starts Spark.

The commands call the same functions. Import it as `from kafka_placement import read`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipelines.config.capacity_file import add_disk_capacities
from pipelines.config.plan_parameters import build_metric_options, build_request, build_wave_limits
from pipelines.config.setting_sections import Settings
from pipelines.config.settings import load_settings
from pipelines.execution.checked_plans import CheckedPlans, check_plans
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import Source, compute_snapshot_id, find_source, is_live
from pipelines.plan_files.plan_creation import CreatedPlan, create_plan
from pipelines.what_if.failure_effects import read_survivor_capacities
from pipelines.what_if.what_if_answers import ClusterAnswer, FailureAnswer, evaluate_cluster, evaluate_failure


@dataclass(frozen=True)
class KafkaCluster:
    """A cluster as its sources showed it when it was read.

    All methods raise pipelines.errors.SourceError if the sources show no replicas, or not what is asked for.
    """

    snapshot: Snapshot  # its tables are Arrow tables, with columns of silver
    snapshot_id: str  # digest of the content of its sources, as in the tables of a run
    settings: Settings

    def judge(self) -> ClusterAnswer:
        """Judge the cluster: the verdict with its findings, and the failure of each broker and rack, as `what-if`."""
        return evaluate_cluster(self.snapshot, self.settings)

    def what_if(self, failed: Sequence[int]) -> FailureAnswer:
        """Tell what the failure of brokers, all at once, does to each partition, as `what-if --fail`."""
        capacities = read_survivor_capacities(self.snapshot, self.settings.capacity)
        return evaluate_failure(self.snapshot, failed, self.settings.topics.defaults, capacities)

    def plan(self, goal: str, out: Path | None = None, **fields: Any) -> CreatedPlan:
        """Make a plan for a goal, and write it to a new folder, as `plan --goal GOAL --out DIR`.

        out: None = the files are not wanted. fields: of udfs.planning.plan_request.PlanRequest, as in brokers=(3,).
        Raises: Infeasible if no plan meets the hard constraints; ValueError for an unknown goal, or a field that does
        not fit it; TypeError for an unknown field.
        """
        request = build_request(self.settings, goal, **fields)
        snapshot = add_disk_capacities(self.snapshot, self.settings.capacity.file)
        limits, options = build_wave_limits(self.settings), build_metric_options(self.settings)
        with TemporaryDirectory() as folder:
            place = Path(folder, "plan") if out is None else out
            return create_plan(snapshot, request, place, limits, options, self.settings.topics.defaults)

    def check(self, *plans: Path, rf: int | None = None, throttle_bytes_per_s: float | None = None) -> CheckedPlans:
        """Compare plans with the cluster and judge them, each after the one before it, as `check`.

        plans: folders that plan wrote, and reassignment files of any tool. rf: the replication factor that files are
        to give. throttle_bytes_per_s: None = that of the plan, else that of the settings.
        """
        return check_plans(plans, self.snapshot, self.settings, rf=rf, throttle_bytes_per_s=throttle_bytes_per_s)


def read(
    source: str, *, client_properties: Path | None = None, conf: Path | None = None, settings: Sequence[str] = ()
) -> KafkaCluster:
    """Read a cluster: a file, a folder with its files, or kafka://HOST:PORT; NAME=... names it.

    client_properties: to connect to a running cluster. conf, settings: as --conf and --set of the commands.
    Raises: SourceError if nothing can be read; SettingsError for a wrong setting.
    """
    loaded = load_settings(settings, None if conf is None else str(conf))
    if is_live(source):
        from pipelines.live.client_properties import ClientProperties, read_client_properties
        from pipelines.live.live_sources import fetch_source, parse_address

        properties = ClientProperties() if client_properties is None else read_client_properties(client_properties)
        with TemporaryDirectory() as folder:
            fetched, _ = fetch_source(parse_address(source), properties, Path(folder))
            return _load(fetched, loaded)
    return _load(find_source(source), loaded)


def _load(source: Source, settings: Settings) -> KafkaCluster:
    snapshot = load_snapshot(source, max_file_bytes=settings.ingest.max_file_bytes)
    return KafkaCluster(snapshot, compute_snapshot_id(source, None), settings)
