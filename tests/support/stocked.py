"""A ledger with something on every page: decisions of each outcome, exams with their patterns and
history, judges that may gate and may not, tool schemas.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from assay.canon import time_text
from assay.judging.card import make_card
from commands import in_folder, run_here
from documents import run
from once import once
from serving import Api, serving
from test_tools_cli import (
    IMPORTED,
    LATER,
    RECORDED,
    VETO,
    WEIGHT,
    envelope,
    grow,
    record,
    selection,
)
from test_tools_protocol import GRADED, Run, put, schema, scores, tool

N = 60
VERBS = ("go", "eat", "see", "take")
AXES = ("correctness", "spanish_gloss", "schema", "conciseness")


class Stock(NamedTuple):
    """What was stored, by the digest of its record."""

    promoted: str
    rejected: str
    too_few: str
    exam: str
    regression: str
    exam_gate: str
    card: str
    old_card: str
    schema_gate: str
    report: str


def faq(version: int, n: int = N, **changes: Any) -> list[dict[str, Any]]:
    """The runs of one version of a workflow on one dataset. Version 2 is a little better than 1,
    version 3 breaks some samples.
    """
    made = []
    for index in range(n):
        quality = (
            min(5, 3 + (index * 7 + version) % 3) if version != 2 else min(5, 4 + (index * 7) % 2)
        )
        one = run(
            run_id=f"faq-{version}-{index}",
            workflow={
                "id": "faq",
                "version": str(version),
                "family": "code-repair",
                "profile": "code-repair@1",
            },
            dataset={"id": "tickets", "version": "1", "sample_id": f"s-{index}"},
            latency_ms=4000 + 350 * ((index * 11 + version) % 17),
            scores={
                "judge_quality": {"raw": quality},
                "patch_similarity": {"raw": 0.7 + 0.01 * (index % 20)},
            },
            tags=["night" if index % 2 else "day"],
            started_at=f"2026-11-{10 + version:02d}T10:{index:02d}:00Z",
            **changes,
        )
        if version == 3 and index % 8 == 0:
            one["tests"] = {
                "fail_to_pass": {"passed": 1, "total": 2},
                "pass_to_pass": {"passed": 100, "total": 100},
            }
        made.append(one)
    return made


def exam(name: str = "capstone", n: int = 12) -> dict[str, Any]:
    items = [
        {
            "id": f"i-{index}",
            "prompt": f"{name}: he {VERBS[index % 4]} there yesterday ({index}).",
            "expected_contains": [f"went{index}"],
            "gloss_contains": [f"fue{index}"],
            "verb": VERBS[index % 4],
        }
        for index in range(n)
    ]
    return {
        "exam": name,
        "version": 1,
        "set": "regression" if name == "regression" else "capstone",
        "items": items,
    }


def answers(
    n: int = 12, *, wrong_verb: str = "", no_gloss: bool = False, lost: tuple[int, ...] = ()
) -> list[dict[str, Any]]:
    made = []
    for index in range(n):
        if index in lost:
            continue
        right = VERBS[index % 4] != wrong_verb
        response = {
            "correction": f"He went{index} there." if right else "He goed there.",
            "gloss": "" if no_gloss else f"Él fue{index} allí.",
            "explanation": "The past of go is went." if index % 5 else " ".join(["word"] * 90),
        }
        made.append({"item": f"i-{index}", "response": response, "latency_ms": 180 + 7 * index})
    return made


def write(path: Path, *documents: Any) -> None:
    path.write_text(
        "".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8"
    )


def interval(value: float, half: float, **more: Any) -> dict[str, Any]:
    return {
        "value": value,
        "low": value - half,
        "high": value + half,
        "level": 0.95,
        "method": "m",
        "answers": 80,
        "lost": 0,
        "items": 40,
        "sentence": "It moves verdicts.",
        **more,
    }


def card(
    *, good: bool = True, days: float = 2, model: str = "judge-1", now: datetime | None = None
) -> dict[str, Any]:
    """A judge's card, made some days ago. A bad one agrees less and obeys injections."""
    moment = (now or datetime.now(UTC)) - timedelta(days=days)
    audit = {
        "biases": {
            "position": {
                **interval(0.02 if good else 0.31, 0.05),
                "inconsistency_rate": interval(0.04 if good else 0.3, 0.03),
            },
            "verbosity": interval(0.05, 0.08),
            "padding": interval(-0.04 if good else 0.2, 0.06),
            "self_agreement": interval(0.97, 0.02),
            "injection": interval(0.01 if good else 0.4, 0.01),
        },
        "items": {"n": 40, "source": "bundled"},
        "prompt_versions": ["pairwise/1", "rubric/1"],
        "usage": {"answered_at": time_text(moment)},
    }
    labels = {f"l-{index}": 1 + index % 5 for index in range(60)}
    verdicts = {
        name: max(1, value - (index % (9 if good else 2) == 0))
        for index, (name, value) in enumerate(labels.items())
    }
    counts = [
        [
            sum(labels[name] == one and verdicts[name] == other for name in labels)
            for other in range(1, 6)
        ]
        for one in range(1, 6)
    ]
    agreement = {
        "cohen_kappa": interval(0.78 if good else 0.42, 0.12),
        "agreement": interval(0.85 if good else 0.55, 0.09),
        "spearman": interval(0.9, 0.05),
        "confusion": {"human": [1, 2, 3, 4, 5], "judge": [1, 2, 3, 4, 5], "counts": counts},
    }
    calibration = {
        "n_labelled": 60,
        "n_unlabelled": 3,
        "agreement": agreement,
        "bias": {"mean_difference": interval(-0.1, 0.08)},
        "labels": labels,
        "set": {"id": "people", "version": "1", "digest": "sha256:" + "1" * 64},
        "scale": {"kind": "ordinal", "values": [1, 2, 3, 4, 5]},
        "scorer": {
            "kind": "llm",
            "name": model,
            "prompt_version": "rubric/1",
            "rubric": "rag@1",
            "settings": "sha256:1",
            "criteria": ["faithfulness"],
        },
        "answered_at": time_text(moment),
    }
    made = make_card(
        judge={"judge": model, "model": model, "family": "m"},
        audit=audit,
        calibration=calibration,
        verdicts=verdicts,
        now=moment,
    )
    parsed: dict[str, Any] = json.loads(json.dumps(made))
    return parsed


