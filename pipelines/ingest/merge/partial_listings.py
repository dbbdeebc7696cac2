"""Finds partitions that were listed by a command that shows only some of them, and warns of what an answer may lack."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.entities import WARNINGS
from pipelines.ingest.merge.shard_facts import ShardFacts
from udfs.arrow.columns import is_valid, to_codes, to_flags, to_numpy


def find_selected(shard: ShardFacts, source: pa.ChunkedArray, line: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which lines (n) of files are below a command that shows only some of the cluster's partitions.

    The nearest command above a line counts, so a complete listing beside a filtered one stays complete.
    """
    commands = shard.facts.filter(pc.is_valid(shard.facts["is_selection"])).sort_by("line_number")
    codes, names = to_codes(source)
    number = to_numpy(line).astype(np.int64)
    selected = np.zeros(len(codes), dtype=np.bool_)
    for code, name in enumerate(names.to_pylist()):
        own = commands.filter(pc.equal(commands["source"], name))
        if not own.num_rows:
            continue
        rows = np.flatnonzero(codes == code)
        at = np.searchsorted(own["line_number"].to_numpy(), number[rows], side="right") - 1
        is_selection = to_flags(own["is_selection"])
        selected[rows] = is_selection[np.maximum(at, 0)] & ((at >= 0) | is_selection.all())
    return selected


def build_warnings(shard: ShardFacts) -> pa.Table:
    """Return the warnings (schema WARNINGS) of the records of which this shard is the home.

    A command that shows only some partitions needs no warning if another command shows all of them.
    """
    facts = shard.facts
    is_complete = is_valid(facts["is_selection"]) & ~to_flags(facts["is_selection"])
    is_shown = is_valid(facts["warning"]) & to_flags(facts["home"])
    if is_complete.any():
        is_shown &= ~to_flags(facts["is_selection"])
    rows = facts.filter(pa.array(is_shown)).select(WARNINGS.names)
    # Two facts of one record say the same.
    unique = rows.group_by(["source", "record_number"], use_threads=False)
    return unique.aggregate([("line_number", "min"), ("warning", "min")]).rename_columns(WARNINGS.names).cast(WARNINGS)
