"""Where the Python functions read runs from, and what those were graded by."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from assay.api.configured import Configured, nearest
from assay.api.results import EvaluationOutcome
from assay.archive.evaluation_choice import (
    CHOSEN,
    OWN,
    ComparedInput,
    EvaluationChoice,
    ToolProfile,
    baseline_settings,
    choose,
    covers,
    one_made_profile,
    refuse_unknown_bar,
)
from assay.archive.evaluations import (
    ambiguous,
    described,
    find_evaluation,
    first_grade,
    need_evaluation,
    stored_runs,
    versions_of,
)
from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import Document, Unread, stream_documents
from assay.files.own_files import looks_own
from assay.files.upwards import find_upwards
from assay.importers.known import fitting
from assay.importers.parts import head_of
from assay.library.shelf import Shelf
from assay.pipeline.choice import Choice
from assay.pipeline.regraded import regraded_in
from assay.registry import is_path
from assay.release.baseline import StoredBaseline, find, names, refuse_exam
from assay.running.post_run import required_profile
from assay.scoring.profile import Profile, load_profile

if TYPE_CHECKING:
    from assay.pipeline.grading import Grader
    from assay.running.config import ReleaseBars
    from assay.store.ledger import Ledger

Source = str | EvaluationOutcome
"""An outcome, a file of runs or grades, or a reference to a stored evaluation."""
OTHER_RULES = (
    "Name the rules for both sides with `profile=`, `rubric=` or `policy=`, or load the baseline by"
    " its own with `assay.load`."
)
_ARGUMENTS = {"profile": "`profile=`", "rubric": "`rubric=`", "policy": "`policy=`"}
LEDGER = ".assay/ledger.db"
BASELINES = ".assay/baselines"
DEFAULT_PROJECT = "default"


class Bar(NamedTuple):
    """What to grade by, and what is known of the results that it comes from."""

    choice: Choice
    made: ToolProfile | None = None
    """The profile, if it was made from another tool's metrics."""
    made_at: str | None = None


