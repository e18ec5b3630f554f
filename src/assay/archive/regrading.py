"""Work over stored evidence: keep a grade with what it rests on, replay it, and judge it again
after a version has changed.

Everything here is a pure function of what is stored and of the versions that are named; only
`regrade` and `rescore` write, and what they write are new records that say which ones they
supersede. Which project is meant is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from assay.canon import canonical
from assay.errors import InputError, NotEnoughEvidence, ShelfError
from assay.files.json_files import Document, parse_json
from assay.library.shelf import Shelf
from assay.pipeline.grading import DEFAULT_POLICY, Graded, Grader, payload
from assay.records.digests import run_digest
from assay.records.evidence import Run
from assay.records.reading import read_run, read_scorecard
from assay.records.scorecard import Scorecard
from assay.scoring.profile import Plan, make_plan
from assay.store.drafts import Draft, Item, Link, draft, graded_drafts
from assay.store.ledger import DEFAULT_PROJECT, Ledger
from assay.store.reading import Filters

GRADING_SCHEMA = "assay.grading/1"
_PAGE = 500
_FIRST = ("gradingSystem", "scoringSystem", "policy", "profile", "rubric", "digests")
"""What explains the other differences, and is looked at before them."""


class Basis(NamedTuple):
    """What grades rest on beside the evidence: the cards of judges and the moment from which their
    age was counted.
    """

    drafts: tuple[Draft, ...] = ()
    links: tuple[Link, ...] = ()


NO_BASIS = Basis()


def basis_of(cards: Sequence[Mapping[str, Any]], now: datetime | None) -> Basis:
    """The basis of a grading; nothing where no cards were given, because then nothing beside the
    evidence has a say.
    """
    if not cards:
        return Basis()
    if now is None:
        raise InputError(
            "API-001",
            "cards were given without the moment from which their age is counted.",
            fix="Pass `now`.",
        )
    kept = [draft(dict(card), kind="card") for card in cards]
    body = {
        "schema": GRADING_SCHEMA,
        "now": now.astimezone(UTC).isoformat(),
        "cards": sorted(one.name for one in kept),
    }
    made = draft(body, kind="event", links=[Link("graded_from", one.name) for one in kept])
    return Basis((*kept, made), (Link("graded_from", made.name),))


class Kept(Graded):
    """A grade, its run, and the scorecard as it was given where there was no run."""

    __slots__ = ("given",)

    def __init__(self, graded: Graded, given: Scorecard | None) -> None:
        super().__init__(graded.grade, graded.run)
        self.given = given

    @property
    def evidence(self) -> Run | Scorecard:
        """What came in."""
        found = self.run or self.given
        assert found is not None
        return found

    def drafts(
        self,
        *,
        basis: Basis = NO_BASIS,
        author: str | None = None,
        reason: str | None = None,
        links: Sequence[Link] = (),
    ) -> list[Draft]:
        """All that a ledger keeps of this grade."""
        listed = graded_drafts(
            self.evidence,
            self.grade.scorecard,
            self.payload(),
            author=author,
            reason=reason,
            links=(*basis.links, *links),
        )
        return [*basis.drafts, *listed]


def settled(document: Document) -> Document:
    """A document as a replay will read it: keys in their one order, numbers in their one spelling.

    A grade names gates in the order of its evidence and numbers as they were written; one that is
    stored must be made from what is stored.
    """
    return document._replace(tree=parse_json(canonical(document.tree)))


class KeepingGrader(Grader):
    """A grader that remembers the evidence, so that a grade can be stored with it."""

    _given: Scorecard | None = None

    def grade(self, document: Document) -> Kept:
        """A parsed document, graded."""
        self._given = None
        graded = super().grade(settled(document))
        return Kept(graded, self._given)

    def required(self, scorecard: Scorecard) -> Scorecard:
        """The scorecard with the gates that its profile requires."""
        self._given = scorecard
        return super().required(scorecard)


# --- what a stored grade rests on


class Traced(NamedTuple):
    """A stored grade with what it was made from. `evidence` is the run or the scorecard that came
    in, `scorecard` the one that was graded.
    """

    grade: Item
    scorecard: Item | None
    evidence: Item | None
    basis: tuple[Item, ...]
    superseded: bool


def trace(
    ledger: Ledger, grades: Sequence[Item], *, project: str = DEFAULT_PROJECT
) -> list[Traced]:
    """What stored grades were made from, by their links."""
    near = ledger.links_of_many([grade.digest for grade in grades], project=project)
    targets = _by_source(near, "graded_from")
    superseded = {link.target for link in near if link.relation == "supersedes"}
    first = {target for grade in grades for target in targets.get(grade.digest, ())}
    far = ledger.links_of_many(first, project=project) if first else []
    sources: dict[str, list[str]] = {}
    for link in far:
        if link.relation == "evidence_of" and link.source is not None:
            sources.setdefault(link.target, []).append(link.source)
    deeper = _by_source(far, "graded_from")
    items = ledger.get_many(
        {*first, *(one for found in (*sources.values(), *deeper.values()) for one in found)},
        project=project,
    )
    traced = []
    for grade in grades:
        near_items = [items[one] for one in targets.get(grade.digest, ()) if one in items]
        card = next((item for item in near_items if item.kind == "scorecard"), None)
        evidence = (
            _own(grade, [items[one] for one in sources.get(card.digest, ()) if one in items])
            or card
            if card is not None
            else None
        )
        basis = [item for item in near_items if item.kind == "event"]
        basis += [
            items[one]
            for item in list(basis)
            for one in deeper.get(item.digest, ())
            if one in items
        ]
        traced.append(Traced(grade, card, evidence, tuple(basis), grade.digest in superseded))
    return traced


def _own(grade: Item, found: Sequence[Item]) -> Item | None:
    """What a grade was made of, among all that came to the same scorecard: runs that differ only in
    what nobody scored do.
    """
    if len(found) > 1 and grade.body is not None:
        said = grade.tree().get("digests", {}).get("run")
        there = (item for item in found if item.kind == "run" and item.body is not None)
        return next(
            (
                item
                for item in there
                if run_digest(read_run(Document(item.tree(), item.digest))) == said
            ),
            found[0],
        )
    return found[0] if found else None


def _by_source(links: Iterable[Link], relation: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for link in links:
        if link.relation == relation and link.source is not None:
            found.setdefault(link.source, []).append(link.target)
    return found


def _cards(traced: Traced) -> tuple[list[Any], datetime | None]:
    """The cards of judges and the moment that a grade was made with."""
    said = next((item.tree() for item in traced.basis if item.kind == "event"), None)
    if said is None:
        return [], None
    return [item.tree() for item in traced.basis if item.kind == "card"], datetime.fromisoformat(
        said["now"]
    )


def _there(item: Item | None, what: str, grade: Item) -> Item:
    if item is None or item.body is None:
        state = "is not in the ledger" if item is None else "was forgotten"
        raise NotEnoughEvidence(
            "STO-008",
            f"the {what} of this grade {state}.",
            where=grade.digest,
            fix="Without it nothing can be computed again.",
        )
    return item


# --- replay


class Difference(NamedTuple):
    """The first place where two documents differ."""

    path: str
    stored: Any
    recomputed: Any


class Replayed(NamedTuple):
    """Whether a stored grade was made again to the byte, and if not, where it first differs."""

    grade: Item
    stored: dict[str, Any]
    same: bool
    difference: Difference | None


class _AsRecorded(Grader):
    """A grader that takes the versions which a stored grade names, not the newest ones."""

    def __init__(
        self,
        shelf: Shelf,
        stored: Mapping[str, Any],
        cards: Sequence[Mapping[str, Any]],
        now: datetime | None,
    ) -> None:
        self._selection = stored["selection"]
        super().__init__(shelf, policy=on_shelf(stored["policy"]), cards=cards, now=now)
        if self._selection["profile"] is not None:
            self._required = self._plan(None, None, None)

    def _plan(
        self, family: str | None, profile: str | None, rubric: str | None, *, said_by: str = ""
    ) -> Plan:
        chosen, over = self._selection["profile"], self._selection["rubric"]
        if chosen is None:
            raise ShelfError(
                "LIB-001", "a stored grade of a run names no profile, so it cannot be made again."
            )
        loaded = self.shelf.profile(on_shelf(chosen["id"]))
        if over is None:
            return make_plan(loaded, why=chosen["why"])
        return make_plan(
            loaded,
            why=chosen["why"],
            rubric=self.shelf.rubric(on_shelf(over["id"])),
            rubric_why=over["why"],
        )


def on_shelf(name: Any, *, of: str = "grade") -> str:
    """A name with its version, never a path: what is stored may come from anywhere."""
    if (
        not isinstance(name, str)
        or "@" not in name
        or "/" in name
        or "\\" in name
        or name.endswith((".yaml", ".yml"))
    ):
        raise ShelfError(
            "LIB-001", f"a stored {of} names what it was made with as name@version, not {name!r}."
        )
    return name


def replay(
    ledger: Ledger, grade: Item, shelf: Shelf, *, project: str = DEFAULT_PROJECT
) -> Replayed:
    """Make a stored grade again from its stored evidence, with the profile, rubric and policy
    versions recorded in it, and compare the bytes.
    """
    stored = _replayable(grade)
    again = canonical(Remaker(shelf).made(trace(ledger, [grade], project=project)[0]).payload())
    if again == grade.body:
        return Replayed(grade, stored, True, None)
    return Replayed(grade, stored, False, first_difference(stored, parse_json(again)))


def _replayable(grade: Item) -> dict[str, Any]:
    """What a stored grade says, once it says what it was made with."""
    stored: dict[str, Any] = grade.tree()
    if grade.kind != "grade" or not isinstance(stored.get("selection"), dict):
        raise InputError(
            "STO-017",
            f"this record is of kind '{grade.kind}'; only a grade can be replayed.",
            where=grade.digest,
        )
    return stored


class _With(NamedTuple):
    """All that a grader of stored grades depends on, beside the shelf."""

    policy: str
    selection: bytes
    basis: tuple[str, ...]
    """The digests of the cards and of the moment."""


class Remaker:
    """Makes stored grades again, each from its stored evidence and with the versions recorded in
    it.

    Grades that name the same policy, profile, rubric, cards and moment share a grader: it is made
    once, however many they are.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._graders: dict[_With, Grader] = {}

    def made(self, traced: Traced) -> Graded:
        """A stored grade, made again."""
        evidence = _there(traced.evidence, "evidence", traced.grade)
        stored = _replayable(traced.grade)
        key = _With(
            on_shelf(stored.get("policy")),
            canonical(stored["selection"]),
            tuple(item.digest for item in traced.basis),
        )
        grader = self._graders.get(key)
        if grader is None:
            cards, now = _cards(traced)
            grader = self._graders[key] = _AsRecorded(self._shelf, stored, cards, now)
        return grader.grade(Document(evidence.tree(), evidence.digest))


