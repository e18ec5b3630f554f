"""The ledger on SQLite and on a real PostgreSQL: what is stored stays, once, as it was written; and
what was changed from outside is found.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BigInteger, event, text
from sqlalchemy.exc import DBAPIError

from assay.canon import canonical, digest
from assay.errors import AssayError, InputError, UsageError
from assay.files.json_files import Document
from assay.judging.card import make_card
from assay.library.shelf import Shelf
from assay.services.grading import Grader
from assay.services.replay import replay
from assay.services.storing import basis_of, drafts_of, settled, trace
from assay.store import tables as t
from assay.store import verify as verifying
from assay.store.databases import open_database, worded
from assay.store.drafts import KINDS, Draft, Link, draft, graded_drafts
from assay.store.ledger import Ledger, open_ledger
from assay.store.reading import evidence_of, grades_of, seen
from assay.store.verify import verify
from assay.store.writing import insert_rows
from checkout import SUPPORT
from commands import Running
from documents import FAMILIES, run, scorecard
from examples import CAMPAIGN, repeats
from postgres import empty_url, ledger_url, on_sqlite, postgres_url

__all__ = ["empty_url", "ledger_url", "postgres_url"]

NOW = datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url, clock=lambda: NOW) as opened:
        yield opened


def graded(document: dict[str, Any], **choice: Any) -> list[Draft]:
    """A document with its scorecard and its grade, as they are stored."""
    return drafts_of(Grader(Shelf(), **choice).grade(settled(Document(document, "test"))))


def outside(ledger: Ledger, *statements: str) -> None:
    """Change a ledger behind its back, as somebody who owns the database can."""
    if ledger.database.path is not None:
        raw = sqlite3.connect(ledger.database.path)
        names = [
            row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        ]
        for name in names:
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(statement)
        raw.commit()
        raw.close()
        return
    with ledger.database.engine.begin() as connection:
        connection.execute(text("SET session_replication_role = replica"))
        for statement in statements:
            connection.execute(text(statement))
        connection.execute(text("SET session_replication_role = DEFAULT"))


# --- what is stored stays


def test_a_record_is_its_content_and_the_same_record_twice_is_one(ledger: Ledger) -> None:
    first = ledger.put(run(), kind="run", author="ada", reason="nightly")
    again = ledger.put(dict(reversed(run().items())), kind="run", author="somebody else")
    assert (first.new, again.new) == (True, False)
    assert (first.digest, first.seq) == (again.digest, again.seq) == (digest(run()), 1)
    item = ledger.get(first.digest)
    assert item is not None
    assert (item.body, item.author, item.reason, item.created_at) == (
        canonical(run()),
        "ada",
        "nightly",
        "2026-11-15T10:00:00.000000Z",
    )
    assert (item.kind, item.schema) == ("run", "assay.run/1")
    assert ledger.count().n == 1


def test_every_kind_of_record_is_kept(ledger: Ledger) -> None:
    evidence = ledger.put(scorecard({"norm": 1}), kind="scorecard")
    for kind in (kind for kind in KINDS if kind != "tombstone"):
        links = [Link("graded_from", evidence.digest)] if kind == "grade" else []
        stored = ledger.put({"schema": f"team.{kind}/1", "name": kind}, kind=kind, links=links)
        assert ledger.find(kind).items[-1].digest == stored.digest
    with pytest.raises(InputError, match="Did you mean 'decision'"):
        ledger.put({}, kind="decison")
    with pytest.raises(InputError, match="written by `forget` alone"):
        ledger.put({"schema": "assay.tombstone/1", "digest": evidence.digest}, kind="tombstone")
    with pytest.raises(InputError, match="as 'scorecard', not as 'event'"):
        ledger.put(scorecard({"norm": 1}), kind="event")
    with pytest.raises(InputError, match="a filter needs the kind of the records"):
        ledger.count(filters={"grade": "A"})
    assert verify(ledger).clean


def test_decimals_survive_to_the_last_digit(ledger: Ledger) -> None:
    dear = Decimal("0.1234567890123456789012345678901234567890")
    steps = [
        {
            "name": "a",
            "status": "success",
            "cost_usd": dear,
            "duration_ms": Decimal("12.50"),
            "tokens": 10**30,
        }
    ]
    stored = ledger.put(run(cost_usd=dear, steps=steps), kind="run")
    item = ledger.get(stored.digest)
    assert item is not None
    assert item.tree()["cost_usd"] == dear
    step = item.tree()["steps"][0]
    assert (step["cost_usd"], str(step["duration_ms"]), step["tokens"]) == (dear, "12.5", 10**30)


@on_sqlite
def test_a_stored_scorecard_says_which_version_scored_it(ledger: Ledger) -> None:
    drafts = graded(run("rag"))
    ledger.put_many(drafts)
    card = ledger.find("scorecard").items[0].tree()
    assert card["scoringSystem"].startswith("scoringSystem/")


HOSTILE = [
    "a\0b",
    "'; DROP TABLE records; --",
    "<script>alert(1)</script>",
    "\u202eevil\u2066",
    "𝔸\U0010ffff",
    "x" * 5000,
    "é" * 300,
    "sha256:" + "0" * 64,
    "%s %(x)s :y {z} ?",
    "\\",
    "\r\n\t",
]


def keeps_and_finds(ledger: Ledger, evil: str) -> None:
    steps = [
        {
            "name": evil,
            "status": "success",
            "agent": evil,
            "model": evil,
            "error": evil,
            "scores": {evil: {"raw": 1}},
        }
    ]
    document = run(
        workflow={"id": evil, "version": evil, "family": "rag"},
        steps=steps,
        tags=[evil],
        tool_calls=[{"name": evil, "arguments": {evil: evil}}],
    )
    document["dataset"]["sample_id"] = evil
    document["run_id"] = evil[:400]
    stored = ledger.put(document, kind="run")
    for name, value in (
        ("workflow", evil),
        ("sample_id", evil),
        ("tag", evil),
        ("run_id", evil[:400]),
    ):
        page = ledger.find("run", {name: value})
        assert [item.digest for item in page.items] == [stored.digest], name
    assert ledger.history(evil[:400]).items[0].tree() == document
    assert (
        ledger.find("run", {"workflow": f"sha256:{sha256(evil.encode()).hexdigest()}"}).items == ()
    )


def test_hostile_text_is_kept_found_and_not_run(ledger: Ledger) -> None:
    for evil in HOSTILE:
        keeps_and_finds(ledger, evil)
    assert verify(ledger).clean


def test_large_and_deep_records_are_kept_and_too_deep_ones_refused(ledger: Ledger) -> None:
    large = {"schema": "x/1", "text": "ä" * 1_000_000}
    deep: Any = 1
    for _ in range(190):
        deep = [deep]
    for body in (large, {"deep": deep}):
        item = ledger.get(ledger.put(body, kind="event").digest)
        assert item is not None
        assert item.tree() == body
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InputError, match="nests more than 200 deep"):
        ledger.put({"deep": deep}, kind="event")
    for wrong in ([1], "x", None, {"x": float("nan")}, {"x": object()}, {"x": "\ud800"}):
        with pytest.raises(InputError):
            ledger.put(wrong, kind="event")
    assert verify(ledger).clean


@on_sqlite
@pytest.mark.parametrize("wrong", ["a\0b", "x" * 3000, "\x1b[2K"])
def test_an_author_or_reason_that_no_database_takes_is_refused(ledger: Ledger, wrong: str) -> None:
    with pytest.raises(InputError, match="author"):
        ledger.put(run(), kind="run", author=wrong)


@pytest.mark.req("W-072", "W-073")
def test_the_steps_and_tool_calls_of_a_stored_run_can_be_asked_for(ledger: Ledger) -> None:
    steps = [
        {
            "name": "plan",
            "agent": "planner",
            "status": "success",
            "duration_ms": 120,
            "retries": 1,
            "model": "m-1",
            "tier": "large",
            "tokens": 812,
            "cost_usd": Decimal("0.004"),
            "scores": {"clarity": {"raw": 4}},
        },
        {"name": "act", "status": "failed", "critical": False, "error": "boom"},
    ]
    calls = [
        {"step": "plan", "name": "search", "arguments": {"q": "x"}, "valid": True},
        {"name": "rm", "valid": False, "error": {"code": 1}},
    ]
    ledger.put_many(graded(run("tool-use", steps=steps, tool_calls=calls)))
    item = ledger.find("run", {"run_id": "r-1"}).items[0]
    assert item.tree()["steps"] == steps
    assert item.tree()["tool_calls"] == calls


@pytest.mark.req("W-072")
def test_a_stored_grade_and_its_run_hold_everything_a_run_log_must(ledger: Ledger) -> None:
    document = run(
        "tool-use",
        judge={"model": "m", "version": "1", "prompt_version": "2"},
        cost_usd=Decimal("0.1"),
        retries=1,
        tokens=10,
    )
    ledger.put_many(graded(document))
    page = ledger.history("r-1")
    assert [item.kind for item in page.items] == ["run", "scorecard", "grade"]
    grade = page.items[2].tree()
    assert grade["workflow"] == document["workflow"]
    assert grade["dataset"] == document["dataset"]
    assert grade["judge"] == document["judge"]
    assert all(status["reason"] for status in grade["hard_gates"].values())
    assert all("raw_score" in one and "norm" in one for one in grade["criteria"])
    assert {"weighted_score", "grade", "operations", "step_scores", "agent_scores"} <= set(grade)
    assert page.items[0].tree()["tool_calls"] == document["tool_calls"]


# --- a grade rests on evidence


@on_sqlite
def test_a_grade_without_its_evidence_is_not_stored(ledger: Ledger) -> None:
    evidence, card, grade = graded(run())
    for links in (
        [],
        [Link("supersedes", grade.name)],
        [Link("graded_from", "sha256:" + "0" * 64)],
    ):
        with pytest.raises(InputError):
            ledger.put_many([grade._replace(links=tuple(links))])
    event = ledger.put({"schema": "x/1"}, kind="event")
    with pytest.raises(InputError, match="only together with its evidence"):
        ledger.put_many([grade._replace(links=(Link("graded_from", event.digest),))])
    assert ledger.count("grade").n == 0
    ledger.put_many([evidence, card, grade])
    assert ledger.count("grade").n == 1
    assert verify(ledger).clean


def test_a_grade_is_stored_with_evidence_and_scorecard_in_one_transaction(ledger: Ledger) -> None:
    kept = Grader(Shelf()).grade(settled(Document(run("rag"), "test")))
    drafts = graded_drafts(kept.evidence, kept.grade.scorecard, kept.payload(), author="ci")
    stored = ledger.put_many(drafts)[-1]
    assert (stored.seq, stored.new) == (3, True)
    links = {(link.relation, link.source, link.target) for link in ledger.links_of(stored.digest)}
    card = ledger.find("scorecard").items[0].digest
    assert links == {("graded_from", stored.digest, card)}
    assert [link.source for link in ledger.links_of(card, relation="evidence_of")] == [
        ledger.find("run").items[0].digest
    ]
    assert ledger.put_many(drafts)[-1].new is False
    assert ledger.count().n == 3


def test_a_transaction_is_stored_whole_or_not_at_all(ledger: Ledger) -> None:
    good = [draft(run(run_id=f"r-{index}"), kind="run") for index in range(100)]
    bad = draft(run(run_id="bad"), kind="run", links=[Link("corrects", "sha256:" + "1" * 64)])
    with pytest.raises(InputError, match="is not in this project"):
        ledger.put_many([*good, bad])
    assert ledger.count().n == 0
    assert ledger.head() == (0, ledger.head()[1])
    assert verify(ledger).clean


def test_rows_before_the_one_that_fails_go_with_it(ledger: Ledger) -> None:
    ledger.put(run(), kind="run")
    with ledger.database.reading() as connection:
        first, *others = connection.execute(text("SELECT * FROM records")).mappings()
    again = [
        tuple({**first, "seq": seq, "digest": sha256(bytes([seq])).digest()}.values())
        for seq in (2, 3, 2, 4)
    ]
    with pytest.raises(DBAPIError), ledger.database.writing() as connection, connection.begin():
        insert_rows(connection, t.records, again)
    with ledger.database.reading() as connection:
        assert not others
        assert list(connection.execute(text("SELECT seq FROM records"))) == [(1,)]
    assert verify(ledger).clean


def test_a_link_that_comes_late_is_in_the_chain_too(ledger: Ledger) -> None:
    one, two = (ledger.put(run(run_id=name), kind="run").digest for name in "ab")
    again = ledger.put(run(run_id="a"), kind="run", links=[Link("supersedes", two)])
    assert again.new is False
    assert ledger.links_of(one) == [Link("supersedes", two, one)]
    assert ledger.put(run(run_id="a"), kind="run", links=[Link("supersedes", two)]).new is False
    assert len(ledger.find("event").items) == 1
    assert verify(ledger).clean
    outside(ledger, "DELETE FROM links")
    assert [flaw.seq for flaw in verify(ledger).flaws] == [3]


# --- nothing is changed in place


UPDATES = (
    "UPDATE records SET reason = 'x'",
    "UPDATE records SET body = NULL",
    "DELETE FROM records",
    "UPDATE links SET relation = 'corrects'",
    "DELETE FROM links",
    "DELETE FROM tags",
    "UPDATE tags SET tag = 'x'",
    "UPDATE heads SET seq = 1",
    "DELETE FROM heads",
)


def test_the_database_itself_refuses_to_change_or_delete(ledger: Ledger) -> None:
    ledger.put_many(graded(run(tags=["a"])))
    for statement in UPDATES:
        with (
            pytest.raises(DBAPIError, match="append-only") as refused,
            ledger.database.writing() as connection,
            connection.begin(),
        ):
            connection.execute(text(statement))
        assert worded(refused.value, "here", 0).code == "STO-006"
    assert verify(ledger).clean


def test_what_is_forgotten_leaves_a_tombstone_and_nothing_else(
    ledger: Ledger, tmp_path: Path
) -> None:
    secret = "Ada Lovelace, 12 St James's Square"
    evidence, card, grade = graded(
        run(tags=[secret], outputs={"answer": secret}, tool_calls=[{"name": secret}])
    )
    ledger.put_many([evidence, card, grade])
    found = ledger.forget(evidence.name, author="dpo", reason="asked to")
    assert (found.author, found.reason, found.digest) == ("dpo", "asked to", evidence.name)
    assert found.rests_on_it == (card.name,)
    item = ledger.get(evidence.name)
    assert item is not None
    assert item.body is None
    with pytest.raises(InputError, match="was forgotten"):
        item.tree()
    assert (
        ledger.find("run", {"tag": secret}).items
        == ledger.find("run", {"run_id": "r-1"}).items
        == ()
    )
    assert ledger.forget(evidence.name, author="x", reason="again") == found
    report = verify(ledger)
    assert (report.clean, report.forgotten) == (True, 1)
    with pytest.raises(InputError, match="can't be stored again"):
        ledger.put_many([evidence])
    ledger.forget(card.name, author="dpo", reason="asked to")
    ledger.forget(grade.name, author="dpo", reason="asked to")
    with pytest.raises(InputError, match="a tombstone can't be forgotten"):
        ledger.forget(ledger.find("tombstone").items[0].digest, author="dpo", reason="all of it")
    assert verify(ledger).clean
    if ledger.database.path is not None:
        ledger.close()
        for path in tmp_path.glob("ledger.db*"):
            assert secret.encode() not in path.read_bytes()


@on_sqlite
def test_a_grade_cannot_be_stored_on_forgotten_evidence(ledger: Ledger) -> None:
    _, card, grade = graded(run())
    ledger.put_many([card._replace(links=())])
    ledger.forget(card.name, author="dpo", reason="asked to")
    with pytest.raises(InputError, match="only together with its evidence"):
        ledger.put_many([grade])


# --- projects


@on_sqlite
def test_projects_cannot_see_each_other(ledger: Ledger) -> None:
    mine = ledger.put_many(graded(run()), project="mine")
    grade = mine[-1].digest
    assert ledger.get(grade, project="mine") is not None
    assert ledger.get(grade, project="other") is None
    assert (
        ledger.find("grade", project="other").items
        == ledger.history("r-1", project="other").items
        == ()
    )
    assert ledger.links_of(grade, project="other") == []
    assert ledger.starting_with(grade[7:20], project="other") == []
    assert ledger.get_many([grade], project="other") == {}
    assert ledger.links_of_many([grade], project="other") == []
    assert ledger.count(project="other").n == 0
    for link in (Link("supersedes", grade), Link("graded_from", mine[1].digest)):
        with pytest.raises(InputError, match="is not in this project"):
            ledger.put(run(), kind="run", project="other", links=[link])
    with pytest.raises(InputError, match="no such record"):
        ledger.forget(grade, project="other", author="x", reason="y")
    theirs = ledger.put_many(graded(run()), project="other")
    assert [one.seq for one in theirs] == [1, 2, 3]
    ledger.forget(theirs[0].digest, project="other", author="x", reason="y")
    item = ledger.get(mine[0].digest, project="mine")
    assert item is not None
    assert item.body is not None
    assert ledger.projects() == ["mine", "other"]
    assert verify(ledger).clean
    for name in ("", "a b", "../x", "x" * 65, "a\0", "ä", "-x"):
        with pytest.raises(InputError, match="not a name for a project"):
            ledger.put(run(), kind="run", project=name)


# --- finding


def test_pages_go_through_everything_once_in_order(ledger: Ledger) -> None:
    ledger.put_many(
        [
            draft(run(run_id=f"r-{index}", tags=["even"] if index % 2 == 0 else []), kind="run")
            for index in range(90)
        ]
    )
    for filters, expected in (({}, 90), ({"tag": "even"}, 45), ({"status": "success"}, 90)):
        for newest_first in (False, True):
            seen: list[int] = []
            cursor = None
            while True:
                page = ledger.find(
                    "run", filters, after=cursor, limit=20, newest_first=newest_first
                )
                seen += [item.seq for item in page.items]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert len(seen) == expected
            assert seen == sorted(set(seen), reverse=newest_first)
        assert ledger.count("run", filters) == (expected, True)
    page = ledger.find("run", limit=90)
    assert (len(page.items), page.next_cursor) == (90, None)


def test_every_filter_finds_what_it_names_and_nothing_else(ledger: Ledger) -> None:
    other = run(
        "rag",
        run_id="r-2",
        workflow={"id": "w2", "version": "2", "family": "rag"},
        dataset={"id": "d2", "version": "2", "sample_id": "s-2"},
        status="failed",
        tags=["x"],
        started_at="2026-01-02T00:00:00+02:00",
    )
    ledger.put_many([*graded(run(started_at="2026-01-01T23:00:00Z")), *graded(other)])
    here: dict[str, Any] = {
        "run_id": "r-2",
        "workflow": "w2",
        "workflow_version": "2",
        "family": "rag",
        "dataset": "d2",
        "dataset_version": "2",
    }
    here |= {
        "sample_id": "s-2",
        "status": "failed",
        "tag": "x",
        "passed": False,
        "profile": "rag@1",
        "grade": "F",
    }
    for name, value in here.items():
        found = [item.tree()["run_id"] for item in ledger.find("grade", {name: value}).items]
        assert found == ["r-2"], name
        assert (
            ledger.find("grade", {name: "none" if name != "passed" else True}).items == ()
            or name == "passed"
        )
    assert len(ledger.find("grade", {"policy": "workflow@1"}).items) == 2
    assert [
        item.tree()["run_id"]
        for item in ledger.find("run", {"started_before": "2026-01-01T22:30:00Z"}).items
    ] == ["r-2"]
    assert [
        item.tree()["run_id"]
        for item in ledger.find(
            "run", {"started_from": "2026-01-01T22:30:00Z", "status": "success"}
        ).items
    ] == ["r-1"]
    assert ledger.find("grade", {**here, "tag": "y"}).items == ()
    for wrong in (
        {"colour": "red"},
        {"passed": "yes"},
        {"grade": True},
        {"started_from": "tomorrow"},
    ):
        with pytest.raises(InputError, match="filter"):
            ledger.find("grade", wrong)


def test_a_page_far_into_many_records_is_read_from_an_index_at_its_cursor(tmp_path: Path) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        ledger.put_many(draft(run(run_id=f"r-{n}", tags=["x"]), kind="run") for n in range(3))
        plans: list[str] = []

        def look(
            connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any
        ) -> None:
            explained = f"EXPLAIN QUERY PLAN {statement}"
            driver = connection.connection.driver_connection
            plans.extend(row[3] for row in driver.execute(explained, parameters))

        event.listen(ledger.database.engine, "before_cursor_execute", look)
        for filters in ({}, {"status": "success"}, {"run_id": "r-1"}, {"tag": "x"}):
            for newest_first, cursor in ((False, "seq>?"), (True, "seq<?")):
                plans.clear()
                ledger.find("run", filters, after=2, limit=1, newest_first=newest_first)
                assert cursor in plans[0], (filters, plans)
                assert all(plan.startswith("SEARCH") for plan in plans), plans


def mixed(n: int, chance: random.Random) -> list[Draft]:
    """Runs that differ in everything they can be found by."""
    made = []
    for index in range(n):
        workflow = {
            "id": f"w{chance.choice([1, 1, 1, 2, 3])}",
            "version": chance.choice("123"),
            "family": "rag",
        }
        dataset = {
            "id": f"d{chance.choice('12')}",
            "version": chance.choice("12"),
            "sample_id": str(index % 7),
        }
        more = {
            "status": chance.choice(["success", "failed"]),
            "tags": chance.choice([[], ["a"], ["a", "b"]]),
            "metadata": {"n": index},
        }
        made.append(
            draft(
                run(
                    run_id=f"r-{index % 50}",
                    workflow=workflow,
                    dataset=dataset,
                    started_at=f"2026-11-15T10:{chance.randrange(60):02}:00Z",
                    **more,
                ),
                kind="run",
            )
        )
    return made


@on_sqlite
def test_a_page_that_looks_at_few_records_leads_to_the_same_ones_as_a_page_that_looks_at_all(
    ledger: Ledger,
) -> None:
    chance = random.Random(3)
    ledger.put_many(mixed(repeats(100, 300), chance))
    choices: dict[str, list[str]] = {
        "workflow": ["w1", "w2", "none"],
        "workflow_version": ["1", "x"],
        "dataset": ["d1"],
        "dataset_version": ["1", "2"],
        "status": ["failed"],
        "tag": ["a", "b", "z"],
        "run_id": ["r-3"],
        "sample_id": ["1"],
        "started_from": ["2026-11-15T10:20:00Z"],
        "started_before": ["2026-11-15T10:40:00Z"],
    }
    for turn in range(repeats(16, 80)):
        filters = {
            name: chance.choice(choices[name]) for name in chance.sample(list(choices), turn % 4)
        }
        newest_first, look_at, limit = (
            turn % 2 == 0,
            chance.choice([20, 60, 1000]),
            chance.choice([7, 50]),
        )
        found: list[int] = []
        cursor = None
        while True:
            page = ledger.find(
                "run",
                filters,
                after=cursor,
                limit=limit,
                newest_first=newest_first,
                look_at=look_at,
            )
            assert len(page.items) <= limit
            assert (
                cursor is None
                or page.next_cursor is None
                or (page.next_cursor < cursor if newest_first else page.next_cursor > cursor)
            )
            found += [item.seq for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == [
            item.seq
            for item in ledger.find("run", filters, limit=10_000, newest_first=newest_first).items
        ], (filters, newest_first, look_at)


def test_workflows_and_datasets_are_counted_as_runs_come_and_go(ledger: Ledger) -> None:
    assert seen(ledger.database, "default", "workflow") == []
    drafts = mixed(10, random.Random(1))
    stored = ledger.put_many(drafts[:5])
    ledger.put_many(drafts)
    ledger.put(run(), kind="run", project="other")
    ledger.put(
        {"schema": "assay.run/1", "workflow": {"id": "w0"}, "dataset": {"id": "d0", "version": ""}},
        kind="run",
    )
    expected: dict[tuple[str, str | None], list[int]] = {}
    for item in ledger.find("run", limit=1000).items:
        tree = item.tree()["workflow"]
        expected.setdefault((tree["id"], tree.get("version")), []).append(item.seq)
    found = seen(ledger.database, "default", "workflow")
    assert [(one.id, one.version, one.runs, one.newest_seq) for one in found] == [
        (*name, len(seqs), max(seqs)) for name, seqs in sorted(expected.items(), key=str)
    ]
    assert [
        (one.id, one.version, one.runs) for one in seen(ledger.database, "other", "dataset")
    ] == [("d", "1", 1)]
    assert seen(ledger.database, "default", "dataset")[0] == ("d0", None, 1, ledger.head()[0])
    for one in stored:
        ledger.forget(one.digest, author="dpo", reason="asked to")
    ledger.forget(
        ledger.find("run", {"workflow": "w0"}).items[0].digest, author="dpo", reason="asked to"
    )
    assert sum(one.runs for one in seen(ledger.database, "default", "workflow")) == 5
    assert "w0" not in [one.id for one in seen(ledger.database, "default", "workflow")], (
        "with its last run a name goes too"
    )
    assert verify(ledger).clean


def test_no_question_about_a_page_of_runs_goes_through_a_whole_project(tmp_path: Path) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        stored = ledger.put_many(graded(run()))
        plans: list[str] = []

        def look(
            connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any
        ) -> None:
            if statement.startswith("SELECT"):
                plans.extend(
                    row[3]
                    for row in connection.connection.driver_connection.execute(
                        f"EXPLAIN QUERY PLAN {statement}", parameters
                    )
                )

        event.listen(ledger.database.engine, "before_cursor_execute", look)
        many = [f"sha256:{number:064x}" for number in range(99)]
        assert list(grades_of(ledger.database, "default", [stored[0].digest, *many])) == [
            stored[0].digest
        ]
        assert evidence_of(ledger.database, "default", [stored[2].digest, *many]) == {
            stored[2].digest: [stored[0].digest]
        }
        assert len(ledger.find("run", {"tag": "x", "workflow": "w"}, look_at=100).items) == 0
        assert len(plans) > 8
        wide = [
            plan
            for plan in plans
            if plan.startswith(("SCAN links", "SCAN records", "SCAN tags"))
            or plan.endswith(("(project=?)", "(project=? AND kind=?)"))
        ]
        assert wide == []


# --- two at once


def test_threads_that_write_at_once_lose_nothing_and_store_nothing_twice(ledger: Ledger) -> None:
    faults: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for index in range(repeats(4, 8)):
                ledger.put(run(run_id=f"own-{me}-{index}"), kind="run")
                ledger.put(run(run_id=f"shared-{index}"), kind="run")
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert ledger.count().n == 5 * repeats(4, 8)
    assert verify(ledger).clean


WRITER = """
import sys
sys.path[:0] = {path!r}
from assay.store.ledger import open_ledger
from assay.store.drafts import draft
from documents import run
url, me, total, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
ledger = open_ledger(url, patience=60)
print("ready", flush=True)
for start in range(0, total, size):
    drafts = [draft(run(run_id=f"{{me}}-{{index}}", tags=[me], metadata={{"pad": "x" * 500}}), kind="run") for index in range(start, start + size)]
    for stored in ledger.put_many(drafts):
        print(stored.digest)
    sys.stdout.flush()
