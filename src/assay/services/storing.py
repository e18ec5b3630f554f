"""`--store`: puts evidence and results into a ledger, and reads grades back with what they were
made of.

Records wait here until a command has succeeded, and then go into the ledger in bulk, dependencies
first. So a failed command stores nothing, and one killed while it stores leaves a ledger that
verifies. A stream that is graded by worker processes hands its records over in a file.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

import msgspec
from msgspec import UNSET, Struct, structs, to_builtins

from assay.canon import digest, in_order, pretty, time_of, time_text
from assay.errors import AssayError, InputError, NotEnoughEvidence, count
from assay.files.atomic import write_file
from assay.files.json_files import Document
from assay.grouping import grouped
from assay.library.shelf import Shelf
from assay.records.digests import run_digest
from assay.records.evaluation import ChosenSamples, EvaluatedRun, Evaluation, VersionedName
from assay.records.evidence import RUN_SCHEMA, Run
from assay.records.reading import read_record, read_run
from assay.records.scorecard import SCORECARD_SCHEMA, Scorecard
from assay.release.summary import EvaluationTally
from assay.scoring.profile import load_profile, make_plan
from assay.services.evaluations import check_name, list_evaluations
from assay.services.grading import Graded, Grader
from assay.store.drafts import (
    LINKS_SCHEMA,
    Body,
    Draft,
    Item,
    Link,
    body_of,
    check_size,
    digest_text,
    draft,
    evidence_draft,
    facets_of,
    graded_drafts,
    note,
)
from assay.store.ledger import DEFAULT_PROJECT, Ledger
from assay.store.reading import GradeOf, evidence_of, grades_of, stored_of

if TYPE_CHECKING:
    from assay.records.grade import Payload
    from assay.services.choice import Choice


GRADING_SCHEMA = "assay.grading/1"
_READ_AS: dict[Any, tuple[type[Run] | type[Scorecard], str]] = {
    RUN_SCHEMA: (Run, "SCO-011"),
    SCORECARD_SCHEMA: (Scorecard, "GRD-101"),
}


class _RunDigest(Struct, frozen=True):
    run: str | None = None


class _GradedRun(Struct):
    digests: _RunDigest = _RunDigest()


_read_grade = msgspec.json.Decoder(_GradedRun).decode


class Basis(NamedTuple):
    """What grades depend on besides the evidence: the cards of judges and the moment from which
    their age was counted.
    """

    drafts: tuple[Draft, ...] = ()
    links: tuple[Link, ...] = ()


NO_BASIS = Basis()


def basis_of(cards: Sequence[Mapping[str, Any]], now: datetime | None) -> Basis:
    """The basis of a grading; empty without cards, because then only the evidence counts."""
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
        "cards": sorted(card.name for card in kept),
    }
    grading = draft(body, kind="event", links=[Link("graded_from", card.name) for card in kept])
    return Basis((*kept, grading), (Link("graded_from", grading.name),))


def drafts_of(
    graded: Graded,
    payload: Payload | None = None,
    *,
    basis: Basis = NO_BASIS,
    author: str | None = None,
) -> list[Draft]:
    """All that a ledger stores for a grade: evidence, scorecard and grade, dependencies first."""
    assert graded.evidence is not None, "a grade that came without its evidence is not stored"
    listed = graded_drafts(
        evidence_body(graded),
        graded.grade.scorecard,
        payload or graded.payload(),
        author=author,
        links=basis.links,
    )
    return [*basis.drafts, *listed]


def evidence_body(graded: Graded) -> Body:
    """The evidence of a grade as a ledger stores it."""
    return body_of(graded.evidence, None if graded.run is None else graded.run_text)


def settled(document: Document) -> Document:
    """A document as a replay will read it: keys in canonical order, numbers in canonical spelling.

    A grade names gates in the order of its evidence and numbers as they were written, so a stored
    grade must be made from the stored form. What is refused as it was written, such as a count of
    1.0, is refused here too: its canonical spelling is 1.
    """
    tree = document.tree
    known = _READ_AS.get(tree.get("schema")) if isinstance(tree, dict) else None
    if known is not None:
        read_record(document, *known)
    return structs.replace(document, tree=in_order(document.tree))


class Traced(NamedTuple):
    """A stored grade with what it was made from. `evidence` is the original run or scorecard,
    `scorecard` the one that was graded.
    """

    grade: Item
    scorecard: Item | None
    evidence: Item | None
    basis: tuple[Item, ...]


def trace(
    ledger: Ledger, grades: Sequence[Item], *, project: str = DEFAULT_PROJECT
) -> list[Traced]:
    """What stored grades were made from, by their links."""
    near = ledger.links_of_many([grade.digest for grade in grades], project=project)
    targets = _graded_from(near)
    first = {target for grade in grades for target in targets.get(grade.digest, ())}
    far = ledger.links_of_many(first, project=project) if first else []
    sources = grouped(
        (link.target, link.source)
        for link in far
        if link.relation == "evidence_of" and link.source is not None
    )
    deeper = _graded_from(far)
    own = {
        grade.digest: own_run(ledger, grade, sources[card], project=project)
        for grade in grades
        for card in targets.get(grade.digest, ())
        if card in sources
    }
    items = ledger.get_many(
        {*first, *own.values(), *(digest for digests in deeper.values() for digest in digests)},
        project=project,
    )
    traced = []
    for grade in grades:
        near_items = [items[digest] for digest in targets.get(grade.digest, ()) if digest in items]
        card = next((item for item in near_items if item.kind == "scorecard"), None)
        evidence = items.get(own.get(grade.digest, ""), card)
        basis = [item for item in near_items if item.kind == "event"]
        basis += [
            items[digest]
            for item in list(basis)
            for digest in deeper.get(item.digest, ())
            if digest in items
        ]
        traced.append(Traced(grade, card, evidence, tuple(basis)))
    return traced


def own_run(ledger: Ledger, grade: Item, runs: Sequence[str], *, project: str) -> str:
    """The run that a grade was made from, among all runs with its scorecard, by their digests: runs
    that differ only in unscored parts share one.
    """
    if len(runs) > 1 and grade.body is not None:
        wanted = _read_grade(grade.checked()).digests.run
        if wanted is not None and wanted in runs:
            return wanted
        for item in ledger.get_many(runs, project=project).values():
            if item.kind == "run" and item.body is not None:
                run = read_run(Document(item.tree(), item.digest))
                if run_digest(run) == wanted:
                    return item.digest
    return runs[0]


def newest_own(
    ledger: Ledger, evidence: str, grades: Sequence[GradeOf], *, project: str
) -> Item | None:
    """The newest of these grades that was made from this evidence: runs that differ only in
    unscored parts share a scorecard, and so all grades of it. Without one, the newest of all.
    """
    names = [grade.digest for grade in reversed(grades)]
    behind = evidence_of(ledger.database, project, names)
    for name in names:
        grade, runs = ledger.get(name, project=project), behind.get(name, [])
        if len(runs) < 2 or (
            grade is not None and own_run(ledger, grade, runs, project=project) == evidence
        ):
            return grade
    return ledger.get(names[0], project=project)


def on_top(
    ledger: Ledger, evidence: str, grade: str, grades: Sequence[GradeOf], *, project: str
) -> list[Link]:
    """The link that puts a stored grade before newer ones of its evidence, because earlier rules
    apply again; none where it is the newest.
    """
    if not grades or grades[-1].digest == grade:
        return []
    last = newest_own(ledger, evidence, grades, project=project)
    return [] if last is None or last.digest == grade else [Link("supersedes", last.digest, grade)]


def links_draft(
    links: Sequence[Link], *, author: str | None, reason: str | None = None, **cause: str
) -> Draft:
    """The event that adds links between stored records. `cause` says what added them: without it,
    the same links would not be stored a second time.
    """
    event = {"schema": LINKS_SCHEMA, **cause, "links": [link._asdict() for link in links]}
    return draft(event, kind="event", author=author, reason=reason, links=links)


def grade_of_run(ledger: Ledger, run_id: str, *, project: str) -> Item | None:
    """The newest grade of a run, by the run's id."""
    page = ledger.find("grade", {"run_id": run_id}, project=project, limit=1, newest_first=True)
    if not page.items:
        return None
    (last,) = page.items
    runs = evidence_of(ledger.database, project, [last.digest]).get(last.digest)
    if not runs:
        return last
    own = own_run(ledger, last, runs, project=project)
    return newest_own(ledger, own, grades_of(ledger.database, project, [own])[own], project=project)