def first_difference(stored: Any, made: Any, path: str = "") -> Difference | None:
    """The first place where two documents differ; what explains the rest comes first.

    >>> first_difference({"a": 1, "policy": "x@1"}, {"a": 2, "policy": "x@2"})
    Difference(path='policy', stored='x@1', recomputed='x@2')
    """
    if isinstance(stored, dict) and isinstance(made, dict):
        names = [
            *(name for name in _FIRST if not path and (name in stored or name in made)),
            *sorted({*stored, *made}),
        ]
        for name in names:
            found = first_difference(
                stored.get(name), made.get(name), f"{path}.{name}" if path else str(name)
            )
            if found is not None:
                return found
            if (name in stored) is not (name in made):
                return Difference(
                    f"{path}.{name}" if path else str(name),
                    stored.get(name, "absent"),
                    made.get(name, "absent"),
                )
        return None
    if isinstance(stored, list) and isinstance(made, list):
        for index, (here, there) in enumerate(zip(stored, made, strict=False)):
            found = first_difference(here, there, f"{path}[{index}]")
            if found is not None:
                return found
        return (
            None
            if len(stored) == len(made)
            else Difference(path, f"{len(stored)} of them", f"{len(made)} of them")
        )
    return None if type(stored) is type(made) and stored == made else Difference(path, stored, made)


# --- judge again


class Rejudged(NamedTuple):
    """What became of the stored grades that were looked at. `skipped` says of which and why."""

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
        card = _there(traced.scorecard, "scorecard", traced.grade)
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
    grader = KeepingGrader(
        shelf, policy=policy, profile=profile, rubric=rubric, cards=cards, now=now
    )
    basis = basis_of(cards, now)

    def again(traced: Traced) -> list[Draft]:
        evidence = _there(traced.evidence, "evidence", traced.grade)
        kept = grader.grade(Document(evidence.tree(), evidence.digest))
        return kept.drafts(
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
