"""Observations and scores as the models of Langfuse's SDK write what its API answers. The server isn't a Python package."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any

from langfuse.api.commons.types.observation_v2 import ObservationV2
from langfuse.api.observations.types import ObservationsV2Meta, ObservationsV2Response
from langfuse.api.scores.types import GetScoresV3Meta, GetScoresV3Response
from langfuse.api.scores.types.score_subject_v3 import (
    ScoreSubjectV3_Observation,
    ScoreSubjectV3_Session,
    ScoreSubjectV3_Trace,
)
from langfuse.api.scores.types.score_v3 import (
    ScoreV3_Boolean,
    ScoreV3_Categorical,
    ScoreV3_Numeric,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ANSWERS = {"France": "Paris", "Spain": "Madrid", "Peru": "Quito"}
CLOSE = (1.0, 0.75, 0.2)
RIGHT = (True, True, False)
STORED: dict[str, Any] = {
    "project_id": "atlas",
    "timestamp": NOW,
    "environment": "default",
    "created_at": NOW,
    "updated_at": NOW,
}


def make(folder: Path) -> list[dict[str, Any]]:
    observations, scores = [], []
    for number, (land, town) in enumerate(ANSWERS.items()):
        trace, root = f"trace-{number}", f"root-{number}"
        shown: dict[str, Any] = {
            "trace_id": trace,
            "start_time": NOW,
            "end_time": NOW,
            "project_id": "atlas",
            "trace_name": "capitals",
            "level": "DEFAULT",
            "latency": 1.25,
        }
        question = {"land": land}
        observations += [
            ObservationV2(id=root, type="SPAN", input=question, output=town, **shown),
            ObservationV2(id=f"g-{number}", type="GENERATION", parent_observation_id=root, **shown),
        ]
        on_trace = ScoreSubjectV3_Trace(id=trace)
        on_root = ScoreSubjectV3_Observation(id=root, trace_id=trace)
        scores += [
            ScoreV3_Numeric(
                id=f"n-{number}",
                name="close",
                source="API",
                subject=on_trace,
                value=CLOSE[number],
                **STORED,
            ),
            ScoreV3_Boolean(
                id=f"b-{number}",
                name="right",
                source="EVAL",
                subject=on_root,
                value=RIGHT[number],
                **STORED,
            ),
            ScoreV3_Categorical(
                id=f"c-{number}",
                name="tone",
                source="ANNOTATION",
                subject=on_trace,
                value="dry",
                **STORED,
            ),
        ]
    session = ScoreSubjectV3_Session(id="session-1")
    scores.append(
        ScoreV3_Numeric(id="s", name="close", source="API", subject=session, value=0.0, **STORED)
    )
    answers = {
        "observations.json": ObservationsV2Response(data=observations, meta=ObservationsV2Meta()),
        "scores.json": GetScoresV3Response(data=scores, meta=GetScoresV3Meta(limit=100)),
    }
    for name, answer in answers.items():
        (folder / name).write_text(answer.json())
    totals = {"samples": len(ANSWERS), "close": mean(CLOSE), "right": mean(RIGHT)}
    return [
        {
            "version": version("langfuse"),
            "files": list(answers),
            "totals": totals,
            "what": "observations and scores",
        }
    ]