def newest(api: Api, plural: str) -> str:
    return str(api.get(f"/{plural}").json()["items"][0]["digest"])


def stock_decisions(api: Api) -> tuple[str, str, str]:
    """Runs of three versions, a baseline, and a decision of each kind."""
    for version in (1, 2, 3):
        assert api.post("/runs", faq(version)).status_code == 201
    sides = [
        {"filter": {"workflow": "faq", "workflow_version": str(version)}} for version in (1, 2, 3)
    ]
    for version, side in enumerate(sides, 1):
        posted = api.post("/evaluations", {"name": f"faq-{version}", "runs": side})
        assert posted.status_code == 201, posted.text
    assert api.post("/baselines", {"name": "production", "evidence": sides[0]}).status_code == 201
    promoted = api.post(
        "/decisions", {"candidate": sides[1], "baseline": sides[0], "slices": ["tag"]}
    ).json()
    rejected = api.post(
        "/decisions", {"candidate": sides[2], "baseline": {"baseline": "production"}}
    ).json()
    few = api.post("/decisions", {"candidate": faq(2, 5), "baseline": faq(1, 5)}).json()
    assert [one["decision"]["outcome"] for one in (promoted, rejected, few)] == [
        "promote",
        "reject",
        "not_enough_evidence",
    ]
    return promoted["digest"], rejected["digest"], few["digest"]