def _graded_from(links: Iterable[Link]) -> dict[str, list[str]]:
    return grouped(
        (link.source, link.target)
        for link in links
        if link.relation == "graded_from" and link.source is not None
    )


def cards_of(traced: Traced) -> tuple[list[Any], datetime | None]:
    """The cards of judges and the moment that a grade was made with."""
    grading = next((item.tree() for item in traced.basis if item.kind == "event"), None)
    if grading is None:
        return [], None
    return [item.tree() for item in traced.basis if item.kind == "card"], datetime.fromisoformat(
        grading["now"]
    )


def stored_evidence(item: Item | None, grade: Item) -> Item:
    """The evidence of a stored grade; an error if it is missing."""
    if item is None or item.body is None:
        state = "is not in the ledger" if item is None else "was forgotten"
        raise NotEnoughEvidence(
            "STO-008",
            f"the evidence of this grade {state}.",
            where=grade.digest,
            fix="Without it nothing can be recomputed.",
        )
    return item


BATCH = 500
"""Groups of records stored in one transaction: enough to be fast, few enough that other writers
get a turn.
"""
IN_MEMORY = 8 * 1024 * 1024
"""Bytes that wait in memory; beyond that they wait in a temporary file."""

_pack = msgspec.msgpack.encode
_unpack = msgspec.msgpack.Decoder(list[tuple[int, Draft]]).decode


