"""`hotspots`: how many leaders the hottest broker has now, and how many it would have by chance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.cluster_options import ClusterOptions
from pipelines.cli.option_values import decimal_number, option, take_groups, whole_number
from pipelines.cli.source_arguments import SourceArgument
from pipelines.cli.text_format import align_rows
from pipelines.errors import SettingsError
from udfs.placement.schemes import KAFKA, KRAFT, SCHEMES, is_computed
from udfs.wording import count_of

if TYPE_CHECKING:
    from pipelines.ingest.snapshot_reader import Snapshot
    from pipelines.verdict.cluster_evidence import ClusterFindings
    from udfs.hotspots.hotspot_distribution import HotspotDistribution, SchemeHotspots, TrialOptions
    from udfs.hotspots.hotspots_by_scheme import ClusterHotspots


@app.command(rich_help_panel="Questions, without Spark", epilog=examples("hotspots"))
@take_groups
def hotspots(
    source: SourceArgument,
    *,
    seeds: Annotated[
        int | None,
        option("Random placements per scheme.", "N", parser=whole_number(1, 100_000), default="hotspots.seeds"),
    ] = None,
    scheme: Annotated[str, option("Schemes, separated by commas.", "NAMES")] = "kafka,kraft,naive",
    threshold: Annotated[
        float, option("Show how likely a max/mean ratio above this is.", "RATIO", parser=decimal_number(0, 1e6, "1.25"))
    ] = 1.25,
    cluster: ClusterOptions,
    json_file: common.JsonOption = None,
) -> None:
    """Show how many leaders the hottest broker has, and how many it would have by chance."""
    from pipelines.verdict.snapshot_findings import find_findings
    from udfs.hotspots.hotspot_distribution import TrialOptions

    settings = cluster.read_settings()
    limits = settings.hotspots
    thresholds = sorted({*limits.thresholds, threshold})
    schemes, seeds = parse_schemes(scheme), seeds or limits.seeds
    snapshot = cluster.apply(cluster.read(source, settings), settings.topics.defaults)
    common.print_findings(snapshot)
    trial_options = TrialOptions(schemes, settings.run.seed, seeds, limits.max_placed_topics, thresholds)
    answer = find_snapshot_hotspots(snapshot, trial_options)
    findings = find_findings(snapshot, settings.topics.defaults)
    election = {name: getattr(findings, name) for name in ("electable_partitions", "elected_ratio")}
    by_scheme = {name: hotspots.to_row() for name, hotspots in answer.schemes.items()}
    lines = format_hotspots(answer, findings, threshold, cluster.quote_with(source))
    common.write_answer(json_file, vars(answer) | {"schemes": by_scheme} | election, lines)


def parse_schemes(text: str) -> tuple[str, ...]:
    """Parse the names of --scheme, which must compute placements."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in SCHEMES or not is_computed(name):
            known = ", ".join(name for name in SCHEMES if is_computed(name))
            raise SettingsError(f"--scheme {text}: {name!r} is not a scheme that places topics. Choose from {known}")
    return names


