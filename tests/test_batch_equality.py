"""One arithmetic: an engine gives every letter, every cent and every reject that Python gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import batches
from assay.batch.duckdb_engine import DuckDBEngine
from examples import repeats, share

settings_here = settings(
    # a failure names the run and its rows, which shrinking a whole batch would not make clearer
    max_examples=share(40),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
RUNS = repeats(250, 1000)


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(threads=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("batches")


@settings_here
@given(batches.graded(), st.integers(0, 2**32), st.sampled_from(batches.LAYOUTS))
def test_duckdb_gives_the_letters_cents_and_rejects_of_python(
    engine: DuckDBEngine, folder: Path, by: batches.Graded, seed: int, layout: str
) -> None:
    tables = batches.tables(by, batches.runs(by, seed, RUNS), layout)
    paths = []
    for index, table in enumerate(tables):
        paths.append(str(folder / f"{index}.parquet"))
        pq.write_table(table, paths[-1])
    source = batches.united(tables).to_pylist()
    assert batches.differences(engine, engine.attach(paths), source, by)[:2] == []
