"""Grading stored evidence again after a version has changed. Each grade that changed is a new
record with a link to the one it supersedes; nothing is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from assay.archive.grades import Traced, basis_of, drafts_of, settled, stored_item, trace
from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.pipeline.grading import DEFAULT_POLICY, Grader
from assay.pipeline.payload import payload
from assay.records.reading import read_run, read_scorecard
from assay.store.drafts import Draft, Item, Link, draft
from assay.store.ledger import DEFAULT_PROJECT, Ledger
from assay.store.reading import Filters

_PAGE = 500


class Rejudged(NamedTuple):
    """What happened to the stored grades. `skipped` lists those left out, with the reason."""

    looked_at: int
    unchanged: int
    new: int
    skipped: tuple[tuple[str, str], ...]


def regrade(
    ledger: Ledger,
    shelf: Shelf,
    *,
    policy: str,
    cards: Sequence[Mapping[str, Any]] = (),
    now: datetime | None = None,
    filters: Filters | None = None,
    project: str = DEFAULT_PROJECT,
    author: str | None = None,
    reason: str | None = None,
) -> Rejudged:
    """Grade the stored scorecards again under a policy. A grade that moved is a new record that
    supersedes the old one; nothing is scored again.
    """
    grader = Grader(shelf, policy=policy, cards=cards, now=now)
    basis = basis_of(cards, now)

    def again(traced: Traced) -> list[Draft]:
        card = stored_item(traced.scorecard, "scorecard", traced.grade)
        run = (
            read_run(Document(traced.evidence.tree(), traced.evidence.digest))
            if traced.evidence is not None and _is_run(traced.evidence)
            else None
        )
        graded = grader.grade_card(
            read_scorecard(Document(card.tree(), card.digest)), scored=run is not None
        )
        links = (
            Link("graded_from", card.digest),
            *basis.links,
            Link("supersedes", traced.grade.digest),
        )
        return [
            *basis.drafts,
            draft(payload(graded, run), kind="grade", author=author, reason=reason, links=links),
        ]

    return _rejudge(ledger, again, filters, project)


def rescore(
    ledger: Ledger,
    shelf: Shelf,
    *,
    policy: str = DEFAULT_POLICY,
    profile: str | None = None,
    rubric: str | None = None,
    cards: Sequence[Mapping[str, Any]] = (),
    now: datetime | None = None,
    filters: Filters | None = None,
    project: str = DEFAULT_PROJECT,
    author: str | None = None,
    reason: str | None = None,
) -> Rejudged:
    """Score and grade the stored evidence again. A grade that moved is a new record that supersedes
    the old one.
    """
    grader = Grader(shelf, policy=policy, profile=profile, rubric=rubric, cards=cards, now=now)
    basis = basis_of(cards, now)

    def again(traced: Traced) -> list[Draft]:
        evidence = stored_item(traced.evidence, "evidence", traced.grade)
        return drafts_of(
            grader.grade(settled(Document(evidence.tree(), evidence.digest))),
            basis=basis,
            author=author,
            reason=reason,
            links=[Link("supersedes", traced.grade.digest)],
        )

    return _rejudge(ledger, again, filters, project)


def _is_run(item: Item) -> bool:
    return item.kind == "run" and item.body is not None


def _rejudge(
    ledger: Ledger, again: Callable[[Traced], list[Draft]], filters: Filters | None, project: str
) -> Rejudged:
    """Judge every grade that is not superseded, page by page; those that come in meanwhile are not
    looked at.
    """
    looked_at = unchanged = new = 0
    skipped: list[tuple[str, str]] = []
    for page in _pages(ledger, filters, project):
        drafts: list[Draft] = []
        for traced in trace(ledger, page, project=project):
            if traced.superseded or traced.grade.body is None:
                continue
            looked_at += 1
            try:
                made = again(traced)
            except (InputError, NotEnoughEvidence) as error:
                skipped.append((traced.grade.digest, str(error)))
                continue
            if made[-1].name == traced.grade.digest:
                unchanged += 1
            else:
                drafts += made
                new += 1
        ledger.put_many(drafts, project=project)
    return Rejudged(looked_at, unchanged, new, tuple(skipped))


def _pages(ledger: Ledger, filters: Filters | None, project: str) -> Iterator[tuple[Item, ...]]:
    last, _chain = ledger.head(project=project)
    cursor: int | None = None
    while True:
        page = ledger.find("grade", filters, project=project, after=cursor, limit=_PAGE)
        items = tuple(item for item in page.items if item.seq <= last)
        if items:
            yield items
        if page.next_cursor is None or page.next_cursor > last:
            return
        cursor = page.next_cursor
