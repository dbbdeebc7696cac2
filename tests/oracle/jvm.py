"""Kafka's own classes in a JVM, asked through a pipe. The protocol is described in Oracle.java."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pipelines.errors import EnvironmentFault
from pipelines.setup.jars import JarFolder, parse_jars
from pipelines.setup.java import REMEDY as JAVA_REMEDY
from pipelines.setup.java import check_java
from tests.oracle.answers import Answers
from tests.oracle.requests import OracleCases

HERE = Path(__file__).parent
JARS_DIR = Path(sys.prefix, "share", "kafka-placement", "oracle-jars")
REMEDY = "Run `make oracle N=1000` with a connection to Maven Central"

HASHES, TEXTS, TIMES = range(3)
_NEEDS = {"CordonedPlacer": ("StripedPlacer", "UsableBrokers", "Registries")}  # other classes here

# What Scala's collections throw for an index that Java's lists reject, in Java's words.
_SCALA_ARRAY = re.compile(r"ArrayIndexOutOfBoundsException: (Index -?\d+ out of bounds for length \d+)")
_SCALA_BUFFER = re.compile(r"IndexOutOfBoundsException: (-?\d+) is out of bounds \(min 0, max (\d+)\)")


@dataclass(frozen=True)
class Timed:
    """seconds: float64 (runs).   answers: of the last run."""

    seconds: npt.NDArray[np.float64]
    answers: Answers


@cache
def java_compiler() -> list[str]:
    """The command that compiles Java; an EnvironmentFault where there is no JDK."""
    java = check_java().executable
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
    if "jdk.compiler@" not in modules:
        raise EnvironmentFault(f"{java} is a Java without compiler. {JAVA_REMEDY}")
    return [java, "-m", "jdk.compiler/com.sun.tools.javac.Main"]


def class_path(name: str) -> str:
    """The jars of one list of jars.toml, fetched if they are not there."""
    entries = tomllib.loads((HERE / "jars.toml").read_text())[name]
    jars = JarFolder(parse_jars(entries), JARS_DIR, "tests/oracle/jars.toml", REMEDY)
    try:
        return os.pathsep.join(map(str, jars.fetch_missing()))
    except OSError as problem:
        raise EnvironmentFault(f"{JARS_DIR} cannot be written: {problem}. Make it writable") from problem


class JavaProcess:
    """A class of ours beside Kafka's, compiled and running, asked through pipes; a context manager.

    jars: a list of jars.toml.   sources: files here, without .java.   run: the class that is started, its arguments.
    options: the JVM's.   text: whether lines are spoken, not bytes.
    """

    def __init__(
        self, jars: str, sources: Sequence[str], run: Sequence[str], options: Sequence[str], text: bool = False
    ) -> None:
        self._jars, self._sources, self._run, self._options, self._text = jars, sources, run, options, text

    def __enter__(self) -> Self:
        compiler, path = java_compiler(), class_path(self._jars)
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-placement-oracle-")
        try:
            sources = [str(HERE / f"{name}.java") for name in self._sources]
            subprocess.run([*compiler, "-cp", path, "-d", self._folder.name, *sources], check=True)
            self._errors = Path(self._folder.name, "stderr").open("w+b")
            classes = os.pathsep.join([self._folder.name, path])
            self._process: subprocess.Popen[Any] = subprocess.Popen(
                [compiler[0], *self._options, "-XX:+UseSerialGC", "-cp", classes, *self._run],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=self._text,
            )
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        assert self._process.stdout is not None
        self._process.communicate()
        self._errors.close()
        self._folder.cleanup()

    def ended(self, what: str) -> RuntimeError:
        """What it said as it ended, which nobody had asked for."""
        self._process.wait()
        self._errors.seek(0)
        return RuntimeError(f"{what} ended:\n{self._errors.read().decode(errors='replace')[-4000:]}")


class Jvm(JavaProcess):
    """A JVM that answers requests with one of Kafka's placers, on one thread; a context manager.

    jars: a list of jars.toml.   placer: the Java class here that asks Kafka's.   options: the JVM's.
    """

    def __init__(self, jars: str, placer: str, options: Sequence[str] = ("-Xmx512m",)) -> None:
        # The serial collector works on the thread that is measured. An exception thrown often keeps its message.
        options = [*options, "-XX:-OmitStackTraceInFastThrow"]
        super().__init__(jars, ("Oracle", "Placer", *_NEEDS.get(placer, ()), placer), ("Oracle", placer), options)
        self._placer = placer

    def answers(self, requests: OracleCases) -> Answers:
        """The hash of each topic's replicas, or what was thrown."""
        return _answers(self._ask(requests, HASHES), len(requests.topics.partitions))

    def full_answers(self, requests: OracleCases) -> list[str]:
        """Each topic's replica lists as JSON, or what was thrown."""
        texts = _answers(self._ask(requests, TEXTS), len(requests.topics.partitions)).errors
        return [texts[i] for i in range(len(texts))]

    def timed(self, requests: OracleCases, runs: int) -> Timed:
        """The seconds of each of `runs` runs of all requests, answers kept in memory; reading them is not timed."""
        answer = self._ask(requests, TIMES, runs)
        seconds = np.frombuffer(answer, "<i8", runs) / 1e9
        return Timed(seconds, _answers(answer[8 * runs :], len(requests.topics.partitions)))

    def _ask(self, requests: OracleCases, wanted: int, runs: int = 1) -> bytes:
        """The answer's message."""
        out, back = self._process.stdin, self._process.stdout
        assert out is not None
        assert back is not None
        message = _message(requests, wanted, runs)
        try:
            out.write(struct.pack("<i", len(message)) + message)
            out.flush()
        except BrokenPipeError:
            pass  # what it failed of is told below
        length = back.read(4)
        body = back.read(struct.unpack("<i", length)[0]) if len(length) == 4 else b""
        if not body:
            raise self.ended(self._placer)
        return body