"""


def writer(url: str, me: str, *, total: int, size: int) -> Running:
    return Running(url, me, total, size, code=WRITER.format(path=[str(SUPPORT)]))


def test_two_processes_open_a_new_ledger_at_once_and_both_write(empty_url: str) -> None:
    both = [writer(empty_url, me, total=30, size=3) for me in "ab"]
    said = [process.communicate() for process in both]
    assert [err for _, err in said] == ["", ""]
    with open_ledger(empty_url) as ledger:
        assert ledger.count().n == 60
        assert verify(ledger).clean


def test_a_kill_during_ingest_loses_nothing_that_was_acknowledged(ledger_url: str) -> None:
    chance = random.Random(7)
    acknowledged: set[str] = set()
    for turn in range(repeats(2, 20)):
        process = writer(ledger_url, f"turn-{turn}", total=100_000, size=chance.choice([1, 7, 40]))
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.02, 0.5 if CAMPAIGN else 0.2))
        out = process.end_at_once()
        assert process.returncode == -signal.SIGKILL
        lines = out.splitlines()
        whole = lines if out.endswith("\n") else lines[:-1]
        acknowledged.update(whole)
    with open_ledger(ledger_url) as ledger:
        for part in acknowledged:
            item = ledger.get(part)
            assert item is not None
            assert item.tree()["schema"] == "assay.run/1"
        report = verify(ledger)
        assert report.clean, report.flaws[:3]
        assert report.records == ledger.count().n >= len(acknowledged)


# --- what a database can do to one


def test_a_locked_ledger_is_waited_for_and_then_the_error_tells(ledger_url: str) -> None:
    with open_ledger(ledger_url) as other, open_ledger(ledger_url, patience=0.5) as ledger:
        ledger.put(run(), kind="run")
        with other.database.writing() as connection, connection.begin():
            connection.execute(
                text(
                    "SELECT seq FROM heads" + (" FOR UPDATE" if other.database.path is None else "")
                )
            )
            with pytest.raises(
                UsageError, match=r"locked by another writer for more than 0\.5 seconds"
            ) as refused:
                ledger.put(run(run_id="r-2"), kind="run")
            assert "Try again" in refused.value.fix
            assert ledger.count().n == 1  # readers are not locked out
        assert ledger.put(run(run_id="r-2"), kind="run").new

        held = threading.Event()

        def hold() -> None:
            with other.database.writing() as connection, connection.begin():
                connection.execute(
                    text(
                        "SELECT seq FROM heads"
                        + (" FOR UPDATE" if other.database.path is None else "")
                    )
                )
                held.set()
                time.sleep(0.2)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        assert ledger.put(run(run_id="r-3"), kind="run").new
        thread.join()


FULL = """
import resource, signal, sys
sys.path[:0] = {path!r}
from assay.errors import AssayError
from assay.store.ledger import open_ledger
from documents import run
ledger = open_ledger(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    for index in range(10_000):
        print(ledger.put(run(run_id=str(index), metadata={{"pad": "x" * 5000}}), kind="run").digest, flush=True)
except AssayError as error:
    print(error, file=sys.stderr)
    sys.exit(int(error.exit_code))
"""


def test_a_full_disk_is_told_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    done = Running(url, code=FULL.format(path=[str(SUPPORT)]))
    out, err = done.communicate()
    assert done.returncode == 2
    assert "the disk is full or fails" in err
    assert "Everything that was acknowledged is kept" in err
    stored = out.split()
    assert len(stored) > 10
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1_500_000
    with open_ledger(url) as ledger:
        assert all(ledger.get(one) is not None for one in stored)
        assert verify(ledger).clean
        assert ledger.put(run(run_id="after"), kind="run").new


def test_a_connection_that_is_cut_is_made_again(postgres_url: str) -> None:
    with open_ledger(postgres_url) as ledger:
        ledger.put(run(), kind="run")
        with (
            open_ledger(postgres_url) as other,
            other.database.writing() as connection,
            connection.begin(),
        ):
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                    " current_database() AND pid <> pg_backend_pid() AND backend_type = 'client"
                    " backend'"
                )
            )
        assert ledger.put(run(run_id="r-2"), kind="run").new
        assert ledger.count().n == 2


def test_a_database_that_is_not_there_is_told_without_its_password(postgres_url: str) -> None:
    with pytest.raises(UsageError, match="cannot be reached") as refused:
        open_ledger("postgresql://ada:geheim@127.0.0.1:1/none", patience=0.1)
    assert "geheim" not in str(refused.value)
    assert "***" in refused.value.where
    with pytest.raises(UsageError, match="cannot be reached"):
        open_ledger(postgres_url.replace("/t", "/no_such_", 1), patience=0.1)


def test_what_is_no_ledger_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "garbage.db").write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(InputError, match="is not a ledger, or is damaged"):
        open_ledger(f"sqlite:///{tmp_path}/garbage.db")
    raw = sqlite3.connect(tmp_path / "other.db")
    raw.execute("CREATE TABLE users (id)")
    raw.close()
    with pytest.raises(InputError, match="belongs to another program: it has a table 'users'"):
        open_ledger(f"sqlite:///{tmp_path}/other.db")
    with pytest.raises(InputError, match="there is no ledger"):
        open_ledger(f"sqlite:///{tmp_path}/none.db", read_only=True)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(UsageError, match="is a directory"):
        open_ledger(f"sqlite:///{tmp_path}")
    for url in ("sqlite://", "sqlite:///:memory:", "mysql://x/y", "postgresql://["):
        with pytest.raises(AssayError):
            open_ledger(url, patience=0.1)


def test_a_ledger_that_is_opened_to_read_cannot_be_written(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        ledger.put(run(), kind="run")
    with open_ledger(ledger_url, read_only=True, patience=0.2) as ledger:
        assert ledger.count().n == 1
        assert verify(ledger).clean
        with pytest.raises(UsageError, match="may only be read"):
            ledger.put(run(run_id="r-2"), kind="run")


# --- migrations


def shape(ledger_url: str) -> list[Any]:
    """Where the tables differ from what the program thinks they are."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    database = open_database(ledger_url)
    with database.reading() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"compare_type": True, "version_table": t.VERSION_TABLE},
        )
        found: list[Any] = compare_metadata(context, t.metadata)
    database.engine.dispose()
    return found