class Store:
    """A project of a ledger, and the groups of drafts that wait for it. A group is stored as a
    whole or not at all. `waiting` is the file they wait in, `report` gets each sentence for the
    user. If storing is not `needed`, a failure is reported but not raised.
    """

    def __init__(
        self,
        ledger: Ledger,
        project: str,
        waiting: IO[bytes],
        report: Callable[[str], None],
        *,
        needed: bool = True,
    ) -> None:
        self.ledger = ledger
        self.project = project
        self._report = report
        self.needed = needed
        self._waiting = waiting
        self._notes: list[str] = []

    def add(self, group: list[Draft]) -> None:
        """Add a group to the queue."""
        data = _pack([(len(one.body), one._replace(body=b"")) for one in group])
        self._waiting.write(len(data).to_bytes(8))
        self._waiting.write(data)
        for one in group:
            self._waiting.write(one.body)

    def note(self, text: str) -> None:
        """Report a sentence once everything is stored: a failed command reports only its error."""
        self._notes.append(text)

    def put(self, *groups: list[Draft]) -> None:
        """Store what waits and then these groups, and report how much was new. When this returns,
        all of it is on disk.
        """
        self.put_all(chain(self._waited(), groups))

    def put_all(self, groups: Iterable[list[Draft]]) -> bool:
        """Store groups, many of them in one transaction, and report how much was new; or, if
        storing is optional and failed, why. Returns whether they are stored.
        """
        try:
            self._put_all(groups)
            return True
        except AssayError as error:
            if self.needed:
                raise
            self._report(f"nothing is stored in a ledger: {error}")
            return False

    def _put_all(self, groups: Iterable[list[Draft]]) -> None:
        new = known = 0
        waiting = iter(groups)
        while batch := [draft for group in islice(waiting, BATCH) for draft in group]:
            for stored in self.ledger.put_many(batch, project=self.project):
                new += stored.new
                known += not stored.new
        seq, head = self.ledger.head(project=self.project)
        self.ledger.close()
        self.report_notes()
        if not self.needed:
            self._report(f"stored in {self.ledger.where}")
            return
        self._report(
            f"{count(new, 'record')} stored in {self.ledger.where}, {known:,} already there. The"
            f" head is {self.project}:{seq}:{head}."
        )

    def report_notes(self) -> None:
        """Report the sentences of `note`."""
        for text in self._notes:
            self._report(text)

    def _waited(self) -> Iterator[list[Draft]]:
        self._waiting.seek(0)
        while size := self._waiting.read(8):
            group = _unpack(self._waiting.read(int.from_bytes(size)))
            yield [draft._replace(body=self._waiting.read(length)) for length, draft in group]


class Result:
    """The document of a verb that only computes, on its way into a ledger, and the digests of what
    it was made of. The input itself is never stored here.
    """

    def __init__(self, store: Store, verb: str) -> None:
        self.store = store
        self._verb = verb
        self._made_of: dict[bytes, None] = {}

    def made_of(self, record: Any) -> None:
        """Remember that the result was made of this record, whether or not the ledger has it."""
        self._made_of[sha256(body_of(record)).digest()] = None

    def put(self, document: Mapping[str, Any]) -> None:
        """Store the result with links to those of its records that are in the ledger."""
        there = stored_of(self.store.ledger.database, self.store.project, self._made_of)
        self.store.put([result_draft(document, self._verb, there)])


