"""Racks with few brokers, which would hold too many replicas if the replicas were spread over racks."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from pipelines.verdict.cluster_evidence import MAX_BROKERS
from pipelines.verdict.verdict_points import NextPlan, NextStep, Step
from udfs.plurals import count_of

_CROWDED_RATIO = 1.25  # replicas of a broker over the mean
_SHARES = {1 / 2: "half", 1 / 3: "a third", 1 / 4: "a quarter"}


@dataclass(frozen=True)
class RackSizes:
    """The racks of a cluster, and what decides how many replicas each would hold."""

    live: Mapping[str, int]  # live brokers of each rack
    brokers: Collection[int]  # ids of all known brokers
    down_count: int = 0  # brokers that are down; they may be of any rack
    unknown_count: int = 0  # of the live ones, those of unknown state
    replication_factor: float | None = None  # median of partitions with several replicas; None = there are none

    def choose_step(self, spread: Step, add_brokers: Step) -> NextStep:
        """Return what to do so that a rack can fail: spread replicas over racks, or first add brokers to small racks.

        add_brokers: with {racks}.
        """
        small = list(self._find_small())
        if not small:
            return spread.fill()
        count = sum(self.live.values())
        sizes = [f"rack {rack} has {self.live[rack]:,}" for rack in small[:MAX_BROKERS]]
        more = [count_of(len(small) - MAX_BROKERS, "more rack")] if len(small) > MAX_BROKERS else []
        share = self._share()
        each = " each" if len(small) > 1 else ""
        name = _SHARES.get(share, f"{share:.0%}")
        unknown = f" ({self.unknown_count:,} of unknown state)" if self.unknown_count else ""
        brokers = f"{count:,} live brokers{unknown}"
        racks = f"{', '.join([*sizes, *more])} of {brokers} and would{each} hold {name} of all replicas"
        return add_brokers.fill(plan=NextPlan("expand", new_brokers=tuple(self._list_new(small))), racks=racks)

    def _share(self) -> float:
        """Return which part of the replicas each rack holds at least after they are spread."""
        factor = int(self.replication_factor or 1)
        return (factor // len(self.live)) / factor if self.live else 0.0

    def _find_small(self) -> Iterator[str]:
        """Yield racks whose brokers would hold too many replicas, also if all that are down were live in this rack."""
        count = sum(self.live.values()) + self.down_count
        for rack, size in self.live.items():
            if self._share() * count / (size + self.down_count) > _CROWDED_RATIO:
                yield rack

    def _list_new(self, small: Collection[str]) -> Iterator[str]:
        """Yield brokers that make these racks as large as the largest, as in 13:eu-1c, with free ids."""
        highest = max(self.brokers)
        free = (broker for broker in chain(range(highest + 1, 2**31), range(highest)) if broker not in self.brokers)
        for rack in small:
            for _ in range(max(self.live.values()) - self.live[rack]):
                yield f"{next(free)}:{rack}"
