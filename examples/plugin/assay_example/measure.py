"""A measure: how far the answer stays within a budget of words."""

from __future__ import annotations

from typing import Any

from assay.plugins import Measure, Undetermined


def read(run: Any, params: Any) -> float:
    """1 within the budget, less the longer the answer is."""
    answer = (run.outputs or {}).get(params["output"])
    if not isinstance(answer, str):
        raise Undetermined(f"the run has no text as its output '{params['output']}'")
    words = len(answer.split())
    return 1.0 if words <= params["budget"] else round(params["budget"] / words, 6)


BREVITY = Measure(
    id="assay_example.brevity",
    version="1",
    title="The answer keeps its budget of words",
    unit="share of the budget",
    direction="higher is better",
    formula="zero_one",
    evidence=(("outputs",),),
    absence="undetermined without a text as the output",
    read=read,
    params={"output": "answer", "budget": 50},
    limits="It counts words and can't tell whether they are needed.",
)
