"""Delta and Iceberg tables as other tools write them: rows that were deleted are not graded.

DuckDB reads them with extensions that are installed one by one. Where one can't be loaded, or the
package that writes the table is missing, the test is skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

PROFILE = """
profile: answers
version: 1
title: Answers
family: answers
gates: []
criteria:
  - {id: right, label: Right, weight: 0.7, layer: 1, formula: binary}
  - {id: rated, label: Rated, weight: 0.3, layer: 1, formula: likert_1_5}
"""
GATES = (
    "required_outputs_present",
    "overall_status_success",
    "schema_contract_valid",
    "no_critical_step_failures",
    "dataset_workflow_compatible",
)
ROWS = {
    "run": ["a", "b", "gone"],
    "right": [1.0, 1.0, 0.0],
    "rated": [5.0, 4.0, 1.0],
    **{gate: [True, True, True] for gate in GATES},
}


def need_extension(name: str) -> None:
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
            connection.execute(f"LOAD {name}")
    except duckdb.Error as error:
        reason = f"DuckDB's extension host has to be reachable for INSTALL {name}"
        pytest.skip(f"{reason}: {str(error).splitlines()[0]}")


def graded(assay: Any, folder: Path, name: str) -> list[str]:
    (folder / "p.yaml").write_text(PROFILE, encoding="utf-8")
    done = assay("batch", name, "-o", "g.parquet", "--profile", "p.yaml", "--json")
    assert done.code == 0, done.err
    (source,) = done.json()["record"]["inputs"]
    assert (source["name"], "no file to digest" in source["undigested"]) == (name, True)
    runs = duckdb.sql(f"SELECT run FROM '{folder}/g.parquet' ORDER BY run").fetchall()
    return [run for (run,) in runs]


def test_a_delta_table_is_read_by_its_log(assay: Any, tmp_path: Path) -> None:
    need_extension("delta")
    deltalake = pytest.importorskip("deltalake", reason="pip install deltalake")
    deltalake.write_deltalake(str(tmp_path / "scores"), pa.table(ROWS))
    deltalake.DeltaTable(str(tmp_path / "scores")).delete("run = 'gone'")
    assert graded(assay, tmp_path, "scores") == ["a", "b"]


def test_an_iceberg_table_is_read_at_the_version_that_is_named(assay: Any, tmp_path: Path) -> None:
    need_extension("iceberg")
    catalogs = pytest.importorskip(
        "pyiceberg.catalog.sql", reason="pip install pyiceberg[sql-sqlite]"
    )
    (tmp_path / "lake").mkdir()
    catalog = catalogs.SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake"
    )
    catalog.create_namespace("n")
    rows = pa.table(ROWS)
    table = catalog.create_table("n.scores", rows.schema)
    table.append(rows)
    table.delete("run = 'gone'")
    metadata = Path(table.metadata_location.removeprefix("file://"))
    assert graded(assay, tmp_path, str(metadata.relative_to(tmp_path))) == ["a", "b"]
    refused = assay("batch", "lake/n/scores", "-o", "h.parquet", "--profile", "p.yaml")
    assert refused.code == 2
    assert "lake/n/scores/metadata/VERSION.metadata.json" in refused.err
