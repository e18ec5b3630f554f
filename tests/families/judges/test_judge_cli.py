"""`assay judge` from outside: exit codes, kills, full disks, secrets, money; every outcome counted,
nothing paid twice, no traceback.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.cli.main import run as run_command
from assay.judging.client import Client
from assay.judging.config import JudgeSpec
from assay.judging.identity import scorer_of
from assay.records.evidence import Source
from commands import Running
from examples import repeats
from judges import (
    KEY,
    Run,
    completion,
    here,
    http,
    item,
    judged,
    pair,
    put_items,
    put_lines,
    put_pairs,
    raw_endpoint,
    text,
    verdict,
)
from servers.scripted_judge import Endpoint, scripted_judge

__all__ = ["here"]
PLAIN = ("--rubric", "plain.yaml")
COMMAND = [sys.executable, "-m", "assay", "judge"]


def at(url: str | Endpoint, *more: object) -> tuple[object, ...]:
    return (
        "--model",
        "m-1",
        "--base-url",
        url if isinstance(url, str) else url.url,
        "--retries",
        "0",
        *more,
    )


def put_judge(folder: Path, name: str, judge: Endpoint, **more: Any) -> str:
    fields = {
        "judge": name,
        "model": f"m-{name}",
        "base_url": judge.url,
        "limits": {"retries": 0},
        **more,
    }
    (folder / f"{name}.yaml").write_text(json.dumps(fields), encoding="utf-8")
    return f"{name}.yaml"


def run_tree(number: int, quality: float = 0.75) -> dict[str, Any]:
    return {
        "schema": "assay.run/1",
        "run_id": f"r-{number}",
        "workflow": {"id": "w", "version": "1", "family": "rag"},
        "dataset": {"id": "d", "version": "1", "sample_id": f"s-{number}"},
        "status": "success",
        "inputs": {"question": "Why?"},
        "outputs": {"answer": text(number, quality=quality)},
        "expected": {"answer": "Because."},
    }


def everything(folder: Path) -> str:
    return "\n".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in folder.rglob("*")
        if path.is_file()
    )


# --- how it went


def test_texts_are_scored_and_the_document_says_by_whom(here: Run, tmp_path: Path) -> None:
    put_items(tmp_path, 5)
    with scripted_judge() as judge:
        done = here(
            "judge", "rubric", "items.jsonl", *PLAIN, *at(judge, "--price", "1,2"), "-o", "out.json"
        )
    assert done.code == 0
    document = json.loads((tmp_path / "out.json").read_bytes())
    assert (
        document["schema"],
        document["rubric"],
        document["prompt_version"],
        document["samples"],
    ) == ("assay.judgements/1", "plain@1", "rubric/1", 1)
    assert [one["raw"] for one in document["items"] if one["criterion"] == "clarity"] == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert document["counts"] == {
        "scored": 10,
        "tie": 0,
        "unparsable": 0,
        "refused": 0,
        "errored": 0,
    }
    assert (document["usage"]["calls"], document["usage"]["cached"]) == (10, 0)
    assert document["usage"]["cost_usd"] > 0
    assert document["judge"]["model"] == "m-1"
    assert document["scoringSystem"] == "scoringSystem/1.0.0"
    assert "10 scored" in done.err
    assert "i-004" in done.out


@pytest.mark.parametrize(
    ("way", "outcome"),
    [
        ({"malformed": "nan"}, "unparsable"),
        ({"malformed": "above_scale"}, "unparsable"),
        ({"malformed": "extra_criteria"}, "unparsable"),
        ({"malformed": "duplicate_keys"}, "unparsable"),
        ({"malformed": "other_language"}, "unparsable"),
        ({"malformed": "empty"}, "unparsable"),
        ({"malformed": "cut_off"}, "unparsable"),
        ({"malformed": "false_quote"}, "unparsable"),
        ({"malformed": "refusal"}, "refused"),
        ({"malformed": "content_filter"}, "refused"),
        ({"malformed": "html"}, "errored"),
        ({"malformed": "garbage"}, "errored"),
        ({"malformed": "cut_body"}, "errored"),
        ({"status": 500}, "errored"),
        ({"hang": "silent"}, "errored"),
        ({"dead": "refused"}, "errored"),
        ({"dead": "reset"}, "errored"),
    ],
)
@pytest.mark.parametrize("action", ["rubric", "pairwise"])
def test_what_has_no_verdict_is_counted_and_exits_4(
    here: Run, tmp_path: Path, action: str, way: dict[str, Any], outcome: str
) -> None:
    put_items(tmp_path, 2)
    put_pairs(tmp_path, [pair(1, 0.9, 0.1), pair(2, 0.1, 0.9)])
    if action == "pairwise" and way.get("malformed") == "false_quote":
        pytest.skip("a comparison asks for no quotes")
    with scripted_judge(**way) as judge:
        files = ("items.jsonl", *PLAIN) if action == "rubric" else ("pairs.jsonl",)
        patience = "0.3" if "hang" in way else "30"
        done = here("judge", action, *files, *at(judge, "--timeout", patience), "--json")
    assert done.code == 4
    document = done.json()
    assert document["counts"] == {
        name: 4 if name == outcome else 0
        for name in ("scored", "tie", "unparsable", "refused", "errored")
    }
    if action == "rubric":
        assert [(one["raw"], bool(one["why"])) for one in document["items"]] == [(None, True)] * 4
        assert all(
            sample["score"] is None and sample["reason"]
            for one in document["items"]
            for sample in one["samples"]
        )
    else:
        assert (
            document["without_verdict"],
            document["wins"],
            document["losses"],
            document["ties"],
            document["win_rate"],
        ) == (2, 0, 0, 0, None)


def test_one_item_without_a_verdict_is_neither_dropped_nor_scored(
    here: Run, tmp_path: Path
) -> None:
    put_lines(tmp_path / "runs.jsonl", [run_tree(1), run_tree(2)])
    with scripted_judge(fail_first=1, fail_with=400) as judge:
        done = here(
            "judge",
            "rubric",
            "runs.jsonl",
            *PLAIN,
            *at(judge, "--concurrency", 1),
            "-o",
            "judged.jsonl",
            "--json",
        )
    assert done.code == 4
    assert (done.json()["counts"]["scored"], done.json()["counts"]["errored"]) == (3, 1)
    runs = [json.loads(line) for line in (tmp_path / "judged.jsonl").read_text().splitlines()]
    found = [
        (run["run_id"], name, score.get("raw"), score["n"])
        for run in runs
        for name, score in run["scores"].items()
    ]
    assert len(found) == 4
    assert [(raw, n) for *_, raw, n in found if raw is None] == [(None, 0)]


def test_runs_that_a_judge_did_not_score_do_not_pass(here: Run, tmp_path: Path) -> None:
    put_lines(tmp_path / "runs.jsonl", [run_tree(1, 1.0)])
    with scripted_judge(malformed="refusal") as judge:
        assert (
            here(
                "judge", "rubric", "runs.jsonl", "--rubric", "rag", *at(judge), "-o", "judged.jsonl"
            ).code
            == 4
        )
    assert here("grade", "judged.jsonl").code not in (0, 5)


def test_a_comparison_warns_of_a_judge_that_is_moved_by_place(here: Run, tmp_path: Path) -> None:
    put_pairs(tmp_path, [pair(n, 0.9, 0.1) for n in range(10)])
    with scripted_judge(position_bias=1.0) as judge:
        done = here(
            "judge", "pairwise", "pairs.jsonl", *at(judge), "-o", "out.json", "-o", "verdicts.jsonl"
        )
    assert done.code == 0
    document = json.loads((tmp_path / "out.json").read_bytes())
    assert (
        document["ties"],
        document["inconsistency_warning"],
        document["inconsistency_rate"]["value"],
    ) == (10, True, 1.0)
    assert "it should not gate" in done.out
    lines = [json.loads(line) for line in (tmp_path / "verdicts.jsonl").read_text().splitlines()]
    assert len(lines) == 20
    assert set(lines[0]) == {"id", "order", "winner", "label"}


def test_two_files_of_runs_are_compared_sample_by_sample(here: Run, tmp_path: Path) -> None:
    put_lines(tmp_path / "a.jsonl", [run_tree(n, 0.9) for n in range(3)])
    put_lines(tmp_path / "b.jsonl", [run_tree(n, 0.2) for n in range(3)])
    with scripted_judge() as judge:
        done = here("judge", "pairwise", "a.jsonl", "b.jsonl", *at(judge), "--json")
    assert (done.code, done.json()["wins"], done.json()["win_rate"]) == (0, 3, 1.0)


@pytest.mark.req("W-071")
@pytest.mark.parametrize(
    ("vote", "code", "raws"), [("majority", 0, [4, 4]), ("mean", 4, [None, None])]
)
def test_a_panel_needs_more_than_half_or_everybody(
    here: Run, tmp_path: Path, vote: str, code: int, raws: list[Any]
) -> None:
    put_lines(tmp_path / "items.jsonl", [{"id": "1", "output": text(1, quality=0.75)}])
    with (
        scripted_judge() as good,
        scripted_judge() as also,
        scripted_judge(malformed="refusal") as mute,
    ):
        names = [
            part
            for name, judge in (("x", good), ("y", also), ("z", mute))
            for part in ("--judge", put_judge(tmp_path, name, judge))
        ]
        done = here("judge", "panel", "items.jsonl", *PLAIN, *names, "--vote", vote, "--json")
    assert done.code == code
    document = done.json()
    assert [one["raw"] for one in document["items"]] == raws
    assert document["counts"]["refused"] == 2
    assert document["items"][0]["judges"]["z"]["raw"] is None
    assert (document["disagreement"]["judged_by_all"], document["items"][0]["unanimous"]) == (
        0,
        False,
    )


def test_a_panel_with_another_version_of_a_member_is_another_judge(
    here: Run, tmp_path: Path
) -> None:
    put_lines(tmp_path / "runs.jsonl", [run_tree(1)])
    with scripted_judge() as judge:
        names = [put_judge(tmp_path, name, judge, version="1") for name in ("x", "y")]
        panel = [part for name in names for part in ("--judge", name)]
        asked = ("judge", "panel", "runs.jsonl", *PLAIN, *panel, "--no-journal")
        assert here(*asked, "-o", "old.jsonl").code == here(*asked, "-o", "same.jsonl").code == 0
        put_judge(tmp_path, "y", judge, version="2")
        assert here(*asked, "-o", "new.jsonl").code == 0
    for name, is_other in (("same", False), ("new", True)):
        done = here("gate", f"{name}.jsonl", "--baseline", "old.jsonl", "--rubric", "plain.yaml")
        assert (done.code == 3, "m-y@2" in done.err) == (is_other, is_other), done.err


def test_a_judge_sits_on_a_panel_once(here: Run, tmp_path: Path) -> None:
    put_lines(tmp_path / "items.jsonl", [{"id": "1", "output": text(1, quality=0.75)}])
    with scripted_judge() as judge:
        names = [
            part
            for name in ("x", "y", "z")
            for part in (
                "--judge",
                put_judge(tmp_path, name, judge, model="m-x" if name == "z" else f"m-{name}"),
            )
        ]
        done = here("judge", "panel", "items.jsonl", *PLAIN, *names, "--vote", "majority")
        assert not judge.requests()
    assert (done.code, "x and z are the same judge" in done.err) == (2, True)


@pytest.mark.req("W-071")
def test_examples_are_shown_to_the_judge_and_a_reference_too(here: Run, tmp_path: Path) -> None:
    put_lines(tmp_path / "runs.jsonl", [run_tree(1)])
    put_lines(
        tmp_path / "examples.jsonl",
        [
            {
                "input": "an old one",
                "output": "an old answer",
                "score": 2,
                "reason": "thin",
                "criterion": "clarity",
            }
        ],
    )
    with scripted_judge() as judge:
        assert (
            here(
                "judge",
                "rubric",
                "runs.jsonl",
                *PLAIN,
                *at(judge),
                "--examples",
                "examples.jsonl",
                "--with-reference",
            ).code
            == 0
        )
        sent = [one["body"]["messages"][1]["content"] for one in judge.requests()]
    assert sorted("an old answer" in one for one in sent) == [False, True]
    assert all("REFERENCE begins" in one and "| Because." in one for one in sent)


def test_a_judge_is_not_asked_about_an_item_that_it_was_shown_with_its_score(
    here: Run, tmp_path: Path
) -> None:
    item = {"id": "q", "input": "a task", "output": "an answer"}
    put_lines(tmp_path / "items.jsonl", [item])
    put_lines(
        tmp_path / "examples.jsonl",
        [{"input": "a task", "output": "an answer", "score": 2, "reason": "thin"}],
    )
    with scripted_judge() as judge:
        given = ("judge", "rubric", "items.jsonl", *PLAIN, *at(judge))
        refused = here(*given, "--examples", "examples.jsonl")
        assert (refused.code, "'q' is also one of the examples" in refused.err) == (3, True)
        assert not judge.requests()


# --- who judged


def carded(here: Run, folder: Path, model: str, *more: object) -> None:
    """Judgements, labels that agree with them, and an audit of one judge."""
    put_items(folder, 5)
    put_pairs(folder, [pair(number, 0.9, 0.1) for number in range(4)])
    with scripted_judge() as judge:
        # one address for every judge: it is part of the settings
        described = {"judge": "j", "model": model, "base_url": judge.url, "limits": {"retries": 0}}
        (folder / "j.yaml").write_text(json.dumps(described), encoding="utf-8")
        assert (
            here(
                "judge",
                "rubric",
                "items.jsonl",
                *PLAIN,
                "--judge",
                "j.yaml",
                "--criterion",
                "clarity",
                *more,
                "-o",
                f"{model}.json",
            ).code
            == 0
        )
        assert here(
            "judge",
            "audit",
            "--items",
            "pairs.jsonl",
            "--first",
            2,
            "--judge",
            "j.yaml",
            "-o",
            f"{model}-audit.json",
        ).code in (0, 4)
    items = json.loads((folder / f"{model}.json").read_bytes())["items"]
    put_lines(
        folder / f"{model}.jsonl",
        [{"id": one["id"], "human": one["raw"], "judge": one["raw"]} for one in items],
    )


def test_a_calibration_names_its_judge_and_makes_no_card_of_another(
    here: Run, tmp_path: Path
) -> None:
    carded(here, tmp_path, "m-1")
    calibrate = ("judge", "calibrate", "--labels", "m-1.jsonl", "--minimum", 3)
    assert here(*calibrate, "--judgements", "m-1.json", "-o", "c.json").code == 0
    made, judgements = (
        json.loads((tmp_path / name).read_bytes()) for name in ("c.json", "m-1.json")
    )
    criteria = sorted({one["criterion"] for one in judgements["items"]})
    assert made["scorer"] == {**judgements["scorer"], "criteria": criteria}
    assert {key: bool(value) for key, value in made["scorer"].items()} == {
        "kind": True,
        "name": True,
        "version": False,
        "prompt_version": True,
        "rubric": True,
        "settings": True,
        "answered_by": True,
        "criteria": True,
    }
    card = here(
        "judge", "card", "--audit", "m-1-audit.json", "--calibration", "c.json", "--json"
    ).json()
    assert {
        term["id"]: term["holds"]
        for term in card["admission"]["terms"]
        if term["id"] in ("identity", "answered_by")
    } == {
        "identity": True,
        "answered_by": True,
    }
    unaudited = here("judge", "card", "--calibration", "c.json", "--json").json()
    assert (unaudited["model"], unaudited["admission"]["may_gate"]) == ("m-1", False)
    assert here(*calibrate, "-o", "nameless.json").code == 0
    assert here("judge", "card", "--calibration", "nameless.json").code == 2
    nameless = here(
        "judge", "card", "--audit", "m-1-audit.json", "--calibration", "nameless.json", "--json"
    ).json()
    assert "does not say which judge gave the verdicts" in nameless["admission"]["reason"]
    carded(here, tmp_path, "m-2")
    other = here("judge", "card", "--audit", "m-2-audit.json", "--calibration", "c.json")
    assert (other.code, "is for another judge: its model is 'm-1'" in other.err) == (3, True)
    assert here("judge", "card", "--model", "m-2", "--calibration", "c.json").code == 3


def test_labels_with_a_verdict_that_the_judge_did_not_give_are_refused(
    here: Run, tmp_path: Path
) -> None:
    carded(here, tmp_path, "m-1")
    rows = [json.loads(line) for line in (tmp_path / "m-1.jsonl").read_text().splitlines()]
    for changed, words in (
        ({"judge": 1 if rows[2]["judge"] != 1 else 2}, "the judge gave"),
        ({"id": "other"}, "do not have this item"),
        ({"judge": None}, "null"),
    ):
        put_lines(
            tmp_path / "labels.jsonl",
            [{**row, **changed} if place == 2 else row for place, row in enumerate(rows)],
        )
        done = here(
            "judge",
            "calibrate",
            "--labels",
            "labels.jsonl",
            "--minimum",
            3,
            "--judgements",
            "m-1.json",
        )
        assert (done.code, words in done.err) == (3, True), done.err
        assert "Give the judgements that these verdicts come from" in done.err
    assert (
        here(
            "judge",
            "calibrate",
            "--labels",
            "m-1.jsonl",
            "--minimum",
            3,
            "--judgements",
            "m-1-audit.json",
        ).code
        == 3
    )
    judgements = json.loads((tmp_path / "m-1.json").read_text())
    for odd_item in (5, {"id": "x", "raw": {}}, {"id": "x", "winner": []}):
        (tmp_path / "odd.json").write_text(json.dumps({**judgements, "items": [odd_item]}))
        odd = ("--labels", "m-1.jsonl", "--minimum", 3, "--judgements", "odd.json")
        assert here("judge", "calibrate", *odd).code == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"temperature": 0.1},
        {"seed": 5},
        {"max_tokens": 600},
        {"structured": "json_object"},
        {"version": "2"},
    ],
)
def test_another_setting_is_another_judge(changed: dict[str, Any]) -> None:
    one = JudgeSpec(judge="j", model="m", base_url="http://127.0.0.1:1/v1")
    two = msgspec.structs.replace(one, **changed)
    sources = [
        Source(**scorer_of(spec, prompt_version="rubric/1", rubric="r@1", answered={}, samples=1))
        for spec in (one, two)
    ]
    assert sources[0].judge != sources[1].judge
    again = Source(
        **scorer_of(one, prompt_version="rubric/1", rubric="r@1", answered={}, samples=3)
    )
    assert again.judge != sources[0].judge


def test_the_model_that_answered_is_recorded_and_another_than_asked_is_warned_of(
    here: Run, tmp_path: Path
) -> None:
    put_lines(tmp_path / "runs.jsonl", [run_tree(1)])
    with raw_endpoint(lambda sent: http(completion(verdict()))) as endpoint:
        for model, warned in (("m-1", False), ("m-9", True)):
            arguments = (
                "--model",
                model,
                "--base-url",
                endpoint.url,
                "--retries",
                "0",
                "--no-journal",
                "--json",
                "-o",
                f"{model}.jsonl",
            )
            done = here("judge", "rubric", "runs.jsonl", *PLAIN, *arguments)
            document = done.json()
            assert document["usage"]["answered_by"] == {"m-1": 2}
            assert document["scorer"]["answered_by"] == "m-1"
            assert (
                json.loads((tmp_path / f"{model}.jsonl").read_text())["scores"]["clarity"][
                    "source"
                ]["answered_by"]
                == "m-1"
            )
            said = "m-9: m-9 was asked, and m-1 answered 2 of 2 times: these verdicts may not"
            said += " gate. If that is its full name, ask for `model: m-1`."
            assert (document["warnings"] == [said], f"warning: {said}" in done.err) == (
                warned,
                warned,
            )


@pytest.mark.req("W-069")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, None),
        ({"temperature": 0.7}, "temperature is 0.7, above 0"),
        ({"temperature": None}, "sets no temperature"),
        ({"structured": "none"}, "no structured output"),
        ({"structured": "json_object"}, "JSON of any shape"),
    ],
)
def test_settings_that_break_the_protocol_are_warned_of_in_the_result(
    here: Run, tmp_path: Path, settings: dict[str, Any], words: str | None
) -> None:
    put_items(tmp_path, 1)
    put_pairs(tmp_path, [pair(1, 0.9, 0.1)])
    with scripted_judge() as judge:
        name = put_judge(tmp_path, "j", judge, **settings)
        for action in (("rubric", "items.jsonl", *PLAIN), ("pairwise", "pairs.jsonl")):
            done = here("judge", *action, "--judge", name, "--json")
            found = done.json()["warnings"]
            assert [words in sentence for sentence in found] == ([] if words is None else [True])
            assert ("warning: j:" in done.err) is (words is not None)


@pytest.mark.req("W-051", "W-071")
def test_the_disagreement_of_a_panel_and_of_samples_reaches_the_grade(
    here: Run, tmp_path: Path
) -> None:
    put_lines(tmp_path / "runs.jsonl", [run_tree(1)])
    answers = iter([5, 5, 3, 5, 4, 4])

    def reply(sent: bytes) -> bytes:
        return http(completion(verdict(next(answers))))

    with raw_endpoint(reply) as endpoint:
        names = [
            part for name in ("x", "y") for part in ("--judge", put_judge(tmp_path, name, endpoint))
        ]
        one = ("--criterion", "clarity", "--no-journal", "--concurrency", "1")
        assert (
            here("judge", "panel", "runs.jsonl", *PLAIN, *names, *one, "-o", "agree.jsonl").code
            == 0
        )
        assert (
            here("judge", "panel", "runs.jsonl", *PLAIN, *names, *one, "-o", "apart.jsonl").code
            == 0
        )
        assert (
            here(
                "judge",
                "rubric",
                "runs.jsonl",
                *PLAIN,
                *at(endpoint.url),
                *one,
                "--samples",
                "2",
                "-o",
                "samples.jsonl",
            ).code
            == 0
        )
    for name, between, low, words in (
        ("agree", "judges", 5, "clarity: 2 judges disagree by 0, which is low"),
        ("apart", "judges", 3, "clarity: 2 judges disagree by 0.5, above 0.1"),
        ("samples", "samples", 4, "clarity: 2 answers of one judge disagree by 0, which is low"),
    ):
        score = json.loads((tmp_path / f"{name}.jsonl").read_text())["scores"]["clarity"]
        assert (
            score["disagreement"]["between"],
            score["disagreement"]["n"],
            score["disagreement"]["low"],
        ) == (between, 2, low)
        graded = here("grade", f"{name}.jsonl", "--rubric", "plain.yaml", "--json").json()[
            "results"
        ][0]
        assert words in "\n".join(graded["placement"]["notes"])


def test_swapped_orders_come_with_the_score_of_a_comparison(here: Run, tmp_path: Path) -> None:
    put_pairs(tmp_path, [pair(number, 0.9, 0.1) for number in range(3)])
    with scripted_judge() as judge:
        score = here("judge", "pairwise", "pairs.jsonl", *at(judge), "--json").json()["score"]
    assert score["raw"] == {"wins": 3, "losses": 0, "ties": 0}
    assert score["disagreement"] == {"between": "orders", "n": 3, "inconsistent": 0}
    assert (score["source"]["name"], score["source"]["prompt_version"]) == ("m-1", "pairwise/1")


# --- asked once


def test_a_repeat_asks_nothing_and_another_sample_asks_only_itself(
    here: Run, tmp_path: Path
) -> None:
    put_items(tmp_path, 3)
    with scripted_judge(noise=0.5) as judge:
        counts, documents = [], []
        for samples in (1, 1, 3, 4):
            done = here(
                "judge", "rubric", "items.jsonl", *PLAIN, *at(judge), "--samples", samples, "--json"
            )
            assert done.code == 0
            counts.append(judge.stats().requests)
            documents.append(done.json())
    assert counts == [6, 6, 18, 24]
    assert judged(documents[0]) == judged(documents[1])
    first, more = documents[2]["items"], documents[3]["items"]
    assert [one["samples"] for one in judged({"items": first})["items"]] == [
        one["samples"][:3] for one in judged({"items": more})["items"]
    ]
    assert len({sample["key"] for one in more for sample in one["samples"]}) == 24


def test_a_changed_text_asks_only_about_itself(here: Run, tmp_path: Path) -> None:
    put_items(tmp_path, 3)
    with scripted_judge() as judge:
        here("judge", "rubric", "items.jsonl", *PLAIN, *at(judge))
        put_lines(
            tmp_path / "items.jsonl",
            [
                {"id": one.id, "input": one.task, "output": one.candidate}
                for one in (item(0), item(1, more="changed"), item(2))
            ],
        )
        assert here("judge", "rubric", "items.jsonl", *PLAIN, *at(judge)).code == 0
        assert judge.stats().requests == 8


def test_a_plan_asks_nothing_needs_no_key_and_knows_what_is_paid(
    here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    put_items(tmp_path, 3)
    put_pairs(tmp_path, [pair(1, 0.9, 0.1)])
    with scripted_judge() as judge:
        asked = at(judge, "--price", "3,15", "--max-tokens", 100)
        plan = here(
            "judge",
            "rubric",
            "items.jsonl",
            *PLAIN,
            *asked,
            "--key-env",
            "JUDGE_KEY",
            "--dry-run",
            "--json",
        )
        assert judge.stats().requests == 0
        row = plan.json()["judges"][0]
        assert (plan.code, row["calls"], row["cached"], row["output_tokens_at_most"]) == (
            0,
            6,
            0,
            600,
        )
        assert here("judge", "rubric", "items.jsonl", *PLAIN, *asked).code == 0
        cost = json.loads(here("judge", "rubric", "items.jsonl", *PLAIN, *asked, "--json").out)
        spent = judge.stats()
        assert row["input_tokens"] >= spent.prompt_tokens
        assert (
            row["cost_usd_at_most"] * 1_000_000
            >= spent.prompt_tokens * 3 + spent.completion_tokens * 15
        )
        assert cost["usage"]["calls"] == 0
        again = here("judge", "rubric", "items.jsonl", *PLAIN, *asked, "--dry-run")
        assert "0 calls, 6 already answered" in again.out
        assert (
            here("judge", "pairwise", "pairs.jsonl", *asked, "--dry-run", "--json").json()[
                "judges"
            ][0]["calls"]
            == 2
        )
        assert judge.stats().requests == 6


def test_money_runs_out_in_the_middle_and_what_was_scored_is_there(
    here: Run, tmp_path: Path
) -> None:
    put_items(tmp_path, 40)
    with scripted_judge(usage="absent") as judge:
        done = here(
            "judge",
            "rubric",
            "items.jsonl",
            *PLAIN,
            *at(judge, "--price", "1,2", "--max-tokens", 100, "--max-usd", "0.01"),
            "-o",
            "out.json",
            "--json",
        )
        assert done.code == 4
        counts = json.loads((tmp_path / "out.json").read_bytes())["counts"]
        assert counts["scored"] == judge.stats().requests
        assert 5 < counts["scored"] < 75
        assert counts["scored"] + counts["errored"] == 80
        assert (
            here("judge", "rubric", "items.jsonl", *PLAIN, *at(judge, "--max-tokens", 100)).code
            == 0
        )
        assert judge.stats().requests == 80


# --- kill -9


def held(journal: Path) -> set[str]:
    """What stands in a journal, as it was asked; a torn last line is none of it."""
    lines = journal.read_bytes().split(b"\n")[1:-1] if journal.exists() else []
    return {json.dumps(json.loads(line)["entry"]["request"]["body"]["messages"]) for line in lines}


def test_a_job_killed_anywhere_resumes_without_paying_twice_and_says_the_same(
    here: Run, tmp_path: Path
) -> None:
    put_items(tmp_path, 60)
    chance = random.Random(5)
    with scripted_judge(latency_s=0.02) as judge:
        arguments = ("rubric", "items.jsonl", *PLAIN, *at(judge, "--concurrency", 4))
        assert here("judge", *arguments, "--journal", "whole.journal", "-o", "whole.json").code == 0
        command = ("judge", *arguments, "--journal", "killed.journal", "-o", "killed.json")
        journal, kills, repeated = tmp_path / "killed.journal", 0, 0
        for enough in sorted(chance.sample(range(1, 110), repeats(1, 8))):
            known = held(journal)
            judge.forget()
            child = Running(*command, cwd=tmp_path)
            while child.poll() is None and len(known) + judge.stats().answered < enough:
                time.sleep(0.005)
            kills += child.poll() is None
            child.end_at_once()
            repeated += sum(
                json.dumps(one["body"]["messages"]) in known for one in judge.requests()
            )
            assert not (tmp_path / "killed.json").exists()
        known = held(journal)
        judge.forget()
        with journal.open("ab") as file:
            file.write(b'{"crc":"12345678","entry":{"key":"torn')
        assert here(*command).code == 0
        asked = [json.dumps(one["body"]["messages"]) for one in judge.requests()]
    assert kills == repeats(1, 8)
    assert repeated == 0
    assert not known & set(asked)
    assert len(asked) == 120 - len(known) < 120
    whole, resumed = (
        json.loads((tmp_path / name).read_bytes()) for name in ("whole.json", "killed.json")
    )
    assert (json.dumps(judged(whole)), len(whole["items"])) == (json.dumps(judged(resumed)), 120)


def test_a_job_stopped_by_hand_says_how_to_go_on(tmp_path: Path, here: Run) -> None:
    put_items(tmp_path, 40)
    with scripted_judge(latency_s=0.05) as judge:
        arguments = ("rubric", "items.jsonl", *PLAIN, *at(judge, "--concurrency", 2))
        child = Running("judge", *arguments, cwd=tmp_path)
        while judge.stats().answered < 3:
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGINT)
        _, err = child.communicate()
        assert child.returncode not in (0, 5)
        assert "Traceback" not in err
        assert "not asked again" in err
        kept = len(held(tmp_path / ".assay" / "judge.journal"))
        judge.become(latency_s=0.0)
        judge.forget()
        assert here("judge", *arguments).code == 0
        assert judge.stats().requests == 80 - kept
    assert 0 < kept < 80


def test_a_changed_line_of_the_journal_is_refused_and_nothing_is_asked(
    here: Run, tmp_path: Path
) -> None:
    put_items(tmp_path, 2)
    with scripted_judge() as judge:
        asked = ("judge", "rubric", "items.jsonl", *PLAIN, *at(judge), "--journal", "j")
        assert here(*asked).code == 0
        data = (tmp_path / "j").read_bytes()
        (tmp_path / "j").write_bytes(data.replace(b'\\"score\\": 2', b'\\"score\\": 5'))
        assert (tmp_path / "j").read_bytes() != data
        done = here(*asked)
        assert judge.stats().requests == 4
    assert done.code == 3
    assert "JDG-004" in done.err
    assert "line " in done.err


def test_a_second_job_on_one_journal_is_turned_away(here: Run, tmp_path: Path) -> None:
    put_items(tmp_path, 1)
    with scripted_judge(hang="silent") as judge:
        arguments = ("rubric", "items.jsonl", *PLAIN, *at(judge))
        child = Running("judge", *arguments, "--timeout", 10, cwd=tmp_path)
        try:
            while judge.stats().requests < 2:
                time.sleep(0.01)
            done = here("judge", *arguments, "--timeout", 10)
            assert done.code == 2
            assert "another job" in done.err
            other = here("judge", *arguments, "--timeout", 0.1, "--journal", "own.journal")
            assert other.code == 4
        finally:
            child.end_at_once()


SMALL_DISK = """
import resource, sys
from assay.cli.main import run
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
sys.exit(run(sys.argv[1:]))
"""


def test_a_disk_that_fills_up_ends_the_job_and_the_next_one_goes_on(
    here: Run, tmp_path: Path
) -> None:
    put_items(tmp_path, 20)
    with scripted_judge() as judge:
        arguments = (
            "judge",
            "rubric",
            "items.jsonl",
            *PLAIN,
            *at(judge, "--concurrency", 2),
            "--journal",
            "j",
            "-o",
            "out.json",
        )
        full = Running(*arguments, code=SMALL_DISK, cwd=tmp_path)
        _, err = full.communicate()
        assert full.returncode == 2
        assert "JDG-004" in err
        assert "Traceback" not in err
        assert not (tmp_path / "out.json").exists()
        kept = len(held(tmp_path / "j"))
        judge.forget()
        assert here(*arguments).code == 0
        assert judge.stats().requests == 40 - kept
    assert 3 < kept < 40


# --- secrets


@pytest.mark.parametrize(
    "reply",
    [
        lambda: http(completion(verdict(reason=f"the key is {KEY}"))),
        lambda: http(completion(f"the key is {KEY}")),
        lambda: http(completion(None, refusal=f"never {KEY}")),
        lambda: http(json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()),
        lambda: http(
            json.dumps({"error": {"message": f"bad key {KEY}"}}).encode(), "401 Unauthorized"
        ),
        lambda: http(f"{'x' * 190}{KEY}".encode(), "500 Oh"),
        lambda: f"HTTP/1.1 {KEY} no\r\n\r\n".encode(),
        lambda: http(b"", "302 Found", f"location: http://127.0.0.1:1/{KEY}"),
    ],
)
@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_a_planted_key_is_in_no_file_and_on_no_stream(
    here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: Any, debug: tuple[str, ...]
) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    put_items(tmp_path, 1)
    with raw_endpoint(lambda sent: reply()) as endpoint:
        asked = at(endpoint.url, "--key-env", "JUDGE_KEY", "--concurrency", 1)
        done = here(
            "judge", "rubric", "items.jsonl", *PLAIN, *asked, "-o", "out.json", "--json", *debug
        )
        assert KEY.encode() in endpoint.seen[0]
    said = everything(tmp_path) + done.out + done.err
    assert "planted" not in said
    assert "Bearer" not in said.replace("Bearer [key]", "")


def test_a_traceback_of_our_own_fault_holds_no_key(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.setattr(Client, "_read", lambda *given: 1 / 0)
    put_items(tmp_path, 1)
    with scripted_judge(key=KEY) as judge:
        try:
            run_command(
                [
                    str(part)
                    for part in (
                        "judge",
                        "rubric",
                        "items.jsonl",
                        *PLAIN,
                        *at(judge, "--key-env", "JUDGE_KEY"),
                        "--debug",
                    )
                ]
            )
        except ZeroDivisionError as error:
            shown = "".join(traceback.format_exception(error))
    assert "ZeroDivisionError" in shown
    assert KEY not in shown + everything(tmp_path)


def test_a_terminal_is_not_steered_by_what_a_judge_says(here: Run, tmp_path: Path) -> None:
    put_lines(tmp_path / "items.jsonl", [{"id": "i\x1b[2J\u202e", "output": text(1)}])
    with raw_endpoint(
        lambda sent: http(completion(None, refusal="no\x1b]0;owned\x07\n\x1b[2Kscored 5"))
    ) as endpoint:
        done = here("judge", "rubric", "items.jsonl", *PLAIN, *at(endpoint.url))
    assert done.code == 4
    assert "\x1b" not in done.out + done.err
    assert "\u202e" not in done.out
    assert "none: " in done.out


# --- misuse

HERE = ("--model", "m", "--base-url", "http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "usage"),
        (("rubrik",), "Did you mean"),
        (("rubric", "items.jsonl", *HERE), "--rubric"),
        (("rubric", "items.jsonl", *PLAIN), "no judge is named"),
        (("rubric", "items.jsonl", *PLAIN, "--model", "m"), "--base-url"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--judge", "j.yaml"), "not both"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--samples", "0"), "--samples"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--concurrency", "0"), "--concurrency"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--timeout", "nan"), "--timeout"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--timeout", "inf"), "--timeout"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--retries", "99"), "--retries"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--max-usd", "1"), "price"),
        (
            ("rubric", "items.jsonl", *PLAIN, *HERE, "--price", "1,2", "--max-usd", "NaN"),
            "--max-usd",
        ),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--price", "1"), "--price"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--price", "1,-2"), "--price"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "-o", "out.html"), "is not supported"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "-o", "items.jsonl"), "overwritten"),
        (
            ("rubric", "items.jsonl", *PLAIN, *HERE, "--journal", "j.json", "-o", "j.json"),
            "journal",
        ),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--journal", "/dev/null"), "not a regular file"),
        (
            (
                "rubric",
                "items.jsonl",
                *PLAIN,
                "--model",
                "m",
                "--base-url",
                "http://me:secret@127.0.0.1/v1",
            ),
            "user or a password",
        ),
        (
            (
                "rubric",
                "items.jsonl",
                *PLAIN,
                "--model",
                "m",
                "--base-url",
                "http://models.example/v1",
                "--key-env",
                "JUDGE_KEY",
            ),
            "clear text",
        ),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--key-env", "JUDGE_KEY"), "JUDGE_KEY"),
        (
            ("rubric", "items.jsonl", *PLAIN, "--judge", "one.yaml", "--judge", "two.yaml"),
            "asks one judge",
        ),
        (
            ("pairwise", "pairs.jsonl", "--judge", "one.yaml", "--judge", "two.yaml"),
            "asks one judge",
        ),
        (
            ("claims", "runs.jsonl", "--judge", "one.yaml", "--judge", "two.yaml"),
            "`assay judge claims` asks one judge",
        ),
        (
            ("passages", "runs.jsonl", "--judge", "one.yaml", "--judge", "two.yaml"),
            "`assay judge passages` asks one judge",
        ),
        (
            ("audit", "--judge", "one.yaml", "--judge", "two.yaml", "--dry-run"),
            "`assay judge audit` asks one judge",
        ),
        (("pairwise", "pairs.jsonl", *HERE, "--limit", "nan"), "--limit"),
        (("pairwise", "pairs.jsonl", *HERE, "-o", "x.csv"), "is not supported"),
        (("panel", "items.jsonl", *PLAIN, "--judge", "one.yaml"), "at least two"),
        (
            ("panel", "items.jsonl", *PLAIN, "--judge", "one.yaml", "--judge", "one.yaml"),
            "different names",
        ),
    ],
)
def test_misuse_is_exit_2_in_words(
    here: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    put_items(tmp_path, 1)
    put_lines(tmp_path / "runs.jsonl", [run_tree(1)])
    put_pairs(tmp_path, [pair(1, 0.9, 0.1)])
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(
            f"judge: {name}\nmodel: m\nbase_url: http://127.0.0.1:1/v1\n"
        )
    done = here("judge", *arguments)
    assert done.code == 2
    assert says in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("rubric", "nothing.jsonl", *PLAIN, *HERE), 3, "nothing.jsonl"),
        (("rubric", "empty.jsonl", *PLAIN, *HERE), 3, "FIL-005"),
        (("rubric", "bad.jsonl", *PLAIN, *HERE), 3, "bad.jsonl"),
        (("rubric", "items.jsonl", "--rubric", "no-such", *HERE), 3, "no-such"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--criterion", "clarty"), 3, "JDG-011"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "-o", "judged.jsonl"), 3, "is not a run"),
        (("rubric", "items.jsonl", *PLAIN, *HERE, "--journal", "items.jsonl"), 3, "JDG-004"),
        (("rubric", "items.jsonl", *PLAIN, "--judge", "bad.yaml"), 3, "JDG-001"),
        (("rubric", "items.jsonl", *PLAIN, "--judge", "absent.yaml"), 3, "absent.yaml"),
        (("pairwise", "items.jsonl", *HERE), 3, "JDG-005"),
    ],
)
def test_malformed_input_is_exit_3_before_anything_is_asked(
    here: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    items = put_items(tmp_path, 1).read_bytes()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "bad.jsonl").write_text('{"id": "1", "output": NaN}\n')
    (tmp_path / "bad.yaml").write_text("judge: x\nmodle: m\n")
    done = here("judge", *arguments)
    assert done.code == code
    assert says in done.err
    assert (tmp_path / "items.jsonl").read_bytes() == items


def test_errors_are_json_on_the_error_stream_with_json(here: Run, tmp_path: Path) -> None:
    put_items(tmp_path, 1)
    done = here(
        "judge",
        "rubric",
        "items.jsonl",
        *PLAIN,
        *HERE,
        "--key-env",
        "JUDGE_KEY_THAT_IS_NOT_SET",
        "--json",
    )
    assert (done.code, done.out) == (2, "")
    assert json.loads(done.err)["error"]["code"] == "JDG-002"


def test_an_endpoint_that_is_not_there_is_exit_4_with_a_remedy(here: Run, tmp_path: Path) -> None:
    put_items(tmp_path, 30)
    with scripted_judge(dead="refused") as judge:
        done = here("judge", "rubric", "items.jsonl", *PLAIN, *at(judge))
    assert done.code == 4
    assert "JDG-003" in done.err
    assert "run again" in done.err


@pytest.mark.parametrize("action", ["rubric", "pairwise", "panel"])
def test_every_action_has_an_example_and_its_exit_codes(here: Run, action: str) -> None:
    done = here("judge", action, "--help")
    assert done.code == 0
    assert f"example: assay judge {action}" in done.out
    assert "exit codes: 0 passed" in done.out
