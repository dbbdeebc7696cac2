"""Write values and snapshots as Spark SQL."""

from collections.abc import Iterable, Sequence

from pipelines.ingest.sources import SnapshotKey


def quote_text(text: str) -> str:
    """Quote a text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def match_snapshots(snapshots: Sequence[SnapshotKey]) -> str:
    """Write the condition that a row belongs to one of these snapshots."""
    keys = sorted(snapshots)
    if not keys:
        return "false"
    if len(keys) == 1:
        return f"cluster_id = {quote_text(keys[0].cluster_id)} AND snapshot_id = {quote_text(keys[0].snapshot_id)}"

    def one_of(column: str, values: Iterable[str]) -> str:
        return f"{column} IN ({', '.join(map(quote_text, sorted(set(values))))})"

    # Sets, because a hundred comparisons are more code than Java allows in a method. The first two let Delta skip
    # files. The length separates the two ids, which may contain any character.
    return " AND ".join(
        (
            one_of("cluster_id", (key.cluster_id for key in keys)),
            one_of("snapshot_id", (key.snapshot_id for key in keys)),
            one_of(
                "concat(length(snapshot_id), ' ', snapshot_id, cluster_id)",
                (f"{len(key.snapshot_id)} {key.snapshot_id}{key.cluster_id}" for key in keys),
            ),
        )
    )