class SourceReader:
    """Reads sources, and keeps what they were graded by."""

    def __init__(self, store: str | None, project: str | None, library: str | None) -> None:
        self._store = store
        self._given_library = library
        self._project = project
        self.stored: tuple[str, Mapping[str, Any], str | None] | None = None
        """The name of the stored evaluation that was read last, its settings, and when it was made.
        """
        self.taken: StoredBaseline | None = None
        """The stored baseline that was read by its name."""
        self._first_grades: dict[str, Any] = {}
        """By reference, the first grade that each evaluation was stored with."""

    @cached_property
    def _config(self) -> Configured:
        return nearest()

    def graded_by(self, given: Mapping[str, str]) -> Bar:
        """What to grade by: what is given, else the configuration's, else the evaluation's."""
        library = self._given_library or self._config.library
        named = ((kind, getattr(self._config, kind)) for kind, _ in CHOSEN)
        configured = {kind: value for kind, value in named if value}
        if self.stored is None:
            values: dict[str, Any] = {**dict(CHOSEN), **configured, **given}
            return Bar(Choice(**values, library=library, cards=self._config.cards))
        name, settings, made_at = self.stored

        def chosen_by(given: Mapping[str, str]) -> EvaluationChoice:
            return choose(
                {}, {name: settings}, given=given, configured=configured, flags=_ARGUMENTS
            )

        found = chosen_by(given)
        profile: str | Profile | None = found.profile
        if found.own is not None:
            own = load_profile(Document(dict(found.own), OWN))
            base = configured.get("profile")
            shelf = Shelf(*filter(None, [library]))
            if found.made is not None or base is None or covers(own, shelf.profile(base)):
                profile = own
            else:  # it lacks something that assay.yaml requires
                found = chosen_by({"profile": base, **given})
                profile = found.profile
        choice = Choice(found.policy, profile, found.rubric, library, self._config.cards)
        return Bar(choice, found.made, made_at)

    def required(self, choice: Choice) -> Choice:
        """The same with what the scorers and gates of the configuration require of every run."""
        config = self._config
        if not config.scorers:
            return choice
        profile = required_profile(
            Shelf(*filter(None, [choice.library])),
            choice.profile,
            config.scorers,
            workflow=config.workflow or None,
            where="assay.yaml",
        )
        return structs.replace(choice, profile=profile)

    @property
    def release(self) -> ReleaseBars:
        """The release rules of the nearest configuration."""
        return self._config.release

    @property
    def quarantine(self) -> tuple[str, ...]:
        """The samples that the nearest configuration excludes from decisions."""
        return self._config.quarantine

    @property
    def slices(self) -> tuple[str, ...]:
        """What the nearest configuration has decisions sliced by."""
        return self._config.slices

    def rules_of(self, source: Source, given: Mapping[str, str]) -> Bar | None:
        """What graded a source that was read just now; None if it doesn't say."""
        if isinstance(source, EvaluationOutcome):
            return Bar(source.choice, source.made, source.made_at)
        if self.stored is None:
            return None
        made, self.stored = self.graded_by(given), None
        return made

    def bar(self, ours: Bar | None, theirs: Bar | None, *, given: Mapping[str, str]) -> Bar:
        """What both sides are graded by: the baseline's rules. A stored baseline is checked against
        the rules it was stored under; one without rules takes none from the candidate.
        """
        if theirs is not None:
            if theirs.made is not None and ours is not None and ours.made is not None:
                one_made_profile(
                    [ComparedInput(theirs.made.name, theirs.made)],
                    [ComparedInput(ours.made.name, ours.made)],
                )
            return theirs
        if self.taken is not None and ours is not None:
            return ours
        base = self.graded_by({})
        if ours is not None:
            own = {kind: getattr(ours.choice, kind) for kind in _ARGUMENTS}
            same = {kind for kind, value in own.items() if value == getattr(base.choice, kind)}
            refuse_unknown_bar("the candidate", own, given=same | {*given}, fix=OTHER_RULES)
        return base

    def documents(self, source: Source) -> Iterator[Document | Unread]:
        """The runs or grades of a source."""
        if isinstance(source, EvaluationOutcome):
            yield from source.documents()
        elif not isinstance(source, str):
            raise InputError(
                "API-001",
                f"runs can't be read from {type(source).__name__}.",
                fix="Pass the path of a file of runs as text, the name of a stored evaluation, or"
                " the result of `assay.evaluate`, `assay.run` or `assay.load`. `assay.grade` takes"
                " a run itself.",
            )
        elif is_path(source):
            _refuse_foreign(source)
            yield from stream_documents(source)
        else:
            yield from self._stored(source, ())

    def baseline(
        self, source: Source, *, judged: Sequence[Document | Unread]
    ) -> Iterator[Document | Unread]:
        """The runs of a baseline, which may also be a stored one by its name, as for the command;
        the caller, who knows the policy, refuses one that is too old.
        """
        if not isinstance(source, str) or is_path(source):
            yield from self.documents(source)
            return
        folder = find_upwards(BASELINES) or BASELINES
        if source.partition("@")[0] not in names(folder):
            yield from self._stored(source, judged, baseline=True)
            return
        self.taken = find(folder, source)
        refuse_exam(self.taken.kind, self.taken.name, where=self.taken.path)
        self._refuse_evaluation(source)
        if (made := baseline_settings(self.taken.record)) is not None:
            self.stored = (f"the baseline {self.taken.name}", made, None)
        yield from stream_documents(self.taken.path)

    def regraded_notes(self, side: Sequence[Document | Unread], grader: Grader) -> list[str]:
        """A note if a side is an evaluation that was graded by something else when it was
        stored.
        """
        name = side[0].file if side and isinstance(side[0], Document) else ""
        before = self._first_grades.get(name)
        note = "" if before is None else regraded_in(name, before, side, grader)
        return [note] if note else []

    def _refuse_evaluation(self, name: str) -> None:
        """Refuse the name of a stored baseline that an evaluation has too."""
        if self._store is None and find_upwards(LEDGER) is None:
            return
        with self._ledger() as ledger:
            evaluation = find_evaluation(ledger, name, project=self._project_name)
            if evaluation is not None:
                raise ambiguous(name, "a stored baseline", described(evaluation))

    @property
    def _project_name(self) -> str:
        return self._project or self._config.project or DEFAULT_PROJECT

    def _ledger(self) -> Ledger:
        from assay.store.ledger import open_ledger

        url = self._store or _nearest_ledger()
        return open_ledger(url if "://" in url else f"sqlite:///{url}", read_only=True)

    def _stored(
        self, reference: str, judged: Sequence[Document | Unread], *, baseline: bool = False
    ) -> Iterator[Document]:
        from assay.store.baselines import baseline_names

        project = self._project_name
        with self._ledger() as ledger:
            versions = versions_of(
                document.tree for document in judged if isinstance(document, Document)
            )
            stored = need_evaluation(
                ledger,
                reference,
                project=project,
                judged=versions,
                fix="`assay evals` lists them. A path has a slash or an extension.",
            )
            if baseline and reference in baseline_names(ledger, project=project):
                raise ambiguous(reference, "a baseline in the ledger", described(stored))
            evaluation = stored.evaluation
            self.stored = (evaluation.name, evaluation.settings, evaluation.started)
            self._first_grades[reference] = first_grade(ledger, stored, project=project)
            for item in stored_runs(ledger, stored, project=project):
                yield Document(item.tree(), reference)


def _refuse_foreign(path: str) -> None:
    """Refuse a result file of another tool, which the commands import and these functions don't."""
    tools = [] if looks_own(path) else fitting(head_of(path))
    if tools:
        made = os.path.splitext(path)[0] + ".runs"
        profile = f"{made}.profile.yaml"
        raise InputError(
            "FIL-006",
            f"the Python functions read runs, and this is from another tool: {tools[0].title}.",
            where=path,
            fix=f"Import it with `assay import {shlex.quote(path)} -o {shlex.quote(made)}.jsonl`,"
            f" and pass {made}.jsonl with profile={profile!r}; `assay.gate` needs the profile of"
            " the baseline.",
        )


def _nearest_ledger() -> str:
    """The ledger of the nearest folder that has one, from the working folder upwards."""
    path = find_upwards(LEDGER)
    if path is not None:
        return path
    raise NotEnoughEvidence(
        "STO-008",
        f"there is no {LEDGER} here or above.",
        fix="`assay run` stores its evaluations there; or name a file of runs by its path.",
    )
