"""The broker lists that rows of the pandas UDF bring along: what cannot be is rejected, row by row."""

from __future__ import annotations

import pandas as pd
import pytest

from udfs.placement.topic_batches import assign_replicas


def place(brokers: list, racks: list | None = None, scheme: str = "kafka") -> list:
    n = len(brokers)
    columns = [pd.Series(["c"] * n), pd.Series([f"t{i}" for i in range(n)]), pd.Series([2] * n), pd.Series([2] * n)]
    found = assign_replicas(scheme, 0, *columns, pd.Series(brokers), None if racks is None else pd.Series(racks))
    return [None if rows is None else [list(map(int, row)) for row in rows] for rows in found]


def test_no_racks_in_a_row_are_racks_of_no_broker() -> None:
    lists = [[1, 2, 3], [1, 2, 3], [4, 5]]
    racks = ["a", "b", "a"]
    both = place(lists, [racks, None, ["x", None]])
    assert both[0] == place(lists[:1], [racks])[0]
    assert both[1] == place(lists)[1]
    assert both[2] is None  # only some brokers have a rack
    assert place(lists, [None, None, None]) == place(lists)


@pytest.mark.parametrize("racks", [[], ["a"], ["a", "b", "a", "b"]])
def test_other_than_one_rack_a_broker_is_rejected(racks: list[str]) -> None:
    lists = [[1, 2, 3], [1, 2, 3], [1, 2, 3]]
    good = ["a", "b", "a"]
    found = place(lists, [good, racks, good])
    assert found[1] is None
    assert found[0] == place(lists, [good] * 3)[0]
    assert found[2] == place(lists, [good] * 3)[2]


@pytest.mark.parametrize("bad", [None, [], [1, None, 2], [1, 1, 2], [1, -4, 2]])
@pytest.mark.parametrize("scheme", ["kafka", "kraft", "naive"])
def test_a_list_that_cannot_be_is_rejected_and_the_next_row_is_its_own(bad: list | None, scheme: str) -> None:
    good = [5, 7, 9]
    assert place([good, bad, good], scheme=scheme)[1] is None
    assert place([good, bad, good], scheme=scheme)[2] == place([good, good, good], scheme=scheme)[2]


def test_a_scheme_that_places_nothing_is_named() -> None:
    with pytest.raises(ValueError, match="observed places nothing by itself"):
        place([[1, 2]], scheme="observed")
