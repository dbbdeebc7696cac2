"""Text of Spark SQL: literals, names, and conditions that select snapshots."""

from collections.abc import Callable, Mapping, Sequence

from pipelines.ingest.sources import SnapshotKey


def quote_text(text: str) -> str:
    """Quote a text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_name(name: str) -> str:
    """Quote a name, or a path in the place of one, for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def match_clusters(snapshots: Sequence[SnapshotKey]) -> str:
    """Write the condition that a row belongs to the cluster of one of these snapshots."""
    clusters = sorted({key.cluster_id for key in snapshots})
    return f"cluster_id IN ({', '.join(map(quote_text, clusters))})" if clusters else "false"


def match_snapshots(snapshots: Sequence[SnapshotKey]) -> str:
    """Write the condition that a row belongs to one of these snapshots."""
    keys = sorted(snapshots)
    if not keys:
        return "false"
    if len(keys) == 1:
        return f"cluster_id = {quote_text(keys[0].cluster_id)} AND snapshot_id = {quote_text(keys[0].snapshot_id)}"

    # Sets, because a hundred comparisons are more code than Java allows in a method. The first two let Delta skip
    # files. The length separates the two ids, which may contain any character.
    values = {
        "cluster_id": [key.cluster_id for key in keys],
        "snapshot_id": [key.snapshot_id for key in keys],
        "concat(length(snapshot_id), ' ', snapshot_id, cluster_id)": [
            f"{len(key.snapshot_id)} {key.snapshot_id}{key.cluster_id}" for key in keys
        ],
    }
    return " AND ".join(f"{column} IN ({', '.join(map(quote_text, sorted(set(v))))})" for column, v in values.items())


def match_numbers(first_numbers: Mapping[str, int], quote: Callable[[str], str] = quote_text) -> str:
    """Write the condition that a row of a history is of a cluster's snapshot with this number or a later one."""
    parts = (f"(cluster_id = {quote(cluster)} AND number >= {n})" for cluster, n in sorted(first_numbers.items()))
    return " OR ".join(parts)
