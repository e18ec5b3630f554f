"""Recomputes a stored release decision: its grades from their stored evidence and recorded
versions, then the decision on them; and what families do for their gates.

A decision on grades that came without evidence, or whose evidence was forgotten, can't be
recomputed, which is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from assay.canon import canonical
from assay.errors import InputError, NotEnoughEvidence, ShelfError
from assay.family import parts
from assay.files.json_files import Document, parse_json
from assay.files.yaml_files import is_yaml_name
from assay.library.shelf import Shelf
from assay.records.decision import DECISION_SCHEMA, Decision
from assay.records.evidence import Run
from assay.records.grade import Grade
from assay.records.scorecard import Scorecard
from assay.registry import home_value
from assay.release.plan import check_plan
from assay.release.policy import Bars, ReleaseRules, make_release_rules
from assay.scoring.profile import ScoringPlan, make_plan
from assay.services.compare import Acceptance, Asked, FreshRuns, compare
from assay.services.grading import Graded, Grader
from assay.services.sides import Rereadable, severe_of, side_of
from assay.services.stored_sides import evidence_of_decision
from assay.services.storing import OWN_PROFILE, Traced, cards_of, stored_evidence, trace
from assay.store.drafts import Item
from assay.store.ledger import DEFAULT_PROJECT, Ledger

_FIRST = ("gradingSystem", "scoringSystem", "policy", "profile", "rubric", "digests")
"""Fields that explain other differences and are compared first."""


class FirstDifference(NamedTuple):
    """The first place where two documents differ."""

    path: str
    stored: Any
    recomputed: Any


class StoredGate(NamedTuple):
    """The decision of a family: its name, and how it is recomputed."""

    name: str
    again: Callable[[Ledger, Item, Mapping[str, Any], Shelf, str], dict[str, Any]]


def stored_gates() -> dict[str, StoredGate]:
    """The decisions of families by their schema."""
    return {
        schema: home_value(home) for _, table in parts("results") for schema, home in table.items()
    }


class Replayed(NamedTuple):
    """Whether recomputing a stored record gave the same bytes, and if not, where they first
    differ.
    """

    item: Item
    stored: dict[str, Any]
    same: bool
    difference: FirstDifference | None


class _RecordedGrader(Grader):
    """A grader with the versions that a stored grade names, not the newest ones."""

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
            self._required = self._planned(None, None, None)

    def _plan(
        self, family: str | None, profile: str | None, rubric: str | None, *, named_by: str
    ) -> ScoringPlan:
        chosen, over = self._selection["profile"], self._selection["rubric"]
        if chosen is None:
            raise ShelfError(
                "LIB-001", "a stored grade of a run names no profile, so it can't be recomputed."
            )
        return make_plan(
            self.shelf.profile(on_shelf(chosen["id"])),
            why=chosen["why"],
            rubric=None if over is None else self.shelf.rubric(on_shelf(over["id"])),
            rubric_why="" if over is None else over["why"],
        )


def on_shelf(name: Any, *, of: str = "grade") -> str:
    """A name with its version, never a path: a stored record may come from anywhere."""
    if (
        not isinstance(name, str)
        or "@" not in name
        or "/" in name
        or "\\" in name
        or is_yaml_name(name)
    ):
        raise ShelfError(
            "LIB-001", f"a stored {of} names what it was made with as name@version, not {name!r}."
        )
    return name


def replay(
    ledger: Ledger, grade: Item, shelf: Shelf, *, project: str = DEFAULT_PROJECT
) -> Replayed:
    """Recompute a stored grade from its stored evidence, with its recorded profile, rubric and
    policy versions, and compare the bytes.
    """
    stored = _replayable(grade)
    graded = Remaker(shelf).remake(trace(ledger, [grade], project=project)[0])
    return compared(grade, stored, graded.payload())


def compared(item: Item, stored: dict[str, Any], recomputed: Any) -> Replayed:
    """A stored record, and whether the recomputed one has the same bytes."""
    again = canonical(recomputed)
    if again == item.body:
        return Replayed(item, stored, True, None)
    return Replayed(item, stored, False, first_difference(stored, parse_json(again)))


def _replayable(grade: Item) -> dict[str, Any]:
    """A stored grade, if it names what it was made with; else an error."""
    stored: dict[str, Any] = grade.tree()
    if grade.kind != "grade" or not isinstance(stored.get("selection"), dict):
        raise InputError(
            "STO-017",
            f"this record is of kind '{grade.kind}'; only a grade can be replayed.",
            where=grade.digest,
        )
    return stored


class Remaker:
    """Recomputes stored grades, each from its stored evidence with its recorded versions.

    Grades that name the same policy, profile, rubric, cards and moment share a grader: it is
    created only once.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._graders: dict[tuple[str, bytes, tuple[str, ...]], Grader] = {}

    def remake(self, traced: Traced) -> Graded:
        """Recompute a stored grade."""
        evidence = stored_evidence(traced.evidence, traced.grade)
        return self.grader(traced).grade(Document(evidence.tree(), evidence.digest))

    def grader(self, traced: Traced) -> Grader:
        """The grader that a stored grade was made by."""
        stored = _replayable(traced.grade)
        basis = tuple(item.digest for item in traced.basis)  # the cards and the moment
        key = (on_shelf(stored.get("policy")), canonical(stored["selection"]), basis)
        grader = self._graders.get(key)
        if grader is None:
            cards, now = cards_of(traced)
            grader = self._graders[key] = _RecordedGrader(self._shelf, stored, cards, now)
        return grader


