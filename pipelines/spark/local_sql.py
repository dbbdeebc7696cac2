"""Run SQL of this program over Delta tables in a folder of this machine with DuckDB, in a tenth of Spark's time.

There is one text of each query, in Spark's dialect: sqlglot writes it in DuckDB's. Platforms with a Spark of their own
lack both packages; they call nothing of this module.
"""

import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import sqlglot
from pyarrow import dataset
from sqlglot import exp

from pipelines.spark.storage_faults import make_damage_error
from pipelines.spark.views import View, use_temporary_names

_ROWS_PER_BATCH = 100_000
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "4GB",  # what needs more is written to files of the temporary folder
    "autoinstall_known_extensions": False,  # nothing is downloaded
}


class LocalSql:
    """Tables and views by name. Threads may share it: DuckDB itself divides the work of a query among threads."""

    def __init__(
        self, tables: Mapping[str, dataset.Dataset | pa.Table], folders: Mapping[str, Path] | None = None
    ) -> None:
        """Register tables. folders: where those that have files are."""
        self._folders = {use_temporary_names(name): folder for name, folder in (folders or {}).items()}
        scratch = f"{tempfile.gettempdir()}/kafka-placement-sql-{os.getpid()}"  # created if it is needed
        self._connection = duckdb.connect(config={**_CONFIG, "temp_directory": scratch})
        self._connection.execute("SET TimeZone = 'UTC'")
        self._lock = threading.Lock()
        for name, rows in tables.items():
            self._connection.register(use_temporary_names(name), rows)

    def create_view(self, view: View) -> None:
        """Make a view known."""
        self._connection.execute(f"CREATE VIEW {use_temporary_names(view.name)} AS {_translate(view.sql)}")

    def run(self, sql: str) -> pa.Table:
        """Run a query in Spark's dialect and return its rows, whole numbers as int32 or int64."""
        with self._lock, self._explain_damage():
            rows = self._open(sql).read_all()
        is_sum = [pa.types.is_decimal128(kind) and kind.scale == 0 for kind in rows.schema.types]  # of DuckDB
        fields = [one.with_type(pa.int64()) if wide else one for one, wide in zip(rows.schema, is_sum, strict=True)]
        return rows.cast(pa.schema(fields))

    def stream(self, sql: str, columns: Sequence[pa.Field]) -> pa.RecordBatchReader:
        """Return the rows of a query, which may be many. columns: their names and types, in order."""
        schema = pa.schema([pa.field(column.name, column.type) for column in columns])
        reader = self._open(sql)

        def read() -> Iterator[pa.RecordBatch]:
            with self._explain_damage():
                for batch in reader:
                    yield batch.rename_columns(schema.names).cast(schema)

        return pa.RecordBatchReader.from_batches(schema, read())

    @contextmanager
    def _explain_damage(self) -> Iterator[None]:
        """Raise StoreError instead of an error in reading the files of a table."""
        try:
            yield
        except (duckdb.InvalidInputException, duckdb.IOException) as error:
            for name, folder in self._folders.items():
                if re.search(rf"\b{name}\b", str(error)):
                    reason = str(error).partition("failed: ")[2] or str(error)
                    raise make_damage_error(folder, reason.partition("\n")[0]) from error
            raise

    def _open(self, sql: str) -> pa.RecordBatchReader:
        return self._connection.sql(_translate(sql)).to_arrow_reader(_ROWS_PER_BATCH)


@cache
def _translate(sql: str) -> str:
    """Translate a query from Spark's dialect to DuckDB's, with names of tables and views as they are registered."""
    return sqlglot.parse_one(use_temporary_names(sql), read="spark").transform(_replace).sql("duckdb")


def _replace(node: exp.Expression) -> exp.Expression:
    """Replace an aggregate that is null in DuckDB where its argument is null in all rows, but 0 or [] in Spark."""
    if isinstance(node, exp.CountIf):
        return exp.Count(this=exp.case().when(node.this, exp.Literal.number(1)))
    if isinstance(node, exp.ArrayAgg | exp.ArrayUniqueAgg):
        return exp.Coalesce(this=node.copy(), expressions=[exp.Array()])
    return node
