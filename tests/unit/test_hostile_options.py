"""Every option and argument of every command with hostile values, through the entry point: no traceback, ever.

The options come from the commands themselves, so that a new one is covered without a change here. No Spark starts: a
command that would start it has taken all its options by then, and stops with an error of its own. A run tries a sixth
of the values for each option, others each time; `make test-soak` tries all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import typer

from pipelines.cli import app, common_options, main
from pipelines.errors import EXIT_ALERT, EXIT_USAGE, EnvironmentFault
from pipelines.spark import session  # noqa: F401  (else it would import the check of Java that no_spark replaces)
from tests.commands import call
from tests.seed_sampler import sample_cases
from tests.unit.operation.test_approvals import propose
from udfs.planning.goal_registry import GOALS, goals_with_option
from udfs.wording import escape_text

DESCRIBE = (
    "Topic: t\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    "\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\n"
)
SMALL_STUDY = ("--brokers", "3", "--racks", "0", "--partitions", "1", "--rf", "2", "--seeds", "1")
# What a command needs besides the option under test; an option that is named here is replaced.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "run": ("d.txt",),
    "report": ("out.html",),
    "tables": (),
    "maintain": (),
    "query": ("SELECT 1",),
    "sql": (),
    "inspect": ("d.txt",),
    "what-if": ("d.txt",),
    "snapshot": ("kafka://127.0.0.1:1", "--out", "saved"),
    "hotspots": ("d.txt", "--seeds", "2"),
    "compare": SMALL_STUDY,
    "assign": ("d.txt",),
    "plan": ("d.txt", "--goal", "leaders", "--out", "plan"),
    "check": ("made", "d.txt"),
    "apply": ("made", "--bootstrap-server", "127.0.0.1:1"),
    "operate": ("prod",),
    "approve": ("prod-balance-20270301-120000", "--by", "ada"),
    "mcp": (),
    "replay": ("d.txt", "--fail", "1"),
    "doctor": (),
}
REQUIRED = {"--brokers": "1", "--replace": "1=2", "--rf": "2", "--log-dirs": "1:/d"}  # what a goal of `plan` needs
DIGITS = "9" * 5_000
VALUES = {
    "empty": "",
    "space": " ",
    "5,000 digits": DIGITS,
    "above 64 bits": "18446744073709551616",
    "negative": "-1",
    "zero": "0",
    "NaN": "NaN",
    "inf": "inf",
    "1e400": "1e400",
    "half": "0.5",
    "unicode digits": "٣",
    "superscript": "²",
    "long": "x" * 100_000,
    "NUL": "a\0b",
    "newline": "a\nkafka-placement: all is well",
    "escape": "\x1b[2J\x1b]0;x\x07",
    "C1": "\x9b31m",
    "direction": "\u202egpj.exe\u2028",
    "half a character": "\ud800",
    "byte that is not UTF-8": "a\udcffb",
    "folder": ".",
    "missing": "no/such/place",
    "parent": "../..",
    "not readable": "locked/file",
    "null device": "/dev/null",
    "endless": "/dev/zero",
    "binary": "binary.bin",
    "nested JSON": "[" * 5_000,
    "nested setting": "run.seed=" + "[" * 5_000,
    "nested text": "run.schemes=" + '{"a":' * 5_000,
    "big setting": f"run.seed={DIGITS}",
    "infinite setting": "hotspots.hot_ratio=Infinity",
    "escape in setting": "run.schemes=\x1b[2J",
    "odd warehouse": "store.warehouse=a\0b",
    "equals": "=",
    "equals twice": "a=b=c",
    "fails": f"d={DIGITS}",
    "dashes": "--",
    "quotes": "\"'`",
    "variable": "${x}$(x)",
    "comma": ",",
    "commas": "1,,2",
    "colon": ":",
    "percent": "%s%n{0}",
    "alert": "worst_survivor_ratio > 1e999",
}
DEEP = "[" * 50_000
BOMB = "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nevents: *c\n"
# Contents of files, none of which any command can use.
CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n\t\n",
    "binary": bytes(range(256)) * 20,
    "NULs": b"\0" * 1_000,
    "not UTF-8": b"\xff\xfeT\x00o\x00p",
    "nested list": DEEP.encode(),
    "nested object": b'{"a":' * 50_000,
    "nested value": b"a = " + DEEP.encode(),
    "digits": DIGITS.encode(),
    "digits in JSON": b'{"version":1,"partitions":' + DIGITS.encode() + b"}",
    "digits in a setting": b"[run]\nseed = " + DIGITS.encode(),
    "hex digits in a setting": b"[run]\nseed = 0x" + b"f" * 9_000,
    "digits in a scenario": b"brokers: [" + DIGITS.encode() + b"]\n",
    "digits in a sentence": b"brokers: [1]\nevents:\n  - t=1 topic t created " + DIGITS.encode() + b"\n",
    "NaN": b'{"a": NaN}',
    "NaN in a setting": b"[hotspots]\nhot_ratio = nan\n",
    "keys with dots": b".".join([b"a"] * 5_000) + b" = 1",
    "escapes": b"\x1b[2J: \xe2\x80\xae\n",
    "escapes in a setting": b'[run]\nschemes = ["\\u001b[2J"]\n"\\u001b" = 1\n',
    "long line": b"x" * 200_000,
    "aliases": BOMB.encode(),
    "date": b"brokers: 2001-13-45\n",
    "tag": b"brokers: !!int abc\n",
    "object": b"brokers: !!python/object/apply:os.system [x]\n",
    "merge": b"<<: 5\n",
    "keys twice": b"brokers: [1]\nbrokers: [2]\n",
    "list as key": b"[1]: 2\n",
    "tab": b"brokers:\n\t- 1\n",
    "wide cell": b"topic,partitions,replication_factor\n" + b"x" * 200_000 + b",1,1\n",
    "request": b'{"algorithm": "kafka", "brokers": [' + DIGITS.encode() + b"]}\n",
    "half a character": b'{"algorithm": "\\ud800", "brokers": [1]}\n',
    "surrogate": b"\xed\xa0\x80",
}
_RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
MAX_ERROR, MAX_LINES = 20_000, 20
SPARK = "Spark would start now"  # or a connection to a cluster be opened
# Options some of whose values are right as far as anyone can know before that.
REACH_SPARK = {
    "sources": "the folder is a source; root may read every file",
    "--warehouse": "any text names a folder to create or to read",
    "--fail": "0 is the id of a broker",
    "--ignore-topics": "most texts are a pattern",
    "--conf": "/dev/null is a file without settings",
    "--report": "any text names a file to write",
    "file": "the same",
    "--json": "the same",
    "--cluster": "the tables have the names of the clusters",
    "sql": "Spark parses it",
    "--out": "any text names a folder to write",
    "plans": "the test of plan --out has written one to no/such/place",
    "--throttle": "0 is a size",
    "--max-under-replicated": "0 is a number of partitions",
    "--command-config": "/dev/null is a file without properties",
    "--metrics": "files are read once the cluster has answered",
}


def list_parameters() -> Iterator[tuple[str, Any]]:
    """Yield every command with each parameter that takes a value."""
    commands = typer.main.get_command(app).commands
    assert set(commands) == set(ARGUMENTS)
    for name, command in commands.items():
        for parameter in command.params:
            if not getattr(parameter, "is_flag", False):
                yield name, parameter


PARAMETERS = list(list_parameters())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one good source, and files of every kind that is not one."""
    path = tmp_path_factory.mktemp("hostile")
    (path / "d.txt").write_text(DESCRIBE)
    (path / "binary.bin").write_bytes(CONTENTS["binary"])
    (path / "locked").mkdir()
    (path / "locked" / "file").write_text(DESCRIBE)
    (path / "locked" / "file").chmod(0)
    call("plan", "d.txt", "--goal", "leaders", "--out", "made", folder=path)
    propose(path / "proposals", ARGUMENTS["approve"][0])
    return path


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def stop(*_: object, **__: object) -> None:
        raise EnvironmentFault(SPARK)

    commands = typer.main.get_command(app)
    monkeypatch.setattr("typer.main.get_command", lambda _: commands)  # making them takes longer than a wrong option
    monkeypatch.setattr(common_options, "open_store", stop)
    monkeypatch.setattr("pipelines.cli.replay_command.open_store", stop)
    monkeypatch.setattr("pipelines.mcp_server.make_server", Mock())  # it would wait for requests
    monkeypatch.setattr("pipelines.live.kafka_connection.KafkaConnection._open", stop)
    monkeypatch.setattr("pipelines.setup.java.check_java", lambda: SimpleNamespace(version="17"))
    monkeypatch.chdir(folder)