def test_the_tables_are_what_the_program_thinks_and_append_only(
    empty_url: str,
) -> None:
    with open_ledger(empty_url) as ledger:
        ledger.put_many(graded(run()))
        assert shape(empty_url) == []
        assert [*t.VERSIONS] == ["v0001"]
        with ledger.database.reading() as connection, connection.begin():
            assert t.current(connection) == "v0001"
        with (
            pytest.raises(DBAPIError, match="append-only"),
            ledger.database.writing() as connection,
            connection.begin(),
        ):
            connection.execute(text("DELETE FROM records"))
        assert verify(ledger).clean


def test_a_ledger_of_a_newer_program_is_refused(empty_url: str) -> None:
    with (
        open_ledger(empty_url) as ledger,
        ledger.database.writing() as connection,
        connection.begin(),
    ):
        connection.execute(text(f"UPDATE {t.VERSION_TABLE} SET version_num = 'v9999'"))
    with pytest.raises(
        UsageError, match=r"tables of version v9999; this version of Assay supports up to v\d+"
    ) as refused:
        open_ledger(empty_url)
    assert refused.value.fix == "Install a newer version of Assay."


# --- verify

TAMPERED = [
    ("UPDATE records SET body = {bytes} WHERE seq = 4", "the content does not match its digest"),
    (
        "UPDATE records SET grade = 'A', passed = {true} WHERE kind = 'grade' AND seq = 6",
        "next to the content",
    ),
    ("UPDATE records SET author = 'nobody' WHERE seq = 4", "the chain breaks here"),
    ("UPDATE records SET reason = 'because' WHERE seq = 4", "the chain breaks here"),
    (
        "UPDATE records SET created_at = '2020-01-01T00:00:00.000000Z' WHERE seq = 4",
        "the chain breaks here",
    ),
    ("UPDATE records SET kind = 'event' WHERE seq = 4", "the chain breaks here"),
    ("DELETE FROM records WHERE seq = 4", "records are missing before this one: 4 to 4"),
    ("DELETE FROM records WHERE seq = 6", "the newest records were cut off"),
    ("UPDATE records SET seq = seq + 100 WHERE seq > 3", "records are missing"),
    ("DELETE FROM links WHERE relation = 'graded_from'", "this grade has no evidence"),
    ("DELETE FROM links WHERE relation = 'evidence_of'", "the chain breaks here"),
    (
        "UPDATE links SET relation = 'corrects' WHERE relation = 'evidence_of'",
        "the chain breaks here",
    ),
    ("DELETE FROM tags", "the rows of 'tags' are not those of the content"),
    ("UPDATE tags SET tag = 'y'", "the rows of 'tags' are not those of the content"),
    (
        "INSERT INTO tags (project, seq, position, kind, tag) VALUES ('default', 99, 0, 'run', 'x')",
        "a row of 'tags' belongs to no record",
    ),
    ("UPDATE counts SET n = 7 WHERE kind = 'run'", "were counted"),
    ("UPDATE heads SET seq = 5", "the head says record 5"),
    (
        "UPDATE seen SET runs = 7 WHERE what = 'workflow'",
        "2 runs name the workflow 'w' '1' and 7 were counted",
    ),
    ("UPDATE seen SET newest_seq = 1 WHERE what = 'dataset'", "the newest is another"),
    (
        "INSERT INTO seen (project, what, id, version, runs, newest_seq) VALUES ('default', 'dataset', 'x', '', 1, 1)",
        "0 runs name the dataset 'x'",
    ),
    ("DELETE FROM heads", "the head says nothing"),
    ("UPDATE records SET body = NULL WHERE seq = 4", "no tombstone records who"),
    ("UPDATE records SET schema = 'x/1' WHERE seq = 4", "the schema is 'x/1'"),
    (
        "INSERT INTO tombstones (project, seq, digest, author, reason, at) SELECT project, 1, digest, 'x', 'y', 'z' FROM records WHERE seq = 4",
        "a tombstone is not the one that the chain has",
    ),
]


