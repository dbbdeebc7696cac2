"""Finds partitions that were listed by a command that shows only some of them, and warns of what an answer may lack."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats import shell_commands
from pipelines.ingest.formats.bootstrap_servers import BROKER, Servers, are_of_two_clusters, names_a_cluster
from pipelines.ingest.formats.shell_commands import describe_two_clusters
from pipelines.ingest.merge.entities import WARNINGS
from pipelines.ingest.merge.shard_facts import ShardFacts
from udfs.arrow.columns import is_valid, to_codes, to_flags, to_numpy

COMMANDS = shell_commands.FORMAT.name


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
    facts = shard.facts.filter(shard.facts["home"])
    is_selection = shard.facts["is_selection"]
    is_shown = is_valid(facts["warning"])
    if (is_valid(is_selection) & ~to_flags(is_selection)).any():
        is_shown &= ~to_flags(facts["is_selection"])
    rows = facts.filter(pa.array(is_shown)).select(WARNINGS.names).to_pylist() + _compare_servers(facts)
    warnings: dict[tuple[str, int], dict[str, Any]] = {}  # one per record
    for row in rows:
        known = warnings.setdefault((row["source"], row["record_number"]), row)
        if row["warning"] not in known["warning"]:
            known["warning"] += f"; {row['warning']}"
    return pa.Table.from_pylist(list(warnings.values()), WARNINGS)


def _compare_servers(facts: pa.Table) -> list[dict[str, Any]]:
    """Return the warnings (rows of WARNINGS) that the commands of two files ask two clusters."""
    commands = facts.filter(pc.and_(pc.equal(facts["format"], COMMANDS), pc.is_valid(facts["host"])))
    first: dict[str, dict[str, Any]] = {}  # the first command of each file
    for row in commands.select([*WARNINGS.names, "host"]).to_pylist():
        if names_a_cluster(Servers(BROKER, row["host"])):
            first.setdefault(row["source"], row)
    warnings = []
    for number, row in enumerate(first.values()):
        for other in list(first.values())[:number]:
            if are_of_two_clusters(Servers(BROKER, other["host"]), Servers(BROKER, row["host"])):
                place = f"{other['source']} line {other['line_number']}"
                sentence = describe_two_clusters(row["host"], place, other["host"])
                warnings.append({name: row[name] for name in WARNINGS.names} | {"warning": sentence})
                break
    return warnings