def build_arguments(command: str, parameter: Any, value: str) -> list[str]:
    """Build the arguments of a command with this value for this parameter."""
    others = list(ARGUMENTS[command])
    if command == "check" and parameter.param_type_name == "argument":  # the only one with two
        return ["--", value, "d.txt"] if parameter.name == "plans" else ["made", "--", value]
    if parameter.param_type_name == "argument":
        return ["--", value] if not others[1:] else [*others[1:], "--", value]
    if command == "plan" and (goals := goals_with_option(parameter.opts[0])):  # other goals reject the option itself
        others[others.index("--goal") + 1] = goals[0]
        others += [part for option in GOALS[goals[0]].required_options for part in (option, REQUIRED[option])]
    for option in parameter.opts:
        if option in others:
            at = others.index(option)
            del others[at : at + 2]
    return [f"{parameter.opts[0]}={value}", *others]


def check(arguments: list[str], names: Iterable[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Check that a command answers, or says in one short message what is wrong: with one of the names."""
    capsys.readouterr()
    code = main(arguments)
    out, err = capsys.readouterr()
    assert not _RAW.search(out + err)
    assert code in (0, 1, 2, 3, EXIT_ALERT, EXIT_USAGE)
    if code == 0 or SPARK in err or "FAIL  " in out:  # `doctor` prints what is wrong as its answer
        return str(err)
    assert len(err) < MAX_ERROR
    assert err.count("\n") < MAX_LINES
    assert "kafka-placement: " in err
    assert any(name in err for name in names), err
    return str(err)


def list_spellings(value: str) -> Iterator[str]:
    """Yield how a message may write a value that it repeats: as it is, as a path, or without the cluster's name."""
    for text in (value, value.partition("=")[2] or value):
        yield escape_text(text.strip())[:20]
        yield repr(text)[1:-1][:20]
    if value.isprintable() and len(value) < 100:
        yield os.path.realpath(value)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "parameter"), PARAMETERS, ids=[f"{c} {p.opts[0]}" for c, p in PARAMETERS])
