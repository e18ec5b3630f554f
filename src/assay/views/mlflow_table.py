"""Grades as the table that MLflow keeps of an evaluation: `eval_results_table.json`, in the form
that `mlflow.load_table` reads (columns, and a list for each row).
"""

from __future__ import annotations

from typing import IO, Any

import msgspec

from assay.records.grade import Payload
from assay.views.exporters import Exporter, ResultSource
from assay.views.spooled import Spooled, evidence_text

_encode = msgspec.json.encode


class MlflowTable(Spooled):
    """Grades as a table. A score that is missing is null, not the 0 that the grade counts it as."""

    def row(self, result: Payload, source: ResultSource) -> Any:
        """One row, by the names of its columns."""
        question, answer, target = evidence_text(source.run)
        row: dict[str, Any] = {
            "run_id": result["run_id"],
            "sample_id": result["sample_id"],
            "inputs": question,
            "outputs": answer,
            "targets": target,
            "assay/v1/score": result["weighted_score"] / 100,
            "assay/v1/justification": " ".join(result["explanation"]) or result["reason"],
            "assay/v1/passed": result["passed"],
            "assay/v1/grade": result["grade"],
        }
        for item in result["criteria"]:
            # the columns of `assay` are those of the grade
            name = "criterion assay" if item["name"] == "assay" else item["name"]
            row[f"{name}/v1/score"] = None if item["raw_score"] is None else item["norm"]
            row[f"{name}/v1/justification"] = item["missing"]
            row[f"{name}/v1/greater_is_better"] = True  # it is a norm
        latency = result["operations"]["latency_ms"]
        row["latency"] = None if latency is None else float(latency) / 1000
        row["token_count"] = result["operations"]["tokens"]
        return row

    def write_all(self, stream: IO[bytes], counts: dict[str, Any]) -> None:
        """The columns of all rows, then the rows."""
        columns = list(dict.fromkeys(name for row in self.rows() for name in row))
        stream.write(b'{"columns":' + _encode(columns) + b',"data":[')
        for index, row in enumerate(self.rows()):
            cells = [row.get(name) for name in columns]
            stream.write((b",\n" if index else b"\n") + _encode(cells))
        stream.write(b"\n]}\n")


EXPORTER = Exporter(
    "mlflow", "MLflow: the evaluation table (eval_results_table.json)", (".json",), MlflowTable
)
