"""The facts of one shard of a cluster, and what becomes of their records: accepted, quarantined or ignored."""

from collections import Counter
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.kafka_configs import CORDONED, parse_cordoned
from pipelines.ingest.merge.entities import CONFLICTS, FIRST_USED, OUTCOMES, QUARANTINE
from pipelines.ingest.merge.fact_merge import DECLARED_FORMATS, REPLICA_FORMATS, Conflict, MergedFacts, show_value
from pipelines.ingest.source_format import FACTS, FactKind
from udfs.arrow.columns import is_valid, select_rows, to_codes, to_flags
from udfs.failures.disk_limits import are_all_cordoned

KRAFT_LOG = "kraft-log"
# Tools that ask every broker: an answer shows that a broker is live, but - unlike registrations - not who is missing.
ANSWERS = ("log-dirs", "broker-api-versions", "live-requests")
# What shows which brokers are fenced now. Logs show registrations instead, which a leader supersedes.
FENCED_LISTS = ("cluster-endpoints", "broker-api-versions", "metadata-shell")
_FIRST_LINES = 20  # of ignored records, by reason

# Facts with their origin. `home` is false for a broker's fact that was copied to this shard of the cluster as
# information only; the outcome of its record is counted in its home shard.
SOURCED_FACTS = pa.schema([*FACTS, ("source", pa.string()), ("format", pa.string()), ("home", pa.bool_())])


class RecordOutcome(StrEnum):
    """What becomes of an input record. The three always add up."""

    ACCEPTED = "accepted"
    QUARANTINED = "quarantined"
    IGNORED = "ignored"


