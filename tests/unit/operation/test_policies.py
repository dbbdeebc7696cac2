"""Windows in time zones, and what policies may not allow."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from pipelines.cli import common_options
from pipelines.config.policies import MaintenanceWindow, Policy
from pipelines.operation.proposing import WrittenPlan
from udfs.planning.plan_states import PlanLevel

NIGHT = {"begins": "22:00", "ends": "04:00", "time_zone": "Europe/Berlin"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "end"),
    [
        ("2027-01-04 20:59", None),  # Monday 21:59 in Berlin
        ("2027-01-04 21:00", "2027-01-05 03:00"),
        ("2027-01-05 02:59", "2027-01-05 03:00"),  # the window of Monday
        ("2027-01-05 03:00", None),
        ("2027-03-27 23:30", "2027-03-28 02:00"),  # clocks go forward: an hour less
        ("2027-10-30 20:30", "2027-10-31 03:00"),  # and back: an hour more
    ],
)
def test_a_window_over_midnight(moment: str, end: str | None) -> None:
    window = MaintenanceWindow(**NIGHT)
    assert window.find_end(at(moment)) == (None if end is None else at(end))


def test_days_are_those_on_which_a_window_begins() -> None:
    window = MaintenanceWindow(**NIGHT, days=("fri",))
    assert window.find_end(at("2027-01-09 01:00")) == at("2027-01-09 03:00")  # Saturday
    assert window.find_end(at("2027-01-08 01:00")) is None  # Friday, in the window of Thursday


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"goal": "drain"}, "no policy may propose plans for 'drain'"),
        ({"goal": "rf"}, "no policy may propose plans"),
        ({"approval": "none"}, "only for leaders and failover"),
        ({"goal": "repair"}, "repair_after_hours is needed"),
        ({"repair_after_hours": 3}, "only for it"),
        ({"windows": ()}, "at least 1 item"),
        ({"windows": ({**NIGHT, "time_zone": "Mars"},)}, "there is no time zone 'Mars'"),
        ({"windows": ({**NIGHT, "days": ("mon", "mon")},)}, "listed twice"),
        ({"max_bytes": True}, "not true or false"),
        ({"goal": "relieve", "least_gain_per_tb": 5}, "least_gain_per_tb is only for balance"),
    ],
)
def test_policies_that_are_wrong(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Policy(**{"cluster": "prod", "goal": "balance", "windows": (NIGHT,), **changes})


def test_budgets_are_fields_of_a_request() -> None:
    policy = Policy(cluster="prod", goal="balance", windows=(NIGHT,), max_bytes="5GB", max_moves=7, max_hours=2)
    assert policy.make_fields(1e6) == {"max_bytes": 5 * 10**9, "max_moves": 7, "max_broker_bytes": 7_200_000_000}


def test_policies_are_settings(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "policies.toml"
    window = '[[operation.policies.windows]]\nbegins = "22:00"\nends = "04:00"\n'
    policy = '[[operation.policies]]\ncluster = "prod"\ngoal = "balance"\n' + window
    file.write_text(policy)
    assert common_options.read_settings(str(file), None).operation.policies[0].needs_approval
    assert common_options.read_settings(None, None).operation.policies == ()  # off by default
    file.write_text(policy * 2)
    with pytest.raises(Exception, match="listed twice"):
        common_options.read_settings(str(file), None)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (WrittenPlan(PlanLevel.SAFE, 2e12, changes_nothing=False, gain=12.0), ""),
        (WrittenPlan(PlanLevel.RISKY, 2e12, changes_nothing=False, gain=10.0), ""),
        (WrittenPlan(PlanLevel.SAFE, 2e12, changes_nothing=False, gain=9.0), "it gains 4.5 per TB"),
        (WrittenPlan(PlanLevel.SAFE, 2e12, changes_nothing=False, gain=-1.0), "it gains -0.5 per TB"),
        (WrittenPlan(PlanLevel.SAFE, None, changes_nothing=False), ""),
        (WrittenPlan(PlanLevel.HARMFUL, 1e12, changes_nothing=False, gain=50.0), "check calls it HARMFUL"),
        (WrittenPlan(PlanLevel.SAFE, 0.0, changes_nothing=True), "it would change nothing"),
        (WrittenPlan(PlanLevel.SAFE, None, changes_nothing=True, obstacle="no broker is live"), "no broker is live"),
    ],
)
def test_plans_that_a_policy_does_not_propose(plan: WrittenPlan, reason: str) -> None:
    policy = Policy(cluster="prod", goal="balance", windows=(NIGHT,), least_gain_per_tb=5)
    assert plan.explain_unfit(policy).startswith(reason)
    assert bool(plan.explain_unfit(policy)) == bool(reason)


def test_a_risky_plan_needs_an_approval() -> None:
    policy = Policy(cluster="prod", goal="leaders", windows=(NIGHT,), approval="none")
    risky = WrittenPlan(PlanLevel.RISKY, 0.0, changes_nothing=False)
    assert risky.explain_unfit(policy) == "check calls it RISKY, and no approval is required"
