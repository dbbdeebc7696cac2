"""Consumer groups: each condition on its own, and the coordinator against another one, of objects and callbacks."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import Any

import pytest

from udfs.simulation import group_simulation as g
from udfs.simulation.group_events import GroupCause, GroupError, GroupEvent, GroupEventKind, GroupSettings, GroupState

AT_ONCE_RULES = GroupSettings(initial_rebalance_delay_ms=0)
Row = dict[str, Any]


def join(at: int, member: str, **more: Any) -> GroupEvent:
    return GroupEvent(at, GroupEventKind.JOIN, "g", member, **more)


def sync(at: int, member: str, **more: Any) -> GroupEvent:
    return GroupEvent(at, GroupEventKind.SYNC, "g", member, **more)


def beat(at: int, member: str, **more: Any) -> GroupEvent:
    return GroupEvent(at, GroupEventKind.HEARTBEAT, "g", member, **more)


def leave(at: int, member: str) -> GroupEvent:
    return GroupEvent(at, GroupEventKind.LEAVE, "g", member)


def coordinator(at: int, kind: int) -> GroupEvent:
    return GroupEvent(at, kind, "g")


def list_requests(*events: GroupEvent, settings: GroupSettings | None = None, end_at: int | None = None) -> list[Row]:
    return g.list_group_requests(g.simulate_groups(events, settings, end_at))


def list_states(
    *events: GroupEvent, settings: GroupSettings | None = None, end_at: int | None = None
) -> list[tuple[Any, ...]]:
    rows = g.list_group_transitions(g.simulate_groups(events, settings, end_at))
    return [(row["at_ms"], row["to_state"], row["cause"], row["generation"], row["leader"]) for row in rows]


def summarize(row: Row) -> tuple[Any, ...]:
    return row["answered_at_ms"], row["answered_by"], row["error"], row["generation"], row["leader"]


# Two members, a and b, stable from 3000 on as generation 1, led by a.
PAIR = (join(0, "a"), join(10, "b"))
STABLE = (*PAIR, sync(6000, "b"), sync(6000, "a"))


# ---- Delayed joins.


def test_the_first_join_waits_for_the_initial_delay() -> None:
    assert summarize(list_requests(join(0, "a"), end_at=2999)[0]) == (None, "still waiting", "NONE", None, None)
    row = list_requests(join(0, "a"), end_at=3000)[0]
    assert summarize(row) == (3000, "initial delay over", "NONE", 1, "a")
    assert row["delayed"]


def test_the_initial_delay_starts_again_while_members_join() -> None:
    """It starts once more for b; no member joins in that time, so it ends."""
    assert [summarize(row) for row in list_requests(*PAIR, end_at=9000)] == [
        (6000, "initial delay over", "NONE", 1, "a")
    ] * 2
    rows = list_requests(*PAIR, join(3500, "c"), end_at=9000)
    assert [row["answered_at_ms"] for row in rows] == [9000] * 3


def test_the_initial_delay_ends_with_the_rebalance_timeout_of_the_first() -> None:
    events = [join(0, "a", rebalance_ms=7000), *(join(1000 * i, f"m{i}") for i in range(1, 9))]
    rows = list_requests(*events, end_at=20_000)
    assert {row["answered_at_ms"] for row in rows[:7]} == {7000}
    assert list_states(*events, end_at=20_000)[1][:3] == (7000, "CompletingRebalance", "initial delay over")


def test_a_group_that_became_empty_waits_only_once() -> None:
    """As in Kafka, new members only count before the first generation."""
    events = (join(0, "a"), leave(3500, "a"), join(4000, "b"), join(5000, "c"))
    assert [row["answered_at_ms"] for row in list_requests(*events, end_at=20_000)[2:]] == [7000, 7000]


def test_joins_are_answered_once_all_members_have_joined_again() -> None:
    events = (*STABLE, join(7000, "c"), join(7100, "a"))
    assert [row["answered_by"] for row in list_requests(*events)[4:]] == ["still waiting"] * 2
    rows = list_requests(*events, join(7200, "b"))[4:]
    assert [summarize(row) for row in rows] == [(7200, "all joined", "NONE", 2, "a")] * 3
    assert [row["delayed"] for row in rows] == [True, True, False]


def test_the_rebalance_timeout_removes_members_that_have_not_joined_again() -> None:
    rules = GroupSettings(initial_rebalance_delay_ms=0)
    events = (
        join(0, "a", session_ms=90_000, rebalance_ms=20_000),
        sync(0, "a"),
        join(1000, "b", rebalance_ms=30_000),
        beat(1000, "a"),
    )
    assert list_requests(*events, settings=rules, end_at=30_999)[2]["answered_by"] == "still waiting"
    rows = list_requests(*events, beat(31_001, "a"), settings=rules)
    # The longer of both timeouts; a led, so b leads now.
    assert summarize(rows[2]) == (31_000, "rebalance timeout", "NONE", 2, "b")
    assert (rows[3]["error"], rows[4]["error"]) == ("REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID")
    assert (rows[3]["heartbeat_ended_at_ms"], rows[3]["heartbeat_ended_by"]) == (31_000, "rebalance timeout")


def test_no_member_joins_again() -> None:
    events = (
        *(join(0, name, session_ms=90_000, rebalance_ms=9000) for name in "ab"),
        sync(9000, "a"),
        sync(9000, "b"),
        join(9500, "c", rebalance_ms=9000),
        leave(9600, "c"),
    )
    actual = list_states(*events, end_at=30_000)
    assert actual[-1] == (18_500, "Empty", "rebalance timeout", 2, None)
    assert summarize(list_requests(*events)[4]) == (9600, "member left", "UNKNOWN_MEMBER_ID", 1, "a")


def test_a_member_that_leaves_is_not_waited_for() -> None:
    rows = list_requests(*STABLE, join(7000, "c"), join(7100, "a"), leave(7200, "b"))
    assert [summarize(row) for row in rows[4:6]] == [(7200, "member left", "NONE", 2, "a")] * 2
    assert rows[6]["error"] == "NONE"


def test_a_silent_member_is_not_waited_for() -> None:
    rows = list_requests(*STABLE, join(7000, "c"), join(7100, "a"), end_at=16_000)
    assert [summarize(row) for row in rows[4:]] == [(16_000, "session timeout", "NONE", 2, "a")] * 2
    assert (rows[2]["heartbeat_ended_at_ms"], rows[2]["heartbeat_ended_by"]) == (16_000, "session timeout")


def test_a_member_with_a_new_id_is_waited_for() -> None:
    rules = GroupSettings(initial_rebalance_delay_ms=0, member_id_required=True)
    begin = (join(0, "a"), join(0, "a"), sync(1, "a"))
    assert [row["error"] for row in list_requests(*begin, settings=rules)] == ["MEMBER_ID_REQUIRED", "NONE", "NONE"]
    events = (*begin, join(10, "b"), join(20, "a"))
    assert list_requests(*events, settings=rules)[-1]["answered_by"] == "still waiting"
    assert summarize(list_requests(*events, join(30, "b"), settings=rules)[4]) == (30, "all joined", "NONE", 2, "a")
    assert summarize(list_requests(*events, leave(30, "b"), settings=rules)[4]) == (30, "member left", "NONE", 2, "a")
    assert summarize(list_requests(*events, settings=rules, end_at=20_000)[4]) == (
        10_010,
        "session timeout",
        "NONE",
        2,
        "a",
    )


def test_a_new_member_waits_five_minutes() -> None:
    events = (join(0, "a", session_ms=400_000, rebalance_ms=600_000), sync(0, "a"), join(10, "b"))
    assert list_requests(*events, settings=AT_ONCE_RULES, end_at=300_009)[2]["answered_by"] == "still waiting"
    row = list_requests(*events, settings=AT_ONCE_RULES, end_at=300_010)[2]
    assert summarize(row)[:3] == (300_010, "session timeout", "UNKNOWN_MEMBER_ID")


def test_joins_of_members() -> None:
    """Members get the same answer unless they lead or have changed; unknown members are rejected."""
    rows = list_requests(*STABLE, join(7000, "b"))
    assert summarize(rows[-1]) == (7000, "at once", "NONE", 1, "a")
    assert list_states(*STABLE, join(7000, "b", changed=True))[-1][1:3] == ("PreparingRebalance", "member changed")
    assert list_states(*STABLE, join(7000, "a"))[-1][1:3] == ("PreparingRebalance", "leader joined again")
    rows = list_requests(*STABLE, join(7000, "c", known=True))
    assert summarize(rows[-1])[:3] == (7000, "at once", "UNKNOWN_MEMBER_ID")
    rows = list_requests(*STABLE, join(7000, "a"), join(7001, "a"), join(7002, "b"))[4:]
    assert [summarize(row)[:2] for row in rows] == [(None, "newer request"), (7002, "all joined"), (7002, "all joined")]


@pytest.mark.parametrize(("session", "error"), [(5999, True), (6000, False), (1_800_000, False), (1_800_001, True)])
def test_session_timeouts_have_limits(session: int, error: bool) -> None:
    row = list_requests(join(0, "a", session_ms=session), end_at=3000)[0]
    assert row["error"] == ("INVALID_SESSION_TIMEOUT" if error else "NONE")


# ---- Leaders.


def test_the_first_to_join_leads() -> None:
    assert {row["leader"] for row in list_requests(join(5, "z"), join(6, "a"), end_at=9000)} == {"z"}


def test_another_member_leads_when_the_leader_leaves() -> None:
    rows = list_requests(*STABLE, leave(7000, "a"), join(7100, "b"))
    assert summarize(rows[-1]) == (7100, "all joined", "NONE", 2, "b")
    assert summarize(list_requests(*STABLE, leave(7000, "b"), join(7100, "a"))[-1]) == (
        7100,
        "all joined",
        "NONE",
        2,
        "a",
    )


# ---- Heartbeats.


def test_the_next_heartbeat_completes_the_delayed_one() -> None:
    rows = list_requests(
        *STABLE, beat(10_000, "a"), beat(15_000, "b"), beat(19_000, "a"), beat(24_000, "b"), end_at=28_000
    )
    assert [row["error"] for row in rows[4:]] == ["NONE"] * 4
    assert not any(row["delayed"] for row in rows[4:])
    assert [(row["heartbeat_ended_at_ms"], row["heartbeat_ended_by"]) for row in rows[3:6]] == [
        (10_000, "next heartbeat"),
        (19_000, "next heartbeat"),
        (24_000, "next heartbeat"),
    ]
    assert [row["heartbeat_ended_by"] for row in rows[6:]] == ["still waiting"] * 2


def test_the_session_timeout_removes_a_member_without_heartbeats() -> None:
    events = (*STABLE, beat(10_000, "a"), beat(10_000, "b"), beat(19_999, "a"))
    assert list_states(*events, end_at=19_999)[-1][1] == "Stable"
    assert list_states(*events, end_at=20_000)[-1] == (20_000, "PreparingRebalance", "session timeout", 1, "a")
    rows = list_requests(*events, beat(20_000, "b"))
    assert rows[-1]["error"] == "UNKNOWN_MEMBER_ID"
    assert (rows[5]["heartbeat_ended_at_ms"], rows[5]["heartbeat_ended_by"]) == (20_000, "session timeout")
    assert list_states(*STABLE, end_at=20_000)[-1] == (16_000, "Empty", "session timeout", 2, None)


def test_no_heartbeat_is_expected_of_a_member_that_leaves() -> None:
    rows = list_requests(*STABLE, beat(7000, "b"), leave(7500, "b"), beat(7600, "a"))
    assert (rows[4]["heartbeat_ended_at_ms"], rows[4]["heartbeat_ended_by"]) == (7500, "member left")
    assert rows[6]["error"] == "REBALANCE_IN_PROGRESS"


def test_unknown_members_and_old_generations() -> None:
    for made in (beat, sync):
        assert list_requests(made(0, "a"))[0]["error"] == "UNKNOWN_MEMBER_ID"
        assert list_requests(*STABLE, made(7000, "c"))[-1]["error"] == "UNKNOWN_MEMBER_ID"
        assert list_requests(*STABLE, made(7000, "b", generation=0))[-1]["error"] == "ILLEGAL_GENERATION"
        assert list_requests(*STABLE, made(7000, "b", generation=1))[-1]["error"] == "NONE"
    assert list_requests(*STABLE, beat(7000, "b", generation=0))[-1]["heartbeat_ended_by"] is None
    assert list_requests(*STABLE, leave(7000, "c"))[-1]["error"] == "UNKNOWN_MEMBER_ID"


def test_a_member_that_waits_for_an_answer_needs_no_heartbeat() -> None:
    events = (*STABLE, beat(7000, "b"), join(7500, "c"), join(7600, "b"))
    later = (beat(15_000, "a"), beat(24_000, "a"))
    rows = list_requests(*events, *later, end_at=25_000)
    assert (rows[4]["heartbeat_ended_at_ms"], rows[4]["heartbeat_ended_by"]) == (17_000, "member waits itself")
    assert rows[6]["answered_by"] == "still waiting"


# ---- Syncs.


def test_a_sync_waits_for_the_leader() -> None:
    rows = list_requests(*PAIR, sync(6000, "b"), end_at=7000)
    assert rows[2]["answered_by"] == "still waiting"
    rows = list_requests(*PAIR, sync(6000, "b"), sync(6100, "a"), sync(6200, "b"))
    assert [summarize(row)[:3] for row in rows[2:]] == [
        (6100, "leader's sync", "NONE"),
        (6100, "leader's sync", "NONE"),
        (6200, "at once", "NONE"),
    ]
    assert [row["delayed"] for row in rows[2:]] == [True, False, False]


def test_a_rebalance_answers_waiting_syncs() -> None:
    rows = list_requests(*PAIR, sync(6000, "b"), join(6100, "c"), sync(6200, "a"))
    assert summarize(rows[2])[:3] == (6100, "rebalance began", "REBALANCE_IN_PROGRESS")
    assert summarize(rows[4])[:3] == (6200, "at once", "REBALANCE_IN_PROGRESS")


def test_a_member_that_never_syncs_is_removed() -> None:
    events = [*(join(0, name, session_ms=90_000, rebalance_ms=20_000) for name in "ab"), sync(20_000, "a")]
    assert list_states(*events, end_at=25_999)[-1][1] == "Stable"
    assert list_states(*events, end_at=26_000)[-1] == (26_000, "PreparingRebalance", "sync timeout", 1, "a")
    assert list_states(*events, settings=GroupSettings(sync_timeout=False), end_at=26_000)[-1][1] == "Stable"


# ---- The coordinator.


def test_another_coordinator_loads_the_group() -> None:
    lost = coordinator(8000, GroupEventKind.COORDINATOR_LOST)
    rows = list_requests(
        *STABLE,
        join(7000, "c"),
        lost,
        beat(8500, "a"),
        coordinator(9000, GroupEventKind.COORDINATOR_LOADED),
        beat(9100, "b"),
    )
    assert summarize(rows[4])[:3] == (8000, "coordinator lost", "NOT_COORDINATOR")
    assert rows[5]["error"] == "NOT_COORDINATOR"
    assert summarize(rows[6]) == (9100, "at once", "NONE", 1, "a")
    assert len(rows) == 7  # events of the coordinator are no requests


def test_a_member_loaded_from_the_log_is_not_new() -> None:
    """Even if it has left and joined as a new member since: waiting keeps it in the group."""
    events = (*STABLE, leave(7000, "b"), join(7100, "b"), coordinator(7200, GroupEventKind.COORDINATOR_LOST))
    events = (*events, coordinator(7300, GroupEventKind.COORDINATOR_LOADED), join(7400, "c"), join(7500, "b"))
    assert list_requests(*events, beat(15_000, "a"), beat(24_000, "a"))[7]["answered_by"] == "still waiting"


def test_invalid_events_are_rejected() -> None:
    for events, what in (
        ([join(1, "a"), join(0, "b")], "event 1 is earlier than the event before it"),
        ([join(1, "")], "event 0 is a request without a member"),
        ([GroupEvent(0, 6, "g", "a")], "event 0 is of no known kind"),
        ([join(1, "a", session_ms=-1)], "event 0 has a timeout below 0"),
    ):
        with pytest.raises(ValueError, match=what):
            g.simulate_groups(events)
    assert list_requests() == []


def test_one_name_in_two_groups_is_two_members() -> None:
    events = [GroupEvent(at, GroupEventKind.JOIN, name, "m") for at, name in enumerate("xyx")]
    actual = g.list_group_requests(g.simulate_groups(events, end_at=9000))
    assert [(row["group"], row["leader"], row["answered_at_ms"]) for row in actual] == [
        ("x", None, None),  # dropped for the one below
        ("y", "m", 3001),
        ("x", "m", 3000),
    ]


# ---- a coordinator of objects and callbacks


@dataclass(eq=False)
class Timer:
    run: Callable[[], None]
    on: bool = True


@dataclass(eq=False)
class Member:
    name: str
    session: int
    rebalance: int
    join: Row | None = None
    sync: Row | None = None
    new: bool = True
    synced: bool = True
    beat: Row | None = None
    timer: Timer | None = None

    @property
    def members_stored(self) -> bool:
        return not self.new and (self.join is not None or self.sync is not None)


@dataclass
class Coordinator:
    """One group. `rank` is the order of members' timers that are due at the same time."""

    group: str
    settings: GroupSettings
    rank: dict[str, int]
    now: int = 0
    event: int | None = None
    state: str = "Empty"
    generation: int = 0
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, Timer] = field(default_factory=dict)
    queue: list[Any] = field(default_factory=list)
    serial: Any = field(default_factory=itertools.count)
    newcomer: bool = False
    initial: bool = False
    joins: Timer | None = None
    syncs: Timer | None = None
    stored: tuple[int, str | None, list[tuple[str, int, int]]] = (0, None, [])
    history: list[Row] = field(default_factory=list)

    # ---- time

    def after(self, ms: int, rank: int, run: Callable[[], None]) -> Timer:
        timer = Timer(run)
        heapq.heappush(self.queue, (self.now + ms, rank, next(self.serial), timer))
        return timer

    def until(self, at: int) -> None:
        self.event = None
        while self.queue and self.queue[0][0] <= at:
            due, _, _, timer = heapq.heappop(self.queue)
            if timer.on:
                self.now, timer.on = due, False
                timer.run()
        self.now = at

    # ---- results

    def reply(self, row: Row, by: str, error: str = "NONE") -> None:
        row |= {"answered_at_ms": self.now, "answered_by": by, "error": error}
        row |= {"generation": self.generation, "leader": self.leader}

    def go(self, to: str, cause: str) -> None:
        row = {"at_ms": self.now, "event": self.event, "group": self.group, "from_state": self.state, "to_state": to}
        self.history.append(row | {"cause": cause, "generation": self.generation, "leader": self.leader})
        self.state = to

    # ---- heartbeats

    def end_beat(self, member: Member, by: str) -> None:
        if member.timer:
            member.timer.on = False
        if member.beat is not None:
            member.beat |= {"heartbeat_ended_at_ms": self.now, "heartbeat_ended_by": by}
        member.timer = member.beat = None

    def next_beat(self, member: Member, row: Row | None, by: str, ms: int | None = None) -> None:
        self.end_beat(member, by)
        if row is not None:
            row["heartbeat_ended_by"] = "still waiting"
            member.beat = row
        if member.members_stored:
            self.end_beat(member, "member waits itself")
            return

        def silent() -> None:
            if member.members_stored:
                self.end_beat(member, "member waits itself")
            else:
                self.depart(member, "session timeout")

        member.timer = self.after(member.session if ms is None else ms, self.rank[member.name], silent)

    # ---- members

    def remove(self, member: Member, by: str) -> None:
        del self.members[member.name]
        if member.sync is not None:
            member.sync["answered_by"] = by
        if self.leader == member.name:
            self.leader = next(iter(self.members), None)
        self.end_beat(member, by)
        self.check_syncs()

    def depart(self, member: Member, by: str) -> None:
        if member.join is not None:
            self.reply(member.join, by, "UNKNOWN_MEMBER_ID")
        self.remove(member, by)
        if self.state == "PreparingRebalance":
            self.check_joins(by)
        else:
            self.rebalance(by, by)

    def forget_pending(self, name: str, by: str) -> None:
        self.pending.pop(name).on = False
        self.check_joins(by)

    # ---- rebalances

    def longest(self) -> int:
        return max((member.rebalance for member in self.members.values()), default=0)

    def check_syncs(self) -> None:
        if self.syncs and all(member.synced for member in self.members.values()):
            self.syncs.on = False

    def check_joins(self, by: str) -> None:
        all_joined = all(member.join is not None for member in self.members.values())
        if self.state == "PreparingRebalance" and not self.initial and all_joined and not self.pending:
            self.complete(by)

    def rebalance(self, cause: str, by: str) -> None:
        if self.state == "CompletingRebalance":
            self.answer_syncs("rebalance began", "REBALANCE_IN_PROGRESS")
        for member in self.members.values():
            member.synced = True
        self.check_syncs()
        self.initial = self.state == "Empty"
        if self.initial:
            delay = self.settings.initial_rebalance_delay_ms
            self.wait_for_first(delay, max(self.longest() - delay, 0))
        else:
            self.joins = self.after(self.longest(), len(self.rank) + 1, lambda: self.complete("rebalance timeout"))
        self.go("PreparingRebalance", cause)
        self.check_joins(by)

    def wait_for_first(self, delay: int, remaining: int) -> None:
        def over() -> None:
            if not self.newcomer or not remaining:
                self.complete("initial delay over")
                return
            self.newcomer = False
            again = min(self.settings.initial_rebalance_delay_ms, remaining)
            self.wait_for_first(again, max(remaining - delay, 0))

        self.joins = self.after(delay, len(self.rank) + 1, over)

    def complete(self, by: str) -> None:
        assert self.joins is not None
        self.joins.on = self.initial = False
        for member in [member for member in self.members.values() if member.join is None]:
            self.remove(member, by)
        self.generation += 1
        if not self.members:
            self.stored = (self.generation, None, [])
            self.go("Empty", by)
            return
        self.go("CompletingRebalance", by)
        for member in self.members.values():
            row, member.join, member.new, member.synced = member.join, None, False, False
            assert row is not None
            self.reply(row, by)
            self.next_beat(member, row, "request answered")
        if self.settings.sync_timeout:
            self.syncs = self.after(self.longest(), len(self.rank), self.syncs_over)

    def syncs_over(self) -> None:
        for member in [member for member in self.members.values() if not member.synced]:
            self.remove(member, "sync timeout")
        self.rebalance("sync timeout", "sync timeout")

    def answer_syncs(self, by: str, error: str = "NONE") -> None:
        for member in self.members.values():
            if member.sync is not None:
                row, member.sync = member.sync, None
                self.reply(row, by, error)
                self.next_beat(member, row, "request answered")

    # ---- requests

    def on_join(self, event: GroupEvent, row: Row) -> None:
        name, member = event.member, self.members.get(event.member)
        if not self.settings.min_session_ms <= event.session_ms <= self.settings.max_session_ms:
            self.reply(row, "at once", "INVALID_SESSION_TIMEOUT")
        elif member:
            self.on_join_again(member, event, row)
        elif name not in self.pending and event.known:
            self.reply(row, "at once", "UNKNOWN_MEMBER_ID")
        elif name not in self.pending and self.settings.member_id_required:
            forget = lambda: self.forget_pending(name, "session timeout")  # noqa: E731
            self.pending[name] = self.after(event.session_ms, self.rank[name], forget)
            self.reply(row, "at once", "MEMBER_ID_REQUIRED")
        else:
            if name in self.pending:
                self.pending.pop(name).on = False
            self.newcomer |= self.state == "PreparingRebalance" and self.generation == 0
            member = self.members[name] = Member(name, event.session_ms, event.rebalance_ms, join=row)
            self.leader = self.leader or name
            self.next_beat(member, None, "", self.settings.new_member_ms)
            if self.state == "PreparingRebalance":
                self.check_joins("all joined")
            else:
                self.rebalance("member joined", "all joined")

    def on_join_again(self, member: Member, event: GroupEvent, row: Row) -> None:
        leads = self.leader == member.name
        if self.state == "PreparingRebalance" or event.changed or (self.state == "Stable" and leads):
            if member.join is not None:
                member.join["answered_by"] = "newer request"
            member.join = row
            if self.settings.rejoin_sets_timeouts:
                member.session, member.rebalance = event.session_ms, event.rebalance_ms
            if self.state == "PreparingRebalance":
                self.check_joins("all joined")
            else:
                self.rebalance("member changed" if event.changed else "leader joined again", "all joined")
        else:
            self.reply(row, "at once")

    def find_error(self, event: GroupEvent) -> str | None:
        if event.member not in self.members:
            return "UNKNOWN_MEMBER_ID"
        return None if event.generation in (None, self.generation) else "ILLEGAL_GENERATION"

    def on_sync(self, event: GroupEvent, row: Row) -> None:
        find_error = self.find_error(event) or ("REBALANCE_IN_PROGRESS" if self.state == "PreparingRebalance" else None)
        if find_error:
            self.reply(row, "at once", find_error)
            return
        member = self.members[event.member]
        member.synced = True
        self.check_syncs()
        if self.state == "Stable":
            self.reply(row, "at once")
            self.next_beat(member, row, "request answered")
            return
        if member.sync is not None:
            member.sync["answered_by"] = "newer request"
        member.sync = row
        if self.leader == member.name:
            members_stored = [(one.name, one.session, one.rebalance) for one in self.members.values()]
            self.stored = (self.generation, self.leader, sorted(members_stored, key=lambda one: self.rank[one[0]]))
            self.go("Stable", "leader's sync")
            self.answer_syncs("leader's sync")

    def on_heartbeat(self, event: GroupEvent, row: Row) -> None:
        find_error = self.find_error(event)
        if not find_error:
            self.next_beat(self.members[event.member], row, "next heartbeat")
            find_error = "REBALANCE_IN_PROGRESS" if self.state == "PreparingRebalance" else "NONE"
        self.reply(row, "at once", find_error)

    def on_leave(self, event: GroupEvent, row: Row) -> None:
        error = "NONE"
        if event.member in self.members:
            self.depart(self.members[event.member], "member left")
        elif event.member in self.pending:
            self.forget_pending(event.member, "member left")
        else:
            error = "UNKNOWN_MEMBER_ID"
        self.reply(row, "at once", error)

    def lost(self) -> None:
        for member in self.members.values():
            for waits in (member.join, member.sync):
                if waits is not None:
                    self.reply(waits, "coordinator lost", "NOT_COORDINATOR")
            self.end_beat(member, "coordinator lost")
        self.members, self.pending, self.queue, self.leader = {}, {}, [], None
        self.newcomer = self.initial = False
        self.go("Dead", "coordinator lost")

    def loaded(self) -> None:
        self.generation, self.leader, members_stored = self.stored
        for name, session, rebalance in members_stored:
            self.members[name] = Member(name, session, rebalance, new=False)
            self.next_beat(self.members[name], None, "")
        self.go("Stable" if members_stored else "Empty", "coordinator loaded")

    def take(self, place: int, event: GroupEvent) -> Row:
        self.until(event.at_ms)
        self.event = place
        row: Row = {
            "event": place,
            "at_ms": event.at_ms,
            "kind": GroupEventKind(event.kind).label,
            "group": event.group,
        }
        row |= {"member": event.member, "answered_at_ms": None, "answered_by": "still waiting", "error": "NONE"}
        row |= {"generation": None, "leader": None, "heartbeat_ended_at_ms": None, "heartbeat_ended_by": None}
        if event.kind == GroupEventKind.COORDINATOR_LOST:
            if self.state != "Dead":
                self.lost()
        elif event.kind == GroupEventKind.COORDINATOR_LOADED:
            if self.state == "Dead":
                self.loaded()
        elif self.state == "Dead":
            self.reply(row, "at once", "NOT_COORDINATOR")
        else:
            (self.on_join, self.on_sync, self.on_heartbeat, self.on_leave)[event.kind](event, row)
        row["delayed"] = row["answered_by"] == "still waiting"
        return row


