"""Links refer to records by position: they lead where they led, and `verify` finds tampering."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from assay.store.drafts import Link, digest_bytes, draft
from assay.store.ledger import Ledger, open_ledger
from assay.store.reading import evidence_of, grades_of, sides_of
from assay.store.verify import VerifyReport, verify
from assay.store.writing import ChainLink, next_chain
from documents import run
from examples import CAMPAIGN
from postgres import ledger_url, postgres_url
from test_store import NOW, Tampering, graded, outside, tampering, two_grades

__all__ = ["ledger_url", "postgres_url", "tampering"]

NOWHERE = bytes(range(32))


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url, clock=lambda: NOW) as opened:
        yield opened


def quoted(ledger: Ledger, value: bytes) -> str:
    return f"X'{value.hex()}'" if ledger.database.path is not None else f"'\\x{value.hex()}'::bytea"


def rows(ledger: Ledger, query: str) -> list[tuple[Any, ...]]:
    with ledger.database.reading() as connection, connection.begin():
        return [tuple(row) for row in connection.execute(text(query))]


# --- writing and reading


def test_a_link_may_lead_to_a_record_that_comes_later_in_the_same_transaction(
    ledger: Ledger,
) -> None:
    ledger.put(run(run_id="before"), kind="run")
    last = draft({"schema": "x/1", "name": "last"}, kind="event")
    other = Link("supersedes", last.name, draft(run(run_id="before"), kind="run").name)
    first = draft(
        {"schema": "x/1", "name": "first"},
        kind="event",
        links=[Link("evidence_of", last.name), other],
    )
    ledger.put_many([first, draft(run(run_id="between"), kind="run"), last])
    assert ledger.links_of(last.name) == [Link("evidence_of", last.name, first.name), other]
    assert rows(
        ledger,
        "SELECT seq, position, source_seq, relation, target_seq FROM links ORDER BY seq, position",
    ) == [
        (2, 0, 2, "evidence_of", 4),
        (2, 1, 1, "supersedes", 4),
    ]
    assert verify(ledger).clean


def test_a_late_link_that_is_there_already_comes_once_also_beside_new_ones(ledger: Ledger) -> None:
    one, two, three = (ledger.put(run(run_id=name), kind="run").digest for name in "abc")
    ledger.put(run(run_id="a"), kind="run", links=[Link("supersedes", two)])
    ledger.put(
        run(run_id="a"),
        kind="run",
        links=[Link("supersedes", two), Link("corrects", two), Link("supersedes", three)],
    )
    assert ledger.links_of(one) == [
        Link("supersedes", two, one),
        Link("corrects", two, one),
        Link("supersedes", three, one),
    ]
    assert len(ledger.find("event").items) == 2
    assert verify(ledger).clean


def test_links_of_a_forgotten_record_still_name_it(ledger: Ledger) -> None:
    evidence, card, grade = (one.digest for one in ledger.put_many(graded(run())))
    before = ledger.links_of_many([evidence, card, grade])
    assert ledger.forget(evidence, author="dpo", reason="asked to").rests_on_it == (card,)
    assert ledger.forget(card, author="dpo", reason="asked to").rests_on_it == (grade,)
    assert ledger.links_of_many([evidence, card, grade]) == before
    assert ledger.links_of(evidence) == [Link("evidence_of", card, evidence)]
    assert evidence_of(ledger.database, "default", [grade]) == {grade: [evidence]}
    assert [one.digest for one in grades_of(ledger.database, "default", [evidence])[evidence]] == [
        grade
    ]


def test_the_links_of_a_record_are_those_of_its_project(ledger: Ledger) -> None:
    ledger.put_many(
        [draft(run(run_id=str(index)), kind="run") for index in range(3)], project="other"
    )  # the same places, other records
    evidence, card, grade = (one.digest for one in ledger.put_many(graded(run())))
    assert [one.digest for one in ledger.put_many(graded(run()), project="third")] == [
        evidence,
        card,
        grade,
    ]
    assert (
        ledger.links_of(card)
        == ledger.links_of(card, project="third")
        == [Link("evidence_of", card, evidence), Link("graded_from", card, grade)]
    )
    assert (
        ledger.links_of(card, project="other")
        == ledger.links_of_many([card], project="other")
        == []
    )
    assert (
        grades_of(ledger.database, "other", [evidence])
        == evidence_of(ledger.database, "other", [grade])
        == {}
    )


def test_no_question_about_links_goes_through_a_whole_project(tmp_path: Path) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        stored = ledger.put_many(graded(run()))
        ledger.forget(stored[0].digest, author="dpo", reason="asked to")
        plans: list[str] = []

        def look(
            connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any
        ) -> None:
            if statement.startswith("SELECT") and "links" in statement:
                plans.extend(
                    row[3]
                    for row in connection.connection.driver_connection.execute(
                        f"EXPLAIN QUERY PLAN {statement}", parameters
                    )
                )

        event.listen(ledger.database.engine, "before_cursor_execute", look)
        names = [one.digest for one in stored]
        assert len(ledger.links_of_many(names)) == len(ledger.links_of(names[1])) == 2
        for relation in ("evidence_of", "supersedes"):  # the second comes late
            ledger.put(run(run_id="other"), kind="run", links=[Link(relation, names[1])])
        sides_of(ledger.database, "default", [1, 2])
        grades_of(ledger.database, "default", names)
        evidence_of(ledger.database, "default", names)
        assert len(plans) > 20
        assert [
            plan for plan in plans if plan.startswith("SCAN") or plan.endswith("(project=?)")
        ] == []


# --- what is done to them from outside

TAMPERED = [
    ("UPDATE links SET target_seq = 1 WHERE seq = 6", 6, "the chain breaks here"),
    ("UPDATE links SET source_seq = 4 WHERE seq = 2", 2, "the chain breaks here"),
    (
        "UPDATE links SET source_seq = target_seq, target_seq = source_seq WHERE seq = 2",
        2,
        "the chain breaks here",
    ),
    (
        "UPDATE links SET target_seq = 99 WHERE seq = 6",
        6,
        "the target of a link 'graded_from' is not a record: nothing is at 99",
    ),
    (
        "UPDATE links SET source_seq = 0 WHERE seq = 6",
        6,
        "the source of a link 'graded_from' is not a record: nothing is at 0",
    ),
    ("DELETE FROM links WHERE seq = 6", 6, "this grade has no evidence"),
    (
        (
            "INSERT INTO links (project, seq, position, source_seq, relation, target_seq) VALUES"
            " ('default', 6, 7, 6, 'corrects', 3)"
        ),
        6,
        "the chain breaks here",
    ),
    (
        (
            "INSERT INTO links (project, seq, position, source_seq, relation, target_seq) VALUES"
            " ('default', 99, 0, 6, 'corrects', 3)"
        ),
        99,
        "belongs to no record",
    ),
    (
        (
            "INSERT INTO links (project, seq, position, source_seq, relation, target_seq) VALUES"
            " ('else', 1, 0, 6, 'corrects', 3)"
        ),
        1,
        "belongs to no record",
    ),
    (
        "DELETE FROM records WHERE seq = 5",
        6,
        "the target of a link 'graded_from' is not a record: nothing is at 5",
    ),
    (
        "UPDATE records SET digest = {bytes} WHERE seq = 5",
        6,
        "the chain breaks here: this record, its metadata, its links or their ends",
    ),
]


@pytest.mark.parametrize(("statement", "seq", "what"), TAMPERED)
def test_what_is_done_to_a_link_from_outside_is_found_where_it_was_done(
    tampering: Tampering, statement: str, seq: int, what: str
) -> None:
    done = statement.format(bytes=quoted(tampering.ledger, NOWHERE))
    is_found_at(seq, what, tampering.report(done))


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("statement", "seq", "what"),
    [case for place, case in enumerate(TAMPERED) if CAMPAIGN or place in (0, 3, 10)],
)
def test_what_is_done_to_a_link_from_outside_is_found_on_postgresql(
    ledger: Ledger, statement: str, seq: int, what: str
) -> None:
    ledger.put_many(two_grades())
    outside(ledger, statement.format(bytes=quoted(ledger, NOWHERE)))
    is_found_at(seq, what, verify(ledger))


def is_found_at(seq: int, what: str, report: VerifyReport) -> None:
    assert any(flaw.seq == seq and what in flaw.what and flaw.fix for flaw in report.flaws), (
        report.flaws
    )


def test_a_link_to_nothing_is_found_also_where_the_chain_was_made_to_fit(ledger: Ledger) -> None:
    evidence, card, grade = ledger.put_many(graded(run()))
    before, kind, schema, at = rows(
        ledger,
        "SELECT (SELECT b.chain FROM records b WHERE b.seq = 2), a.kind, a.schema, a.created_at"
        " FROM records a WHERE a.seq = 3",
    )[0]
    forged = next_chain(
        bytes(before),
        digest_bytes(grade.digest),
        kind,
        schema,
        at,
        None,
        None,
        [ChainLink(digest_bytes(grade.digest), "graded_from", b"")],
    )
    outside(
        ledger,
        "UPDATE links SET target_seq = 77 WHERE seq = 3",
        f"UPDATE records SET chain = {quoted(ledger, forged)} WHERE seq = 3",
        f"UPDATE heads SET chain = {quoted(ledger, forged)}",
    )
    assert [(flaw.seq, flaw.digest) for flaw in verify(ledger).flaws] == [(3, grade.digest)]
    assert (
        "the target of a link 'graded_from' is not a record: nothing is at 77"
        in verify(ledger).flaws[0].what
    )
    assert evidence.new
    assert card.new


@pytest.mark.parametrize("ends", [(1, 9), (9, 1)])
def test_the_database_refuses_a_link_to_nothing(ledger: Ledger, ends: Any) -> None:
    ledger.put(run(), kind="run")
    statement = (
        "INSERT INTO links (project, seq, position, source_seq, relation, target_seq) VALUES"
        f" ('default', 1, 0, {ends[0]}, 'corrects', {ends[1]})"
    )
    with (
        pytest.raises(DBAPIError, match=r"(?i)foreign key"),
        ledger.database.writing() as connection,
        connection.begin(),
    ):
        connection.execute(text(statement))
