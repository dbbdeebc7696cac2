"""Check that a statement only reads the tables of a warehouse: a guard against accidents, not a sandbox."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from pipelines.errors import StoreError
from pipelines.spark.session import read_plans

# What a statement is put between, so that Spark reads it as a subquery. Its lines keep their positions.
QUERY_WRAPPER = ("SELECT * FROM (\n", "\n)")
_SHOW = re.compile(r"\s*(SHOW|DESCRIBE|DESC)\b", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*(EXPLAIN\s+((EXTENDED|CODEGEN|COST|FORMATTED)\s+)?)", re.IGNORECASE)
# White space, semicolons and comments.
_GAP = r"(?:[\s;]|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)"
_EMPTY = re.compile(rf"{_GAP}*+\Z")
# The rest of a statement: quoted texts and names, whose end may be missing, comments without an end, and all else.
_TOKEN = re.compile(
    rf"(?P<gap>{_GAP}++)|'(?:[^'\\]|\\.)*+'?|\"(?:[^\"\\]|\\.)*+\"?|`[^`]*+`?|/\*.*+|[^\s;'\"`/-]++|.", re.DOTALL
)
# A semicolon, a comment, a quoted text or name, or other text.
_PART = re.compile(
    r";|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|'(?:[^'\\]|\\.)*+'?|\"(?:[^\"\\]|\\.)*+\"?|`[^`]*+`?|[^;'\"`/-]++|.",
    re.DOTALL,
)
# Spark runs functions in TIMESTAMP AS OF (...) before there is a plan.
_REFLECTION = re.compile(r"\b(?:(?:try_)?reflect|java_method)\s*+\(", re.IGNORECASE)
_RUNS_JAVA = "reflect, try_reflect and java_method, which run Java code"
_SETTINGS = {
    "spark.sql.runSQLOnFiles": "false",  # SELECT * FROM csv.`/etc/passwd`
    "spark.sql.variable.substitute": "false",  # ${env:SECRET}
    # Without these two, a plan from Spark Connect would be cut, and to explain a query would run some functions.
    "spark.sql.debug.maxToStringFields": "1000000",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
}
# What a plan contains that does more than read tables: in a plan as JSON, where no text of a query can look like it,
# and in one as text; and what to call it in an error.
_CLASS = r'"class":"[\w.$]+\.'
_REJECTED = (
    (
        rf'{_CLASS}ScriptTransformation"',
        r"\bScriptTransformation\b",
        "TRANSFORM, MAP and REDUCE with USING, which run programs",
    ),
    (rf'{_CLASS}(?:CallMethodViaReflection|TryReflect)"', r"\b(?:(?:try_)?reflect|java_method)\(", _RUNS_JAVA),
    (
        rf'{_CLASS}UnresolvedPathBased\w*"',
        r"\bUnresolvedPathBased\w*",
        "paths, which may be outside the warehouse. Give the name of a table",
    ),
    (
        rf'{_CLASS}UnresolvedTableValuedFunction","num-children":0,"name":"\[table_changes_by_path\]"',
        r"\btable_changes_by_path\b",
        "table_changes_by_path, which reads tables outside the warehouse. Use table_changes",
    ),
)


@contextmanager
def reject_files(spark: SparkSession) -> Iterator[None]:
    """Let SQL name only tables, and substitute no variables, where the session allows these settings."""
    before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in _SETTINGS}
    try:
        for key, value in _SETTINGS.items():
            with suppress(PySparkException):  # not allowed on this platform
                spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            with suppress(PySparkException):
                if old is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, old)


def open_query(spark: SparkSession, sql: str) -> DataFrame:
    """Return the frame of a statement that only reads tables.

    Raises: ParseException or AnalysisException of Spark if it is invalid or changes something; StoreError if it is
    empty, runs programs or code, or reads other files.
    """
    if _EMPTY.match(sql):
        raise StoreError("there is no statement. Give one: kafka-placement query 'SELECT * FROM gold.leader_hotspots'")
    try:
        sql.encode("utf-8")
    except UnicodeEncodeError as error:
        position = f"character {error.start + 1} of the statement"
        raise StoreError(f"{position} is half of a surrogate pair, which is no text. Remove it.") from error
    if _REFLECTION.search(remove_texts(sql)):
        raise _reject(_RUNS_JAVA)
    frame = spark.sql(_check_statement(spark, sql))
    _check_plans(frame)  # of SHOW and DESCRIBE: Spark has run them, but their result is not shown
    return frame


def _check_statement(spark: SparkSession, sql: str) -> str:
    """Return the statement if it can only read; else raise Spark's ParseException, or StoreError.

    What Spark accepts as a subquery reads only, whatever comments and strings it has.
    """
    explain = _EXPLAIN.match(sql)
    if explain:
        rest = re.sub(r"\S", " ", explain[0]) + sql[explain.end() :]  # positions in errors stay right
        return explain[1] + _check_statement(spark, rest)
    if _SHOW.match(sql):
        return sql
    shorter = remove_end(sql)
    if shorter != sql:
        with suppress(ParseException):
            _check_plans(spark.sql(sql.join(QUERY_WRAPPER)))
            return sql
    _check_plans(spark.sql(shorter.join(QUERY_WRAPPER)))
    return shorter


def remove_end(sql: str) -> str:
    """Remove white space, semicolons and comments from the end of a statement."""
    end = 0
    for token in _TOKEN.finditer(sql):
        if token.lastgroup != "gap":
            end = token.end()
    return sql[:end]


def split_statements(text: str) -> tuple[list[str], str]:
    """Split text at the semicolons outside quotes and comments; return the statements, and the rest after the last."""
    statements, begin = [], 0
    for token in _PART.finditer(text):
        if token[0] == ";":
            statements.append(text[begin : token.start()])
            begin = token.end()
    return statements, text[begin:]


def is_empty(sql: str) -> bool:
    """Tell whether a statement has only white space, semicolons and comments."""
    return _EMPTY.match(sql) is not None


def _check_plans(frame: DataFrame) -> None:
    """Raise StoreError if a query does more than read tables."""
    plans, is_json = read_plans(frame)
    for json_pattern, text_pattern, problem in _REJECTED:
        if re.search(json_pattern if is_json else text_pattern, plans, re.IGNORECASE):
            raise _reject(problem)


def _reject(problem: str) -> StoreError:
    return StoreError(f"query only reads tables and views. It rejects {problem}.")


def remove_texts(sql: str) -> str:
    """Return a statement without comments, the content of texts, and quotes around names."""

    def shorten(token: re.Match[str]) -> str:
        if token.lastgroup == "gap" or token[0].startswith("/*"):
            return " "
        return "''" if token[0][0] in "'\"" else token[0].strip("`")

    return "".join(map(shorten, _TOKEN.finditer(sql)))
