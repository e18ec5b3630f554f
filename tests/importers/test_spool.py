"""Values that wait on disk come back as they were."""

from __future__ import annotations

from decimal import Decimal

import pytest

from assay.errors import InputError
from assay.importers.spool import Spool


def test_values_come_back_exactly_and_as_often_as_wanted() -> None:
    values = [{"a": [Decimal("0.10"), None, True, 10**30, "ü\u2028\n"]}, [], "x", Decimal("1E+400")]
    with Spool("x.json") as spool:
        for value in values:
            spool.add(value)
        assert list(spool) == values
        assert list(spool) == values


def kept(value: object) -> list:
    with Spool("x.json") as spool:
        spool.add(value)
        return list(spool)


@pytest.mark.parametrize("depth", [300, 100_000])
def test_what_nests_too_deep_is_refused(depth: int) -> None:
    deep: list = []
    for _ in range(depth):
        deep = [deep]
    with pytest.raises(InputError, match="nests"):
        kept(deep)
