"""From a body to a stored grade: what the routes for runs and scorecards, live runs and jobs
share.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Raw

from assay.archive.regrading import NO_BASIS, Basis, settled
from assay.canon import LARGE_FLOAT
from assay.files.json_files import Document, parse_json
from assay.pipeline import grading as pipeline
from assay.pipeline.grading import Grader
from assay.records.reading import read_run, read_scorecard
from assay.store.drafts import Draft, Link, body_of, digest_text, draft, graded_drafts, tied
from assay.store.facets import of_grade, of_scorecard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.records.scorecard import Scorecard
    from assay.store.drafts import Item, Stored


R = TypeVar("R")


class BasedGrader(Grader):
    """A grader that knows what its grades rest on beside the evidence, so that they can be
    replayed.
    """

    basis: Basis = NO_BASIS
    names: tuple[str, str | None, str | None] | None = None
    """Its policy, profile and rubric, where they are all that it was made from; None where cards of
    judges were given too.
    """


class Posted(NamedTuple):
    """What is left to be stored and answered once a grade is made, in whichever process."""

    run_id: str
    letter: str
    drafts: list[Draft]
    first: int
    """Where among the drafts the evidence stands: before it come the cards that the grade rests
    on.
    """

    @property
    def evidence(self) -> str:
        """The digest of the evidence."""
        return digest_text(self.drafts[self.first].digest)

    @property
    def grade(self) -> str:
        """The digest of the grade."""
        return digest_text(self.drafts[-1].digest)


class Kept(NamedTuple):
    """What is left to be said of a grade once it is stored, by whichever process."""

    run_id: str
    letter: str
    evidence: str
    """The digest of the evidence."""
    grade: str
    """The digest of the grade."""
    seq: int
    new: bool
    """Whether the evidence is."""
    first_grade: bool
    """Whether the grade is new."""
    body: bytes
    """The grade as it is stored."""
    run: bytes | None
    """The evidence, where it says which trace it came from."""
    records: int


def kept(posted: Posted, stored: Sequence[Stored]) -> Kept:
    """A grade and what became of its records."""
    evidence, run = stored[posted.first], posted.drafts[posted.first].body
    return Kept(
        posted.run_id,
        posted.letter,
        evidence.digest,
        stored[-1].digest,
        evidence.seq,
        evidence.new,
        stored[-1].new,
        posted.drafts[-1].body,
        run if b'"otel"' in run else None,
        len(stored),
    )


class Made(NamedTuple):
    """A grade, and what is stored of it."""

    payload: dict[str, Any]
    posted: Posted

    @property
    def drafts(self) -> list[Draft]:
        """What is stored."""
        return self.posted.drafts

    @property
    def evidence(self) -> str:
        """The digest of the evidence."""
        return self.posted.evidence

    @property
    def grade(self) -> str:
        """The digest of the grade."""
        return self.posted.grade


def read_body(data: bytes) -> Document:
    """The body of a request that holds one run; an error where it holds anything else."""
    tree = parse_json(data)
    if not isinstance(tree, dict) or tree.get("schema") != "assay.run/1":
        raise ValueError("the body holds no run")
    return Document(tree, "body")


def make(
    document: Document,
    grader: Grader,
    *,
    author: str | None,
    reason: str | None = None,
    links: Sequence[Link] = (),
) -> Made:
    """Grade one document. Raises what is wrong with it; nothing is stored yet."""
    document = settled(document)
    graded = grader.grade(document)
    payload = graded.payload()
    # as `jobs.Kept` keeps it, so that a run that the command stored and one that is posted are one
    # record
    evidence = graded.run if graded.run is not None else read_scorecard(document)
    basis = grader.basis if isinstance(grader, BasedGrader) else NO_BASIS
    drafts = graded_drafts(
        evidence,
        graded.grade.scorecard,
        payload,
        author=author,
        reason=reason,
        links=(*basis.links, *links),
    )
    return _made(payload, drafts, basis)


def _made(payload: dict[str, Any], drafts: list[Draft], basis: Basis) -> Made:
    return Made(
        payload,
        Posted(payload["run_id"], payload["grade"], [*basis.drafts, *drafts], len(basis.drafts)),
    )


def make_many(
    bodies: Sequence[bytes], grader: Grader, *, author: str | None
) -> list[Posted | None]:
    """What `make` makes of each body with one run, stage by stage and not run by run; None for one
    that is at fault, without a word.

    The same code over all of them stays in the caches of the processor: that takes a quarter less
    time.
    """
    runs = _each(read_run, _each(settled, _each(read_body, bodies)))
    cards = _each(_usual, _each(grader.scorecard, runs))
    grades = _each(lambda card: grader.grade_card(card, scored=True), cards)
    payloads = _each(partial(pipeline.payload, settled=True), grades, runs)
    run_drafts = _each(lambda run: draft(_body(run), kind="run", author=author), runs)
    card_drafts = _each(
        lambda card, run: draft(
            _body(card), kind="scorecard", author=author, facets=of_scorecard(run.facets)
        ),
        cards,
        run_drafts,
    )
    grade_drafts = _each(
        lambda made, run: draft(
            _body(made), kind="grade", author=author, facets=of_grade(run.facets, made)
        ),
        payloads,
        run_drafts,
    )
    drafts = _each(tied, run_drafts, card_drafts, grade_drafts)
    return _each(
        lambda payload, listed: Posted(payload["run_id"], payload["grade"], listed, 0),
        payloads,
        drafts,
    )


def _usual(card: Scorecard) -> Scorecard:
    """The card, where no sum over the steps of an agent, the one float that has no limit, is so
    large that it is written in another way.
    """
    for agent in card.agent_scores:
        for amount in (agent.duration_ms, agent.retries, agent.tokens, agent.cost_usd):
            if type(amount) is float and amount >= LARGE_FLOAT:
                raise ValueError("a sum is very large")
    return card


_body = partial(body_of, settled=True)


def _each(work: Callable[..., R], *columns: Sequence[Any]) -> list[R | None]:
    """The work on each row; None where a part of it is None or the work fails."""
    found: list[R | None] = []
    for row in zip(*columns, strict=True):
        try:
            found.append(work(*row) if all(row) else None)
        except Exception:  # whoever asked does it again, and says what is wrong
            found.append(None)
    return found


def make_again(
    card: Item,
    run: Item | None,
    grader: Grader,
    *,
    author: str | None,
    reason: str,
    links: Sequence[Link] = (),
) -> Made:
    """Grade a stored scorecard under other rules, as it stands: nothing is scored again, and no
    gate is added to it.
    """
    tree = card.tree()
    grade = grader.grade_card(read_scorecard(Document(tree, card.digest)), scored=run is not None)
    behind = None if run is None or run.body is None else run
    record = None if behind is None else read_run(Document(behind.tree(), behind.digest))
    payload = pipeline.payload(grade, record)
    evidence = tree if behind is None else behind.tree()
    basis = grader.basis if isinstance(grader, BasedGrader) else NO_BASIS
    drafts = graded_drafts(
        evidence, tree, payload, author=author, reason=reason, links=(*basis.links, *links)
    )
    return _made(payload, drafts, basis)


def result(made: Kept, *, address: str) -> dict[str, Any]:
    """What a client gets for one document: where it is, whether it is new, and the whole grade,
    byte for byte as it is stored.
    """
    return {
        "run_id": made.run_id,
        "digest": made.evidence,
        "grade_digest": made.grade,
        "seq": made.seq,
        "new": made.new,
        "location": f"{address}/{made.evidence}",
        "grade": Raw(made.body),
    }