class Tampering:
    """A ledger on SQLite, and its file: as good as new before each change from outside."""

    def __init__(self, path: Path) -> None:
        self.ledger = open_ledger(f"sqlite:///{path}")
        self.ledger.put_many(two_grades())
        assert verify(self.ledger).clean
        outside(self.ledger)  # without its triggers
        self.raw = sqlite3.connect(path, isolation_level=None)
        self.good = sqlite3.connect(":memory:")
        self.raw.backup(self.good)

    def report(self, statement: str) -> verifying.VerifyReport:
        """What is found after this change."""
        try:
            self.raw.execute(statement)
            return verify(self.ledger)
        finally:
            self.good.backup(self.raw)


def two_grades() -> list[Draft]:
    return [
        *graded(run("tool-use", tags=["x"])),
        *graded(run("rag", run_id="r-2", status="failed")),
    ]


@pytest.fixture
def tampering(tmp_path: Path) -> Iterator[Tampering]:
    made = Tampering(tmp_path / "tampered.db")
    yield made
    assert verify(made.ledger).clean
    for opened in (made.raw, made.good, made.ledger):
        opened.close()


@pytest.mark.parametrize("table", [t.heads, t.records, t.counts, t.seen, t.links, t.tags])
def test_a_value_of_another_kind_in_any_column_is_a_flaw_and_no_failure(
    tampering: Tampering, table: Any
) -> None:
    where = f" WHERE seq = (SELECT max(seq) FROM {table.name})" if "seq" in table.columns else ""
    for place, column in enumerate(table.columns):
        if (table.name, column.name) == ("links", "position"):
            continue  # only the order counts, and the chain covers that
        is_number = isinstance(column.type, BigInteger)
        values = ("'none of ours'", "1.5", "X'00ff'", "-1") if is_number else ("X'00ff'", "-1")
        turn = place % len(values)
        for value in values if CAMPAIGN else values[turn : turn + 1]:
            try:
                report = tampering.report(f"UPDATE {table.name} SET {column.name} = {value}{where}")
            except sqlite3.IntegrityError:
                continue  # the database does not take it
            assert not report.clean, (column.name, value)
            assert json.dumps([flaw._asdict() for flaw in report.flaws])
            assert not any("{" in flaw.what for flaw in report.flaws)


