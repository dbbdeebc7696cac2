"""From measured series to what each broker transfers of each topic, and what is not known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pipelines.ingest.formats import topic_loads
from pipelines.ingest.source_format import FactKind
from pipelines.metrics.metric_names import NAME, TOTALS, VOLUMES, BrokerMatcher, MetricNames, Quantity
from pipelines.metrics.series import Labels
from udfs.wording import count_of, join_names

_RATES = (Quantity.BYTES_IN, Quantity.BYTES_OUT)
_TOLERANCE = 0.02  # by which topics may differ from the total of their broker
_SAME = 0.1  # by which two scrapes of one broker may differ
_FEW = 0.95  # of the samples that other brokers have
_MAX_NAMED = 5


class MeasuredSeries(NamedTuple):
    """One series: its rates per second, or the value of a gauge: a size, or the growth of an offset; None = unknown."""

    labels: Labels
    rates: topic_loads.WindowRates
    value: float | None
    samples: int  # a rate needs two
    resets: int = 0  # how often its counter began again
    gaps: int = 0  # intervals without samples


@dataclass
class CollectedLoads:
    """Loads, and sentences on what they lack."""

    loads: list[topic_loads.Load] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ambiguous: str | None = None  # why it is not known which of two series counts; None = it is
    unmatched: int = 0  # series of metrics that are read, but of no broker of the cluster
    without_bytes: list[str] = field(default_factory=list)  # exporters whose metrics are there instead of loads

    @property
    def has_rates(self) -> bool:
        """Whether bytes per second of anything are known."""
        return any(isinstance(one, topic_loads.TopicLoad) or one[0] == FactKind.LOAD for one in self.loads)


_Key = tuple[Quantity, int, str, int]  # broker, topic (empty for a total) or volume, partition (-1 = none)


def collect_loads(
    series: Iterable[MeasuredSeries], names: MetricNames, matcher: BrokerMatcher, brokers: Collection[int]
) -> CollectedLoads:
    """Collect the loads of a cluster. brokers: its ids; those without series are named, and so is whatever is odd.

    Where several metrics show a load, the first of `names` with a value counts; of several series of one metric, the
    one with the most samples, as they are scrapes of one broker by two jobs.
    """
    chosen: dict[_Key, tuple[tuple[bool, int, int], MeasuredSeries]] = {}
    unmatched, twice, different, odd, differing = Counter[str](), 0, 0, 0, set[str]()
    for one in series:
        entry = names.find(one.labels)
        if entry is None:
            continue
        name = names.names[entry]
        broker = matcher.find(one.labels)
        if broker is None and name.quantity in VOLUMES:  # machines without a broker have volumes too
            continue
        if broker is None:
            unmatched[_describe_origin(one.labels, names)] += 1
            continue
        if name.partition and not one.labels[name.partition].isdecimal():
            odd += 1
            continue
        topic = one.labels[name.topic or name.volume or NAME] if name.topic or name.volume else ""
        partition = int(one.labels[name.partition]) if name.partition else -1
        key = (name.quantity, broker, topic, partition)
        rank = (one.rates == topic_loads.NO_RATES and one.value is None, entry, -one.samples)
        known = chosen.get(key)
        if known is not None and known[0][1] == entry:
            twice += 1
            different += _differ(known[1], one)
            differing |= {label for label, _ in known[1].labels.items() ^ one.labels.items()}
        if known is None or rank < known[0]:
            chosen[key] = (rank, one)
    measured = {key: one for key, (_, one) in chosen.items()}
    loads: list[topic_loads.Load] = [*_list_topic_loads(measured), *_list_gauges(measured)]
    out = CollectedLoads(loads, unmatched=unmatched.total())
    if twice:
        values = join_names(sorted(differing), _MAX_NAMED)
        out.problems.append(
            f"{twice:,} series are there twice, with other values of {values}: those with more samples count"
        )
        if different:
            out.ambiguous = f"{different:,} series are there twice with other rates, and other values of {values}"
    if odd:
        out.problems.append(f"the partition of {count_of(odd, 'series', 'series')} is no number: these are not used")
    out.problems += _list_problems(measured, brokers, unmatched)
    return out


def _differ(one: MeasuredSeries, other: MeasuredSeries) -> bool:
    """Return whether two scrapes of one broker differ too much to be of the same cluster."""
    if one.rates.mean is None or other.rates.mean is None:
        return False
    return abs(one.rates.mean - other.rates.mean) > _SAME * max(one.rates.mean, other.rates.mean)


def _list_topic_loads(measured: Mapping[_Key, MeasuredSeries]) -> Iterator[topic_loads.TopicLoad]:
    """Yield what brokers transfer, the totals of brokers first."""
    rates: dict[tuple[str, int], dict[Quantity, topic_loads.WindowRates]] = defaultdict(dict)
    for (quantity, broker, topic, _), one in measured.items():
        if (way := TOTALS.get(quantity, quantity)) in _RATES and one.rates != topic_loads.NO_RATES:
            rates[topic, broker][way] = one.rates
    for (topic, broker), by_way in sorted(rates.items()):
        yield topic_loads.TopicLoad(topic or None, broker, *(by_way.get(way, topic_loads.NO_RATES) for way in _RATES))


def _list_gauges(measured: Mapping[_Key, MeasuredSeries]) -> Iterator[topic_loads.Load]:
    """Yield sizes and growths of replicas, and volumes."""
    for (quantity, broker, place, partition), one in sorted(measured.items()):
        if one.value is None or one.value < 0:
            continue
        replica = {"topic": place, "partition": partition, "broker_id": broker}
        if quantity is Quantity.SIZE:
            yield FactKind.REPLICA_SIZE, {**replica, "size_bytes": round(one.value)}
        elif quantity is Quantity.LOG_END_OFFSET:
            yield FactKind.APPENDED, {**replica, "records": round(one.value)}
        elif quantity is Quantity.VOLUME_TOTAL:
            usable = measured.get((Quantity.VOLUME_USABLE, broker, place, partition))
            free = None if usable is None or usable.value is None else round(usable.value)
            volume = {"log_dir": place, "broker_id": broker}
            yield FactKind.VOLUME, {**volume, "total_bytes": round(one.value), "usable_bytes": free}


def _list_problems(
    measured: Mapping[_Key, MeasuredSeries], brokers: Collection[int], unmatched: Mapping[str, int]
) -> Iterator[str]:
    """Yield what the loads lack, and what is odd about their series."""
    seen = {broker for quantity, broker, _, _ in measured if quantity in _RATES or quantity in TOTALS}
    if silent := sorted(set(brokers) - seen):
        yield f"no series of {'broker' if len(silent) == 1 else 'brokers'} {join_names(silent, _MAX_NAMED)}"
    if unmatched:
        yield f"{sum(unmatched.values()):,} series name no broker of the cluster: {join_names(unmatched, _MAX_NAMED)}"
    few = {
        f"{topic} on broker {broker}": None
        for (quantity, broker, topic, _), one in sorted(measured.items())
        if quantity in _RATES and one.rates == topic_loads.NO_RATES
    }
    if few:
        yield f"too few samples to know the rates of {join_names(few, _MAX_NAMED)}"
    yield from _list_sample_problems(measured)
    yield from _compare_totals(measured)


def _list_sample_problems(measured: Mapping[_Key, MeasuredSeries]) -> Iterator[str]:
    """Yield where counters began again, and where samples are missing."""
    totals = [one for (quantity, *_), one in measured.items() if quantity in TOTALS]
    totals_in = {key[1]: one for key, one in measured.items() if key[0] is Quantity.BROKER_BYTES_IN}
    if reset := {broker: one.resets for broker, one in sorted(totals_in.items()) if one.resets}:
        times = (f"{broker} ({count_of(n, 'time')})" for broker, n in reset.items())
        yield f"counters began again on brokers {join_names(times, _MAX_NAMED)}: what was counted just before is lost"
    most = max((one.samples for one in totals_in.values()), default=0)
    if fewer := {broker: one for broker, one in sorted(totals_in.items()) if one.samples < _FEW * most}:
        parts = join_names(
            (f"{broker} ({100 * one.samples / most:.0f} %)" for broker, one in fewer.items()), _MAX_NAMED
        )
        yield f"brokers with fewer samples than others: {parts}"
    if gaps := sum(one.gaps for one in totals):
        yield f"{count_of(gaps, 'gap')} without samples: the mean rate over each is used"


def _compare_totals(measured: Mapping[_Key, MeasuredSeries]) -> Iterator[str]:
    """Yield brokers whose topics do not add up to what the broker itself counts."""
    sums: dict[tuple[Quantity, int], float] = defaultdict(float)
    for (quantity, broker, _, _), one in measured.items():
        sums[quantity, broker] += one.rates.mean or 0.0
    for total, part in TOTALS.items():
        for (quantity, broker), value in sorted(sums.items()):
            missing = value - sums.get((part, broker), 0.0)
            if quantity is total and value > 0 and abs(missing) > _TOLERANCE * value:
                what = f"the {part.replace('_', ' ')} of broker {broker}"
                yield f"topics have {100 * (1 - missing / value):.0f} % of {what}"


def _describe_origin(labels: Labels, names: MetricNames) -> str:
    """Describe what a series says of its broker."""
    texts = (f"{one.label}={labels[one.label]}" for one in names.brokers if labels.get(one.label))
    return next(texts, "without a label of its broker")
