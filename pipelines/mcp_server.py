"""Tools for assistants, over the Model Context Protocol: the functions of the Python API, read-only unless allowed."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.cluster_api import KafkaCluster, read
from pipelines.errors import KafkaPlacementError, SettingsError
from pipelines.plan_files.plan_creation import build_answer
from udfs.json_answers import to_json

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_MAX_PARTITIONS = 100  # in an answer: an assistant reads it as text
_INTRODUCTION = (
    "Answers questions on Kafka clusters: which broker can fail, what a failure does, how replicas should be placed, "
    "and whether a plan is safe. A source is a file or folder with outputs of Kafka's tools, or kafka://HOST:PORT."
)


@dataclass(frozen=True)
class ClusterTools:
    """The tools. client_properties: to connect to running clusters; conf, settings: as --conf and --set."""

    client_properties: Path | None = None
    conf: Path | None = None
    settings: tuple[str, ...] = ()

    def judge_cluster(self, source: str) -> dict[str, Any]:
        """Judge a cluster: verdict, findings with next steps, and whether each broker and rack can fail now."""
        answer = self._read(source).judge()
        verdict = to_json(answer.verdict.name_source(source, answer.cluster))
        rows = {name: to_json(rows) for name, rows in (("brokers", answer.brokers), ("racks", answer.racks))}
        return {"cluster": answer.cluster, "verdict": verdict, **rows, "outage": to_json(answer.outage)}

    def what_if(self, source: str, failed_brokers: list[int]) -> dict[str, Any]:
        """Tell what happens if these brokers fail together: what goes offline, what is blocked, who takes over."""
        answer: dict[str, Any] = to_json(self._read(source).what_if(failed_brokers))
        answer["partitions_in_all"] = len(answer["partitions"])
        answer["partitions"] = answer["partitions"][:_MAX_PARTITIONS]
        return answer

    def make_plan(
        self,
        source: str,
        goal: str,
        brokers: list[int] | None = None,
        topics: list[str] | None = None,
        factor: int | None = None,
        max_moves: int | None = None,
    ) -> dict[str, Any]:
        """Make a plan for a goal, as balance, failover, leaders, repair, rf or drain, with its verdict; writes no file.

        brokers: for drain, those to empty. factor: for rf. max_moves: replicas to copy at most.
        """
        fields: dict[str, Any] = {"factor": factor, "max_moves": max_moves}
        fields |= {"brokers": tuple(brokers or ()), "topics": tuple(topics or ())}
        return build_answer(self._read(source).plan(goal, **{name: value for name, value in fields.items() if value}))

    def check_plan(self, source: str, plans: list[str], rf: int | None = None) -> dict[str, Any]:
        """Judge plans, each after the one before it: folders of `plan`, or reassignment files of any tool."""
        checked = self._read(source).check(*map(Path, plans), rf=rf)
        progress = [{"folder": str(path), **to_json(one)} for path, one in checked.progress]
        judgement = None if checked.judgement is None else to_json(checked.judgement)
        return {"may_execute": checked.may_execute, "judgement": judgement, "progress": progress}

    def apply_plan(self, plan: str, bootstrap_server: str, execute: bool = False) -> dict[str, Any]:
        """Show what a plan would do on a running cluster; with execute, carry it out, as `apply` does."""
        words = ["apply", plan, "--bootstrap-server", bootstrap_server]
        words += ["--command-config", str(self.client_properties)] if self.client_properties else []
        words += ["--execute"] if execute else []
        command = [sys.executable, "-m", "pipelines.cli", *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return {"exit_code": done.returncode, "output": done.stdout, "errors": done.stderr}

    def _read(self, source: str) -> KafkaCluster:
        return read(source, client_properties=self.client_properties, conf=self.conf, settings=self.settings)


def make_server(tools: ClusterTools, *, allow_apply: bool = False) -> "MCPServer":
    """Make the server. allow_apply: whether it has the tool that changes clusters.

    Raises: SettingsError if the package mcp is not installed.
    """
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import ToolAnnotations
    except ImportError as error:
        raise SettingsError("the package mcp is not installed: pip install 'kafka-placement[mcp]'") from error

    def explain_errors(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Return the function with its errors as answers: their texts say what to do."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
            try:
                return function(*args, **kwargs)
            except (KafkaPlacementError, ValueError) as error:
                raise ToolError(str(error)) from error

        return call

    server = MCPServer("kafka-placement", instructions=_INTRODUCTION)
    functions: list[Callable[..., dict[str, Any]]] = [tools.judge_cluster, tools.what_if]
    functions += [tools.make_plan, tools.check_plan]
    for function in functions:
        server.tool(annotations=ToolAnnotations(read_only_hint=True))(explain_errors(function))
    if allow_apply:
        server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))(tools.apply_plan)
    return server
