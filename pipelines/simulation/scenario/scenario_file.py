"""The YAML file of a scenario: its sentences, settings and cluster; errors name the line."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from pipelines.errors import SourceError
from pipelines.ingest.formats.checked_values import explain_bad_topic_name
from udfs.simulation.cluster_events import ClusterSettings, InitialPartition, InitialState

FETCH_EVERY = "followers_fetch_every_ms"  # a setting of the scenario, not of the cluster
LARGEST, LARGEST_ID = 10**12 - 1, 10**9 - 1  # numbers, and ids of brokers and partitions
_KEYS = ("brokers", "controller", "topics", "settings", "events")
_CHOICES = {"truncate_to": ("epoch", "high_watermark")}
_MINIMUM = {"leader_imbalance_check_ms": 1, "replica_lag_time_max_ms": 2, "checkpoint_ms": 1, "message_bytes": 1}
_TYPES: dict[Any, str] = {bool: "true or false", int: "a whole number", str: "text"}


@dataclass(frozen=True)
class ScenarioFile:
    """A scenario's file. content: its mapping, as ruamel reads it, which knows lines. Lines count from 1."""

    path: str
    content: Any

    def fail(self, problem: str, remedy: str, line: int | None = None) -> NoReturn:
        """Raise a SourceError with the file and the line."""
        raise SourceError(self.path, problem, remedy, line)

    def get_line(self, key: str) -> int | None:
        """Return the line of a top-level key."""
        return _get_line(self.content, key) if key in self.content else None

    def read_sentences(self, remedy: str) -> list[tuple[str, int]]:
        """Return (sentence, its line) of all events."""
        written, sentences = self.content.get("events"), []
        if written is not None and not isinstance(written, list):
            self.fail("events is not a list", remedy, self.get_line("events"))
        for i, sentence in enumerate(written or ()):
            line = self.content["events"].lc.item(i)[0] + 1
            if not isinstance(sentence, str):
                self.fail(f"{sentence!r} is not a sentence", remedy, line)
            sentences.append((" ".join(sentence.split()), line))
        return sentences

    def read_settings(self) -> tuple[dict[str, Any], int]:
        """Return (fields of ClusterSettings; how often followers fetch, ms, 0 = only if a sentence says so)."""
        types = {field.name: field.type for field in fields(ClusterSettings)} | {FETCH_EVERY: int}
        settings = self._read_mapping("settings", "Write it like this: settings: {kraft: true}.")
        for key, value in settings.items():
            line = _get_line(settings, key)
            if key not in types:
                self.fail(f"settings: {key!r} is unknown", f"Settings: {', '.join(types)}.", line)
            if (remedy := _check_setting(key, value, types[key])) is not None:
                self.fail(f"settings: {key} is {value!r}", remedy, line)
        cluster = dict(settings)
        return cluster, cluster.pop(FETCH_EVERY, 500)

    def read_cluster(self, settings: dict[str, Any]) -> InitialState:
        """Return the cluster that the scenario describes. settings: fields of ClusterSettings."""
        brokers, line = self.content.get("brokers"), self.get_line("brokers")
        if not isinstance(brokers, list) or not brokers or not all(_is_whole(b) and b >= 0 for b in brokers):
            remedy = "List their ids, as in brokers: [1, 2, 3]; or give a source with the scenario."
            self.fail(f"brokers is {brokers!r}", remedy, line)
        if len(set(brokers)) < len(brokers):
            self.fail(f"brokers is {brokers}: one is listed twice", "List distinct ids.", line)
        if max(brokers) > LARGEST_ID:
            self.fail(f"broker {max(brokers)} is too large a number", f"Write at most {LARGEST_ID:,}.", line)
        controller = self.content.get("controller", min(brokers))
        if controller not in brokers:
            problem = f"controller {controller!r} is not one of the brokers"
            self.fail(problem, f"Brokers: {brokers}.", self.get_line("controller"))
        ids, partitions = tuple(sorted(brokers)), tuple(self._read_partitions(list(brokers)))
        return InitialState(ids, frozenset(ids), partitions, controller, 1, ClusterSettings(**settings))

    def reject_cluster(self) -> None:
        """Fail if the scenario describes a cluster although it is given with a source."""
        for key in ("brokers", "controller", "topics"):
            if key in self.content:
                problem = f"defines {key}, but so does the source given with it"
                self.fail(problem, f"Remove {key} from the scenario.", self.get_line(key))

    def check_topic_name(self, topic: Any, line: int | None) -> None:
        """Fail if Kafka does not allow a topic of this name."""
        problem = explain_bad_topic_name(topic) if isinstance(topic, str) else f"topic {topic!r} is not text"
        if problem:
            self.fail(problem, "Write the name of a topic.", line)

    def _read_mapping(self, key: str, remedy: str) -> Any:
        mapping = self.content.get(key)
        if mapping is not None and not isinstance(mapping, dict):
            self.fail(f"{key} is not a mapping", remedy, self.get_line(key))
        return mapping or {}

    def _read_partitions(self, brokers: list[int]) -> Iterator[InitialPartition]:
        topics = self._read_mapping("topics", "Write it like this: topics: {orders: [[1, 2], [2, 3]]}.")
        for topic, lists in topics.items():
            line = _get_line(topics, topic)
            self.check_topic_name(topic, line)
            if not isinstance(lists, list) or not lists:
                problem = f"topic {topic}: {lists!r} is not a list of replica lists"
                self.fail(problem, "As in: [[1, 2], [2, 3]].", line)
            for number, ids in enumerate(lists):
                is_valid = isinstance(ids, list) and ids and all(map(_is_whole, ids))
                if not is_valid or len(set(ids)) < len(ids) or not set(ids) <= set(brokers):
                    problem = f"topic {topic}: the replicas of partition {number} are {ids!r}"
                    self.fail(problem, f"Write distinct brokers out of {brokers}.", line)
                yield InitialPartition((topic, number), tuple(ids), tuple(ids), ids[0])


