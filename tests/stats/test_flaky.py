"""Flaky items: found by name, with a rate and an interval."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.stats.flaky import find_flaky
from assay.stats.intervals import wilson


@given(st.dictionaries(st.text(max_size=5), st.lists(st.booleans(), max_size=6), max_size=10))
def test_an_item_is_flaky_if_its_repeats_disagree(repeats: dict[str, list[bool]]) -> None:
    found = find_flaky(repeats)
    assert [item.name for item in found] == sorted(
        name for name, verdicts in repeats.items() if len(set(verdicts)) == 2
    )
    for item in found:
        assert item.rate == wilson(sum(repeats[item.name]), len(repeats[item.name]))
        assert 0 < item.passed < item.n