def _message(requests: OracleCases, wanted: int, runs: int) -> bytes:
    topics, lists = requests.topics, requests.registered or requests.lists
    cordoned = np.zeros(len(lists.ids)) if requests.cordoned is None else requests.cordoned

    def ints(values: npt.NDArray[np.generic]) -> bytes:
        return struct.pack("<i", len(values)) + values.astype("<i4").tobytes()

    names = [name.encode("utf-16-le", "surrogatepass") for name in requests.names]
    one_list_a_case = topics.broker_list[requests.topic_offsets[:-1]]
    parts = [
        struct.pack("<iii", wanted, runs, len(names)),
        *(struct.pack("<i", len(name) // 2) + name for name in names),
        *(ints(lists.offsets), ints(lists.ids), ints(lists.rack), ints(lists.fenced), ints(cordoned)),
        struct.pack("<i", len(requests.seeds)) + requests.seeds.astype("<i8").tobytes(),
        *(ints(one_list_a_case), ints(requests.topic_offsets)),
        *(ints(topics.partitions), ints(topics.replication_factor)),
        *(ints(topics.start_partition), ints(topics.fixed_start_index)),
    ]
    return b"".join(parts)


def _answers(body: bytes, topics: int) -> Answers:
    hashes = np.frombuffer(body, "<u8", topics)
    numbers = np.frombuffer(body, "<i4", topics, 8 * topics)
    texts = []
    at = 12 * topics
    while at < len(body):
        (length,) = struct.unpack_from("<i", body, at)
        texts.append(in_javas_words(body[at + 4 : at + 4 + length].decode()))
        at += 4 + length
    return Answers(hashes, {i: texts[numbers[i]] for i in np.flatnonzero(numbers >= 0).tolist()})


def in_javas_words(text: str) -> str:
    """What Scala's arrays and buffers throw for a wrong index, as Java's lists word it; any other text as it is."""
    if found := _SCALA_ARRAY.fullmatch(text):
        return f"IndexOutOfBoundsException: {found[1]}"
    if found := _SCALA_BUFFER.fullmatch(text):
        return f"IndexOutOfBoundsException: Index {found[1]} out of bounds for length {int(found[2]) + 1}"
    return text