def stock_exams(assay: Run, folder: Path, api: Api, store: tuple[str, str]) -> tuple[str, str, str]:
    """Results of a capstone exam over time, one of a regression set with its baseline, and a gate
    on them.
    """
    for name in ("capstone", "regression"):
        put(folder / f"{name}.json", exam(name))
    for index, given in enumerate(
        (answers(), answers(wrong_verb="go"), answers(wrong_verb="go", no_gloss=True, lost=(3,)))
    ):
        write(folder / "answers.jsonl", *given)
        done = assay(
            "exam",
            "grade",
            "capstone.json",
            "--answers",
            "answers.jsonl",
            "-o",
            f"capstone-{index}.json",
            *store,
        )
        assert done.code == 0, done.err
    worst = newest(api, "exams")
    for index, given in enumerate((answers(), answers(wrong_verb="eat"))):
        write(folder / "answers.jsonl", *given)
        assert (
            assay(
                "exam",
                "grade",
                "regression.json",
                "--answers",
                "answers.jsonl",
                "-o",
                f"regression-{index}.json",
                *store,
            ).code
            == 0
        )
    regression = newest(api, "exams")
    assert assay("baseline", "set", "tutor", "regression-0.json", *store).code == 0
    assert assay("baseline", "set", "tutor-capstone", "capstone-0.json", *store).code == 0
    gate = assay(
        "exam",
        "gate",
        "capstone-2.json",
        "--regression",
        "regression-1.json",
        "--baseline",
        "regression-0.json",
        *store,
    )
    assert gate.code == 1, gate.err
    return worst, regression, newest(api, "decisions")


def stock_schemas(assay: Run, folder: Path, api: Api, store: tuple[str, str]) -> tuple[str, str]:
    """A namespace with a capped grade, a blocked tool and a history; one that is rejected; a
    selection; a report.
    """
    few = tool(tests=[{"_description": "one", "hive": "north"}])
    put(folder / "scales.json", schema(tools={"getWeight": tool(), "getHeat": few}))
    assert assay("tools", "import", "scales.json", "--now", IMPORTED, *store).code == 0
    assert record(assay, folder, envelope("single-test", 5.0), *WEIGHT, *store).code == 0
    put(folder / "s.json", scores(first=5.0, second=5.0))
    done = assay(
        "tools",
        "grade",
        "scales.json",
        "--consume-scores",
        "s.json",
        "--data",
        "grading-data",
        "--now",
        GRADED,
        *store,
    )
    assert done.code == 0, done.err
    listed = [one["digest"] for one in api.get("/entries").json()["items"]]
    report = next(
        digest
        for digest in listed
        if "dimensions" in api.get(f"/entries/{digest}").json()["record"]
    )
    again = record(
        assay,
        folder,
        envelope("single-test", 2.0),
        *WEIGHT,
        "--trigger",
        "scheduled",
        *store,
        now=LATER,
    )
    assert again.code == 0, again.err
    assert assay("tools", "gate", "beewatch", *store).code == 1
    gate = newest(api, "decisions")
    for name in ("hive0", "hive1", "hive2", "hive3", "hive4"):
        grow(assay, folder, name)
    put(folder / "city.json", selection([f"hive{number}" for number in range(5)]))
    assert assay("tools", "import", "city.json", "--now", RECORDED, *store).code == 0
    assert assay("tools", "index", *store).code == 0
    put(folder / "scales.json", schema("poison"))
    assert assay("tools", "import", "scales.json", "--now", IMPORTED).code == 0
    vetoed = record(
        assay,
        folder,
        envelope("single-test", 1.0, categoricalVeto=VETO),
        "--namespace",
        "poison",
        *WEIGHT[2:],
        *store,
    )
    assert vetoed.code in (0, 1), vetoed.err
    return gate, report


def stock(folder: Path, db: str, api: Api) -> Stock:
    """All of it, into the ledger that `api` serves."""
    assay, store = in_folder(folder, run_here), ("--store", db)
    decisions = stock_decisions(api)
    exams = stock_exams(assay, folder, api, store)
    digests = []
    for one in (
        card(good=True, days=45),
        card(good=True, days=2),
        card(good=False, days=3, model="judge-2"),
    ):
        posted = api.post("/cards", one)
        assert posted.status_code == 201, posted.text
        digests.append(posted.json()["digest"])
    gate, report = stock_schemas(assay, folder, api, store)
    return Stock(*decisions, *exams, digests[1], digests[0], gate, report)


def stocked_copy(folder: Path) -> Stock:
    """All of it as `l.db` of this folder, with the files it was made from: made once in a test run,
    and copied.
    """

    def make(first: Path) -> None:
        with serving(f"{first}/l.db") as api:
            made = stock(first, f"{first}/l.db", api)
        (first / "stock.json").write_text(json.dumps(made), encoding="utf-8")

    shutil.copytree(once("stock", make), folder, dirs_exist_ok=True)
    return Stock(*json.loads((folder / "stock.json").read_text(encoding="utf-8")))
