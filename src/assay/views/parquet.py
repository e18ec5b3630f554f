"""Grades as a Parquet file: one row for each result, its gates and criteria as lists of records."""

from __future__ import annotations

import os
import shutil
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import IO, Any

import msgspec

from assay.canon import encode_any
from assay.files.tables import encode_row, load_duckdb, write_parquet
from assay.records.grade import Payload
from assay.views.exporters import Exporter, ResultSource
from assay.views.spooled import Spooled

COLUMNS = {
    "run_id": "VARCHAR",
    "sample_id": "VARCHAR",
    "group": "VARCHAR",
    "workflow": "VARCHAR",
    "workflow_version": "VARCHAR",
    "dataset": "VARCHAR",
    "dataset_version": "VARCHAR",
    "passed": "BOOLEAN",
    "grade": "VARCHAR",
    "provisional_grade": "VARCHAR",
    "weighted_score": "DOUBLE",
    "weighted_score_adjusted": "DOUBLE",
    "pass_threshold": "DOUBLE",
    "reason": "VARCHAR",
    "hard_gates": "STRUCT(name VARCHAR, status VARCHAR, reason VARCHAR)[]",
    "criteria": (
        "STRUCT(name VARCHAR, role VARCHAR, raw_score VARCHAR, formula_id VARCHAR, norm DOUBLE,"
        " weight DOUBLE, contribution DOUBLE, floor DOUBLE, floor_failed BOOLEAN, missing"
        " VARCHAR)[]"
    ),
    "tags": "VARCHAR[]",
    "status": "VARCHAR",
    "latency_ms": "DOUBLE",
    "cost_usd": "DOUBLE",
    "tokens": "BIGINT",
    "retries": "BIGINT",
    "profile": "VARCHAR",
    "policy": "VARCHAR",
    "scoringSystem": "VARCHAR",
    "gradingSystem": "VARCHAR",
}
"""Each column and its type. A raw score has the shape of its formula, so it is JSON text; a score
that is missing has the norm null, not the 0 that the grade counts it as.
"""


class Parquet(Spooled):
    """Grades as Parquet, written by DuckDB."""

    def row(self, result: Payload, source: ResultSource) -> Any:
        """One row."""
        tree = msgspec.to_builtins(
            {key: result[key] for key in ("workflow", "dataset", "criteria")},
            builtin_types=(Decimal,),
            enc_hook=str,
        )
        workflow, dataset = tree["workflow"] or {}, tree["dataset"] or {}
        own = {
            "workflow": workflow.get("id"),
            "workflow_version": workflow.get("version"),
            "dataset": dataset.get("id"),
            "dataset_version": dataset.get("version"),
            "hard_gates": [{"name": name, **gate} for name, gate in result["hard_gates"].items()],
            "criteria": [*map(_criterion, tree["criteria"])],
            **result["operations"],
        }
        return {name: own[name] if name in own else result[name] for name in COLUMNS}

    def write_all(self, stream: IO[bytes], counts: dict[str, Any]) -> None:
        """The rows as Parquet."""
        with TemporaryDirectory() as folder:
            rows, made = (os.path.join(folder, name) for name in ("rows.jsonl", "grades.parquet"))
            with open(rows, "wb") as lines:
                for row in self.rows():
                    lines.write(encode_row(row))
            write_parquet(rows, COLUMNS, made)
            with open(made, "rb") as whole:
                shutil.copyfileobj(whole, stream)


def _criterion(item: dict[str, Any]) -> dict[str, Any]:
    missing = item["raw_score"] is None
    return {
        "name": item["name"],
        "role": item["role"],
        "raw_score": None if missing else encode_any(item["raw_score"]).decode(),
        "formula_id": item["formula_id"],
        "norm": None if missing else item["norm"],
        "weight": item["weight"],
        "contribution": item["contribution"],
        "floor": None if item["critical_floor"] is None else item["critical_floor"]["norm"],
        "floor_failed": item["floor_failed"],
        "missing": item["missing"],
    }


def _make() -> Parquet:
    load_duckdb()  # before an hour of grading, not after it
    return Parquet()


EXPORTER = Exporter(
    "parquet", "Parquet: one row for each result, with its gates and criteria", (".parquet",), _make
)
