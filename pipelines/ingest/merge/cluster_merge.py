"""Facts of any whole topics of one cluster -> what they say together, with every record accounted for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest import records as r
from pipelines.ingest.merge.broker_liveness import usage
from pipelines.ingest.merge.fact_merge import Conflict, Merged, merge, place, show, strength_of
from pipelines.ingest.merge.kraft_log_state import fold_log
from pipelines.ingest.merge.log_sizes import LOG_FIELDS, log_keys, logs_beside_replicas, partition_sizes, stray_logs
from pipelines.ingest.merge.merged_schemas import CONFLICTS, PARTITIONS, QUARANTINED, REGISTRATIONS, USED, Resolution
from pipelines.ingest.merge.partition_checks import partition_faults
from pipelines.ingest.merge.record_outcomes import Verdicts
from pipelines.ingest.merge.topic_configs import describe_topics
from pipelines.ingest.topic_names import bad_topic_name
from udfs.arrow.columns import Lists, codes, flags, numbers, valid, whole

# What `resolve` takes: facts with their origin. `home` is false for a broker's fact that was copied to this shard
# of the cluster only to be looked at; its home shard accounts for it.
SOURCED_FACTS = pa.schema([*r.FACTS, ("source", pa.string()), ("format", pa.string()), ("home", pa.bool_())])

_STATE = ("replicas", "leader", "isr", "leader_epoch", "elr", "last_known_elr", "adding_replicas", "removing_replicas")
_LOADS = ("size_bytes", "bytes_in_per_s", "bytes_out_per_s")
_TOPIC = ("topic_id", "partition_count", "replication_factor", "configs", "marked_for_deletion", *_LOADS)
_BROKER = ("rack", "host", "port", "registered", "answers", "listed", "fenced", "controller", "draining")
DUPLICATE = "duplicate of an equal record"
KRAFT_LOG = "kraft-log"
TOPIC_LIST = "topic-list"
LOG_DIRS = "log-dirs"
BROKER_LIST = "broker-list"
# Declared of one topic: whole Kafka clusters stay below this. More is a slip of the pen, and would fill the memory.
MOST_PARTITIONS = 10_000_000


class _Shard:
    """The working state of one call: the facts, and what is found out about them."""

    def __init__(self, facts: pa.Table) -> None:
        self.verdicts = Verdicts(facts)
        self.conflict_rows: list[dict[str, Any]] = []
        self.listed_topics: set[str] = set()
        index, names = codes(facts["source"])
        rank = np.empty(len(names), dtype=np.int64)
        rank[np.argsort(np.array(names.to_pylist(), dtype=object), kind="stable")] = np.arange(len(names))
        source_index = rank[index] if len(names) else index
        # An answer to kafka-log-dirs shows life, but not - as a list of registrations does - who is missing.
        answered = pc.equal(facts["format"], LOG_DIRS)
        nothing = pa.scalar(None, pa.bool_())
        answers = pc.if_else(answered, facts["registered"], nothing)
        registered = pc.if_else(answered, nothing, facts["registered"])
        facts = facts.set_column(facts.schema.get_field_index("registered"), "registered", registered)
        self.facts = (
            facts.append_column("answers", answers)
            .append_column("source_index", pa.array(source_index))
            .append_column("strength", pa.array(strength_of(whole(facts["format"]))))
            .append_column("fact", pa.array(np.arange(facts.num_rows)))
        )
        self._set_aside()
        self.statements = self._folded()

    def _set_aside(self) -> None:
        kinds = whole(self.facts["kind"])
        for kind in (r.IGNORED, r.FAULT):
            rows = self.facts.filter(pc.equal(kinds, kind))
            for row, reasons in zip(rows["fact"].to_pylist(), rows["reasons"].to_pylist(), strict=True):
                if kind == r.IGNORED:
                    self.verdicts.ignore(row, reasons[0])
                else:
                    self.verdicts.quarantine(row, *reasons)

    def _folded(self) -> pa.Table:
        """The facts that are statements: those of KRaft logs folded, the others as they are."""
        is_log = pc.equal(self.facts["format"], KRAFT_LOG)
        parts = [self.facts.filter(pc.invert(is_log))]
        logs = self.facts.filter(is_log)
        for source in pc.unique(logs["source"]).to_pylist():
            held, faults = fold_log(logs.filter(pc.equal(logs["source"], source)))
            parts.append(held)
            for fact, reason in faults:
                self.verdicts.quarantine(fact["fact"], reason)
        return pa.concat_tables(parts)

    def of_kinds(self, *kinds: str) -> pa.Table:
        return self.statements.filter(pc.is_in(self.statements["kind"], pa.array(kinds))).combine_chunks()

    def record_conflict(
        self, entity: str, facts: pa.Table, conflict: Conflict, used: bool, values: tuple[str, str] | None = None
    ) -> None:
        """Report that two facts disagree; `used` tells whether the first of them is used all the same.

        values: what the two say, where it is not the whole field.
        """
        first, other, field = conflict.used_row, conflict.row, conflict.field
        mine, theirs = values or (show(facts, first, field), show(facts, other, field))
        self.conflict_rows.append(
            {
                "entity": entity,
                "field": field,
                "source": facts["source"][first].as_py(),
                "line_number": facts["line_number"][first].as_py(),
                "value": mine,
                "other_source": facts["source"][other].as_py(),
                "other_line_number": facts["line_number"][other].as_py(),
                "other_value": theirs,
                "outcome": USED if used else QUARANTINED,
            }
        )


def resolve(facts: pa.Table) -> Resolution:
    """What these facts say, merged (facts: schema SOURCED_FACTS, of one cluster, whole topics)."""
    shard = _Shard(facts)
    registrations, listed = _brokers(shard)
    declared = _topics(shard)
    partitions, stray = _partitions(shard, declared, listed)
    quarantine, accounts = shard.verdicts.close(flags(facts["home"]))
    conflict_rows = pa.Table.from_pylist(shard.conflict_rows, CONFLICTS)
    topics = describe_topics(declared, partitions)
    return Resolution(partitions, topics, registrations, stray, quarantine, conflict_rows, accounts, usage(partitions))


def _brokers(shard: _Shard) -> tuple[pa.Table, npt.NDArray[np.int32] | None]:
    """(registrations; ids of the brokers there are, or None where no complete list names them all).

    Broker facts, and faulty entries of broker lists, are in every shard.
    """
    facts = shard.of_kinds(r.BROKER)
    merged = merge(facts, numbers(facts["broker_id"]).astype(np.int64), _BROKER)
    home = flags(facts["home"])
    _drop_duplicates(shard, facts, merged)
    for conflict in merged.conflicts:
        if home[conflict.row]:
            broker = facts["broker_id"][conflict.row].as_py()
            shard.record_conflict(f"broker {broker}", facts, conflict, used=True)
    ids = pa.array(merged.keys, pa.int32())
    table = pa.Table.from_arrays(
        [ids, *(merged.table[name].combine_chunks() for name in _BROKER)], schema=REGISTRATIONS
    )
    is_listed = flags(table["listed"])
    if not is_listed.any() or _list_has_a_gap(shard.facts):
        return table, None
    # A broker that registered itself exists, whatever the list says; one that is removed still holds replicas.
    there = is_listed | flags(table["registered"]) | flags(table["answers"]) | flags(table["draining"])
    column = table.schema.get_field_index("listed")
    return table.set_column(column, table.schema.field(column), pa.array(is_listed)), merged.keys[there].astype(
        np.int32
    )


def _list_has_a_gap(facts: pa.Table) -> bool:
    """Whether an entry of a broker list is faulty: which broker it meant is not known."""
    entry = flags(facts["listed"]) | np.asarray(whole(pc.equal(facts["format"], BROKER_LIST)))
    return bool((entry & np.asarray(whole(pc.equal(facts["kind"], r.FAULT)))).any())


def _drop_duplicates(shard: _Shard, facts: pa.Table, merged: Merged) -> None:
    for row in np.flatnonzero(merged.duplicate).tolist():
        if facts["format"][row].as_py() != KRAFT_LOG:
            shard.verdicts.ignore(facts["fact"][row].as_py(), DUPLICATE)


def _topics(shard: _Shard) -> dict[str, dict[str, Any]]:
    """{topic: merged fields of its TOPIC and CONFIG facts}."""
    facts = shard.of_kinds(r.TOPIC, r.CONFIG)
    fact_numbers = facts["fact"].to_numpy()
    code, names = codes(facts["topic"])
    bad = {i: reason for i, name in enumerate(names.to_pylist()) if (reason := bad_topic_name(name))}
    good = np.ones(len(code), dtype=np.bool_)
    for at in np.flatnonzero(np.isin(code, list(bad))).tolist():
        shard.verdicts.quarantine(int(fact_numbers[at]), bad[int(code[at])])
        good[at] = False
    huge = numbers(facts["partition_count"]) > MOST_PARTITIONS
    for at in np.flatnonzero(huge & good).tolist():
        reason = f"partitions is {facts['partition_count'][at].as_py()}, expected at most {MOST_PARTITIONS}"
        shard.verdicts.quarantine(int(fact_numbers[at]), reason)
    good &= ~huge
    facts, code = facts.filter(pa.array(good)), code[good]
    merged = merge(facts, code, _TOPIC)
    _drop_duplicates(shard, facts, merged)
    text = names.to_pylist()
    for conflict in merged.conflicts:
        if conflict.field != "configs":
            shard.record_conflict(f"topic {text[code[conflict.row]]}", facts, conflict, used=True)
    configs = _configs(shard, facts, merged)
    is_list = pc.equal(facts["format"], TOPIC_LIST)
    shard.listed_topics = set(facts.filter(is_list)["topic"].to_pylist())
    rows = merged.table.to_pylist()
    return {
        text[key]: {**row, "configs": configs.get(thing)}
        for thing, (key, row) in enumerate(zip(merged.keys.tolist(), rows, strict=True))
    }


def _configs(shard: _Shard, facts: pa.Table, merged: Merged) -> dict[int, dict[str, str]]:
    """{number of a merged topic: its configs}, taken together key by key.

    A key that one source leaves out is no conflict: describe shows the brokers' own settings too.
    """
    values = facts["configs"].to_pylist()
    out: dict[int, dict[str, str]] = {}
    said_by: dict[tuple[int, str], int] = {}
    things = np.repeat(np.arange(len(merged.keys)), np.diff(merged.offsets))
    for thing, row in zip(things.tolist(), merged.order.tolist(), strict=True):
        for key, value in values[row] or ():
            held = out.setdefault(thing, {}).setdefault(key, value)
            first = said_by.setdefault((thing, key), row)
            if held != value:
                entity = f"topic {facts['topic'][row].as_py()}"
                shard.record_conflict(entity, facts, Conflict(f"config {key}", row, first, False), True, (held, value))
    return out


def _partitions(
    shard: _Shard, declared: dict[str, dict[str, Any]], listed: npt.NDArray[np.int32] | None
) -> tuple[pa.Table, pa.Table]:
    """(partitions without the quarantined, sorted by topic and partition; stray logs)."""
    facts = shard.of_kinds(r.PARTITION)
    state = _merged_by_partition(facts, (*_STATE, *_LOADS))
    first = pa.array(state.order[state.offsets[:-1]])
    columns = {
        name: facts[name].combine_chunks().take(first) for name in ("topic", "partition", "source", "line_number")
    }
    table = pa.table({**columns, **{name: state.table[name] for name in (*_STATE, *_LOADS)}})

    bad = partition_faults(table, listed)
    _quarantine(shard, facts, state, table, bad)
    clean = np.ones(table.num_rows, dtype=np.bool_)
    clean[list(bad)] = False
    table = table.filter(pa.array(clean))
    table = _with_listed_only(shard, table, declared)
    table = table.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    table, stray = _with_logs(shard, table)
    table = _with_topic_loads(table, declared)
    return table.select(PARTITIONS.names).cast(PARTITIONS), stray


def _merged_by_partition(facts: pa.Table, names: tuple[str, ...]) -> Merged:
    code, _ = codes(facts["topic"])
    return merge(facts, (code << np.int64(32)) + numbers(facts["partition"]).astype(np.int64), names)


def _quarantine(shard: _Shard, facts: pa.Table, state: Merged, table: pa.Table, bad: dict[int, list[str]]) -> None:
    """Mark duplicates, clashes and faults; rows that clash are added to `bad`."""
    thing = state.thing_of_fact
    fact_numbers = facts["fact"].to_numpy()

    def name(row: int) -> str:
        return f"partition {table['topic'][row].as_py()}-{table['partition'][row].as_py()}"

    said: dict[int, list[str]] = {}
    clash: dict[int, str] = {}  # where two of the different ways stand, for those that only repeat one of them
    for conflict in state.conflicts:
        row = int(thing[conflict.row])
        settled = not conflict.same_strength or conflict.field in _LOADS
        shard.record_conflict(name(row), facts, conflict, used=settled)
        if settled:
            continue
        bad.setdefault(row, [])
        clash.setdefault(row, f"in {place(facts, conflict.used_row)} and in {place(facts, conflict.row)}")
        for a, b in ((conflict.row, conflict.used_row), (conflict.used_row, conflict.row)):
            field = conflict.field
            text = (
                f"{name(row)}: {field} {show(facts, a, field)} here, but {show(facts, b, field)} in {place(facts, b)}"
            )
            said.setdefault(a, []).append(text)
    for row, reasons in bad.items():
        for at in state.order[state.offsets[row] : state.offsets[row + 1]].tolist():
            own = said.get(at, [])
            rest = [f"{name(row)}: {reason}" for reason in reasons] or (
                [] if own else [f"{name(row)} is given in different ways {clash[row]}"]
            )
            shard.verdicts.quarantine(int(fact_numbers[at]), *own, *rest)
    _drop_duplicates(shard, facts, state)


def _with_listed_only(shard: _Shard, table: pa.Table, declared: dict[str, dict[str, Any]]) -> pa.Table:
    """`table` with a row for each partition of the topics that only a topic list names."""
    counts = {topic: declared[topic]["partition_count"] for topic in shard.listed_topics if topic in declared}
    for topic in pc.unique(table["topic"]).to_pylist():
        counts.pop(topic, None)
    if not counts:
        return table
    size = np.array(list(counts.values()), dtype=np.int64)
    topic = pa.array(list(counts)).take(pa.array(np.repeat(np.arange(len(size)), size)))
    number = np.arange(len(topic)) - np.repeat(np.cumsum(size) - size, size)
    columns = {"topic": topic, "partition": pa.array(number, pa.int32())}
    extra = pa.table([columns.get(f.name, pa.nulls(len(topic), f.type)) for f in table.schema], schema=table.schema)
    return pa.concat_tables([table, extra])


def _with_logs(shard: _Shard, table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(`table` with logs and sizes from log directories and offsets, stray logs)."""
    logs = shard.of_kinds(r.REPLICA)
    offsets = shard.of_kinds(r.OFFSET)
    topic_of, _ = codes(pa.chunked_array([whole(table["topic"]), whole(logs["topic"]), whole(offsets["topic"])]))
    n, m = table.num_rows, logs.num_rows
    every = np.r_[numbers(table["partition"]), numbers(logs["partition"]), numbers(offsets["partition"])].astype(
        np.int64
    )
    key = (topic_of << np.int64(32)) + every
    # Partitions of the table are numbered by row; those known only from logs come after.
    order = np.argsort(key[:n], kind="stable")
    extra = np.setdiff1d(key[n:], key[:n])
    held = np.r_[key[:n][order], extra]
    number = np.r_[order, n + np.arange(len(extra))]
    by_key = np.argsort(held, kind="stable")
    row = number[by_key][np.searchsorted(held[by_key], key[n:])].astype(np.int64)

    future = flags(logs["is_future"])
    merged = merge(logs, log_keys(row[:m], numbers(logs["broker_id"]).astype(np.int64), future), LOG_FIELDS)
    _report_logs(shard, logs, merged)
    ends = merge(offsets, row[m:], ("log_end_offset",))
    _report_logs(shard, offsets, ends)

    replicas = Lists.of(table["replicas"])
    beside, used = logs_beside_replicas(replicas, merged)
    beside = _with_leader_offsets(replicas, table, beside, ends)
    leader = numbers(table["leader"], -1).astype(np.int32)
    sizes = pc.coalesce(whole(table["size_bytes"]), partition_sizes(replicas, leader, beside))
    table = table.drop_columns(["size_bytes"]).append_column("logs", beside).append_column("size_bytes", sizes)
    return table, stray_logs(logs, merged, ~used)