class ShardFacts:
    """The facts of one shard, and what merging finds out about them.

    `facts` has schema SOURCED_FACTS, and `answers`, `has_api_versions`, `shown_fenced`, `redpanda_live`,
    `from_full_listing` (bool), `source_index` (by name), `format_rank`, `fact` (row).
    `statements` are those neither ignored nor rejected; those of KRaft logs as they are at the log's end.
    """

    def __init__(self, facts: pa.Table) -> None:
        """Read the facts of a shard (schema SOURCED_FACTS)."""
        index, names = to_codes(facts["source"])
        rank = np.empty(len(names), dtype=np.int64)
        rank[np.argsort(np.array(names.to_pylist(), dtype=object), kind="stable")] = np.arange(len(names))
        has_api_versions = to_flags(pc.equal(facts["format"], "broker-api-versions"))
        is_answer = pc.is_in(facts["format"], pa.array(ANSWERS))
        unknown = pa.scalar(None, pa.bool_())
        registered = pc.if_else(is_answer, unknown, facts["registered"])
        columns = {
            "answers": pc.if_else(is_answer, facts["registered"], unknown),
            "has_api_versions": pa.array(has_api_versions, mask=~has_api_versions),
            "from_full_listing": _find_full_listings(facts, registered),
            "source_index": pa.array(rank[index] if len(names) else index),
            "format_rank": pa.array(_rank_formats(facts["format"])),
            "fact": pa.array(np.arange(facts.num_rows)),
        }
        is_listing = pc.is_in(facts["format"], pa.array(FENCED_LISTS))
        is_redpanda = pc.equal(facts["format"], "rpk")
        columns["redpanda_live"] = pc.if_else(is_redpanda, facts["reported_live"], unknown)
        columns["shown_fenced"] = pc.if_else(is_listing, facts["fenced"], unknown)
        facts = facts.set_column(facts.schema.get_field_index("registered"), "registered", registered)
        for name, values in columns.items():
            facts = facts.append_column(name, values)
        self.facts = facts
        self._ignored: dict[int, str] = {}
        self._quarantined: dict[int, list[str]] = {}
        self._conflicts: list[dict[str, Any]] = []
        self._selected: dict[tuple[FactKind, ...], pa.Table] = {}
        rows = facts.select(["kind", "fact", "reasons"])
        rows = rows.filter(pc.is_in(facts["kind"], pa.array([FactKind.IGNORED, FactKind.REJECTED], pa.string())))
        for row in rows.to_pylist():
            if row["kind"] == FactKind.IGNORED:
                self.ignore(row["fact"], row["reasons"][0])
            else:
                self.quarantine(row["fact"], *row["reasons"])
        self.statements = self._read_statements()

    def _read_statements(self) -> pa.Table:
        is_log = pc.equal(self.facts["format"], KRAFT_LOG)
        parts = [select_rows(self.facts, pc.invert(is_log))]
        logs = select_rows(self.facts, is_log)
        for source in pc.unique(logs["source"]).to_pylist():
            final, faults = replay_log(logs.filter(pc.equal(logs["source"], source)))
            parts.append(final)
            for fact, reason in faults:
                self.quarantine(fact["fact"], reason)
        return pa.concat_tables(parts)

    def select(self, *kinds: FactKind) -> pa.Table:
        """Return the statements of these kinds."""
        if kinds not in self._selected:
            chosen = pc.is_in(self.statements["kind"], pa.array(kinds, pa.string()))
            self._selected[kinds] = select_rows(self.statements, chosen)
        return self._selected[kinds]

    def ignore(self, row: int, reason: str) -> None:
        """Note that a fact is not used."""
        self._ignored[row] = reason

    def ignore_duplicates(self, facts: pa.Table, merged: MergedFacts) -> None:
        """Ignore facts that repeat another of the same source; a log's records may repeat."""
        for row in np.flatnonzero(merged.duplicate).tolist():
            if facts["format"][row].as_py() != KRAFT_LOG:
                self.ignore(facts["fact"][row].as_py(), "duplicate of an equal record")

    def quarantine(self, row: int, *reasons: str) -> None:
        """Note that a fact is quarantined."""
        known = self._quarantined.setdefault(row, [])
        known.extend(reason for reason in reasons if reason not in known)

    def add_conflict(
        self,
        entity: str,
        facts: pa.Table,
        conflict: Conflict,
        outcome: str = FIRST_USED,  # or BOTH_QUARANTINED
        values: tuple[str, str] | None = None,
    ) -> None:
        """Note that two of `facts` disagree about an entity. values: what the two say; None = the whole field."""
        first, other, field = conflict.used_row, conflict.row, conflict.field
        value, other_value = values or (show_value(facts, first, field), show_value(facts, other, field))
        row = {"entity": entity, "field": field, "value": value, "other_value": other_value, "outcome": outcome}
        for name in ("source", "line_number"):
            row |= {name: facts[name][first].as_py(), f"other_{name}": facts[name][other].as_py()}
        self._conflicts.append(row)

    def build_conflicts(self) -> pa.Table:
        """Return the conflicts (schema CONFLICTS)."""
        return pa.Table.from_pylist(self._conflicts, CONFLICTS)

    def count_outcomes(self) -> tuple[pa.Table, pa.Table]:
        """Return (QUARANTINE, OUTCOMES) of the records of which this shard is the home.

        A record is quarantined if one of its facts is, and ignored only if all of its facts are.
        """
        home = to_flags(self.facts["home"])
        source, names = to_codes(self.facts["source"])
        record = self.facts["record_number"].to_numpy()
        line = self.facts["line_number"].to_numpy()
        quarantined: dict[tuple[int, int], tuple[int, list[str]]] = {}  # (source, record) -> (line, reasons)
        for row in sorted(self._quarantined):
            if home[row]:
                key = int(source[row]), int(record[row])
                _, reasons = quarantined.setdefault(key, (int(line[row]), []))
                reasons.extend(reason for reason in self._quarantined[row] if reason not in reasons)

        ignored = np.zeros(len(record), dtype=np.bool_)
        ignored[list(self._ignored)] = True
        counts: Counter[tuple[int, RecordOutcome, str]] = Counter()
        first_lines: dict[tuple[int, RecordOutcome, str], list[int]] = {}
        heads = _find_record_heads(source, record, ignored, home)
        for row in heads[ignored[heads]].tolist():
            if (int(source[row]), int(record[row])) not in quarantined:
                counted = int(source[row]), RecordOutcome.IGNORED, self._ignored[row]
                counts[counted] += 1
                if counts[counted] <= _FIRST_LINES:
                    first_lines.setdefault(counted, []).append(int(line[row]))
        for code, _ in quarantined:
            counts[code, RecordOutcome.QUARANTINED, ""] += 1
        for code, records in enumerate(np.bincount(source[heads], minlength=len(names)).tolist()):
            others = sum(n for (of_source, *_), n in counts.items() if of_source == code)
            counts[code, RecordOutcome.ACCEPTED, ""] = records - others

        text = names.to_pylist()
        rows = [
            {"source": text[s], "record_number": r, "line_number": at, "reasons": reasons}
            for (s, r), (at, reasons) in sorted(quarantined.items())
        ]
        outcomes = [
            {
                "source": text[s],
                "outcome": outcome,
                "reason": reason or None,
                "records": n,
                "first_lines": first_lines.get((s, outcome, reason)),
            }
            for (s, outcome, reason), n in sorted(counts.items())
            if n
        ]
        return pa.Table.from_pylist(rows, QUARANTINE), pa.Table.from_pylist(outcomes, OUTCOMES)