def interpret_groups(events: list[GroupEvent], rules: GroupSettings, end_at: int) -> tuple[list[Row], list[Row]]:
    """Return requests and transitions as udfs.simulation.group_simulation does."""
    rank: dict[str, dict[str, int]] = {}
    for event in events:
        names = rank.setdefault(event.group, {})
        if event.kind < GroupEventKind.COORDINATOR_LOST:
            names.setdefault(event.member, len(names))
    groups = {name: Coordinator(name, rules, names) for name, names in rank.items()}
    rows = [groups[event.group].take(place, event) for place, event in enumerate(events)]
    for group in groups.values():
        group.until(max(end_at, group.now))
    history = [row for group in groups.values() for row in group.history]
    requests = [row for row, event in zip(rows, events, strict=True) if event.kind < GroupEventKind.COORDINATOR_LOST]
    return requests, sorted(history, key=lambda row: row["at_ms"])


WEIGHTS = {
    GroupEventKind.JOIN: 9,
    GroupEventKind.SYNC: 7,
    GroupEventKind.HEARTBEAT: 9,
    GroupEventKind.LEAVE: 2,
    GroupEventKind.COORDINATOR_LOST: 0.3,
    GroupEventKind.COORDINATOR_LOADED: 0.5,
}


def random_events(draw: random.Random, group: str) -> list[GroupEvent]:
    """Return random events. Times and timeouts are a few milliseconds, so that much happens at the same time."""
    at, events = 0, []
    names = "abcdef"[: draw.randint(1, 6)]
    pace = draw.choice([1, 2, 6])
    for _ in range(draw.randint(1, 60)):
        at += draw.randint(0, pace)
        (kind,) = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))
        member = draw.choice(names) if kind < GroupEventKind.COORDINATOR_LOST else ""
        session = draw.choice([0, 1, 3, 8, 15, 40, 99])
        generation = draw.choice([None, None, None, 1, 2])
        known, changed = draw.random() < 0.2, draw.random() < 0.2
        rebalance = draw.choice([0, 2, 7, 20, 50])
        events.append(GroupEvent(at, kind, group, member, session, rebalance, generation, known, changed))
    return events


