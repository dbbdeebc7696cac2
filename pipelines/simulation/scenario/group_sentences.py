"""Sentences of consumer groups."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipelines.simulation.scenario.scenario_cluster import Said, Told
from pipelines.simulation.scenario.sentence_patterns import A_NUMBER, A_TIME, OPTIONS
from udfs.simulation.groups.group_simulation import GroupEvent
from udfs.simulation.kernels import consumer_groups as g

_KINDS = {"syncs": g.SYNC, "heartbeats": g.HEARTBEAT, "lost": g.COORDINATOR_LOST, "loaded": g.COORDINATOR_LOADED}
_JOIN = {"session": A_TIME, "rebalance": A_TIME}
_GENERATION = {"generation": A_NUMBER}


def _joined(told: Told, said: Said, words: re.Match[str]) -> Iterator[GroupEvent]:
    found = told.options(words[5], _JOIN, said.line)
    timeouts = {f"{name}_ms": value for name, value in found.items()}
    known, changed = bool(words[3]), bool(words[4])
    yield GroupEvent(said.at_ms, g.JOIN, words[1], words[2], known=known, changed=changed, **timeouts)


def _asked(told: Told, said: Said, words: re.Match[str]) -> Iterator[GroupEvent]:
    generation = told.options(words[4], _GENERATION, said.line).get("generation")
    yield GroupEvent(said.at_ms, _KINDS[words[3]], words[1], words[2], generation=generation)


def _left(told: Told, said: Said, words: re.Match[str]) -> Iterator[GroupEvent]:
    yield GroupEvent(said.at_ms, g.LEAVE, words[1], words[2])


def _coordinator(told: Told, said: Said, words: re.Match[str]) -> Iterator[GroupEvent]:
    yield GroupEvent(said.at_ms, _KINDS[words[2]], words[1])


SENTENCES = (
    (rf"group (\S+) member (\S+) joins( again)?( changed)?{OPTIONS}", _joined),
    (rf"group (\S+) member (\S+) (syncs|heartbeats){OPTIONS}", _asked),
    (r"group (\S+) member (\S+) leaves", _left),
    (r"group (\S+) coordinator (lost|loaded)", _coordinator),
)