def find_snapshot_hotspots(snapshot: Snapshot, options: TrialOptions) -> ClusterHotspots:
    """Find the hotspots of a snapshot over its live brokers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from pipelines.ingest.merge.live_brokers import get_live_brokers
    from udfs.arrow.columns import to_array
    from udfs.hotspots.hotspots_by_scheme import find_hotspots
    from udfs.placement.topic_placement import LiveBrokers

    ids = get_live_brokers(snapshot.brokers)
    at = pc.index_in(pa.array(ids), value_set=to_array(snapshot.brokers["broker_id"]))
    live = snapshot.brokers.take(at)
    brokers = LiveBrokers(*(live[name].to_pylist() for name in ("broker_id", "rack", "cordoned")))
    return find_hotspots(snapshot.cluster_id, brokers, snapshot.topics, snapshot.partitions, options)


_RARE_PERCENT = 5  # of seeds
_HEADINGS = ("scheme", "seeds", "median", "p95", "highest", "median", "p95", "seeds above", "seeds at most")
_UNITS = ("", "", "leaders", "leaders", "leaders", "max/mean", "max/mean", "{threshold:g}", "as hot as now")


def format_hotspots(
    answer: ClusterHotspots, findings: ClusterFindings, threshold: float, source: str = "SOURCE"
) -> Iterator[str]:
    """Format hotspots as lines for people.

    findings: those on the same snapshot, for what an election would change; threshold: the max/mean whose
    exceedance probability is shown; source: as commands name it.
    """
    from pipelines.verdict.cluster_evidence import name_with_noun
    from udfs.hotspots.single_leader_topics import describe_single_leaders
    from udfs.wording import count_live_brokers, is_or_are

    now = answer.observed
    brokers = count_live_brokers(answer.live_brokers, len(findings.unknown_brokers))
    yield from _answer_chance(answer)
    yield from _answer_election(answer, findings, source)
    if topics := answer.single_leader_topics:
        yield f"{describe_single_leaders(topics)}."
        yield f"next: spread them: kafka-placement plan {source} --goal leaders --per-topic --out plan-topics"
    yield f"cluster {answer.cluster}, {count_of(answer.topics, 'topic')}: {brokers}"
    if now.leaders_max is None:
        yield "  now: no live broker leads a partition"
    else:
        hottest = f"broker {now.hottest_broker} leads {now.leaders_max:,} of {count_of(now.leaders, 'partition')}"
        yield f"  now: {hottest}, {now.max_over_mean_ratio:.3f} times the mean"
    tried = {name: hotspots for name, hotspots in answer.schemes.items() if hotspots.seeds}
    if tried:
        first, seeds = answer.run_seed, max(hotspots.seeds for hotspots in tried.values())
        numbers = f"seeds {first} to {first + seeds - 1}" if seeds > 1 else f"seed {first}"
        yield f"  hottest broker if all topics were placed again, with {numbers}:"
        rows = (_format_scheme(name, hotspots, threshold) for name, hotspots in tried.items())
        table = align_rows([_HEADINGS, [text.format(threshold=threshold) for text in _UNITS], *rows])
        yield from (f"  {line}" for line in table)
        yield from _format_expected(next(iter(tried.values())), answer)
    if findings.cordoned_brokers and KRAFT in answer.schemes:
        cordoned, verb = name_with_noun(findings.cordoned_brokers), is_or_are(len(findings.cordoned_brokers))
        yield f"  note: kraft places nothing on {cordoned}, which {verb} cordoned"
    yield from _explain_kraft(answer, threshold)
    for name, hotspots in answer.schemes.items():
        if count := hotspots.facts.unplaceable_topics:
            yield f"  note: {name} cannot place {count_of(count, 'topic')} on these brokers; not counted"


def _explain_kraft(answer: ClusterHotspots, threshold: float) -> Iterator[str]:
    """Say why KRaft's own placement is uneven on racks of different sizes."""
    sizes, kraft = answer.rack_sizes, answer.schemes.get(KRAFT)
    if kraft is None or kraft.leaders is None or len(set(sizes)) < 2:
        return
    ratio = kraft.leaders.percentile(50) / kraft.leaders.mean
    if ratio > threshold:
        racks = ", ".join(map(str, sizes[:-1]))
        of_sizes = f"with racks of {racks} and {count_of(sizes[-1], 'broker')}"
        leads = f"one in a small rack leads {ratio:.2f} x the mean"
        yield f"  note: kraft (KRaft's placement) gives racks about as many leaders: {of_sizes}, {leads}"


