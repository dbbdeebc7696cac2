"""What a cluster's events become under its controller quorum: who leads it, and what happens without a majority."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from udfs.plurals import count_of, join_names
from udfs.simulation.cluster_events import Event, InitialState
from udfs.simulation.kernels.codes import DownKind, EventKind

# What no controller takes part in.
_WITHOUT_CONTROLLER = (EventKind.APPEND, EventKind.FETCH, EventKind.REPLICA_OFFSETS)


class QuorumElections:
    """Follows the voters of a KRaft cluster through events, in their order.

    While a majority of the voters follows, the loss of the active controller elects another: the lowest id, as any may
    win. Without a majority, no failure is noticed, brokers that return cannot register, and requests to the controller
    fail. A later majority notices what happened.
    """

    def __init__(self, state: InitialState) -> None:
        """Begin with a cluster's state."""
        self._quorum, self._brokers = state.quorum, {*state.brokers}
        self._absent = {*state.quorum.voters} & ({*state.quorum.lagging} | (self._brokers - state.live))
        self._leader, self._epoch = state.quorum.leader, state.controller_epoch
        self._unnoticed: dict[int | None, Event] = {}  # failures, by broker
        self._returned: dict[int | None, Event] = {}  # of brokers that wait for a controller
        self._unanswered: list[Event] = []  # events that failed, as no controller was active

    @property
    def _has_majority(self) -> bool:
        return len(self._quorum.voters) - len(self._absent) >= self._quorum.majority

    def elect(self, events: Sequence[Event]) -> list[Event]:
        """Return the events with those of the quorum. Those of nodes that are no brokers are left out."""
        if not self._quorum.voters:
            return list(events)
        followed: list[Event] = []
        for (_, ends), group in groupby(events, lambda one: (one.at_ms, _ends_process(one))):
            together = list(group)
            if ends:  # no controller is elected between failures at the same time
                self._absent |= {*self._quorum.voters} & {one.broker for one in together}
            followed += (result for one in together for result in self._follow(one))
        return followed

    def describe_unanswered(self) -> Iterator[str]:
        """Yield a sentence on the events that failed, if there are any."""
        if self._unanswered:
            first = self._unanswered[0]
            kinds = join_names(dict.fromkeys(EventKind.labels()[one.kind] for one in self._unanswered))
            needed = f"{self._quorum.majority} of {count_of(len(self._quorum.voters), 'voter')}"
            yield f"from t={first.at_ms / 1000:g}s on without a controller, which needs {needed}: no effect of {kinds}"

    def _follow(self, event: Event) -> Iterator[Event]:
        if event.kind == EventKind.BROKER_UP and event.broker is not None:
            self._absent.discard(event.broker)
        yield from self._elect_controller(event)
        if event.kind in (EventKind.BROKER_DOWN, EventKind.BROKER_UP) and event.broker not in self._brokers:
            return
        if self._has_majority or event.kind in _WITHOUT_CONTROLLER:
            yield event
        elif _ends_process(event):
            self._unnoticed.setdefault(event.broker, event)
            self._returned.pop(event.broker, None)
            yield replace(event, value=DownKind.UNNOTICED)
        elif event.kind == EventKind.BROKER_UP:
            self._returned[event.broker] = event
        else:
            self._unanswered.append(event)

    def _elect_controller(self, event: Event) -> Iterator[Event]:
        """Yield the election of a controller, if there is one, and what it notices."""
        if not self._has_majority:
            self._leader = None
        elif self._leader is None or self._leader in self._absent:
            self._leader = min({*self._quorum.voters} - self._absent)
            self._epoch += 1
            yield Event(event.at_ms, EventKind.CONTROLLER_CHANGE, self._leader, value=self._epoch, offset=event.offset)
            for one in self._unnoticed.values():
                yield replace(one, at_ms=event.at_ms, value=DownKind.NOTICED_LATER)
            for one in self._returned.values():
                yield replace(one, at_ms=event.at_ms)
            self._unnoticed, self._returned = {}, {}


def _ends_process(event: Event) -> bool:
    return event.kind == EventKind.BROKER_DOWN and event.value != DownKind.FENCED