class StoredStream:
    """A stream of grades for a ledger, and the file in which they wait."""

    def __init__(
        self,
        store: Store | None,
        choice: Choice,
        stack: ExitStack,
        *,
        builder: EvaluationBuilder | None = None,
    ) -> None:
        self.path = os.path.join(
            stack.enter_context(tempfile.TemporaryDirectory()), "grades.ledger"
        )
        self.choice = structs.replace(choice.dated(), stored=True)
        self.evaluation: Evaluation | None = None
        """The evaluation without its list of runs, after `put`; None if none is made."""
        self._draft: Draft | None = None
        self.stored = False
        """Whether they are in a ledger, after `put`."""
        self._store = store
        self._builder = builder
        self._basis = basis_of(self.choice.read_cards(), self.choice.now)

    def put(self, *, finished: datetime | None = None) -> None:
        """Store what waits, the evaluation last, and report how much of it was new. Without a
        ledger only the evaluation is made.
        """
        if self._builder is not None:
            with open(self.path, "rb") as stream:
                for bodies in map(_read_line, stream):
                    self._builder.add_stored(bytes(bodies.evidence), bytes(bodies.grade))
            self.evaluation, self._draft = self._builder.drafted(finished or datetime.now(UTC))
        if self._store is not None:
            with open(self.path, "rb") as stream:
                self.stored = self._store.put_all(self._groups(stream))

    def _groups(self, stream: IO[bytes]) -> Iterator[list[Draft]]:
        if self._basis.drafts:
            yield list(self._basis.drafts)
        for line in stream:
            bodies = _read_line(line)
            yield graded_drafts(
                Body(bodies.evidence),
                Body(bodies.scorecard),
                Body(bodies.grade),
                links=self._basis.links,
            )
        if self._draft is not None:
            yield [self._draft]


class _LedgerLine(msgspec.Struct):
    evidence: msgspec.Raw
    scorecard: msgspec.Raw
    grade: msgspec.Raw


_read_line = msgspec.json.Decoder(_LedgerLine).decode


def ledger_line(graded: Graded, payload: Payload) -> bytes:
    """A grade with everything it depends on as one line, each body as the ledger stores it."""
    if graded.evidence is None:
        raise InputError(
            "STO-011",
            f"the grade of {graded.grade.run_id!r} came without its run, so it can't be stored.",
            fix="Store the runs themselves.",
        )
    return b'{"evidence":%b,"scorecard":%b,"grade":%b}\n' % (
        evidence_body(graded),
        body_of(graded.grade.scorecard),
        body_of(payload),
    )


# Nothing is replayed from the result of a verb that only computes (`measure`, `report`,
# `gate --plan`): it contains what was printed, and its links name the inputs in the ledger.

_RESULT_SCHEMA = re.compile(r"assay\.([a-z]+)(?:-([a-z-]+))?/[0-9]+")
_VERBS = {
    "gate plan": "gate --plan",
    "rank": "report rank",
    "rehearsal": "rehearse",
    "summary": "report summary",
}
"""Verbs whose name differs from the schema of their result."""


def schema_of(verb: str) -> str:
    """The schema of a verb's result, for a document that doesn't name one itself.

    >>> schema_of("report rank"), schema_of("measure pass-at-k"), schema_of("gate --plan")
    ('assay.rank/1', 'assay.measure-pass-at-k/1', 'assay.gate-plan/1')
    """
    name = next((name for name, other in _VERBS.items() if other == verb), verb)
    return f"assay.{name.replace(' ', '-')}/1"


def verb_of(schema: str | None) -> str | None:
    """The verb that makes results of a schema; None for a schema that isn't Assay's.

    >>> (
    ...     verb_of("assay.measure-pass-at-k/1"),
    ...     verb_of("assay.rank/1"),
    ...     verb_of("team.rank/1"),
    ...     verb_of("assay.gate-plan/1"),
    ... )
    ('measure pass-at-k', 'report rank', None, 'gate --plan')
    """
    match = _RESULT_SCHEMA.fullmatch(schema or "")
    if match is None:
        return None
    verb = " ".join(filter(None, match.groups()))
    return _VERBS.get(verb, verb)