def first_difference(stored: Any, again: Any, path: str = "") -> FirstDifference | None:
    """The first place where two documents differ; fields that explain others come first.

    >>> first_difference({"a": 1, "policy": "x@1"}, {"a": 2, "policy": "x@2"})
    FirstDifference(path='policy', stored='x@1', recomputed='x@2')
    """
    if isinstance(stored, dict) and isinstance(again, dict):
        names = [
            *(name for name in _FIRST if not path and (name in stored or name in again)),
            *sorted({*stored, *again}),
        ]
        for name in names:
            difference = first_difference(
                stored.get(name), again.get(name), f"{path}.{name}" if path else str(name)
            )
            if difference is not None:
                return difference
            if (name in stored) is not (name in again):
                return FirstDifference(
                    f"{path}.{name}" if path else str(name),
                    stored.get(name, "absent"),
                    again.get(name, "absent"),
                )
        return None
    if isinstance(stored, list) and isinstance(again, list):
        for index, (here, there) in enumerate(zip(stored, again, strict=False)):
            difference = first_difference(here, there, f"{path}[{index}]")
            if difference is not None:
                return difference
        return (
            None
            if len(stored) == len(again)
            else FirstDifference(path, f"{len(stored)} of them", f"{len(again)} of them")
        )
    return (
        None
        if type(stored) is type(again) and stored == again
        else FirstDifference(path, stored, again)
    )


class _Remade(NamedTuple):
    """A recomputed grade, and what made it."""

    graded: Graded
    grader: Grader


class _KnownGrades(Grader):
    """A grader that looks up finished grades. A run under another contract is scored by what
    graded the run itself.
    """

    def __init__(self, shelf: Shelf, policy: str, remade: Mapping[str, _Remade]) -> None:
        super().__init__(shelf, policy=policy)
        self._known = remade
        self._graders = {one.graded.grade.run_id: one.grader for one in remade.values()}

    def grade(self, document: Document) -> Graded:
        return self._known[document.file].graded

    def scorecard(self, run: Run) -> Scorecard:
        return self._graders[run.run_id].scorecard(run)

    def required(self, scorecard: Scorecard) -> Scorecard:
        return self._graders[scorecard.run_id].required(scorecard)

    def grade_card(self, card: Scorecard, *, scored: bool = False) -> Grade:
        return self._graders[card.run_id].grade_card(card, scored=scored)


def replay_decision(ledger: Ledger, item: Item, shelf: Shelf, *, project: str) -> Replayed:
    """Recompute a stored decision of any kind and compare the bytes."""
    stored = item.tree()
    gates = stored_gates()
    schema = str(stored.get("schema"))
    again = (
        _release_decision
        if schema == DECISION_SCHEMA
        else gates[schema].again
        if schema in gates
        else None
    )
    if again is None:
        known = ", ".join((DECISION_SCHEMA, *gates))
        raise InputError(
            "STO-017",
            f"this decision is of the schema {stored.get('schema')!r}; those of {known} can be"
            " replayed.",
            where=item.digest,
        )
    return compared(item, stored, again(ledger, item, stored, shelf, project))


def _release_decision(
    ledger: Ledger, item: Item, stored: Mapping[str, Any], shelf: Shelf, project: str
) -> Decision:
    evidence = evidence_of_decision(ledger, item.digest, project=project)
    graded = _graded(ledger, item, evidence.decided, shelf, project)
    named = {"candidate": evidence.candidate, "baseline": evidence.baseline}
    again = {"candidate": evidence.fresh_candidate, "baseline": evidence.fresh_baseline}
    needed = {
        digest for sides in (named, again) for digests in sides.values() for digest in digests
    }
    has_all = all(named.values()) and graded.keys() >= needed
    if not has_all or _used_fresh_runs(stored) > any(again.values()):
        raise NotEnoughEvidence(
            "STO-008",
            "this decision depends on grades that were stored without their evidence.",
            where=item.digest,
            fix="Decide again on the runs themselves.",
        )
    policy = next(iter(graded.values())).graded.grade.policy
    grader = _KnownGrades(shelf, policy, graded)
    rules = _rules(shelf, stored)

    def read(digests: Sequence[str], name: str) -> Rereadable:
        # only the digest of each document is needed: its content was read and graded above
        def documents() -> Iterator[Document]:
            return (Document({}, digest) for digest in digests)

        side = side_of(documents(), grader, name=name, severe=severe_of(rules))
        return Rereadable(side, documents)

    candidate, baseline = (
        read(digests, str(stored[name]["name"])) for name, digests in named.items()
    )
    fresh = [read(digests, f"fresh {name}") if digests else None for name, digests in again.items()]
    asked = _asked(ledger, stored, item, project)._replace(fresh=FreshRuns(*fresh))
    return compare(candidate, baseline, rules, grader, asked)


