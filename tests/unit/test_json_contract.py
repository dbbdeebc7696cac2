"""The keys of JSON answers: tests/data/json_keys.json has those of json_version, of which none may go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.common_options import JSON_VERSION
from tests.commands import call

KEYS = Path("tests/data/json_keys.json")
SAMPLE = str(Path("data_samples/kafka-4.1.1-kraft").absolute())
COMMANDS = {
    "inspect": ("inspect", SAMPLE),
    "what-if": ("what-if", SAMPLE),
    "what-if --fail": ("what-if", SAMPLE, "--fail", "2"),
    "hotspots": ("hotspots", SAMPLE, "--seeds", "10"),
    "plan": ("plan", SAMPLE, "--goal", "balance", "--out", "plan"),
    "check": ("check", "plan", SAMPLE),
    "doctor": ("doctor",),
}


def list_keys(value: Any, path: str = "") -> Iterator[str]:
    """List the keys of an object, and of the objects in it, as in `verdict.points[].kind`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            # Keys that are names, as of topics and brokers, are no part of the contract.
            if key.replace("_", "").isalpha() and key.islower():
                yield f"{path}{key}"
                yield from list_keys(inner, f"{path}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from list_keys(inner, f"{path.removesuffix('.')}[].")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("answers")
    answers = {}
    for name, command in COMMANDS.items():
        file = folder / "answer.json"
        call(*command, "--json", str(file), folder=folder)
        answers[name] = json.loads(file.read_text())
    return answers


def test_no_key_goes_without_a_new_version(answers: dict[str, Any]) -> None:
    known = json.loads(KEYS.read_text())
    now = {name: sorted(set(list_keys(answer))) for name, answer in answers.items()}
    assert known["json_version"] == JSON_VERSION
    gone = {name: sorted(set(keys) - set(now[name])) for name, keys in known["keys"].items()}
    assert not any(gone.values()), (
        "raise JSON_VERSION, write it to CHANGELOG.md, and run python -m tests.unit.test_json_contract"
    )
    assert known["keys"].keys() == now.keys()


def test_every_answer_has_its_version(answers: dict[str, Any]) -> None:
    assert {answer["json_version"] for answer in answers.values()} == {JSON_VERSION}


if __name__ == "__main__":
    import tempfile

    class Factory:
        def mktemp(self, name: str) -> Path:
            return Path(tempfile.mkdtemp(suffix=name))

    written = answers.__wrapped__(Factory())  # type: ignore[attr-defined]
    keys = {name: sorted(set(list_keys(answer))) for name, answer in written.items()}
    KEYS.write_text(json.dumps({"json_version": JSON_VERSION, "keys": keys}, indent=1) + "\n")
