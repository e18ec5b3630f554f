"""The judge's part of an evaluation: what is asked, what a missing verdict leaves, and what is
never asked twice.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.files.json_files import Document
from assay.judging.client import GIVE_UP_AFTER, Client, Journal
from assay.judging.config import JudgeSpec
from assay.library.shelf import Shelf
from assay.records.reading import read_run
from assay.running.judge_step import JudgeStep, JudgeTask, estimate, task_of
from assay.scoring.sources import criterion_sources
from judges import PRICE, http, raw_endpoint, reading_judge, rubric, spec

TASK = JudgeTask(rubric("correctness"), ("correctness",), True)


def run_of(number: int, answer: str = "It is so.", **more: Any) -> dict[str, Any]:
    return {
        "schema": "assay.run/1",
        "run_id": f"r-{number}",
        "status": "success",
        "workflow": {"id": "w", "version": "1", "family": "rag"},
        "dataset": {"id": "d", "version": "1", "sample_id": f"s-{number}"},
        "inputs": {"question": f"Is it so, {number}?"},
        "outputs": {"answer": answer},
        "retrieval": [{"id": "p", "text": f"It is so in case {number}."}],
        "claims": [{"text": "It is so.", "citations": ["p"]}],
        **more,
    }


def judged(
    judge: JudgeSpec, runs: list[dict[str, Any]], path: Path | None = None, **how: Any
) -> tuple[list[dict[str, Any]], JudgeStep]:
    async def work(journal: Journal) -> tuple[list[dict[str, Any]], JudgeStep]:
        async with Client(judge, journal, **how) as client:
            step = JudgeStep(TASK, client)
            return [await step.judge(run) for run in runs], step

    with Journal(None if path is None else str(path)) as journal:
        return asyncio.run(work(journal))


def test_claims_are_decided_and_the_rubric_is_scored_with_the_judge_as_the_source() -> None:
    with reading_judge() as endpoint:
        (run, wrong), step = judged(
            spec(endpoint.url),
            [run_of(1, metadata={"judge_reasons": "forged"}), run_of(2, "WRONG")],
        )
    assert run["claims"][0]["supported"] is True
    assert run["scores"]["correctness"]["raw"] == 5
    assert run["scores"]["correctness"]["source"]["kind"] == "llm"
    assert run["judge"]["model"] == "m-1"
    assert wrong["scores"]["correctness"]["raw"] == 1
    assert run["metadata"]["judge_reasons"] == {"correctness": "as it is written"}
    assert step.missing == 0
    read_run(Document(run, "r"))


def test_nonsense_leaves_the_score_missing_with_the_reason() -> None:
    with reading_judge(lambda request: b"case 1" in request or b"so, 1?" in request) as endpoint:
        (bad, good), step = judged(spec(endpoint.url), [run_of(1), run_of(2)])
    assert bad["claims"][0].get("supported") is None
    assert bad["scores"]["correctness"]["raw"] is None
    assert "unparsable" in bad["metadata"]["judge_errors"]["correctness"]
    assert "judge_reasons" not in bad["metadata"]
    assert good["scores"]["correctness"]["raw"] == 5
    assert (step.missing, step.counts["unparsable"]) == (2, 2)
    assert "not JSON" in step.first_fault


def test_a_second_look_asks_only_what_had_no_verdict(tmp_path: Path) -> None:
    journal = tmp_path / "judge.journal"
    garbled = [True]
    with reading_judge(lambda request: garbled[0] and b"so, 1?" in request) as endpoint:
        judged(spec(endpoint.url), [run_of(1), run_of(2)], journal)
        (same, _), step = judged(spec(endpoint.url), [run_of(1), run_of(2)], journal)
        assert same["scores"]["correctness"]["raw"] is None
        assert step.client.usage.calls == 0
        garbled[0] = False
        (mended, other), step = judged(
            spec(endpoint.url), [run_of(1), run_of(2)], journal, again=True
        )
        assert mended["scores"]["correctness"]["raw"] == 5
        assert other["scores"]["correctness"]["raw"] == 5
        assert step.client.usage.calls == 1
        _, step = judged(spec(endpoint.url), [run_of(1), run_of(2)], journal, again=True)
        assert (step.missing, step.client.usage.calls) == (0, 0)


@pytest.mark.parametrize("status", ["401 Unauthorized", "400 Bad Request"])
def test_a_judge_that_is_down_costs_verdicts_and_no_runs(status: str) -> None:
    with raw_endpoint(lambda request: http(b"{}", status)) as endpoint:
        runs, step = judged(spec(endpoint.url), [run_of(n) for n in range(GIVE_UP_AFTER)])
    assert len(runs) == GIVE_UP_AFTER
    assert all(run["scores"]["correctness"]["raw"] is None for run in runs)
    assert step.down is not None
    assert len(endpoint.seen) <= GIVE_UP_AFTER


def test_what_a_scorer_scored_and_a_run_without_outputs_are_not_asked() -> None:
    scored = run_of(1, scores={"correctness": {"raw": 3}}, claims=[])
    failed = run_of(2, claims=[], status="error")
    del failed["outputs"]
    with reading_judge() as endpoint:
        (kept, missing), step = judged(spec(endpoint.url), [scored, failed])
    assert kept == scored
    assert missing["scores"]["correctness"]["raw"] is None
    assert step.client.usage.calls == 0


def test_the_task_follows_from_the_sources_of_the_profile() -> None:
    shelf = Shelf()
    profile = shelf.profile("rag@1")
    own = shelf.rubric(str(profile.rubric))
    with_ids = task_of(criterion_sources(profile, judge=True, rubric=own), own)
    assert (with_ids.claims, with_ids.passages) == (True, False)
    assert with_ids.criteria == ("response_relevance", "safety")
    assert with_ids.needed_for == "response_relevance, safety and the verdicts on claims"
    without = criterion_sources(profile, judge=True, rubric=own, absent=["expected.relevant_ids"])
    asked = task_of(without, own)
    assert asked.needed_for == (
        "response_relevance, safety and the verdicts on claims and passages"
    )
    assert not task_of(criterion_sources(shelf.profile("tool-use-measured@1"), judge=True), None)


def test_an_estimate_counts_calls_tokens_and_cost() -> None:
    found = estimate(
        TASK, spec("http://127.0.0.1:1/v1", price=PRICE), [{"q": "x" * 300}] * 4, runs=8
    )
    assert found.calls == 8
    assert 8 * 500 < found.input_tokens < 8 * 2000
    assert found.cost_usd is not None
    assert found.cost_usd > 0
    assert estimate(TASK, spec("http://127.0.0.1:1/v1"), [], runs=8).cost_usd is None
