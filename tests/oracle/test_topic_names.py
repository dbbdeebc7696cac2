"""Topic names that `assign` rejects, and with what words, against Kafka's own class."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from pipelines.assignment.topic_assigner import reject_topic_name
from tests.oracle import jvm
from tests.seed_sampler import SeedSampler

JARS = "topic_names"
NAMES = 2_000
_CHARACTERS = "abcXYZ019._-"
_ODD = (*" /:'\"\\$\n\t\0é\u0130\u212a\u0661ａ１\ufeff", "\ud800", "\U0001f600")
_EDGES = (
    "",
    ".",
    "..",
    "...",
    "._",
    "a" * 249,
    "a" * 250,
    "é" * 250,
    "\U0001f600" * 124,
    "a" * 248 + "\U0001f600",
    "\U0001f600" * 125,
    "__x",
    "-",
)


def random_name(rng: random.Random) -> str:
    length = rng.choice((1, 2, 3, 8, 40, 247, 248, 249, 250, 300))
    letters = [rng.choice(_CHARACTERS) for _ in range(length)]
    if rng.random() < 0.4:
        letters[rng.randrange(length)] = rng.choice(_ODD)
    return "".join(letters)


def ask_kafka(names: list[str], folder: Path) -> list[str]:
    """Return the message of Kafka's exception for each name; empty if Kafka accepts it."""
    compiler, path = jvm.java_compiler(), jvm.class_path(JARS)
    subprocess.run([*compiler, "-cp", path, "-d", str(folder), str(jvm.HERE / "TopicNames.java")], check=True)
    lines = "".join(name.encode("utf-16-be", "surrogatepass").hex() + "\n" for name in names)
    command = [compiler[0], "-cp", f"{folder}:{path}", "TopicNames"]
    answer = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return [bytes.fromhex(line).decode("utf-16-be", "surrogatepass") for line in answer.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
def test_assign_rejects_the_names_that_kafka_rejects_in_its_words(seed_sampler: SeedSampler, tmp_path: Path) -> None:
    names = [*_EDGES, *(random_name(random.Random(seed)) for seed in seed_sampler.seeds(NAMES))]
    for name, message in zip(names, ask_kafka(names, tmp_path), strict=True):
        error = reject_topic_name(name)
        assert ("" if error is None else error.message) == message, repr(name)
        assert error is None or error.exception == "InvalidTopicException"
