"""Which brokers a ZooKeeper session shows to be unregistered: a listing of broker ids names all that are not.

A line that says so names nobody, so it needs what the rest of the session names.
"""

from __future__ import annotations

from collections import defaultdict

from pipelines.ingest.formats.checked_values import Fact
from pipelines.ingest.formats.znodes import broker_in, chroot_of, is_broker_listing
from pipelines.ingest.records import BROKER


class Mentions:
    """The broker ids that a session names, apart for each path under which a cluster lives."""

    def __init__(self) -> None:
        self._ids: defaultdict[str, set[int]] = defaultdict(set)
        self._shown: set[str] = set()  # where a znode was found

    def note(self, path: str, facts: list[Fact]) -> None:
        """Take in the facts of a znode that was shown."""
        chroot = chroot_of(path)
        if chroot is None:
            return
        self._shown.add(chroot)
        held = self._ids[chroot]
        for _, fact in facts:
            held.update(fact.get("replicas") or (), fact.get("isr") or ())
            held.update(i for i in (fact.get("broker_id"), fact.get("leader")) if i is not None and i >= 0)

    def left_out(self, path: str, listing: list[Fact]) -> list[int]:
        """Ids that the session names and a listing of `path` does not, ascending; none if it lists no brokers."""
        chroot = chroot_of(path)
        if chroot is None or not is_broker_listing(path):
            return []
        return sorted(self._ids[chroot].difference(fact.get("broker_id", -1) for _, fact in listing))

    def missing(self, path: str) -> list[int]:
        """Ids that are not registered because there is no znode `path`."""
        if self._shown and chroot_of(path) not in self._shown:
            return []  # the cluster lives elsewhere: somebody looked in the wrong place first
        broker_id = broker_in(path)
        return self.left_out(path, []) if broker_id is None else [broker_id]


def unregistered(ids: list[int]) -> list[Fact]:
    """The facts of brokers that are not registered."""
    return [(BROKER, {"broker_id": i, "registered": False}) for i in ids]