RULES = [
    GroupSettings(0, False, False, False, 300, 0, 50),
    GroupSettings(3, False, True, False, 300, 1, 50),
    GroupSettings(5, True, True, True, 12, 0, 50),
    GroupSettings(4, False, True, True, 25, 0, 99),
]


@pytest.mark.parametrize("which", range(len(RULES)))
def test_no_difference_to_the_coordinator_of_objects(which: int) -> None:
    draw = random.Random(which)
    events = [event for i in range(500) for event in random_events(draw, f"g{i}")]
    events.sort(key=lambda event: event.at_ms)
    end_at = events[-1].at_ms + draw.randint(0, 30)
    replayed = g.simulate_groups(events, RULES[which], end_at)
    requests, history = interpret_groups(events, RULES[which], end_at)
    actual = g.list_group_requests(replayed)
    for expected, row in zip(requests, actual, strict=True):
        assert row == expected
    by_time: Callable[[Row], tuple[int, int]] = lambda row: (row["at_ms"], int(row["group"][1:]))  # noqa: E731
    assert sorted(g.list_group_transitions(replayed), key=by_time) == sorted(history, key=by_time)
    # What is never there proves nothing.
    assert {row["answered_by"] for row in actual} >= {"all joined", "leader's sync", "member left", "newer request"}
    assert {row["heartbeat_ended_by"] for row in actual} >= {"next heartbeat", "session timeout", "member waits itself"}
    assert {row["to_state"] for row in history} == set(GroupState.labels())


def test_names_are_as_many_as_codes() -> None:
    assert (len(GroupEventKind.labels()), len(GroupError.labels()), len(GroupCause.labels())) == (
        len(GroupEventKind),
        len(GroupError),
        len(GroupCause),
    )
    assert astuple(GroupSettings()) == (3000, False, True, False, 300_000, 6000, 1_800_000)
