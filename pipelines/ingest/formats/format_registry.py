"""The formats that can be read, by name. A new one is a module and a line here."""

from __future__ import annotations

from pipelines.ingest.formats import (
    broker_list,
    describe,
    kraft_log,
    log_dirs,
    model_file,
    offset_checkpoint,
    offsets,
    reassignment,
    tool_input,
    tool_output,
    topic_list,
    unrecognised,
    zookeeper_cli,
    zookeeper_json,
)
from pipelines.ingest.records import Format

FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (
        describe,
        zookeeper_json,
        zookeeper_cli,
        kraft_log,
        log_dirs,
        offsets,
        offset_checkpoint,
        reassignment,
        broker_list,
        topic_list,
        model_file,
        tool_input,
        tool_output,
        unrecognised,
    )
}
