"""One arithmetic on Spark too: every letter, every cent and every reject that Python gives.

Spark takes seconds to plan a query, however few rows it has: one profile with every formula in the
suite, drawn ones in the campaign, many runs each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import batches
from assay.batch.spark_engine import SparkEngine
from assay.batch.spark_session import SparkSource
from assay.files.json_files import Document
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.scoring.profile import load_profile, make_plan
from examples import CAMPAIGN, repeats
from spark import spark_address

__all__ = ["spark_address"]


SLO = {"params": {"slo_good": 1, "slo_bad": 5}}
EVERY_FORMULA = {
    "profile": "all",
    "version": 1,
    "title": "All",
    "family": "all",
    "gates": [{"id": name, "verdict": True} for name in ("no_pii_leak", "g.1")],
    "criteria": [
        {"id": name, "label": name, "weight": 1, "layer": 2, "formula": formula}
        | (SLO if formula == "lower_is_better" else {"critical_floor": {"norm": 0}})
        for name, formula in zip(batches.NAMES[:8], batches.FORMULAS, strict=True)
    ],
}


@pytest.fixture(scope="module")
def engine(spark_address: str) -> Iterator[SparkEngine]:
    made = SparkEngine(SparkSource(remote=spark_address))
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("batches")


@settings(
    max_examples=repeats(1, 200),
    phases=(Phase.explicit, *((Phase.reuse, Phase.generate) if CAMPAIGN else ())),
)
@example(
    by=batches.Graded(
        make_plan(load_profile(Document(EVERY_FORMULA, "all.yaml")), why="all"),
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
    tables = batches.tables(by, batches.runs(by, seed, repeats(300, 1000)), layout)
    assert batches.differences(engine, folder, tables, by, names) == []
