"""`kafka-metadata-quorum describe`: the nodes of the controller quorum, as --status and --replication print them.

Columns are those of MetadataQuorumCommand in Kafka 3.3 to 4.3: voters are ids, or from 3.9 on JSON.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.ingest.formats.checked_values import INT64, as_int, as_list, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, ignore
from pipelines.ingest.text import classify_noise, split_lines
from udfs.failures.scenarios import MAX_LAG_MS

_NOT_USED = "metadata quorum: not used"
_START = r"[\s>|#`]*+"
_STATUS = re.compile(
    _START + r"(?P<key>LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs|CurrentVoters"
    r"|CurrentObservers):\s++(?P<value>\S.*)"
)
_HEADER = re.compile(_START + r"NodeId\s++(?:DirectoryId\s++)?LogEndOffset\s++Lag\b.*")
_TIME = r"(?:-?[0-9]++(?: ms ago)?|N/A)"
_ROW = re.compile(
    _START + r"(?P<id>[0-9]++)\s++(?:(?P<directory>[A-Za-z0-9_-]{22})\s++)?(?P<end>-?[0-9]++)\s++(?P<lag>-?[0-9]++)\s++"
    rf"(?:{_TIME}\s++(?P<caught_up>{_TIME})\s++)?(?P<status>Leader|Follower|Observer)[\s`]*+"
)
_CUT_ROW = re.compile(_START + r"[0-9]++(?:\s.*)?")  # below the header, and not as above
_IDS = re.compile(r"\[[0-9,\s]*+\]")
_ENDPOINT = re.compile(r"[A-Z0-9_]++://(?P<host>.*):(?P<port>[0-9]{1,5})")
# --status shows only that a voter lags; the last time that it had caught up is -1 if it never had.
VOTER_LAGS = (
    "a voter of the controller quorum lags or is down, and --status does not show which: add the output of "
    "kafka-metadata-quorum describe --replication"
)
_NO_LAG = "MaxFollowerLag is 0"
_NO_DIRECTORY = "A" * 22  # a voter whose log dir has no id, as with controller.quorum.voters


def make_node(node: int, **values: Any) -> Fact:
    """Return the fact about a node of the quorum."""
    return FactKind.QUORUM, {"broker_id": node, **values}


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    """Yield the lines, and with an unknown time of the lag whether the lag itself is none."""
    lag = ""
    for number, line in enumerate(split_lines(text), 1):
        status = _STATUS.fullmatch(line)
        if status and status["key"] == "MaxFollowerLag":
            lag = status["value"].strip()
        if line:
            yield number, _NO_LAG if status and status["key"] == "MaxFollowerLagTimeMs" and lag == "0" else None, line


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    if (row := _ROW.fullmatch(raw)) is not None:
        return [_parse_row(row)]
    status = _STATUS.fullmatch(raw)
    if status is None or status["key"] not in ("LeaderId", "CurrentVoters", "CurrentObservers"):
        lag = status["value"].strip() if status and status["key"] == "MaxFollowerLagTimeMs" else "0"
        lag = "0" if lag == "-1" and context == _NO_LAG else lag
        if not lag.isdecimal() or int(lag) > MAX_LAG_MS:
            return ignore(_NOT_USED, VOTER_LAGS)
        if _CUT_ROW.fullmatch(raw):
            raise unparsable("a node of the quorum has not all columns: paste the whole line")
        return ignore(_NOT_USED if status or _HEADER.fullmatch(raw) else classify_noise(raw))
    value = status["value"].strip()
    if status["key"] == "LeaderId":
        leader = as_int(value, "LeaderId", -1)
        return ignore("no leader of the metadata quorum") if leader < 0 else [make_node(leader, controller=True)]
    return list(_parse_nodes(value, voter=status["key"] == "CurrentVoters")) or ignore("no node")


def _parse_row(row: re.Match[str]) -> Fact:
    return make_node(
        as_int(row["id"], "NodeId"),
        voter=row["status"] != "Observer",
        controller=True if row["status"] == "Leader" else None,
        directory_id=None if row["directory"] == _NO_DIRECTORY else row["directory"],
        log_end_offset=as_int(row["end"], "LogEndOffset", -1, INT64),
        offset_lag=as_int(row["lag"], "Lag", -1, INT64),
        caught_up_ms=_read_time(row["caught_up"] or ""),
    )


def _read_time(text: str) -> int | None:
    """Return a time in ms since 1970, or with `ms ago` one before now as a negative number; None = never."""
    number, ago, _ = text.partition(" ms ago")
    value = int(number) if number.lstrip("-").isdecimal() else -1
    return -abs(value) if ago else None if value < 0 else value


def _parse_nodes(text: str, *, voter: bool) -> Iterator[Fact]:
    """Yield a fact of each node in a list: ids, or objects."""
    nodes: Any
    try:
        ids = text.strip("[]").split(",") if _IDS.fullmatch(text) else []
        nodes = [{"id": int(id_)} for id_ in ids if id_.strip()] or json.loads(text)
    except (ValueError, RecursionError):
        nodes = None
    if not isinstance(nodes, list):
        raise unparsable("voters are neither ids as in [1,2,3] nor whole JSON")
    for node in nodes:
        if not isinstance(node, Mapping) or not isinstance(node.get("id"), int):
            raise unparsable("a voter has no id")
        directory, endpoints = node.get("directoryId"), as_list(node.get("endpoints") or [""], "endpoints")
        endpoint = _ENDPOINT.fullmatch(str(endpoints[0]))
        yield make_node(
            as_int(str(node["id"]), "id"),
            voter=voter,
            directory_id=directory if isinstance(directory, str) and directory != _NO_DIRECTORY else None,
            **({"host": endpoint["host"], "port": int(endpoint["port"])} if endpoint else {}),
        )


FORMAT = Format(
    "metadata-quorum",
    "kafka-metadata-quorum describe: the voters of the controller quorum, and how far they lag",
    Signature(
        re.compile(f"{_STATUS.pattern}|{_HEADER.pattern}|{_ROW.pattern}").fullmatch,
        table=_HEADER.fullmatch,
        table_line=_CUT_ROW.fullmatch,
    ),
    _parse_record,
    _read_rows,
)