def result_draft(document: Mapping[str, Any], verb: str, made_of: Iterable[str]) -> Draft:
    """A verb's result with its schema, and links to the records it was made from, which must be in
    the ledger.
    """
    made = draft({"schema": schema_of(verb), **document}, kind="result")
    return made.linked("evidence_of", made_of)


def judgement_draft(document: Mapping[str, Any]) -> Draft:
    """A judge's verdicts, without their cost and without what came from the journal: the same
    answers are the same judgement.
    """
    verdicts = {key: value for key, value in document.items() if key != "usage"}
    return draft(_without_cached(verdicts), kind="judgement")


def _without_cached(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_cached(item) for key, item in value.items() if key != "cached"}
    return [_without_cached(item) for item in value] if isinstance(value, list | tuple) else value


def card_drafts(
    card: Mapping[str, Any],
    *,
    audit: Mapping[str, Any] | None,
    calibration: Mapping[str, Any] | None,
) -> list[Draft]:
    """The card of a judge, after the audit and the calibration it was made of."""
    drafted = draft(card, kind="card")
    evidence = [
        draft(document, kind=kind)
        for kind, document in (("audit", audit), ("calibration", calibration))
        if document is not None
    ]
    return [*evidence, drafted.linked("evidence_of", [draft.name for draft in evidence])]


OWN_PROFILE = "assay.own-profile/1"
"""The schema of a record with the profile of a decision on files."""


def own_profile_draft(profile: Mapping[str, Any], *, author: str | None = None) -> Draft:
    """The profile that a decision was made with, for its replay."""
    return draft({"schema": OWN_PROFILE, "profile": profile}, kind="event", author=author)


def shelf_with_own(shelf: Shelf, ledger: Ledger, item: Item, folder: str, *, project: str) -> Shelf:
    """A shelf that also has the profiles of a project's evaluations, and those of the decision that
    `item` is or was graded for, written to `folder`. Shipped profiles and those of a library take
    precedence. Of several with one name, the one that `item` names by digest counts.
    """
    place = os.path.join(folder, "profiles")
    os.makedirs(place, exist_ok=True)
    known = {entry.id for entry in shelf.entries("profiles")}
    wanted = _profile_digest(item.tree())
    for name, tree in _own(ledger, item, project):
        profile = load_profile(Document(tree, name))
        path = os.path.join(place, f"{profile.id}.yaml")
        if profile.id in known or "/" in profile.id:
            continue
        if not os.path.exists(path) or make_plan(profile, why="").digests["profile"] == wanted:
            write_file(path, pretty(profile))
    return Shelf(*shelf.roots[:-1], folder)


def _profile_digest(tree: Mapping[str, Any]) -> str | None:
    """The digest of the profile that made a grade or an evaluation."""
    source = tree if "digests" in tree else (tree.get("settings") or {}).get("scored_by") or {}
    digest: str | None = (source.get("digests") or {}).get("profile")
    return digest


def _own(ledger: Ledger, item: Item, project: str) -> Iterator[tuple[str, Any]]:
    for stored in list_evaluations(ledger, project=project):
        settings = stored.evaluation.settings
        if settings.get("own_profile") is not None:
            yield stored.digest, settings["own_profile"]["profile"]
        if settings.get("project_profile") is not None:
            yield stored.digest, settings["project_profile"]
    links = ledger.links_of_many([item.digest], project=project)
    decisions = [link.source for link in links if link.relation == "decides" and link.source]
    linked = ledger.links_of_many([item.digest, *decisions], project=project)
    evidence = ledger.get_many(
        [link.source for link in linked if link.relation == "evidence_of" and link.source],
        project=project,
    )
    for one in evidence.values():
        if one.schema == OWN_PROFILE and one.body is not None:
            yield one.digest, one.tree()["profile"]


class _Versioned(msgspec.Struct):
    id: str | None = None
    version: str | None = None


class _NamedRun(msgspec.Struct):
    run_id: str
    workflow: _Versioned | None = None
    dataset: _Versioned | None = None


class _GateStatus(TypedDict):
    status: str


class _CriterionScore(TypedDict):
    name: str
    raw_score: Any


class _GradeTotals(TypedDict):
    """The parts of a grade that the totals of an evaluation need."""

    passed: bool
    weighted_score: Decimal
    dataset: dict[str, Any] | None
    sample_id: str | None
    group: str | None
    hard_gates: dict[str, _GateStatus]
    criteria: list[_CriterionScore]


