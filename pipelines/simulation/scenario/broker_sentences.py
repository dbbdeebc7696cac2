"""Sentences of brokers and the controller."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipelines.simulation.scenario.scenario_cluster import Said, Told
from pipelines.simulation.scenario.sentence_patterns import BROKER, IDS, NUMBER, PARTITION, ids_of
from udfs.simulation.cluster_events import Event
from udfs.simulation.kernels import codes as k

_KINDS = {
    "down": k.BROKER_DOWN,
    "fenced": k.BROKER_DOWN,
    "up": k.BROKER_UP,
    "unfenced": k.BROKER_UP,
    "shutting down": k.SHUTDOWN,
}


def _state(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    told.live_on(ids_of(words[1]), _KINDS[words[2]], said.line)
    for broker in ids_of(words[1]):
        same = int(words[2] == "unfenced")  # the process that was fenced, not one that starts anew
        yield Event(said.at_ms, _KINDS[words[2]], told.broker(str(broker), said.line), value=same, offset=said.place)


def _lost(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    successor = told.broker(words[1], said.line) if words[1] else None
    if successor is not None and successor not in told.live:
        up = ", ".join(map(str, sorted(told.live)))
        remedy = f"Name one of those that are up then: {up}." if up else "Let a broker be up before."
        told.page.fail(f"broker {successor} is down at t={said.at_ms / 1000:g}s: it cannot control", remedy, said.line)
    yield Event(said.at_ms, k.CONTROLLER_LOST, successor, offset=said.place)


def _old_controller(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    broker = told.broker(words[1], said.line)
    (key,) = told.keys(words[3], said.line)
    yield Event(said.at_ms, k.OLD_CONTROLLER, broker, key, int(words[2]), offset=said.place)


SENTENCES = (
    (rf"brokers? {IDS} (down|up|fenced|unfenced|shutting down)", _state),
    (rf"controller lost(?: to {BROKER})?", _lost),
    (rf"old controller {BROKER} of epoch {NUMBER} writes {PARTITION}", _old_controller),
)