@pytest.mark.parametrize(("statement", "what"), TAMPERED)
def test_what_is_changed_from_outside_is_found_and_named(
    tampering: Tampering, statement: str, what: str
) -> None:
    is_named(tampering.report(statement.format(bytes="X'7b7d'", true="1")), what)


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("statement", "what"),
    [case for place, case in enumerate(TAMPERED) if CAMPAIGN or place in (0, 1, 6, 12)],
)
def test_what_is_changed_from_outside_is_found_and_named_on_postgresql(
    ledger: Ledger, statement: str, what: str
) -> None:
    ledger.put_many(two_grades())
    assert verify(ledger).clean
    outside(ledger, statement.format(bytes="'\\x7b7d'::bytea", true="true"))
    is_named(verify(ledger), what)


def is_named(report: verifying.VerifyReport, what: str) -> None:
    assert not report.clean
    assert any(what in flaw.what for flaw in report.flaws), report.flaws
    assert all(flaw.fix for flaw in report.flaws)


def test_two_records_that_change_places_are_found(ledger: Ledger) -> None:
    ledger.put_many([draft(run(run_id=str(index)), kind="run") for index in range(4)])
    outside(
        ledger,
        "UPDATE records SET seq = -1 WHERE seq = 2",
        "UPDATE records SET seq = 2 WHERE seq = 3",
        "UPDATE records SET seq = 3 WHERE seq = -1",
    )
    assert any("the chain breaks here" in flaw.what for flaw in verify(ledger).flaws)