_read_run = msgspec.json.Decoder(_NamedRun).decode
_read_run_grade = msgspec.json.Decoder(_GradeTotals).decode
_read_runs = msgspec.json.Decoder(list[EvaluatedRun]).decode
_write_run = msgspec.json.Encoder(order="sorted").encode
"""Its canonical JSON: it has no numbers."""
_RUNS = b'"runs":['
"""The key of the list of runs. Its first occurrence in an evaluation is the list: only names and
texts come before it.
"""


class EvaluationBuilder:
    """Takes the runs of an evaluation one by one and remembers only their ids and digests, as its
    record has them.

    Every run must belong to the workflow and the dataset that the evaluation names; one of another
    version is refused, because totals over two versions describe neither.
    """

    def __init__(
        self,
        *,
        name: str,
        workflow: VersionedName,
        dataset: VersionedName,
        settings: Mapping[str, Any],
        started: datetime,
        source: Literal["run", "import"] = "run",
        labels: Sequence[str] = (),
        only: ChosenSamples | None = None,
    ) -> None:
        """`only` are the samples that were chosen; None for the whole dataset."""
        check_name(name)
        self.name = name
        self.workflow, self.dataset = workflow, dataset
        self._settings = in_order(to_builtins(settings, builtin_types=(Decimal,)))
        self.started = started
        self._source: Literal["run", "import"] = source
        self._labels = sorted(set(labels))
        self._only = only
        self._runs = bytearray()
        self._evaluates = bytearray()
        self._ids: set[bytes] = set()
        self._tally = EvaluationTally()

    def add(self, graded: Graded) -> None:
        """Add a graded run."""
        assert graded.run is not None, "an evaluation is made of runs"
        self.add_stored(evidence_body(graded), body_of(graded.payload()))

    def add_stored(self, run: bytes, grade: bytes | None) -> None:
        """Add a run as the ledger stores it, with its grade; None for one that could not be
        graded.
        """
        named = _read_run(run)
        self._check(named)
        own = sha256(named.run_id.encode()).digest()
        if own in self._ids:
            raise InputError("FIL-007", f"two runs have the id {named.run_id[:80]!r}.")
        self._ids.add(own)
        if grade is None:
            self._tally.add_ungraded()
        else:
            self._tally.add(_read_run_grade(grade))
        of_run = sha256(run).digest()
        of_grade = None if grade is None else sha256(grade).digest()
        self._evaluates += of_grade or of_run
        if self._runs:
            self._runs += b","
        self._runs += _write_run(
            EvaluatedRun(
                run_id=named.run_id,
                digest=digest_text(of_run),
                grade=None if of_grade is None else digest_text(of_grade),
            )
        )

    def _check(self, run: _NamedRun) -> None:
        for what, own, wanted in (
            ("workflow", run.workflow, self.workflow),
            ("dataset", run.dataset, self.dataset),
        ):
            own = own or _Versioned()
            if (own.id, own.version) != (wanted.id, wanted.version):
                raise InputError(
                    "STO-018",
                    f"the run {run.run_id!r} belongs to the {what} {own.id}@{own.version}, and the"
                    f" evaluation {self.name!r} to {wanted.id}@{wanted.version}.",
                    fix="An evaluation is one version of a workflow on one version of a dataset.",
                )

    def finish(self, finished: datetime) -> Evaluation:
        """The evaluation, once all of its runs were added."""
        evaluation = self._without_runs(finished)
        return structs.replace(evaluation, runs=_read_runs(b"[%b]" % bytes(self._runs)))

    def drafted(self, finished: datetime, *, author: str | None = None) -> tuple[Evaluation, Draft]:
        """The evaluation without its list of runs, and its complete draft. The draft links to the
        grades, or to the runs that have none: all of them are stored before it.
        """
        evaluation = self._without_runs(finished)
        body = b"".join(self._parts(evaluation))
        check_size(body)
        return evaluation, Draft(
            sha256(body).digest(),
            "evaluation",
            body,
            facets_of("evaluation", body),
            note("author", author),
            reason=None,
            links=(),
            evaluates=bytes(self._evaluates),
        )

    def _without_runs(self, finished: datetime) -> Evaluation:
        if not self._runs:
            raise NotEnoughEvidence("FIL-005", f"the evaluation {self.name!r} has no runs.")
        evaluation = Evaluation(
            id="",
            name=self.name,
            source=self._source,
            workflow=self.workflow,
            dataset=self.dataset,
            configuration=digest(self._settings),
            settings=self._settings,
            only=UNSET if self._only is None else self._only,
            labels=self._labels,
            started=time_text(self.started, "milliseconds"),
            finished=time_text(finished, "milliseconds"),
            totals=self._tally.totals(),
            runs=[],
        )
        rest = sha256()
        for part in self._parts(evaluation):
            rest.update(part)
        return structs.replace(evaluation, id=_id(rest.hexdigest()))

    def _parts(self, evaluation: Evaluation) -> tuple[bytes | bytearray, ...]:
        """The canonical JSON of the evaluation with its runs, in parts, because it can be large."""
        head, key, rest = body_of(evaluation).partition(_RUNS)
        return head, key, self._runs, rest