def read_scenario_file(path: str) -> ScenarioFile:
    """Read the file of a scenario; raise SourceError if it is no YAML mapping with known keys."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(path, f"cannot be read ({error})", "Give a scenario in YAML.") from None
    try:
        content = YAML(typ="rt").load(io.StringIO(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise SourceError(path, f"is not YAML: {error.problem}", "See docs/replay.md.", line) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"has a character that YAML does not allow: {error.character!r}"
        raise SourceError(path, problem, "Remove control characters.", line) from None
    if not isinstance(content, dict):
        raise SourceError(path, "has no mapping", f"Write the keys {', '.join(_KEYS)}.")
    file = ScenarioFile(path, content)
    for key in content:
        if key not in _KEYS:
            file.fail(f"{key!r} is not a key of a scenario", f"Keys: {', '.join(_KEYS)}.", file.get_line(key))
    return file


def _get_line(mapping: Any, key: Any) -> int:
    return int(mapping.lc.key(key)[0]) + 1


def _is_whole(value: Any) -> bool:
    """Return whether a value is a whole number; in Python, true and false are ints too."""
    return isinstance(value, int) and not isinstance(value, bool)


def _check_setting(key: str, value: Any, required: Any) -> str | None:
    """Return how to correct the value of a setting of this type; None if it is right."""
    if not isinstance(value, required) or isinstance(value, bool) != (required is bool):
        return f"Write {_TYPES[required]}."
    if key in _CHOICES:
        return None if value in _CHOICES[key] else f"Write {' or '.join(_CHOICES[key])}."
    if required is int and value < _MINIMUM.get(key, 0):
        return f"Write {_MINIMUM.get(key, 0)} or more."
    return f"Write at most {LARGEST:,}." if required is int and value > LARGEST else None
