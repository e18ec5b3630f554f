"""Where the Python functions read runs from, and what those were graded by."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from assay.api.results import EvaluationOutcome
from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import Document, Unread, stream_documents
from assay.files.own_files import looks_own
from assay.files.upwards import find_upwards
from assay.importers.known import fitting
from assay.importers.samples import head_of
from assay.library.shelf import Shelf
from assay.project.settings import Configured, nearest
from assay.registry import is_path
from assay.release.baseline import find, names, refuse_exam
from assay.running.post_run import required_profile
from assay.scoring.profile import load_profile
from assay.services.choice import Choice
from assay.services.compare import Origin
from assay.services.evaluation_choice import (
    CHOSEN,
    OWN,
    ComparedInput,
    ToolProfile,
    baseline_settings,
    one_made_profile,
)
from assay.services.evaluations import (
    ambiguous,
    described,
    evaluation_label,
    find_evaluation,
    first_grade,
    need_evaluation,
    stored_runs,
    versions_of,
)
from assay.services.rules import GradedSide, RulesRequest, graded_side, rules_for

if TYPE_CHECKING:
    from assay.project.config import ReleaseBars
    from assay.store.ledger import Ledger

Rules = Mapping[str, str]
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
    """What to grade by, and the profile if it was made from another tool's metrics."""

    choice: Choice
    made: ToolProfile | None = None


class ReadSource(NamedTuple):
    """A source that was read, and what is known of it."""

    source: Source
    documents: list[Document | Unread]
    origin: Origin
    graded: GradedSide


class SourceReader:
    """Reads sources, and keeps what they were graded by."""

    def __init__(self, store: str | None, project: str | None, library: str | None) -> None:
        self._store = store
        self._given_library = library
        self._project = project

    @cached_property
    def _config(self) -> Configured:
        return nearest()

    def graded_by(
        self, candidate: Sequence[GradedSide], baseline: Sequence[GradedSide], given: Rules
    ) -> Bar:
        """What to grade by, as every door chooses it."""
        library = self._given_library or self._config.library
        named = ((kind, getattr(self._config, kind)) for kind, _ in CHOSEN)
        found = rules_for(
            RulesRequest(
                candidate,
                baseline,
                given,
                {kind: value for kind, value in named if value},
                flags=_ARGUMENTS,
                fix=OTHER_RULES,
                shelf=Shelf(*filter(None, [library])),
            )
        )
        own = None if found.own is None else load_profile(Document(dict(found.own), OWN))
        choice = Choice(found.policy, own or found.profile, found.rubric, library)
        return Bar(structs.replace(choice, cards=self._config.cards), found.made)

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

    def bar(self, ours: ReadSource, theirs: ReadSource, given: Rules) -> Bar:
        """What both sides are graded by. An outcome says what it was graded by: as the baseline it
        is the bar, and against a stored baseline, which is checked against its own record, too.
        """
        outcome = theirs.source
        if theirs.graded.kept and theirs.graded.made is None:
            outcome = ours.source
        if not isinstance(outcome, EvaluationOutcome):
            return self.graded_by([ours.graded], [theirs.graded], given)
        if "profile" not in given:
            one_made_profile(
                [ComparedInput(theirs.graded.name, theirs.graded.made)],
                [ComparedInput(ours.graded.name, ours.graded.made)],
            )
        library = self._given_library or outcome.choice.library
        choice = structs.replace(outcome.choice, **given, library=library)
        return Bar(choice, None if "profile" in given else outcome.made)

    def read(
        self, source: Source, *, judged: Sequence[Document | Unread] | None = None
    ) -> ReadSource:
        """The runs or grades of a source. With `judged`, what the candidate was read from, it may
        also be a stored baseline by its name.
        """
        if isinstance(source, EvaluationOutcome):
            return ReadSource(source, list(source.documents()), source.origin, source.graded_side())
        if not isinstance(source, str):
            raise InputError(
                "API-001",
                f"runs can't be read from {type(source).__name__}.",
                fix="Pass the path of a file of runs as text, the name of a stored evaluation, or"
                " the result of `assay.evaluate`, `assay.run` or `assay.load`. `assay.grade` takes"
                " a run itself.",
            )
        if is_path(source):
            _refuse_foreign(source)
            documents = list(stream_documents(source))
            return ReadSource(source, documents, Origin(source), GradedSide(source))
        folder = find_upwards(BASELINES) or BASELINES
        if judged is not None and source.partition("@")[0] in names(folder):
            return self._kept(source, folder)
        return self._stored(source, judged)

    def _kept(self, source: str, folder: str) -> ReadSource:
        """A stored baseline."""
        taken = find(folder, source)
        refuse_exam(taken.kind, taken.name, where=taken.path)
        self._refuse_evaluation(source)
        settings = baseline_settings(taken.record)
        return ReadSource(
            source,
            list(stream_documents(taken.path)),
            Origin(taken.name, source, kept=taken.record, where=taken.path),
            graded_side(f"the baseline {taken.name}", settings, kept=True),
        )

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

    def _stored(self, reference: str, judged: Sequence[Document | Unread] | None) -> ReadSource:
        from assay.store.baselines import baseline_names

        project = self._project_name
        with self._ledger() as ledger:
            versions = versions_of(
                document.tree for document in judged or () if isinstance(document, Document)
            )
            stored = need_evaluation(
                ledger,
                reference,
                project=project,
                judged=versions,
                fix="`assay evals` lists them. A path has a slash or an extension.",
            )
            if judged is not None and reference in baseline_names(ledger, project=project):
                raise ambiguous(reference, "a baseline in the ledger", described(stored))
            evaluation = stored.evaluation
            label = evaluation_label(ledger, stored, project=project)
            origin = Origin(
                label,
                reference,
                evaluation.started,
                stored.runs_digest,
                graded=first_grade(ledger, stored, project=project),
                where=reference,
            )
            runs = stored_runs(ledger, stored, project=project)
            documents: list[Document | Unread] = [Document(run.tree(), reference) for run in runs]
        return ReadSource(reference, documents, origin, graded_side(label, evaluation.settings))


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
