"""The facts of one shard of a cluster, and what becomes of their records: accepted, quarantined or ignored."""

from collections import Counter
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.fact_tables import FACTS, FactKind
from pipelines.ingest.formats import kraft_log, log_dirs
from pipelines.ingest.merge.entities import CONFLICTS, FIRST_USED, OUTCOMES, QUARANTINE
from pipelines.ingest.merge.fact_merge import Conflict, MergedFacts, rank_formats, show_value
from pipelines.ingest.merge.kraft_log_state import replay_log
from udfs.arrow.columns import to_array, to_codes, to_flags

KRAFT_LOG = kraft_log.FORMAT.name
LOG_DIRS = log_dirs.FORMAT.name

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

    Attributes:
        facts: Schema SOURCED_FACTS, and `answers` (bool), `source_index` (int64, by name), `format_rank` (int64),
            `fact` (int64, the row).
        statements: The facts that are neither ignored nor rejected; those of KRaft logs as they are at the log's end.
    """

    def __init__(self, facts: pa.Table) -> None:
        """Read the facts of a shard (schema SOURCED_FACTS)."""
        index, names = to_codes(facts["source"])
        rank = np.empty(len(names), dtype=np.int64)
        rank[np.argsort(np.array(names.to_pylist(), dtype=object), kind="stable")] = np.arange(len(names))
        # An answer to kafka-log-dirs shows that a broker is live, but - unlike registrations - not who is missing.
        is_answer = pc.equal(facts["format"], LOG_DIRS)
        unknown = pa.scalar(None, pa.bool_())
        registered = pc.if_else(is_answer, unknown, facts["registered"])
        columns = {
            "answers": pc.if_else(is_answer, facts["registered"], unknown),
            "source_index": pa.array(rank[index] if len(names) else index),
            "format_rank": pa.array(rank_formats(to_array(facts["format"]))),
            "fact": pa.array(np.arange(facts.num_rows)),
        }
        facts = facts.set_column(facts.schema.get_field_index("registered"), "registered", registered)
        for name, values in columns.items():
            facts = facts.append_column(name, values)
        self.facts = facts
        self._ignored: dict[int, str] = {}
        self._quarantined: dict[int, list[str]] = {}
        self._conflicts: list[dict[str, Any]] = []
        for kind in (FactKind.IGNORED, FactKind.REJECTED):
            rows = facts.filter(pc.equal(facts["kind"], kind))
            for row, reasons in zip(rows["fact"].to_pylist(), rows["reasons"].to_pylist(), strict=True):
                if kind == FactKind.IGNORED:
                    self.ignore(row, reasons[0])
                else:
                    self.quarantine(row, *reasons)
        self.statements = self._read_statements()

    def _read_statements(self) -> pa.Table:
        is_log = pc.equal(self.facts["format"], KRAFT_LOG)
        parts = [self.facts.filter(pc.invert(is_log))]
        logs = self.facts.filter(is_log)
        for source in pc.unique(logs["source"]).to_pylist():
            final, faults = replay_log(logs.filter(pc.equal(logs["source"], source)))
            parts.append(final)
            for fact, reason in faults:
                self.quarantine(fact["fact"], reason)
        return pa.concat_tables(parts)

    def select(self, *kinds: FactKind) -> pa.Table:
        """Return the statements of these kinds."""
        return self.statements.filter(pc.is_in(self.statements["kind"], pa.array(kinds, pa.string()))).combine_chunks()

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
        outcome: str = FIRST_USED,
        values: tuple[str, str] | None = None,
    ) -> None:
        """Note that two facts disagree.

        Args:
            entity: What they are about.
            facts: The facts whose rows the conflict names.
            conflict: The conflict.
            outcome: FIRST_USED or BOTH_QUARANTINED.
            values: What the two say; None = the whole field.
        """
        first, other, field = conflict.used_row, conflict.row, conflict.field
        value, other_value = values or (show_value(facts, first, field), show_value(facts, other, field))
        self._conflicts.append(
            {
                "entity": entity,
                "field": field,
                "source": facts["source"][first].as_py(),
                "line_number": facts["line_number"][first].as_py(),
                "value": value,
                "other_source": facts["source"][other].as_py(),
                "other_line_number": facts["line_number"][other].as_py(),
                "other_value": other_value,
                "outcome": outcome,
            }
        )

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
        heads = _find_record_heads(source, record, ignored, home)
        for row in heads[ignored[heads]].tolist():
            if (int(source[row]), int(record[row])) not in quarantined:
                counts[int(source[row]), RecordOutcome.IGNORED, self._ignored[row]] += 1
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
            {"source": text[s], "outcome": outcome, "reason": reason or None, "records": n}
            for (s, outcome, reason), n in sorted(counts.items())
            if n
        ]
        return pa.Table.from_pylist(rows, QUARANTINE), pa.Table.from_pylist(outcomes, OUTCOMES)


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
