"""A slow judge of what plans do to brokers: disks, copies, leaders. It shares no code with the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from tests.properties.disk_clusters import DiskCluster
from tests.properties.sick_clusters import Key, Waves
from tests.properties.slow_judge import Places, Rules, Step, get_state, list_steps

_HOT, _SLOW = 1.25, 2.0  # leaders over the mean; bytes over an even share
_SAVED_S, _SAVED = 60, 0.1  # what sharing must save: seconds, and of the duration of the plan
Volume = tuple[int, str]  # broker, and the first log dir on it


@dataclass(frozen=True)
class DiskRules:
    """What disks may hold, and how fast brokers copy."""

    max_disk_ratio: float
    broker_bytes: int  # of brokers whose disks are unknown; 0 = unknown
    throttle_bytes_per_s: float


@dataclass
class Log:
    """The log of a replica."""

    path: str | None  # None = unknown
    size: int


@dataclass(frozen=True)
class _Write:
    """Bytes that a step writes."""

    broker: int
    path: str | None
    size: int
    source: int | None  # the broker that it is copied from; None = another log dir


def get_places(drawn: DiskCluster) -> Places:
    """Return the log dirs that brokers show."""
    return {
        broker: {log_dir["log_dir"]: log_dir["error"] is None for log_dir in dirs}
        for broker, dirs in drawn.reading.log_dirs.items()
    }


def judge_brokers(drawn: DiskCluster, waves: Waves, rules: Rules, disks: DiskRules) -> dict[tuple[str, object], int]:
    """Judge what a plan does to brokers: the wave, from 1, by fault, and by broker or volume."""
    cluster = drawn.cluster
    steps = list_steps(cluster, waves, get_places(drawn), rules)
    by_wave: dict[int, list[Step]] = {number: [] for number in range(1, len(waves) + 1)}
    for of_partition in steps.values():
        for step in of_partition:
            by_wave[step.wave].append(step)
    run = _Execution(drawn, disks)
    for of_wave in by_wave.values():
        run.carry_out(of_wave)
    return dict(run.find_faults(rules))


class _Execution:
    """A plan that is carried out."""

    def __init__(self, drawn: DiskCluster, disks: DiskRules) -> None:
        self.drawn, self.cluster, self.disks = drawn, drawn.cluster, disks
        self.sizes, self.logs = dict[Key, int](), dict[tuple[int, Key], Log]()
        self._read_logs()
        self.volumes = {
            broker: dict(_find_volumes(dirs)) for broker, dirs in drawn.reading.log_dirs.items()
        }  # path -> first path on the volume
        self.now, self.volume_now = self._sum()
        self.peak, self.volume_peak = dict[int, list[int]](), dict[Volume, list[int]]()
        self.received, self.sent = list[Counter[int]](), list[Counter[int]]()  # by wave
        self.copied = set[Key]()
        self.leader = {key: get_state(self.cluster, key).leader for key in self.cluster.partitions}
        self.leaders = [Counter(one for one in self.leader.values() if one is not None)]

    def _read_logs(self) -> None:
        own = {(b, key): Log(path, size) for b, path, key, size, is_future in self.drawn.list_logs() if not is_future}
        for key, one in self.cluster.partitions.items():
            known = {broker: own[broker, key].size for broker in one.replicas if (broker, key) in own}
            size = known.get(one.leader, max(known.values(), default=0))  # type: ignore[call-overload]
            self.sizes[key] = size
            for broker in one.replicas:
                lost = broker in self.cluster.failed[key]
                self.logs[broker, key] = own.get((broker, key), Log(None, 0 if lost else size))

    def _sum(self) -> tuple[Counter[int], Counter[Volume]]:
        brokers, volumes = Counter[int](), Counter[Volume]()
        for (broker, _), log in self.logs.items():
            brokers[broker] += log.size
            if log.path is not None:
                volumes[broker, self.volumes[broker].get(log.path, log.path)] += log.size
        return brokers, volumes

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Carry out the steps of a wave: copy, then drop."""
        brokers, volumes = self._sum()
        self.received.append(Counter())
        self.sent.append(Counter())
        after = dict(self.logs)
        for step in steps:
            key = step.planned.key
            for write in self._list_writes(step):
                brokers[write.broker] += write.size
                if write.path is not None:
                    volumes[write.broker, self.volumes[write.broker].get(write.path, write.path)] += write.size
                if write.source is not None:
                    self.copied |= {key} if write.size else set()
                    self.received[-1][write.broker] += write.size
                    self.sent[-1][write.source] += write.size
                kept = self.logs.get((write.broker, key), Log(None, 0)).size if write.source is not None else 0
                after[write.broker, key] = Log(write.path, kept + write.size)
            for broker in step.before.replicas:
                if broker not in step.after.replicas:
                    del after[broker, key]
            for broker in step.after.replicas:
                after.setdefault((broker, key), Log(None, 0))
            self.leader[key] = step.after.leader
        self.logs = after
        for broker in self.cluster.racks:
            self.peak.setdefault(broker, []).append(brokers[broker])
        for broker, own in self.volumes.items():
            for path in {*own.values()}:
                self.volume_peak.setdefault((broker, path), []).append(volumes[broker, path])
        self.leaders.append(Counter(one for one in self.leader.values() if one is not None))

    def _list_writes(self, step: Step) -> Iterator[_Write]:
        key, replicas, paths = step.planned
        for broker, named in zip(replicas, paths or ["any"] * len(replicas), strict=True):
            log = self.logs.get((broker, key), Log(None, 0))
            only = self._list_receiving(broker)
            named = named if broker in self.volumes else "any"  # nothing is known of its log dirs
            if broker in step.copied:
                assert step.before.leader is not None or broker not in step.after.isr
                if broker in step.after.isr or (broker in self.cluster.down and step.before.isr):
                    path = named if named != "any" else log.path
                    path = self._get_first_receiving(broker) if path is None and len(only) == 1 else path
                    size = max(self.sizes[key] - log.size, 0)
                    yield _Write(broker, path, size, step.before.leader)
            elif named not in ("any", log.path):
                yield _Write(broker, named, log.size, None)

    def _get_first_receiving(self, broker: int) -> str:
        cordoned = self.cluster.cordoned_dirs
        return next(path for path in self.volumes[broker] if (broker, path) not in cordoned)

    def _list_receiving(self, broker: int) -> set[str]:
        """List the volumes of a broker with a log dir that is not cordoned."""
        volumes, cordoned = self.volumes.get(broker, {}), self.cluster.cordoned_dirs
        return {volume for path, volume in volumes.items() if (broker, path) not in cordoned}

    def find_faults(self, rules: Rules) -> Iterator[tuple[tuple[str, object], int]]:
        """Yield the faults of brokers and volumes with their wave."""
        for broker, peaks in self.peak.items():
            yield from self._find_full("disk", broker, self.now[broker], peaks, self._find_broker_rooms(broker))
        for (broker, path), peaks in self.volume_peak.items():
            if len(self._list_receiving(broker)) > 1:
                rooms = tuple(
                    _find_room(self._get_dir(broker, path), ratio) for ratio in (1.0, self.disks.max_disk_ratio)
                )
                yield from self._find_full("log_dir", (broker, path), self.volume_now[broker, path], peaks, rooms)
        live = self.cluster.live
        held = {b for one in self.cluster.partitions.values() for b in one.replicas}
        emptied = held - {broker for broker, _ in self.logs}
        staying = set(live) - emptied
        yield from self._find_slow(staying)
        yield from self._find_uneven_leaders(len(staying - rules.emptied))

    def _list_sharing(self, staying: set[int]) -> dict[int, set[int]]:
        """List for each receiver who could receive it instead: its rack, or those of it that are filled as well."""
        racks, received = self.cluster.racks, sum(self.received, Counter[int]())
        ignored = any(racks[b] is None for b in self.cluster.live)
        mates = {a: {b for b in staying if ignored or racks[b] == racks[a]} for a in racks}

        def is_filled(broker: int) -> bool:
            mean = sum(self.now[b] for b in mates[broker]) / max(len(mates[broker]), 1)
            has, gets = self.now[broker], received[broker]
            return gets > 0 and (has < 0.5 * mean or has + gets <= 1.1 * mean)

        return {a: {b for b in mates[a] if is_filled(b) == is_filled(a)} for a in received}

    def _find_slow(self, staying: set[int]) -> Iterator[tuple[tuple[str, object], int]]:
        copies = {
            "slow_copies_in": (self.received, self._list_sharing(staying)),
            "slow_copies_out": (self.sent, dict.fromkeys(staying, staying)),
        }
        slow, shared = dict[str, list[tuple[int, int]]](), dict[str, list[dict[int, float]]]()
        for name, (waves, sharing) in copies.items():
            total = sum(waves, Counter[int]())
            mean = {broker: sum(total[one] for one in mates) / max(len(mates), 1) for broker, mates in sharing.items()}
            slow[name] = [
                (-total[broker], broker)
                for broker in sharing
                if total[broker] and mean[broker] and total[broker] >= _SLOW * mean[broker]
            ]
            shared[name] = [dict(wave) for wave in waves]
            for wave, less in zip(waves, shared[name], strict=True):
                for _, broker in slow[name]:
                    mates = sharing[broker]
                    less[broker] = min(wave[broker], sum(wave[one] for one in mates) / max(len(mates), 1))
        if len(self.copied) < 2:
            return  # nothing that others could take over
        limit = max(_SAVED_S * self.disks.throttle_bytes_per_s, _SAVED * _measure_longest(self.received, self.sent), 1)
        for name, other in (("slow_copies_in", "slow_copies_out"), ("slow_copies_out", "slow_copies_in")):
            longest = _measure_longest(copies[name][0], shared[other])
            if longest - _measure_longest(shared[name], shared[other]) >= limit:
                yield (name, min(slow[name])[1]), 0

    def _find_uneven_leaders(self, staying: int) -> Iterator[tuple[tuple[str, object], int]]:
        ratios: list[Mapping[int, float]] = []
        for leads in self.leaders:
            mean = sum(leads.values()) / max(staying, 1)
            ratios.append({b: count / mean if count > ceil(mean) else 0.0 for b, count in leads.items()})
        limit = max([_HOT, *ratios[0].values()])
        for broker in self.cluster.racks:
            own = [ratio.get(broker, 0.0) for ratio in ratios[1:]]
            if own and max(own) > limit:
                yield ("uneven_leaders", broker), 1 + own.index(max(own))

    def _get_dir(self, broker: int, path: str) -> dict[str, Any]:
        return next(one for one in self.drawn.reading.log_dirs[broker] if one["log_dir"] == path)

    def _find_broker_rooms(self, broker: int) -> tuple[float | None, float | None]:
        """Return the bytes that a broker may gain until its disks are full, and to the limit; None = unknown."""
        return self._find_broker_room(broker, 1.0), self._find_broker_room(broker, self.disks.max_disk_ratio)

    def _find_broker_room(self, broker: int, ratio: float) -> float | None:
        rooms = [_find_room(self._get_dir(broker, path), ratio) for path in sorted(self._list_receiving(broker))]
        if rooms and None not in rooms:
            return sum(room for room in rooms if room is not None)
        total = self.disks.broker_bytes
        if not total:
            return None
        free = total - self.drawn.sum_bytes(self.cluster.live).logs[broker]
        return max(ratio * total - (total - free), 0.0)

    @staticmethod
    def _find_full(
        kind: str, subject: object, now: int, peaks: Sequence[int], rooms: tuple[float | None, float | None]
    ) -> Iterator[tuple[tuple[str, object], int]]:
        for name, room in zip(("overflow", "full"), rooms, strict=True):
            if is_full(now, peaks, room):
                assert room is not None
                yield (f"{kind}_{name}", subject), 1 + [peak > now + room for peak in peaks].index(True)
                return


def _measure_longest(received: Sequence[Mapping[int, float]], sent: Sequence[Mapping[int, float]]) -> float:
    """Sum what the busiest broker of each wave copies one way."""
    return sum(max([0.0, *a.values(), *b.values()]) for a, b in zip(received, sent, strict=True))


def _find_volumes(dirs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each online log dir with the first one on its volume: those with the same known bytes."""
    online = [one for one in dirs if one["error"] is None]
    for one in online:
        same = [
            other["log_dir"]
            for other in online
            if other is one
            or (one["total_bytes"] >= 0 and all(one[n] == other[n] for n in ("total_bytes", "usable_bytes")))
        ]
        yield one["log_dir"], min(same)


def _find_room(log_dir: Mapping[str, Any], ratio: float) -> float | None:
    total, free = log_dir["total_bytes"], log_dir["usable_bytes"]
    return max(ratio * total - (total - free), 0.0) if total >= 0 else None


def is_full(now: int, peaks: Sequence[int], room: float | None) -> bool:
    """Return whether a disk holds more than it may, and more than now."""
    return room is not None and max(peaks) > now and max(peaks) > now + room