def _report_logs(shard: _Shard, facts: pa.Table, merged: Merged) -> None:
    for conflict in merged.conflicts:
        row = conflict.row
        entity = f"partition {facts['topic'][row].as_py()}-{facts['partition'][row].as_py()}"
        broker = facts["broker_id"][row].as_py()
        shard.record_conflict(entity if broker is None else f"{entity} on broker {broker}", facts, conflict, used=True)
    _drop_duplicates(shard, facts, merged)


def _with_leader_offsets(replicas: Lists, table: pa.Table, logs: pa.Array, ends: Merged) -> pa.Array:
    """`logs` with the log end offset of each partition put beside its leader."""
    rows = ends.keys[ends.keys < table.num_rows]
    if not len(rows):
        return logs
    end = np.full(table.num_rows, -1, dtype=np.int64)
    end[rows] = numbers(ends.table["log_end_offset"], -1)[: len(rows)]
    row = np.repeat(np.arange(table.num_rows), np.diff(replicas.offsets))
    leads = replicas.flat == numbers(table["leader"], -1).astype(np.int32)[row]
    values = np.where(leads, end[row], -1)
    known = valid(logs)
    widened = known.copy()
    widened[row[values >= 0]] = True
    at = np.flatnonzero(known[row])
    index = np.full(len(row), -1, dtype=np.int64)
    index[at] = np.arange(len(at))
    old = logs.flatten().take(pa.array(index, mask=index < 0))
    new_end = pc.coalesce(pa.array(values, mask=values < 0), pc.struct_field(old, "log_end_offset"))
    columns = [new_end if name == "log_end_offset" else pc.struct_field(old, name) for name in LOG_FIELDS]
    missing = ~valid(old) & (values < 0)
    values_array = pa.StructArray.from_arrays(columns, fields=list(logs.type.value_type), mask=pa.array(missing))
    lengths = np.where(widened, np.diff(replicas.offsets), 0)
    begins = pa.array(np.r_[0, np.cumsum(lengths)], pa.int32())
    lists = pa.ListArray.from_arrays(begins, values_array.filter(pa.array(widened[row])))
    return pc.if_else(pa.array(widened), lists, pa.nulls(len(lists), lists.type))


def _with_topic_loads(table: pa.Table, declared: dict[str, dict[str, Any]]) -> pa.Table:
    """`table` with a topic's loads shared out evenly, where its partitions' own are unknown."""
    loaded = {t: said for t, said in declared.items() if any(said[name] is not None for name in _LOADS)}
    if not loaded:
        return table
    topic_of, names = codes(table["topic"])
    text = names.to_pylist()
    shown = np.bincount(topic_of[topic_of >= 0], minlength=len(text))
    for name in _LOADS:
        shard_of = np.full(len(text), np.nan)
        for i, topic in enumerate(text):
            total = loaded.get(topic, {}).get(name)
            if total is not None:
                shard_of[i] = total / max(declared[topic]["partition_count"] or 0, shown[i])
        values = shard_of[topic_of]
        if name == "size_bytes":
            even = pa.array(np.nan_to_num(np.round(values)).astype(np.int64), mask=np.isnan(values))
        else:
            even = pa.array(values, mask=np.isnan(values))
        column = pc.coalesce(whole(table[name]), even)
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table