def test_hostile_values(command: str, parameter: Any, capsys: pytest.CaptureFixture[str]) -> None:
    name = parameter.opts[0]
    for value in sample_cases([*VALUES.values()], f"{command} {name}"):
        err = check([command, *build_arguments(command, parameter, value)], [name, *list_spellings(value)], capsys)
        assert SPARK not in err or name in REACH_SPARK, value[:80]


# Every option that names a file to read, with the suffixes that decide how it is read.
READERS = {
    "inspect": ("inspect", "{file}"),
    "what-if": ("what-if", "{file}"),
    "what-if with owners": ("what-if", "d.txt", "--owner-map", "{file}"),
    "hotspots": ("hotspots", "{file}", "--seeds", "2"),
    "plan": ("plan", "{file}", "--goal", "leaders", "--out", "plan"),
    "check": ("check", "{file}", "d.txt"),
    "assign": ("assign", "{file}"),
    "assign requests": ("assign", "{file}.jsonl", "--output-format", "commands"),
    "assign brokers": ("assign", "d.txt", "--brokers", "{file}"),
    "replay": ("replay", "{file}", "--fail", "1"),
    "replay scenario": ("replay", "{file}.yaml"),
    "run": ("run", "{file}"),
    "run with settings": ("run", "d.txt", "--conf", "{file}"),
    "run with capacities": ("run", "d.txt", "--set", "capacity.file={file}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_hostile_files(reader: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for content in sample_cases([*CONTENTS.values()], " ".join(reader)):
        for name in ("odd", "odd.jsonl", "odd.yaml"):
            Path(name).write_bytes(content)
        check([argument.format(file="odd") for argument in reader], ["odd"], capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plan.json", "reassignment.json", "election.json"])
def test_hostile_plans(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = f"checked {name}"
    call("plan", "d.txt", "--goal", "leaders", "--out", plan)
    for content in sample_cases([*CONTENTS.values()], name):
        Path(plan, name).write_bytes(content)
        check(["check", plan, "d.txt"], [f"{plan}/{name}"], capsys)