def _used_fresh_runs(stored: Mapping[str, Any]) -> bool:
    """Whether fresh runs were looked at."""
    return any(stored["confirmation"]["runs"].values())


def _rules(shelf: Shelf, stored: Mapping[str, Any]) -> ReleaseRules:
    """The policy that a decision names, with the overrides it was made with."""
    name = on_shelf(stored["policy"], of="decision")
    changed = stored.get("overrides") or []
    if changed:
        name = name.rpartition("+")[0] or name
    bars = Bars(**{str(change["field"]): change["used"] for change in changed})
    return make_release_rules(shelf.policy_of("release", name), bars)


def _graded(
    ledger: Ledger, item: Item, wanted: Sequence[str], shelf: Shelf, project: str
) -> dict[str, _Remade]:
    """Every grade of the decision, recomputed, by the digest of its evidence."""
    grades = ledger.get_many(wanted, project=project)
    remaker = Remaker(shelf)
    graded = {}
    for traced in trace(
        ledger, [grades[digest] for digest in wanted if digest in grades], project=project
    ):
        remade = remaker.remake(traced)
        if canonical(remade.payload()) != traced.grade.body:
            raise InputError(
                "REL-008",
                f"a grade of this decision is made differently now: {traced.grade.digest}.",
                where=item.digest,
                fix="Run `assay ledger replay` on that grade.",
            )
        assert traced.evidence is not None
        graded[traced.evidence.digest] = _Remade(remade, remaker.grader(traced))
    return graded


def _asked(ledger: Ledger, stored: Mapping[str, Any], item: Item, project: str) -> Asked:
    """What the decision was asked."""
    shown_plan = stored["plan"]
    plan = None
    if shown_plan["declared"]:
        records = ledger.get_many(ledger.made_of(item.digest, project=project), project=project)
        plan = next(
            (
                check_plan(record.tree(), where=record.digest)
                for record in records.values()
                if record.kind == "event" and record.schema != OWN_PROFILE
            ),
            None,
        )
        if plan is None:
            raise NotEnoughEvidence(
                "STO-008", "the plan of this decision is not in the ledger.", where=item.digest
            )
    return Asked(
        tuple(stored["missing"]["quarantined"]),
        tuple(str(name) for name in shown_plan["slices"]),
        plan,
        regraded=tuple(stored.get("regraded") or ()),
        accepted=Acceptance(
            recorded={
                (suspect["sample"], suspect["check"]): suspect["accepted"]
                for suspect in stored["confirmation"]["suspects"]
                if suspect["accepted"] is not None
            }
        ),
    )


class StoredEvidence:
    """The records that a stored gate names."""

    def __init__(self, ledger: Ledger, item: Item, project: str) -> None:
        self._ledger = ledger
        self._project = project
        self.where = item.digest

    def behind(self, digest: str, schema: str) -> list[Item]:
        """The records of that schema that a record was made of, including those forgotten since."""
        sources = self._ledger.made_of(digest, project=self._project)
        items = self._ledger.get_many(sources, project=self._project)
        return [item for item in items.values() if item.schema == schema]

    def tree(self, digest: Any, what: str, kind: str, schema: str | None = None) -> Any:
        """The content of one record. A missing, changed or forgotten one is an error, and so is one
        of another kind.
        """
        if not isinstance(digest, str):
            raise self.unclear(what)
        item = self._ledger.get(digest, project=self._project)
        if item is None or item.body is None:
            state = "is not in the ledger" if item is None else "was forgotten"
            raise NotEnoughEvidence(
                "STO-008",
                f"{what} of this gate {state}: {digest}.",
                where=self.where,
                fix="Without it the decision can't be recomputed.",
            )
        tree = item.tree()
        if item.kind != kind or (schema is not None and tree.get("schema") != schema):
            raise InputError(
                "REL-008",
                f"{what} of this gate is a record of the kind '{item.kind}' and the schema"
                f" {tree.get('schema')!r}.",
                where=self.where,
            )
        return tree

    def unclear(self, what: str) -> InputError:
        """The error for a record that doesn't name its evidence."""
        return InputError("REL-008", f"the record has no digest of {what}.", where=self.where)


def part_of(tree: Any, name: str, evidence: StoredEvidence) -> dict[str, Any]:
    """A part of what a stored gate names; an error if it has none."""
    part = tree.get(name) if isinstance(tree, dict) else None
    if not isinstance(part, dict):
        raise evidence.unclear(name)
    return part
