"""Making decisions over many grades again: graders are shared by what they were made with, and no
byte of a result depends on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay.canon import canonical
from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import Document, parse_json
from assay.library.shelf import Shelf
from assay.services import replay
from assay.services.grading import Grader
from assay.services.replay import Remaker, replay_decision
from assay.services.storing import NO_BASIS, Basis, basis_of, drafts_of, settled, trace
from assay.store.drafts import Item, Link, body_of, draft
from assay.store.ledger import Ledger, open_ledger
from documents import FAMILIES, POLICY, run, scorecard
from judges import Run, here
from postgres import ledger_url, on_sqlite, postgres_url
from test_judge_audit import SCORER, good_card
from test_named_baseline import spoil
from test_one_decision import APPROVED, FRESH, RUNS
from test_storing import newest, put_sides, write

__all__ = ["here", "ledger_url", "postgres_url"]

MOMENTS = (datetime(2026, 11, 16, tzinfo=UTC), datetime(2029, 11, 16, tzinfo=UTC))
"""One at which the card of the judge is fresh, and one at which it is not."""
JUDGED = {
    "name": "q",
    "raw_score": 5,
    "formula_id": "likert_1_5",
    "weight": 1,
    "role": "correctness",
    "layer": 2,
    "source": SCORER,
}


class Counted(replay._RecordedGrader):
    """The grader of a replay, counted."""

    made = 0

    def __init__(self, *given: Any, **more: Any) -> None:
        type(self).made += 1
        super().__init__(*given, **more)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    monkeypatch.setattr(replay, "_RecordedGrader", Counted)
    Counted.made = 0
    return Counted


def the_decision(ledger: Ledger) -> Item:
    return ledger.find("decision", newest_first=True, limit=1).items[0]


def put_families(folder: Path, n: int = 60) -> None:
    for name, latency in (("candidate", 8000), ("baseline", 20000)):
        listed = [
            run(FAMILIES[index % 4], run_id=f"{name}-{index}", latency_ms=latency)
            for index in range(n)
        ]
        write(
            folder / f"{name}.jsonl",
            *(
                {**one, "dataset": {**one["dataset"], "sample_id": f"s-{index}"}}
                for index, one in enumerate(listed)
            ),
        )


@on_sqlite
def test_a_decision_is_made_again_with_one_grader_for_each_family(
    here: Run, tmp_path: Path, ledger_url: str, counted: type[Counted]
) -> None:
    put_families(tmp_path)
    assert (
        here("gate", "candidate.jsonl", "--baseline", "baseline.jsonl", "--store", ledger_url).code
        == 0
    )
    with open_ledger(ledger_url, read_only=True) as ledger:
        found = replay_decision(ledger, the_decision(ledger), Shelf(), project="default")
    assert (found.same, found.difference, counted.made) == (True, None, 4)


def kept(grader: Grader, documents: Sequence[dict[str, Any]], basis: Basis = NO_BASIS) -> list[Any]:
    return [
        one
        for tree in documents
        for one in drafts_of(grader.grade(settled(Document(tree, "given"))), basis=basis)
    ]


@on_sqlite
def test_a_shared_grader_gives_the_bytes_of_one_of_its_own(
    tmp_path: Path, ledger_url: str, counted: type[Counted]
) -> None:
    library = tmp_path / "lib"
    (library / "policies").mkdir(parents=True)
    for version, best in (("1.0.0", 90), ("1.1.0", 95)):
        (library / "policies" / f"team@{version}.yaml").write_text(
            POLICY.format(version=version, best=best)
        )
    shelf = Shelf(str(library))
    runs = [
        run(family, run_id=f"{family}-{index}", latency_ms=4000 + 3000 * index)
        for index in range(3)
        for family in FAMILIES
    ]
    cards = [
        scorecard({"norm": Decimal("0.9") + Decimal(index) / 50}, run_id=f"c-{index}")
        for index in range(4)
    ]
    profiled = [
        {**card, "run_id": f"p-{card['run_id']}", "profile": {"id": "rag@1", "why": "said so"}}
        for card in cards
    ]
    judged = [scorecard({"norm": 1}, run_id=f"j-{index}", criteria=[JUDGED]) for index in range(3)]
    with open_ledger(ledger_url) as ledger:
        for policy in ("team@1.0.0", "team@1.1.0", "workflow"):
            ledger.put_many(kept(Grader(shelf, policy=policy), [*runs, *cards, *profiled]))
            ledger.put_many(
                kept(
                    Grader(shelf, policy=policy, profile="rag"),
                    [*cards, *(one for one in runs if one["workflow"]["family"] == "rag")],
                )
            )
        grader = Grader(shelf, profile="dag-review", rubric="dag-review")
        reviewed = [one for one in runs if one["workflow"]["family"] == "dag-review"]
        ledger.put_many(kept(grader, reviewed))
        scored = [
            parse_json(body_of(grader.grade(Document(one, "given")).grade.scorecard))
            for one in reviewed
        ]
        ledger.put_many(
            kept(grader, [{**one, "run_id": f"as-card-{one['run_id']}"} for one in scored])
        )
        for now in MOMENTS:
            given = [good_card()]
            grader = Grader(shelf, policy="workflow-judged", cards=given, now=now)
            ledger.put_many(kept(grader, judged, basis_of(given, now)))
        ledger.put_many(kept(Grader(shelf, policy="workflow-judged"), judged))
        grades = ledger.find("grade", limit=1000).items
        traced = trace(ledger, grades)
        shared = Remaker(shelf)
        together = [canonical(shared.remake(one).payload()) for one in traced]
        few = counted.made
        backwards = Remaker(shelf)
        assert [canonical(backwards.remake(one).payload()) for one in reversed(traced)] == together[
            ::-1
        ]
        apart = [canonical(Remaker(shelf).remake(one).payload()) for one in traced]
    assert apart == together == [grade.body for grade in grades]
    assert (
        len({grade.tree()["grade"] for grade in grades if grade.tree()["run_id"].startswith("j-")})
        > 1
    ), "the moment has a say"
    assert few < len(grades) / 2


def test_a_decision_under_a_published_version_of_the_past_is_made_again_to_the_byte(
    here: Run, tmp_path: Path
) -> None:
    library = tmp_path / "lib"
    (library / "policies").mkdir(parents=True)
    put_families(tmp_path)
    digests = []
    for version, best in (("1.0.0", 90), ("1.1.0", 99)):
        (library / "policies" / f"team@{version}.yaml").write_text(
            POLICY.format(version=version, best=best)
        )
        assert here("library", "publish", "--library", library).code == 0
        done = here(
            "gate",
            "candidate.jsonl",
            "--baseline",
            "baseline.jsonl",
            "--grading-policy",
            "team",
            "--library",
            library,
            "--store",
            "l.db",
        )
        assert done.code == 0, done.err
        digests.append(newest("l.db", "decision"))
    assert len(set(digests)) == 2
    for digest in digests:
        assert here("ledger", "replay", digest, "--db", "l.db", "--library", library).code == 0
    assert here("ledger", "replay", digests[0], "--db", "l.db").code == 3, (
        "without that library nobody knows the version"
    )


def test_a_grade_that_does_not_follow_from_its_evidence_is_named(here: Run, tmp_path: Path) -> None:
    put_sides(tmp_path, 4)
    assert (
        here("gate", "candidate.jsonl", "--baseline", "baseline.jsonl", "--store", "l.db").code == 4
    ), "too few to decide, and stored"
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        item = the_decision(ledger)
        links = [link for link in ledger.links_of(item.digest) if link.relation == "decides"]
        last = ledger.get(links[-1].target)
        assert last is not None
        near = [link for link in ledger.links_of(last.digest) if link.relation == "graded_from"]
        for changes, code in (
            ({"grade": "F"}, "REL-008"),
            ({"policy": "../x"}, "LIB-001"),
            ({"selection": None}, "STO-017"),
        ):
            forged = draft(
                {**last.tree(), **changes},
                kind="grade",
                links=[Link("graded_from", near[0].target)],
            )
            false = draft({**item.tree(), "reason": str(changes)}, kind="decision")
            sides = [
                Link(link.relation, false.name, link.source)
                for link in ledger.links_of(item.digest)
                if link.target == item.digest
            ]
            decides = [Link("decides", link.target) for link in links[:-1]] + [
                Link("decides", forged.name)
            ]
            ledger.put_many([forged, false._replace(links=(*sides, *decides))])
            with pytest.raises(InputError) as caught:
                replay_decision(ledger, the_decision(ledger), Shelf(), project="default")
            assert caught.value.code == code
        ledger.forget(
            next(
                str(link.source)
                for link in ledger.links_of(item.digest)
                if link.relation == "candidate_of"
            ),
            author="dpo",
            reason="asked to",
        )
        with pytest.raises(NotEnoughEvidence, match="was forgotten"):
            replay_decision(ledger, item, Shelf(), project="default")


CONFIRMED = ("--fresh", "fresh-red.jsonl", "--fresh-baseline", "fresh-base.jsonl")
ACCEPTED = ("--accept", "s-00", "--because", "its row is wrong")
ASKED = {
    "a plan": ("same", "--with-plan", "plan.json"),
    "a quarantine": ("one", "--quarantine", "s-00"),
    "slices": ("many", "--slice", "tag", "--slice", "group"),
    "a tolerance and a pass rate": ("one", "--tolerance", "7", "--min-pass-rate", "0.9"),
    "missing samples": ("missing",),
    "fresh runs": ("one", *CONFIRMED),
    "fresh runs of the candidate": ("one", "--fresh", "fresh-green.jsonl"),
    "fresh runs and all the rest": (
        *("one", *CONFIRMED, "--with-plan", "plan.json"),
        *("--quarantine", "s-07", "--slice", "tag"),
    ),
    "a laxer contract": ("laxer",),
    "a laxer contract and a named profile": ("laxer", "--profile", "code-repair-measured"),
}


@pytest.fixture
def sides(here: Run, tmp_path: Path) -> Path:
    """Files of candidates, of fresh runs and of a plan."""
    for name, documents in (*RUNS.items(), *FRESH.items()):
        write(tmp_path / f"{name}.jsonl", *documents)
    plan = here("gate", "--plan", "--baseline", "base.jsonl", "-o", "plan.json")
    assert plan.code == 0, plan.err
    return tmp_path


def decided_and_replayed(here: Run, candidate: str, *words: str) -> dict[str, Any]:
    """A stored decision, once it was replayed to its bytes."""
    asked = ("gate", f"{candidate}.jsonl", "--baseline", "base.jsonl", *words)
    done = here(*asked, "--store", "l.db", "--json")
    assert done.out, done.err
    again = here("ledger", "replay", newest("l.db", "decision"), "--db", "l.db")
    assert again.code == 0, again.out + again.err
    return dict(done.json())


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_decision_is_replayed_with_all_that_was_asked(
    here: Run, sides: Path, asked: tuple[str, ...]
) -> None:
    decided_and_replayed(here, *asked)
    assert here("ledger", "verify", "--db", "l.db").code == 0


def test_fresh_runs_are_stored_with_the_decision_that_they_confirm(here: Run, sides: Path) -> None:
    found = decided_and_replayed(here, "one", *CONFIRMED)
    assert found["outcome"] == "reject"
    assert {suspect["verdict"] for suspect in found["confirmation"]["suspects"]} == {"confirmed"}
    with open_ledger(f"{sides}/l.db") as ledger:
        item = the_decision(ledger)
        links = ledger.links_of(item.digest)
        fresh = [link for link in links if link.relation.startswith("fresh_")]
        assert {link.relation for link in fresh} == {"fresh_candidate_of", "fresh_baseline_of"}
        ledger.forget(str(fresh[0].source), author="dpo", reason="asked to")
        with pytest.raises(NotEnoughEvidence, match="was forgotten"):
            replay_decision(ledger, item, Shelf(), project="default")


def test_an_accepted_failure_is_replayed_as_it_was_accepted(
    here: Run, sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sides / "lib/policies").mkdir(parents=True)
    (sides / "lib/policies/approved@1.yaml").write_text(APPROVED)
    published = here("library", "publish", "--library", "lib")
    assert published.code == 0, published.err
    monkeypatch.setenv("GITHUB_ACTOR", "sam")
    words = ("--release-policy", "approved", "--library", "lib")
    done = here(
        *("gate", "one.jsonl", "--baseline", "base.jsonl", *CONFIRMED, *ACCEPTED, *words),
        *("--store", "l.db", "--json"),
    )
    assert done.code == 0, done.err
    accepted = {suspect["accepted"] for suspect in done.json()["confirmation"]["suspects"]}
    assert accepted == {"its row is wrong (sam)"}
    digest = newest("l.db", "decision")
    again = here("ledger", "replay", digest, "--db", "l.db", "--library", "lib")
    assert again.code == 0, again.out + again.err


@pytest.mark.parametrize("kind", ["run", "grade"])
def test_a_decision_on_records_that_were_changed_is_not_made_again(
    here: Run, tmp_path: Path, kind: str
) -> None:
    put_sides(tmp_path, 4)
    assert (
        here("gate", "candidate.jsonl", "--baseline", "baseline.jsonl", "--store", "l.db").code == 4
    ), "too few to decide, and stored"
    digest = newest("l.db", "decision")
    spoil(tmp_path / "l.db", kind)
    done = here("ledger", "replay", digest, "--db", "l.db")
    assert (done.code, "STO-007" in done.err, done.out) == (3, True, "")
