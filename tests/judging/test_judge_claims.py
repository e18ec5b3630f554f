"""Groundedness through a judge, and tool-schema prompts answered by a model endpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.judging.claims_task import context_of
from assay.judging.endpoints import Reply
from assay.judging.questions import ClaimQuestion
from assay.judging.replies import read_verdict
from assay.records.evidence import Dataset, Retrieved, Run, Workflow
from servers.scripted_judge import scripted_judge


def run_of(**changes: Any) -> Run:
    base: dict[str, Any] = {
        "schema": "assay.run/1",
        "run_id": "r",
        "workflow": Workflow(id="w", version="1", family="rag"),
        "dataset": Dataset(id="d", version="1", sample_id="s"),
        "status": "success",
    }
    return Run(**{**base, **changes})


def test_a_context_stands_in_the_order_of_its_rank_with_its_ids() -> None:
    found = context_of(
        run_of(
            retrieval=[
                Retrieved(id="b", text="second", rank=2),
                Retrieved(id="a", text="first", rank=1),
                Retrieved(id="c"),
            ]
        )
    )
    assert found == "[a] first\n\n[b] second"


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ({"reason": "r", "quotes": ["thirty days"], "supported": True}, "scored"),
        ({"reason": "r", "quotes": [], "supported": False}, "scored"),
        ({"reason": "r", "quotes": [], "supported": True}, "unparsable"),
        ({"reason": "r", "quotes": ["ninety days"], "supported": True}, "unparsable"),
        ({"reason": "r", "quotes": ["the claim itself"], "supported": True}, "unparsable"),
        ({"reason": "r", "quotes": [], "supported": "yes"}, "unparsable"),
    ],
)
def test_a_claim_is_borne_out_only_by_a_quote_from_the_context(
    reply: dict[str, Any], outcome: str
) -> None:
    question = ClaimQuestion("the claim itself", "Returns are taken within thirty days.")
    found = read_verdict(
        Reply(json.dumps(reply), None, "stop", 1, 1, None), question, question.schema()
    )
    assert found.outcome == outcome
    assert found.repairable is (outcome == "unparsable")


def test_undecided_claims_are_decided_and_the_gate_then_counts_them(
    assay: Any, tmp_path: Path
) -> None:
    """The scripted judge answers each claim by its own shape: it finds no mark and says what the
    schema's first legal value is, false.
    """
    run = {
        "schema": "assay.run/1",
        "run_id": "r-1",
        "status": "success",
        "workflow": {"id": "w", "version": "1", "family": "rag"},
        "dataset": {"id": "d", "version": "1", "sample_id": "s"},
        "retrieval": [{"id": "p", "text": "Returns are taken within thirty days."}],
        "claims": [
            {"text": "Thirty days.", "citations": ["p"]},
            {"text": "Known.", "citations": ["p"], "supported": True},
        ],
    }
    (tmp_path / "runs.jsonl").write_text(json.dumps(run) + "\n")
    with scripted_judge() as judge:
        done = assay(
            "judge",
            "claims",
            "runs.jsonl",
            "--model",
            "m",
            "--base-url",
            judge.url,
            "--no-journal",
            "-o",
            "out.jsonl",
            "-o",
            "out.json",
        )
        bodies = [entry["body"] for entry in judge.requests()]
    assert done.code == 0, done.err
    assert len(bodies) == 1, "a claim that is decided is not asked again"
    words = bodies[0]["messages"][1]["content"]
    assert "| [p] Returns are taken within thirty days." in words
    assert "| Thirty days." in words
    made = json.loads((tmp_path / "out.jsonl").read_text())
    assert [claim["supported"] for claim in made["claims"]] == [False, True]
    assert made["judge"]["prompt_version"] == "claim/1"
    graded = json.loads(assay("grade", "out.jsonl", "--json").out)
    assert graded["results"][0]["hard_gates"]["answer_grounded"]["status"] == "fail"
    again = assay(
        "judge",
        "claims",
        "out.jsonl",
        "--model",
        "m",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--no-journal",
    )
    assert again.code == 4
    assert "no undecided claim" in again.err


def test_a_claim_without_a_verdict_stays_undecided_and_fails_closed(
    assay: Any, tmp_path: Path
) -> None:
    run = {
        "schema": "assay.run/1",
        "run_id": "r-1",
        "status": "success",
        "workflow": {"id": "w", "version": "1", "family": "rag"},
        "dataset": {"id": "d", "version": "1", "sample_id": "s"},
        "retrieval": [],
        "claims": [{"text": "Thirty days."}],
    }
    (tmp_path / "runs.jsonl").write_text(json.dumps(run) + "\n")
    with scripted_judge(malformed="empty") as judge:
        done = assay(
            "judge",
            "claims",
            "runs.jsonl",
            "--model",
            "m",
            "--base-url",
            judge.url,
            "--no-journal",
            "-o",
            "out.jsonl",
        )
    assert done.code == 4
    assert json.loads((tmp_path / "out.jsonl").read_text())["claims"][0].get("supported") is None
    graded = json.loads(assay("grade", "out.jsonl", "--json").out)
    assert graded["results"][0]["hard_gates"]["answer_grounded"]["status"] == "undetermined"


def test_the_prompts_of_tool_schemas_can_be_answered_by_a_model_endpoint(
    assay: Any, tmp_path: Path
) -> None:
    tools = {
        "tools": [
            {
                "name": "add",
                "description": "Adds two numbers and returns the sum.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"a": {"type": "number", "description": "the first"}},
                },
            }
        ]
    }
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    emitted = assay("tools", "grade", "tools.json", "--emit-prompts", "--workdir", "work")
    assert emitted.code == 0, emitted.err
    with scripted_judge(scale=(1, 5)) as judge:
        (tmp_path / "judge.yaml").write_text(f"judge: j\nmodel: m-7\nbase_url: {judge.url}\n")
        scored = assay("tools", "score", "work", "--judge", "judge.yaml")
        asked = len(judge.requests())
    assert asked >= 1
    assert scored.code == 0, scored.err
    found = next((tmp_path / "work").rglob("scores.json"))
    document = json.loads(found.read_text())
    assert document["harness"]["model"] == "m-7"
    assert all(1 <= score["score"] <= 5 for score in document["scores"])