def _rank_formats(names: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return the rank of each fact: where two differ, that of the lower rank is used."""
    is_declared, has_replicas = (
        to_flags(pc.is_in(names, pa.array(formats))) for formats in (DECLARED_FORMATS, REPLICA_FORMATS)
    )
    return 2 * is_declared.astype(np.int64) + has_replicas


def _find_full_listings(facts: pa.Table, registered: pa.ChunkedArray) -> pa.Array:
    """Return true for registrations by sources that list all of them, else null.

    A zkCli session does so only if it lists the broker ids: it shows the ids alone. One that gets some brokers' znodes,
    which name a host, says nothing of the others. A rejected record may be the registration that is missing.
    """
    is_cli = to_flags(pc.equal(facts["format"], "zookeeper-cli"))
    is_registered = to_flags(registered)
    is_id_alone = is_registered & is_cli & ~is_valid(facts["host"]) & ~is_valid(facts["rack"])
    source, names = to_codes(facts["source"])
    lists_ids = np.zeros(len(names), dtype=np.bool_)
    lists_ids[source[is_id_alone]] = True
    form, formats = to_codes(facts["format"])
    part = source * len(formats) + form
    # Rejected records of known topics are in the shard of the topic: all shards must agree.
    is_rejected = to_flags(pc.equal(facts["kind"], FactKind.REJECTED)) & ~is_valid(facts["topic"])
    is_full = is_registered & (~is_cli | lists_ids[source]) & ~np.isin(part, part[is_rejected])
    return pa.array(is_full, mask=~is_full)


def _find_record_heads(
    source: npt.NDArray[np.int64],
    record: npt.NDArray[np.int64],
    ignored: npt.NDArray[np.bool_],
    home: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """Return a row of each record of this shard: one that is not ignored, if it has any."""
    order = np.lexsort((ignored, record, source))
    order = order[home[order]]
    first = np.ones(len(order), dtype=np.bool_)
    here, before = order[1:], order[:-1]
    first[1:] = (source[here] != source[before]) | (record[here] != record[before])
    return order[first]


_CHANGES = ("leader", "replicas", "isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas", "directories")
# Ids of log dirs that are no such id: a replica that has none yet, or none known, counts as online, unlike a lost one.
_MIGRATING, _UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"
# Taken from the last record that changed a fact.
_ORIGIN = ("record_number", "line_number", "fact")
_WITHOUT_STATE = (FactKind.IGNORED, FactKind.REJECTED, FactKind.REPLICA, FactKind.OFFSET)


class _LogState:
    """State of one log. Partitions are found by topic id and number, as the log names them."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, Any]] = {}
        self.partitions: dict[str, dict[int, dict[str, Any]]] = {}
        self.configs: dict[str, dict[str, Any]] = {}
        self.brokers: dict[int, dict[str, Any]] = {}
        self.cordons: dict[int, dict[str, Any]] = {}  # configs of brokers
        self.voters: list[dict[str, Any]] = []  # as the last record names them
        self.controller: int | None = None  # of the last record that names one
        self.faults: list[tuple[dict[str, Any], str]] = []

    def apply(self, fact: dict[str, Any]) -> None:
        kind, topic_id = fact["kind"], fact["topic_id"]
        if kind == FactKind.TOPIC:
            self.topics[topic_id] = fact
        elif kind == FactKind.PARTITION:
            self.partitions.setdefault(topic_id, {})[fact["partition"]] = fact
        elif kind == FactKind.PARTITION_CHANGE:
            self._change_partition(fact)
        elif kind == FactKind.TOPIC_REMOVED:
            self.topics.pop(topic_id, None)
            self.partitions.pop(topic_id, None)
            self.configs.pop(fact["topic"], None)
        elif kind == FactKind.CLEAR_ELR:
            for partition in self._list_partitions():
                if fact["topic"] in (None, partition["topic"]):
                    partition["elr"], partition["last_known_elr"] = [], []
        elif kind in (FactKind.CONFIG, FactKind.TOPIC_DEFAULTS):
            self._change_config(fact)
        elif kind == FactKind.QUORUM:
            record = fact["record_number"]
            self.voters = [*(one for one in self.voters if one["record_number"] == record), fact]
            self.controller = fact["broker_id"] if fact["controller"] else self.controller
        else:
            self._change_broker(fact)

    def _change_partition(self, fact: dict[str, Any]) -> None:
        partition = self.partitions.get(fact["topic_id"], {}).get(fact["partition"])
        if partition is None:
            reason = f"changes partition {fact['topic']}-{fact['partition']}, which the log has not created"
            self.faults.append((fact, reason))
            return
        epoch = partition["leader_epoch"]
        for name in _CHANGES:
            if fact[name] is not None:
                partition[name] = fact[name]
        if fact["leader"] is not None and epoch is not None:
            partition["leader_epoch"] = epoch + 1
        partition.update({name: fact[name] for name in _ORIGIN})

    def _change_config(self, fact: dict[str, Any]) -> None:
        configs = self.configs.setdefault(fact["topic"], {**fact, "configs": {}})
        for key, value in fact["configs"]:
            configs["configs"].pop(key, None)
            if value is not None:
                configs["configs"][key] = value
        configs.update({name: fact[name] for name in _ORIGIN})

    def _change_broker(self, fact: dict[str, Any]) -> None:
        broker_id = fact["broker_id"]
        if fact["configs"]:
            self.cordons[broker_id] = fact
        elif fact["kind"] == FactKind.BROKER:
            self.brokers[broker_id] = fact
        elif fact["kind"] == FactKind.BROKER_REMOVED:
            removed = {"kind": FactKind.BROKER, "registered": False}
            self.brokers[broker_id] = self.brokers.get(broker_id, fact) | removed
        elif broker_id in self.brokers:
            for name in ("fenced", "directories", "cordoned_directories"):
                if fact[name] is not None:
                    self.brokers[broker_id][name] = fact[name]
        else:
            self.faults.append((fact, f"changes broker {broker_id}, which the log has not registered"))

    def _list_partitions(self) -> list[dict[str, Any]]:
        return [partition for partitions in self.partitions.values() for partition in partitions.values()]

    def _find_failed_dirs(self) -> None:
        """Find the replicas of each partition in log dirs that their broker does not have online.

        Source: Directories.isOnline and BrokerRegistration.hasOnlineDir of Kafka 4.1.
        """
        online = {id_: {*broker["directories"]} for id_, broker in self.brokers.items() if broker["directories"]}
        for partition in self._list_partitions():
            dirs, replicas = partition["directories"] or (), partition["replicas"]
            if len(dirs) == len(replicas):
                partition["failed_dir_replicas"] = [
                    replica
                    for replica, log_dir in zip(replicas, dirs, strict=True)
                    if log_dir not in (_MIGRATING, _UNASSIGNED) and log_dir not in online.get(replica, {log_dir})
                ]

    def _find_cordoned(self) -> None:
        """Find the brokers whose log dirs are all cordoned, and the paths of cordoned ones that configs name."""
        for id_, fact in self.cordons.items():
            ((kind, values),) = parse_cordoned(str(id_), dict(fact["configs"])[CORDONED])
            self.cordons[id_] = fact | values | {"kind": kind, "configs": None}
        for broker in self.brokers.values():
            if (cordoned := broker["cordoned_directories"]) is not None:
                broker["cordoned"] = are_all_cordoned([name in cordoned for name in broker["directories"] or ()])

    def build_rows(self) -> list[dict[str, Any]]:
        self._find_failed_dirs()
        self._find_cordoned()
        configs = ({**fact, "configs": list(fact["configs"].items())} for fact in self.configs.values())
        voters = ({**one, "controller": one["broker_id"] == self.controller or None} for one in self.voters)
        cordons = (fact for id_, fact in self.cordons.items() if self.brokers.get(id_, {}).get("registered"))
        return [*self.topics.values(), *self.brokers.values(), *cordons, *voters, *self._list_partitions(), *configs]


def replay_log(facts: pa.Table) -> tuple[pa.Table, list[tuple[dict[str, Any], str]]]:
    """Return (facts that are true at the end of one KRaft log, [(fact, why it cannot be applied)]).

    Source: PartitionRegistration.merge and BrokerRegistration of Kafka 4.1 - a change record has only what it changes,
    and a new leader adds one to the leader epoch. Changes after the begin of a snapshot need the snapshot.
    """
    state = _LogState()
    for fact in facts.sort_by("record_number").to_pylist():
        if fact["kind"] not in _WITHOUT_STATE:
            state.apply(fact)
    return pa.Table.from_pylist(state.build_rows(), schema=facts.schema), state.faults
