"""One arithmetic on Spark too: every letter, every cent and every reject that Python gives.
`python -m pytest tests/campaign/campaign_spark_equality.py`: Spark takes seconds to plan each query.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import batches
from assay.families.batch.spark_engine import SparkEngine
from assay.families.batch.spark_session import SparkSource
from assay.files.json_files import Document
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.scoring.profile import load_profile, make_plan
from spark import spark_address
from test_spark_batch import PROFILE

__all__ = ["spark_address"]


@pytest.fixture(scope="module")
def engine(spark_address: str) -> Iterator[SparkEngine]:
    made = SparkEngine(SparkSource(remote=spark_address))
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("batches")


@settings(max_examples=200, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@example(
    by=batches.Graded(
        make_plan(load_profile(Document(PROFILE, "all.yaml")), why="all"),
        make_rules(Shelf().policy("workflow@1")),
    ),
    seed=1,
    layout="wide gates",
    names=batches.MAPS[-1],
)
@given(
    by=batches.graded(),
    seed=st.integers(0, 2**32),
    layout=st.sampled_from(batches.LAYOUTS),
    names=st.sampled_from(batches.MAPS),
)
def test_spark_gives_the_letters_cents_and_rejects_of_python(
    engine: SparkEngine,
    folder: Path,
    by: batches.Graded,
    seed: int,
    layout: str,
    names: dict[str, str],
) -> None:
    tables = batches.tables(by, batches.runs(by, seed, 1000), layout)
    assert batches.differences(engine, folder, tables, by, names) == []
