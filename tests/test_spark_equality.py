"""One arithmetic on Spark too: every letter, every cent and every reject that Python gives.

Spark takes seconds to plan a query, however few rows it has: few profiles, many runs each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import batches
from assay.batch.spark_engine import SparkEngine
from assay.batch.spark_session import SparkSource
from examples import repeats
from spark import spark_address

__all__ = ["spark_address"]


@pytest.fixture(scope="module")
def engine(spark_address: str) -> Iterator[SparkEngine]:
    made = SparkEngine(SparkSource(remote=spark_address))
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("batches")


@settings(max_examples=repeats(2, 200), phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    batches.graded(),
    st.integers(0, 2**32),
    st.sampled_from(batches.LAYOUTS),
    st.sampled_from(batches.MAPS),
)
def test_spark_gives_the_letters_cents_and_rejects_of_python(
    engine: SparkEngine,
    folder: Path,
    by: batches.Graded,
    seed: int,
    layout: str,
    names: dict[str, str],
) -> None:
    tables = batches.tables(by, batches.runs(by, seed, repeats(300, 1000)), layout)
    assert batches.differences(engine, folder, tables, by, names) == []
