"""MLflow: `mlflow.genai.evaluate` on four answers, one of which a scorer can't score. The runs go to
a folder, so that no server is needed.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ANSWERS = [
    ("When does the ferry leave?", "At 9:30, please be early", "At 9:30, please be early"),
    ("Is there a bus?", "No", "At noon"),
    ("When does the train leave?", "Noon!", "Noon"),
    ("Is there a tram?", "At ten", "At ten, please wait"),
]
TRACES = ["trace", "spans", "trace_metadata", "tags"]
"""Columns that name the user and the files of this machine."""


def make(folder: Path) -> list[dict[str, Any]]:
    os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "LOGNAME": "tester"}
    import mlflow
    from mlflow.entities import Feedback
    from mlflow.genai.scorers import scorer

    @scorer
    def exact(outputs: str, expectations: dict[str, Any]) -> bool:
        return outputs == expectations["expected_response"]

    @scorer
    def overlap(outputs: str, expectations: dict[str, Any]) -> float:
        given, wanted = (
            set(text.lower().split()) for text in (outputs, expectations["expected_response"])
        )
        return round(len(given & wanted) / len(given | wanted), 3)

    @scorer
    def polite(outputs: str) -> Feedback:
        if "!" in outputs:
            raise ValueError("can't tell with an exclamation mark")
        return Feedback(value="yes" if "please" in outputs else "no", rationale="looked for please")

    data = [
        {"inputs": {"question": asked}, "outputs": answer, "expectations": expected(wanted)}
        for asked, answer, wanted in ANSWERS
    ]
    with TemporaryDirectory() as runs:
        mlflow.set_tracking_uri((Path(runs) / "runs").as_uri())
        result = mlflow.genai.evaluate(data=data, scorers=[exact, overlap, polite])
    table = result.result_df.drop(columns=TRACES)
    for one in (one for listed in table["assessments"] for one in listed):
        if error := (one.get("feedback") or {}).get("error"):
            error["stack_trace"] = "Traceback"  # it names files of this machine
    table.to_csv(folder / "evaluation.csv", index=False)
    table.to_json(folder / "evaluation.json", orient="records", default_handler=str)
    means = {name.removesuffix("/mean"): float(mean) for name, mean in result.metrics.items()}
    made = {
        "version": version("mlflow-skinny"),
        "totals": {"samples": len(table), **dict(sorted(means.items()))},
    }
    return [
        {**made, "files": [f"evaluation.{kind}"], "what": f".{kind}, genai.evaluate"}
        for kind in ("csv", "json")
    ]


def expected(answer: str) -> dict[str, Any]:
    """What an answer is held against; the number must not be taken for a score."""
    return {"expected_response": answer, "length": len(answer)}
