"""What becomes of each input record: kept, quarantined or ignored. The three always add up."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.ingest.merge.merged_schemas import ACCOUNTS, QUARANTINE
from udfs.arrow.columns import codes

KEPT, QUARANTINED, IGNORED = "kept", "quarantined", "ignored"


class Verdicts:
    """Collects verdicts per fact, and gives them per record: quarantined wins over kept, kept over ignored."""

    def __init__(self, facts: pa.Table) -> None:
        self._facts = facts
        self._ignored: dict[int, str] = {}
        self._reasons: dict[int, list[str]] = {}

    def ignore(self, row: int, reason: str) -> None:
        self._ignored[row] = reason

    def quarantine(self, row: int, *reasons: str) -> None:
        held = self._reasons.setdefault(row, [])
        held.extend(r for r in reasons if r not in held)

    def close(self, home: npt.NDArray[np.bool_]) -> tuple[pa.Table, pa.Table]:
        """(QUARANTINE, ACCOUNTS) of the records of which this shard of the facts is the home (bool per fact)."""
        source, names = codes(self._facts["source"])
        record = self._facts["record_number"].to_numpy()
        line = self._facts["line_number"].to_numpy()
        ignored = np.zeros(len(record), dtype=np.bool_)
        ignored[list(self._ignored)] = True

        order = np.lexsort((ignored, record, source))
        order = order[home[order]]
        # Facts that carry something come first within a record: it is ignored only if all of its facts are.
        first = np.ones(len(order), dtype=np.bool_)
        a, b = order[1:], order[:-1]
        first[1:] = (source[a] != source[b]) | (record[a] != record[b])
        quarantined: dict[tuple[int, int], tuple[int, list[str]]] = {}
        for row in sorted(self._reasons):
            if home[row]:
                held = quarantined.setdefault((int(source[row]), int(record[row])), (int(line[row]), []))
                held[1].extend(r for r in self._reasons[row] if r not in held[1])

        tally: Counter[tuple[int, str, str]] = Counter()
        heads = order[first]
        for row in heads[ignored[heads]].tolist():
            if (int(source[row]), int(record[row])) not in quarantined:
                tally[int(source[row]), IGNORED, self._ignored[row]] += 1
        for code, count in enumerate(np.bincount(source[heads], minlength=len(names)).tolist()):
            kept = count - sum(1 for s, _ in quarantined if s == code)
            kept -= sum(n for (s, verdict, _), n in tally.items() if s == code and verdict == IGNORED)
            tally[code, KEPT, ""] += kept
        for code, _ in quarantined:
            tally[code, QUARANTINED, ""] += 1

        text = names.to_pylist()
        rows = [
            {"source": text[s], "record_number": r, "line_number": at, "reasons": reasons}
            for (s, r), (at, reasons) in sorted(quarantined.items())
        ]
        counts = [
            {"source": text[s], "verdict": verdict, "reason": reason or None, "records": n}
            for (s, verdict, reason), n in sorted(tally.items())
            if n
        ]
        return pa.Table.from_pylist(rows, QUARANTINE), pa.Table.from_pylist(counts, ACCOUNTS)
