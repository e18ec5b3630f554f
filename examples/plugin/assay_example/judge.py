"""A judge that Assay can't reach by itself: here a stand-in for a model in the house."""

from __future__ import annotations

import json

from assay.plugins import JudgeApi, JudgeRequest, Reply


async def answer(request: JudgeRequest) -> Reply:
    """Ask the model. This one likes every text, and says so in the shape it is asked for."""
    shown = [line for line in request.messages[-1]["content"].splitlines() if line[:2] == "| "]
    verdict = {"reason": "It reads well.", "quotes": [shown[-1][2:62]], "score": 1}
    return Reply(json.dumps(verdict), None, "stop", 100, 20, request.model)


HOUSE = JudgeApi("assay_example.house", "The model in the house", answer=answer)