def test_records_that_were_cut_off_at_the_end_are_found_by_a_noted_head(ledger: Ledger) -> None:
    ledger.put_many([draft(run(run_id=str(index)), kind="run") for index in range(3)])
    seq, chain = ledger.head()
    with ledger.database.reading() as connection, connection.begin():
        before = connection.execute(text("SELECT chain FROM records WHERE seq = 2")).scalar()
    assert isinstance(before, bytes)
    literal = (
        f"X'{before.hex()}'" if ledger.database.path is not None else f"'\\x{before.hex()}'::bytea"
    )
    outside(
        ledger,
        "DELETE FROM records WHERE seq = 3",
        "UPDATE counts SET n = 2",
        "UPDATE seen SET runs = 2, newest_seq = 2",
        f"UPDATE heads SET seq = 2, chain = {literal}",
    )
    assert verify(ledger).clean  # a chain alone cannot tell
    report = verify(ledger, expected={"default": (seq, chain)})
    assert [flaw.what for flaw in report.flaws] == [
        "the chain at record 3 is not the one that was noted: records were cut off or rewritten."
    ]
    assert not verify(ledger, expected={"gone": (1, chain)}).clean


def test_a_body_that_was_swapped_for_text_is_found_and_never_read_as_good(tmp_path: Path) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        stored = ledger.put(run(), kind="run")
        outside(
            ledger, "UPDATE records SET body = replace(CAST(body AS TEXT), 'success', 'failed')"
        )
        assert not verify(ledger).clean
        item = ledger.get(stored.digest)
        assert item is not None
        with pytest.raises(InputError, match="does not match its digest"):
            item.tree()


