"""Flaky items: found by name, with a rate and an interval, and nothing said of items that ran
once.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.stats.flaky import find_flaky
from assay.stats.intervals import wilson


@given(st.dictionaries(st.text(max_size=5), st.lists(st.booleans(), max_size=6), max_size=10))
def test_every_item_is_steady_flaky_or_unknown(repeats: dict[str, list[bool]]) -> None:
    found = find_flaky(repeats)
    assert [item.name for item in found.items] == sorted(
        name for name, verdicts in repeats.items() if len(set(verdicts)) == 2
    )
    assert set(found.single) == {name for name, verdicts in repeats.items() if len(verdicts) < 2}
    assert found.repeated + len(found.single) == len(repeats)
    for item in found.items:
        assert item.rate == wilson(sum(repeats[item.name]), len(repeats[item.name]))
        assert 0 < item.passed < item.n
    if found.repeated:
        assert found.rate == wilson(len(found.items), found.repeated)
    else:
        assert (found.rate.value, found.rate.low, found.rate.reason) == (
            None,
            None,
            "no item was repeated",
        )
