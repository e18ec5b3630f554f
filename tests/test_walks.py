"""The recorded walks show what the commands print today."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import walks


@pytest.mark.parametrize("name", walks.WALKS)
def test_a_recorded_walk_is_current(assay: Any, tmp_path: Path, name: str) -> None:
    def run(words: list[str]) -> walks.Printed:
        done = assay(*words)
        return walks.Printed(done.code, done.out, done.err)

    made = walks.page(walks.WALKS[name], run)
    assert made == (walks.PAGES / f"{name}.md").read_text("utf-8"), "run `python docs/walks.py`"


def test_the_blocks_of_the_batch_page_do_what_it_shows(assay: Any, tmp_path: Path) -> None:
    def run(words: list[str]) -> walks.Printed:
        done = assay(*words)
        return walks.Printed(done.code, done.out, done.err)

    page = walks.BATCH.read_text("utf-8")
    assert walks.run_page(page, tmp_path, run) == page, "run `python docs/walks.py`"
    lake = duckdb.connect()
    lake.execute(f"SET file_search_path = '{tmp_path}'")
    models = [
        lake.sql(
            (tmp_path / f"warehouse/models/{name}.sql")
            .read_text("utf-8")
            .replace("{{ ref('batch_input') }}", "'lake/*/*.parquet'")
        )
        for name in ("grades", "rejects")
    ]
    graded = lake.read_parquet("graded/grades/*/*.parquet", hive_partitioning=False)
    assert models[0].order("run").fetchall() == graded.order("run").fetchall()
    assert not models[1].fetchall()


@pytest.mark.parametrize("name", walks.WALKS)
def test_a_walk_passes_then_rejects_a_worse_version_and_names_a_sample(name: str) -> None:
    text = (walks.PAGES / f"{name}.md").read_text("utf-8")
    first = text.split("$ assay run --name current")[1].split("$ assay run next")[0]
    assert "(exit" not in first
    assert "✓" in first
    decided = text.split("$ assay gate")[1]
    assert "REJECT" in decided
    assert "(exit 1)" in decided