def test_verify_goes_on_while_others_write(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "BATCH", 10)
    ledger.put_many([draft(run(run_id=str(index)), kind="run") for index in range(35)])
    stop = threading.Event()

    def write() -> None:
        index = 0
        while not stop.is_set():
            ledger.put(run(run_id=f"more-{index}"), kind="run")
            index += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        reports = [verify(ledger) for _ in range(3)]
        while reports[-1].records == reports[0].records and thread.is_alive():
            reports.append(verify(ledger))
    finally:
        stop.set()
        thread.join()
    assert all(report.clean for report in reports), [report.flaws[:2] for report in reports]
    assert reports[-1].records > reports[0].records, "nobody wrote meanwhile"


# --- replay and judging again


@on_sqlite
def test_a_stored_grade_is_made_again_to_the_byte(ledger: Ledger) -> None:
    for family in FAMILIES:
        rubric = "rag@1" if family == "rag" else None
        ledger.put_many(graded(run(family)))
        ledger.put_many(graded(run(family, run_id="r-2"), profile=family, rubric=rubric))
    grades = ledger.find("grade").items
    assert len(grades) == 2 * len(FAMILIES)
    for item in grades:
        found = replay(ledger, item, Shelf())
        assert found.same, found.difference


@on_sqlite
def test_a_grade_of_a_scorecard_is_made_again_to_the_byte(ledger: Ledger) -> None:
    card = scorecard(
        {"norm": Decimal("0.895")},
        {"raw_score": 4, "formula_id": "likert_1_5"},
        hard_gates={"a": True},
    )
    ledger.put_many(graded(card))
    ledger.put_many(graded({**card, "run_id": "r-2"}, profile="rag"))
    ledger.put_many(graded({**card, "run_id": "r-3", "profile": {"id": "rag@1", "why": "says so"}}))
    assert (
        ledger.count("scorecard").n == 5
    )  # a card that a profile adds gates to is kept as it came, too
    for item in ledger.find("grade").items:
        found = replay(ledger, item, Shelf())
        assert found.same, found.difference
    assert [
        one.evidence.tree()["run_id"]
        for one in trace(ledger, ledger.find("grade").items)
        if one.evidence
    ] == ["r-1", "r-2", "r-3"]


@on_sqlite
def test_a_grade_that_rests_on_the_card_of_a_judge_is_replayed_with_that_card_and_moment(
    ledger: Ledger,
) -> None:
    made = datetime(2026, 1, 1, tzinfo=UTC)
    card = make_card(
        judge={"judge": "j", "model": "m-1"},
        audit={"usage": {"answered_at": "2026-01-01T00:00:00Z"}},
        calibration=None,
        verdicts={},
        now=made,
    )
    judged = scorecard(
        {
            "raw_score": 5,
            "formula_id": "likert_1_5",
            "role": "correctness",
            "layer": 2,
            "source": {"kind": "llm", "name": "m-1"},
        }
    )
    grader = Grader(Shelf(), policy="workflow-judged", cards=[card], now=NOW)
    graded = grader.grade(settled(Document(judged, "test")))
    ledger.put_many(drafts_of(graded, basis=basis_of([card], NOW)))
    item = ledger.find("grade").items[0]
    assert "days old" in json.dumps(item.tree(), default=str)
    found = replay(ledger, item, Shelf())
    assert found.same, found.difference
    assert verify(ledger).clean
    with pytest.raises(InputError, match="without the moment"):
        basis_of([card], None)