def identified(evaluation: Evaluation) -> Evaluation:
    """An evaluation with the id that follows from everything else in it."""
    rest = digest(structs.replace(evaluation, id=""))
    return structs.replace(evaluation, id=_id(rest.removeprefix("sha256:")))


def _id(digits: str) -> str:
    return f"ev-{digits[:12]}"


Take = Callable[[list[Draft]], None]


class RunGroup:
    """One version of a workflow on one version of a dataset, and when its runs were made. The runs
    themselves are not kept.
    """

    def __init__(self, run: Mapping[str, Any]) -> None:
        self.workflow, self.dataset = (
            VersionedName(id=str(run[what]["id"]), version=str(run[what]["version"]))
            for what in ("workflow", "dataset")
        )
        self._key = _key(run)
        self._first: datetime | None = None
        self._last: datetime | None = None

    def add(self, run: Mapping[str, Any]) -> None:
        """Count a run."""
        for name in ("started_at", "finished_at"):
            moment = time_of(run.get(name), UTC)
            if moment is not None:
                self._first = moment if self._first is None else min(self._first, moment)
                self._last = moment if self._last is None else max(self._last, moment)

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        """When the first run started and the last one finished; the current time if the runs don't
        state it.
        """
        return self._first or now, self._last or now

    def has(self, run: Mapping[str, Any]) -> bool:
        """Whether a run is of these versions."""
        return _key(run) == self._key


class MadeEvaluation(NamedTuple):
    """An evaluation without its list of runs, and how many runs have no grade, by the reason."""

    evaluation: Evaluation
    ungraded: Mapping[str, int]


def run_groups(runs: Iterable[Mapping[str, Any]]) -> list[RunGroup]:
    """Runs grouped by workflow and dataset, in the order of the first run of each group."""
    groups: dict[tuple[str, ...], RunGroup] = {}
    for run in runs:
        group = groups.get(_key(run))
        if group is None:
            group = groups[_key(run)] = RunGroup(run)
        group.add(run)
    return list(groups.values())


def _key(run: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        str(run[what][part]) for what in ("workflow", "dataset") for part in ("id", "version")
    )


def evaluate_runs(
    documents: Iterable[Document],
    grader: Grader,
    builder: EvaluationBuilder,
    take: Take,
    *,
    finished: datetime,
    basis: Basis = NO_BASIS,
    author: str | None = None,
) -> MadeEvaluation:
    """Grade runs and make their evaluation. `take` gets the drafts of each run, and the evaluation
    last.
    """
    ungraded: Counter[str] = Counter()
    for document in documents:
        group = list(_drafts(settled(document), grader, basis, author, ungraded))
        take(group)
        run = next(draft for draft in group if draft.kind == "run")
        grade = next((draft for draft in group if draft.kind == "grade"), None)
        builder.add_stored(run.body, None if grade is None else grade.body)
    evaluation, last = builder.drafted(finished, author=author)
    take([last])
    return MadeEvaluation(evaluation, ungraded)


def _drafts(
    document: Document,
    grader: Grader,
    basis: Basis,
    author: str | None,
    ungraded: Counter[str],
) -> Sequence[Draft] | Iterator[Draft]:
    try:
        graded = grader.grade(document)
        if graded.run is None:
            read_run(document)
        return drafts_of(graded, basis=basis, author=author)
    except InputError as error:
        run = read_run(document)  # anything but a run is an error, not a run without a grade
        ungraded[f"{error.message} {error.fix}".rstrip()] += 1
        return [evidence_draft(run, author=author)]