def _answer_chance(answer: ClusterHotspots) -> Iterator[str]:
    """Say first whether the hottest broker may be chance: compared with the first scheme that draws random numbers."""
    now, scheme = answer.observed, _find_random_scheme(answer)
    if scheme is None or now.leaders_max is None:
        return
    name, leaders = scheme
    above = 100 * leaders.exceedance_probability(now.leaders_max / leaders.mean)
    subject = f"broker {now.hottest_broker} leads {now.max_over_mean_ratio:.2f} times the mean"
    own = "Kafka's own placement" if name == KAFKA else f"the scheme {name}"
    middle, high = (leaders.percentile(p) / leaders.mean for p in (50, 95))
    kind = "Probably not chance" if above < _RARE_PERCENT else "Perhaps chance"
    if now.leaders_max <= leaders.percentile(50):
        kind = "No hotspot"
    elif _is_hotter_than_chance(answer):
        kind = "Not chance"
    exceeds = f"has more in {above:.3g} % of seeds (median {middle:.2f}, p95 {high:.2f})"
    yield f"{kind}: {subject}; {own} {exceeds}."


def _find_random_scheme(answer: ClusterHotspots) -> tuple[str, HotspotDistribution] | None:
    """Return the first scheme that draws random numbers, and the leaders of its hottest broker over the seeds."""
    for name, hotspots in answer.schemes.items():
        if SCHEMES[name].is_random and hotspots.leaders is not None:
            return name, hotspots.leaders
    return None


def _is_hotter_than_chance(answer: ClusterHotspots) -> bool:
    scheme, most = _find_random_scheme(answer), answer.observed.leaders_max
    return scheme is not None and most is not None and most > scheme[1].percentile(95)


def _answer_election(answer: ClusterHotspots, findings: ClusterFindings, source: str) -> Iterator[str]:
    """Say what an election of the preferred leaders would change, as the verdict does, or that it changes nothing.

    Where it does not help with a hotspot, a plan is the next step.
    """
    from pipelines.verdict.judgement import describe_election

    now = answer.observed.max_over_mean_ratio
    if now is None:
        return
    points = [
        one.name_server(findings.bootstrap_server, findings.release_before) for one in describe_election(findings, now)
    ]
    for point in points:
        yield point.text
        if point.step:
            yield f"next: {point.step}"
    if not points and findings.shows_preferred_leaders:
        yield "An election changes nothing: each preferred leader that is in sync leads already."
    if _is_hotter_than_chance(answer) and not any(point.step for point in points):
        yield f"next: even out leaders: kafka-placement plan {source} --goal leaders --out plan-leaders"


def _format_scheme(name: str, hotspots: SchemeHotspots, threshold: float) -> list[str]:
    leaders, row = hotspots.leaders, hotspots.to_row()
    assert leaders is not None
    percent = row["observed_percent"]
    return [
        *(name, str(hotspots.seeds)),
        *(str(leaders.percentile(p)) for p in (50, 95, 100)),
        *(f"{leaders.percentile(p) / leaders.mean:.3f}" for p in (50, 95)),
        f"{100 * leaders.exceedance_probability(threshold):.1f} %",
        "-" if percent is None else f"{percent:.1f} %",
    ]


def _format_expected(hotspots: SchemeHotspots, answer: ClusterHotspots) -> Iterator[str]:
    facts, row = hotspots.facts, hotspots.to_row()
    yield "  expected on the hottest broker (balls into bins):"
    if facts.single_partition_topics:
        most, ratio = facts.single_partition_leaders_max_expected, row["single_partition_max_over_mean_expected_ratio"]
        topics = count_of(facts.single_partition_topics, "single-partition topic")
        topics += f" on {count_of(facts.brokers, 'broker')}"
        now = answer.observed.single_partition_leaders_max
        expected = f"{most:.1f}, {ratio:.3f} times their mean (p95: {facts.single_partition_leaders_max_p95})"
        yield f"    {topics}: {expected}{'' if now is None else f'; now {now}'}"
    most, ratio = facts.random_leaders_max_expected, row["random_max_over_mean_expected_ratio"]
    expected = f"{most:.1f}, {ratio:.3f} times the mean (p95: {facts.random_leaders_max_p95})"
    yield f"    all partitions, if those beyond whole rounds fall on random brokers: {expected}"
