"""Judge work as files: what comes back from elsewhere is the same as if it had been asked here, and
belongs to its question or is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges import Run, here, judged, pair, put_items, put_lines, put_pairs, verdict
from servers.scripted_judge import Endpoint, scripted_judge

__all__ = ["here"]
PAIRS = [pair(1, 0.9, 0.1), pair(2, 0.1, 0.9, label="b"), pair(3, 0.5, 0.5)]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def at(judge: Endpoint) -> tuple[str, ...]:
    return ("--model", "m-1", "--base-url", judge.url, "--retries", "0")


def verdicts(document: dict[str, Any]) -> Any:
    """What was said of each item, without keys, which belong to a judge at an address."""
    found = judged(document)["items"]
    for one in found:
        for sample in one.get("samples", one.get("looks", ())):
            sample.pop("key")
    return found, document["counts"]


# --- there and back


def test_exported_asked_and_consumed_gives_the_judgements_of_asking_directly(
    here: Run, tmp_path: Path
) -> None:
    put_items(tmp_path, 4)
    with scripted_judge() as judge:
        assert (
            here(
                "judge",
                "rubric",
                "items.jsonl",
                "--rubric",
                "plain.yaml",
                *at(judge),
                "-o",
                "direct.json",
            ).code
            == 0
        )
        assert (
            here(
                "judge", "export", "items.jsonl", "--rubric", "plain.yaml", "-o", "questions.jsonl"
            ).code
            == 0
        )
        assert (
            here(
                "judge",
                "ask",
                "questions.jsonl",
                *at(judge),
                "--journal",
                "other.journal",
                "-o",
                "answers.jsonl",
            ).code
            == 0
        )
        assert judge.stats().requests == 16
    assert (
        here(
            "judge",
            "consume",
            "answers.jsonl",
            "--of",
            "items.jsonl",
            "--rubric",
            "plain.yaml",
            "-o",
            "consumed.json",
        ).code
        == 0
    )
    direct, consumed = (
        json.loads((tmp_path / name).read_bytes()) for name in ("direct.json", "consumed.json")
    )
    assert consumed["judge"] == {"judge": "m-1", "model": "m-1", "source": "files"}
    assert (consumed["pending"], consumed["prompt_version"]) == (0, "rubric/1")
    assert verdicts(direct) == verdicts(consumed)


def test_pairs_are_exported_round_by_round_until_nothing_is_pending(
    here: Run, tmp_path: Path
) -> None:
    put_pairs(tmp_path, PAIRS)
    with scripted_judge(position_bias=1.0) as judge:
        assert here("judge", "pairwise", "pairs.jsonl", *at(judge), "-o", "direct.json").code == 0
        judge.forget()
        assert here("judge", "export", "pairs.jsonl", "--pairs", "-o", "q1.jsonl").code == 0
        assert (
            here("judge", "ask", "q1.jsonl", *at(judge), "--no-journal", "-o", "a1.jsonl").code == 0
        )
        first = here(
            "judge",
            "consume",
            "a1.jsonl",
            "--of",
            "pairs.jsonl",
            "--pairs",
            "--pending",
            "q2.jsonl",
        )
        assert first.code == 4
        assert "6 questions without an answer yet" in first.out
        assert (
            here("judge", "ask", "q2.jsonl", *at(judge), "--no-journal", "-o", "a2.jsonl").code == 0
        )
        assert judge.stats().requests == 12
    done = here(
        "judge",
        "consume",
        "a1.jsonl",
        "a2.jsonl",
        "--of",
        "pairs.jsonl",
        "--pairs",
        "-o",
        "consumed.json",
        "--pending",
        "q3.jsonl",
    )
    assert done.code == 0
    assert (tmp_path / "q3.jsonl").read_bytes() == b""
    direct, consumed = (
        json.loads((tmp_path / name).read_bytes()) for name in ("direct.json", "consumed.json")
    )
    assert verdicts(direct) == verdicts(consumed)
    assert (consumed["ties"], consumed["inconsistency_rate"]["value"]) == (3, 1.0)


def batch_output(request: dict[str, Any], content: str) -> dict[str, Any]:
    body = {
        "model": request["body"]["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
            }
        ],
    }
    return {
        "id": "b",
        "custom_id": request["custom_id"],
        "response": {"status_code": 200, "request_id": "r", "body": body},
        "error": None,
    }


def test_openais_batch_format_goes_there_and_back_and_half_of_it_is_completed_later(
    here: Run, tmp_path: Path
) -> None:
    put_items(tmp_path, 4)
    made = here(
        "judge",
        "export",
        "items.jsonl",
        "--rubric",
        "plain.yaml",
        "--batch",
        "--model",
        "m-9",
        "-o",
        "batch.jsonl",
        "--json",
    )
    assert made.json() == {
        "schema": "assay.judge-export/1",
        "questions": 8,
        "files": ["batch.jsonl"],
    }
    batch = lines(tmp_path / "batch.jsonl")
    assert len({one["custom_id"] for one in batch}) == 8
    assert all(len(one["custom_id"]) <= 64 for one in batch)
    assert {
        (one["method"], one["url"], one["body"]["model"], one["body"]["temperature"])
        for one in batch
    } == {("POST", "/v1/chat/completions", "m-9", 0)}
    half = [batch_output(one, verdict(4)) for one in batch[:4]]
    half.append(
        {"custom_id": batch[4]["custom_id"], "response": None, "error": {"message": "expired"}}
    )
    half.append(
        {
            "custom_id": batch[5]["custom_id"],
            "response": {"status_code": 500, "body": {}},
            "error": None,
        }
    )
    put_lines(tmp_path / "half.jsonl", half)
    first = here(
        "judge",
        "consume",
        "half.jsonl",
        "--of",
        "items.jsonl",
        "--rubric",
        "plain.yaml",
        "--pending",
        "rest.jsonl",
        "--json",
    )
    assert first.code == 4
    document = first.json()
    assert (document["pending"], document["counts"]["scored"], document["counts"]["errored"]) == (
        4,
        4,
        4,
    )
    assert [one["raw"] for one in document["items"]] == [4] * 4 + [None] * 4
    rest = lines(tmp_path / "rest.jsonl")
    assert {one["id"] for one in rest} == {one["custom_id"] for one in batch[4:]}
    put_lines(
        tmp_path / "later.jsonl",
        [{"id": one["id"], "reply": json.loads(verdict(2)), "model": "m-9"} for one in rest],
    )
    done = here(
        "judge",
        "consume",
        "half.jsonl",
        "later.jsonl",
        "--of",
        "items.jsonl",
        "--rubric",
        "plain.yaml",
        "--json",
    )
    assert done.code == 0, (
        "an error in the batch is no answer, so a later one is not a second answer"
    )
    assert [one["raw"] for one in done.json()["items"]] == [4] * 4 + [2] * 4


def test_samples_in_a_file_are_distinct_draws(here: Run, tmp_path: Path) -> None:
    put_items(tmp_path, 2)
    with scripted_judge(noise=0.6, seed=1) as judge:
        here(
            "judge",
            "export",
            "items.jsonl",
            "--rubric",
            "plain.yaml",
            "--samples",
            "3",
            "-o",
            "q.jsonl",
        )
        assert here("judge", "ask", "q.jsonl", *at(judge), "-o", "a.jsonl").code == 0
        assert judge.stats().requests == 12
        assert here("judge", "ask", "q.jsonl", *at(judge), "-o", "a.jsonl").code == 0
        assert judge.stats().requests == 12, "a repeat is answered by the journal"
    done = here(
        "judge",
        "consume",
        "a.jsonl",
        "--of",
        "items.jsonl",
        "--rubric",
        "plain.yaml",
        "--samples",
        "3",
        "--json",
    )
    assert done.code == 0
    scores = [[sample["score"] for sample in one["samples"]] for one in done.json()["items"]]
    assert any(len(set(row)) > 1 for row in scores)


def test_judged_runs_come_out_of_files_too(here: Run, tmp_path: Path) -> None:
    run = {
        "schema": "assay.run/1",
        "run_id": "r-1",
        "workflow": {"id": "w", "version": "1", "family": "rag"},
        "dataset": {"id": "d", "version": "1", "sample_id": "s-1"},
        "status": "success",
        "outputs": {"answer": "quality=0.75"},
    }
    put_lines(tmp_path / "runs.jsonl", [run])
    here("judge", "export", "runs.jsonl", "--rubric", "plain.yaml", "-o", "q.jsonl")
    put_lines(
        tmp_path / "a.jsonl",
        [{"id": one["id"], "reply": verdict(5)} for one in lines(tmp_path / "q.jsonl")],
    )
    done = here(
        "judge",
        "consume",
        "a.jsonl",
        "--of",
        "runs.jsonl",
        "--rubric",
        "plain.yaml",
        "--model",
        "a person",
        "-o",
        "judged.jsonl",
    )
    assert done.code == 0
    scores = lines(tmp_path / "judged.jsonl")[0]["scores"]
    assert {name: score["raw"] for name, score in scores.items()} == {
        "correctness": 5,
        "clarity": 5,
    }
    assert scores["clarity"]["source"]["name"] == "a person"


# --- answers that do not belong


@pytest.fixture
def asked(here: Run, tmp_path: Path) -> list[dict[str, Any]]:
    put_items(tmp_path, 2)
    assert (
        here("judge", "export", "items.jsonl", "--rubric", "plain.yaml", "-o", "q.jsonl").code == 0
    )
    return lines(tmp_path / "q.jsonl")


CONSUME = ("judge", "consume", "a.jsonl", "--of", "items.jsonl", "--rubric", "plain.yaml")


@pytest.mark.parametrize("change", ["candidate", "task", "rubric", "criterion"])
def test_what_changed_since_the_export_is_refused(
    here: Run, tmp_path: Path, asked: list[dict[str, Any]], change: str
) -> None:
    put_lines(tmp_path / "a.jsonl", [{"id": one["id"], "reply": verdict()} for one in asked])
    assert here(*CONSUME).code == 0
    extra: tuple[str, ...] = ()
    if change == "rubric":
        rubric = tmp_path / "plain.yaml"
        rubric.write_text(rubric.read_text().replace("half right", "half wrong"))
    elif change == "criterion":
        extra = ("--criterion", "clarity")
    else:
        name = {"candidate": "output", "task": "input"}[change]
        items = lines(tmp_path / "items.jsonl")
        items[0][name] += "!"
        put_lines(tmp_path / "items.jsonl", items)
    done = here(*CONSUME, *extra, "-o", "out.json")
    assert done.code == 3
    assert "JDG-007" in done.err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("replies", "outcome"),
    [
        ([verdict(9)], "unparsable"),
        ([verdict(quote="never said")], "unparsable"),
        ([None], "unparsable"),
        ([""], "unparsable"),
        ([5], "unparsable"),
        ([{"reason": "r", "quotes": ["quality"], "score": 4.5}], "unparsable"),
        ([{"reason": "r", "quotes": ["quality"], "score": 4}], "scored"),
    ],
)
def test_an_answer_from_elsewhere_is_read_as_strictly_and_never_becomes_a_low_score(
    here: Run, tmp_path: Path, asked: list[dict[str, Any]], replies: list[Any], outcome: str
) -> None:
    put_lines(
        tmp_path / "a.jsonl",
        [{"id": one["id"], "reply": reply} for one, reply in zip(asked, replies * 4, strict=True)],
    )
    done = here(*CONSUME, "--json")
    assert done.code == (0 if outcome == "scored" else 4)
    assert done.json()["counts"][outcome] == 4
    assert {one["raw"] for one in done.json()["items"]} == ({4} if outcome == "scored" else {None})


def test_a_refusal_goes_through_files_as_a_refusal(here: Run, tmp_path: Path) -> None:
    put_items(tmp_path, 1)
    here("judge", "export", "items.jsonl", "--rubric", "plain.yaml", "-o", "q.jsonl")
    with scripted_judge(malformed="refusal") as judge:
        assert here("judge", "ask", "q.jsonl", *at(judge), "-o", "a.jsonl").code == 0
    done = here(*CONSUME, "--json")
    assert (done.code, done.json()["counts"]["refused"]) == (4, 2)


@pytest.mark.parametrize(
    "bad",
    [
        [],
        {"reply": "x"},
        {"id": 5, "reply": "x"},
        {"id": "q"},
        {"id": "q", "reply": "x", "score": 5},
        {"id": "q", "reply": "x", "model": 5},
        {"id": "q", "reply": "x", "finish": []},
        {"id": "q", "reply": "x", "refusal": {}},
        {"id": "q", "reply": "x", "schema": "assay.judge-answer/2"},
        {"custom_id": None, "response": {}},
        {"custom_id": "q", "response": {"status_code": 200, "body": {"choices": []}}},
        {"custom_id": "q", "response": {"status_code": 200, "body": None}},
    ],
)
def test_a_line_that_is_no_answer_is_told_with_its_line(
    here: Run, tmp_path: Path, asked: list[dict[str, Any]], bad: Any
) -> None:
    put_lines(tmp_path / "a.jsonl", [{"id": asked[0]["id"], "reply": verdict()}, bad])
    done = here(*CONSUME)
    assert done.code == 3
    assert "a.jsonl" in done.err


def test_two_answers_to_one_question_and_two_models_are_refused(
    here: Run, tmp_path: Path, asked: list[dict[str, Any]]
) -> None:
    put_lines(tmp_path / "a.jsonl", [{"id": asked[0]["id"], "reply": verdict()}] * 2)
    assert "answered twice" in here(*CONSUME).err
    put_lines(
        tmp_path / "a.jsonl",
        [{"id": one["id"], "reply": verdict(), "model": f"m-{n}"} for n, one in enumerate(asked)],
    )
    done = here(*CONSUME)
    assert done.code == 3
    assert "several models" in done.err


@pytest.mark.parametrize(
    "taken",
    [
        ("-o", "items.jsonl"),
        ("--pending", "items.jsonl"),
        ("--pending", "a.jsonl"),
        ("-o", "x.json", "--pending", "x.json"),
    ],
)
def test_nothing_that_is_read_is_overwritten(
    here: Run, tmp_path: Path, asked: list[dict[str, Any]], taken: tuple[str, ...]
) -> None:
    put_lines(tmp_path / "a.jsonl", [{"id": one["id"], "reply": verdict()} for one in asked])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert here(*CONSUME, *taken).code == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


# --- asking a file


@pytest.mark.parametrize(
    "bad",
    [
        {},
        [],
        {"id": "q"},
        {"id": 1, "messages": [{"role": "user", "content": "x"}]},
        {"id": "q", "messages": []},
        {"id": "q", "messages": [{"role": "user"}]},
    ]
    + [
        {"id": "q", "messages": [{"role": "user", "content": "x"}], name: value}
        for name, value in (("sample", "0"), ("sample", True), ("response_schema", 5))
    ],
)
def test_a_line_that_is_no_question_is_refused_before_anything_is_asked(
    here: Run, tmp_path: Path, bad: Any
) -> None:
    put_lines(
        tmp_path / "q.jsonl", [{"id": "q-0", "messages": [{"role": "user", "content": "x"}]}, bad]
    )
    with scripted_judge() as judge:
        done = here("judge", "ask", "q.jsonl", *at(judge))
        assert judge.stats().requests == 0
    assert done.code == 3


def test_questions_of_anybodys_are_asked_as_they_stand(here: Run, tmp_path: Path) -> None:
    put_lines(
        tmp_path / "q.jsonl",
        [{"id": "mine", "messages": [{"role": "user", "content": "quality=0.5 Is it?"}]}],
    )
    with scripted_judge() as judge:
        done = here("judge", "ask", "q.jsonl", *at(judge))
        assert judge.requests()[0]["body"]["messages"] == [
            {"role": "user", "content": "quality=0.5 Is it?"}
        ]
        assert "response_format" not in judge.requests()[0]["body"]
    assert done.code == 0
    assert json.loads(done.out)["id"] == "mine"


def test_a_question_without_an_answer_is_left_out_and_the_exit_says_so(
    here: Run, tmp_path: Path, asked: list[dict[str, Any]]
) -> None:
    with scripted_judge(fail_first=1, fail_with=400) as judge:
        done = here("judge", "ask", "q.jsonl", *at(judge), "--concurrency", "1", "-o", "a.jsonl")
        assert done.code == 4
        assert len(lines(tmp_path / "a.jsonl")) == 3
        assert "1 without an answer" in done.err
        again = here("judge", "ask", "q.jsonl", *at(judge), "-o", "a.jsonl")
        assert (again.code, judge.stats().requests) == (0, 5)
    assert here(*CONSUME).code == 0


def test_a_dead_endpoint_is_given_up_here_too(here: Run, tmp_path: Path) -> None:
    put_items(tmp_path, 40)
    here("judge", "export", "items.jsonl", "--rubric", "plain.yaml", "-o", "q.jsonl")
    with scripted_judge(dead="refused") as judge:
        done = here("judge", "ask", "q.jsonl", *at(judge), "-o", "a.jsonl")
    assert done.code == 4
    assert "in a row" in done.err
    assert not (tmp_path / "a.jsonl").exists()


def test_a_plan_to_ask_a_file_is_one_json_document(here: Run, asked: list[dict[str, Any]]) -> None:
    done = here(
        "judge",
        "ask",
        "q.jsonl",
        "--model",
        "m",
        "--base-url",
        "http://127.0.0.1:1/v1",
        "--dry-run",
        "--json",
    )
    assert (done.code, done.json()["questions"]) == (0, 4)


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "items.jsonl", "-o", "q2.jsonl"),
        ("export", "items.jsonl", "--rubric", "plain.yaml", "--pairs", "-o", "q2.jsonl"),
        ("export", "items.jsonl", "--rubric", "plain.yaml"),
        ("export", "items.jsonl", "--rubric", "plain.yaml", "-o", "q2.json"),
        ("export", "items.jsonl", "--rubric", "plain.yaml", "--samples", "0", "-o", "q2.jsonl"),
        ("consume", "q.jsonl", "--rubric", "plain.yaml"),
        ("ask", "q.jsonl"),
        ("ask", "q.jsonl", "--model", "m"),
        (
            "ask",
            "q.jsonl",
            "--judge",
            "a.yaml",
            "--model",
            "m",
            "--base-url",
            "http://127.0.0.1/v1",
        ),
        (
            "ask",
            "q.jsonl",
            "--model",
            "m",
            "--base-url",
            "http://127.0.0.1/v1",
            "-o",
            "answers.html",
        ),
    ],
)
def test_misuse_is_exit_2(
    here: Run, asked: list[dict[str, Any]], arguments: tuple[str, ...]
) -> None:
    assert here("judge", *arguments).code == 2
