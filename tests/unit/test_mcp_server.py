"""The tools for assistants, called by the protocol's reference client."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from pipelines.mcp_server import ClusterTools, make_server
from tests.commands import call

DESCRIBE = (
    "Topic: t\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: min.insync.replicas=1\n"
    "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    "\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,3\tIsr: 1,3\n"
    "\tTopic: t\tPartition: 2\tLeader: 1\tReplicas: 1\tIsr: 1\n"
)


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "prod.txt").write_text(DESCRIBE)
    return str(tmp_path / "prod.txt")


def use(server: Any, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Connect to a server, and return what the work with a client returns."""

    async def connect() -> Any:
        async with Client(server) as client:
            return await work(client)

    with ThreadPoolExecutor(1) as thread:  # a browser of other tests leaves its event loop running in this one
        return thread.submit(asyncio.run, connect()).result()


def call_tool(server: Any, name: str, **arguments: Any) -> Any:
    async def work(client: Client) -> Any:
        result = await client.call_tool(name, arguments)
        text = result.content[0].text  # type: ignore[union-attr]
        return text if result.is_error else json.loads(text)

    return use(server, work)


def list_tools(server: Any) -> dict[str, bool]:
    """The tools, and whether they only read."""

    async def work(client: Client) -> Any:
        return (await client.list_tools()).tools

    return {tool.name: tool.annotations.read_only_hint for tool in use(server, work)}


def test_only_reading_tools_unless_allowed() -> None:
    reading = dict.fromkeys(("judge_cluster", "what_if", "make_plan", "check_plan"), True)
    assert list_tools(make_server(ClusterTools())) == reading
    assert list_tools(make_server(ClusterTools(), allow_apply=True)) == {**reading, "apply_plan": False}
    assert "Unknown tool" in call_tool(make_server(ClusterTools()), "apply_plan", plan="p", bootstrap_server="b:1")


def test_answers_are_those_of_the_commands(source: str, tmp_path: Path) -> None:
    server, file = make_server(ClusterTools()), tmp_path / "answer.json"
    call("what-if", source, "--json", str(file))
    expected, answer = json.loads(file.read_text()), call_tool(server, "judge_cluster", source=source)
    assert answer == {name: expected[name] for name in answer}
    assert [row["failed"] for row in answer["brokers"]] == [1, 2, 3]
    call("what-if", source, "--fail", "1", "--json", str(file))
    failure = call_tool(server, "what_if", source=source, failed_brokers=[1])
    assert failure.pop("partitions_in_all") == 3
    expected = json.loads(file.read_text())
    assert failure["partitions"] == expected["partitions"]
    created = call_tool(server, "make_plan", source=source, goal="leaders")
    assert created["goal"] == "leaders"
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    harm = tmp_path / "harm.json"
    harm.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3]}]}))
    checked = call_tool(server, "check_plan", source=source, plans=[str(harm)])
    assert (checked["may_execute"], checked["judgement"]["level"]) == (False, "HARMFUL")


def test_errors_say_what_to_do(source: str) -> None:
    server = make_server(ClusterTools())
    assert "there is no such file or folder" in call_tool(server, "judge_cluster", source="/no/such")
    assert "has no broker 9" in call_tool(server, "what_if", source=source, failed_brokers=[9])
    assert "goal" in call_tool(server, "make_plan", source=source, goal="colour")


def test_the_command_serves_on_its_streams(source: str) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "pipelines.cli", "mcp", "--allow-apply"])
    assert list_tools(command)["apply_plan"] is False
    assert call_tool(command, "judge_cluster", source=source)["cluster"] == "prod"
    shown = call_tool(command, "apply_plan", plan="/no/such", bootstrap_server="127.0.0.1:1")
    assert (shown["exit_code"], "/no/such" in shown["errors"]) == (1, True)
