"""`assay.load`, `summary`, `gate` and `rehearse`: files, names and documents in memory as evidence,
and results as records.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from assay.canon import canonical, pretty
from assay.errors import InputError, NotEnoughEvidence, raise_faults
from assay.files.atomic import atomic_write
from assay.files.json_files import Document, Unread, parse_json, stream_documents
from assay.files.own_files import looks_own
from assay.files.upwards import find_upwards
from assay.importers.known import fitting
from assay.importers.samples import head_of
from assay.library.shelf import Shelf
from assay.project.settings import Configured, nearest
from assay.records.contract import encode
from assay.registry import is_path
from assay.release.baseline import find, names, refuse_exam
from assay.release.plan import read_plan
from assay.release.policy import Bars, make_release_rules
from assay.release.sides import Side
from assay.release.summary import Summary
from assay.running.post_run import required_profile
from assay.scoring.profile import Profile, load_profile
from assay.services.choice import Choice
from assay.services.compare import Acceptance, Asked, FreshRuns, Origin, compare
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
from assay.services.given_grades import grades_of
from assay.services.grading import Graded, Grader
from assay.services.rehearse import RELEASES, Rehearsing
from assay.services.rehearse import rehearse as rehearse_sides
from assay.services.rules import GradedSide, RulesRequest, graded_side, rules_for
from assay.services.sides import Rereadable, severe_of, side_of
from assay.views.evaluation import RunReasons, WorstSample, evaluation_view, keep_worst
from assay.views.text import text_view

if TYPE_CHECKING:
    from assay.project.config import ReleaseBars
    from assay.records.decision import Decision
    from assay.records.evaluation import Evaluation
    from assay.records.grade import Payload
    from assay.records.rehearsal import Rehearsal
    from assay.records.summary import SummaryBlock
    from assay.store.ledger import Ledger
    from assay.views.blocks import Part


class Displayed:
    """A result that prints as text and, in a notebook, as escaped HTML."""

    def _parts(self) -> Sequence[Part]:
        raise NotImplementedError

    def __str__(self) -> str:
        return text_view(self._parts())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same as HTML."""
        from assay.views.render import clean, macro  # Jinja2 loads only where HTML is wanted

        return clean(str(macro("group")({"parts": self._parts(), "kind": ""})))


class EvaluationOutcome(Displayed):
    """An evaluation with its graded runs.

    `evaluation` is the record, `grades` the grade of each run as in `assay.grades/1`, `runs` the
    evidence. It is truthy only if every run passed.
    """

    def __init__(
        self,
        evaluation: Evaluation | None,
        graded: Sequence[Graded],
        *,
        choice: Choice,
        name: str = "",
        made: ToolProfile | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.evaluation = evaluation
        self.name = evaluation.name if evaluation is not None else name
        self.graded = tuple(graded)
        self.choice = choice
        """What it was graded by. A comparison grades both sides by the baseline's, unless the
        caller names others.
        """
        self.made = made
        """The profile, if it was made from another tool's metrics, with the columns read."""
        self.origin = origin or Origin(self.name)
        """Where its runs come from: as a baseline, a stored evaluation may be too old."""
        self.notes: tuple[str, ...] = ()

    def graded_side(self) -> GradedSide:
        """What graded it, for a comparison."""
        choice = self.choice
        profile = choice.profile.id if isinstance(choice.profile, Profile) else choice.profile
        settings = {"profile": profile, "rubric": choice.rubric, "policy": choice.policy}
        return GradedSide(self.name or "the candidate", settings, self.made)

    @property
    def grades(self) -> list[Payload]:
        """The grade of each run."""
        return [graded_run.payload() for graded_run in self.graded]

    @property
    def runs(self) -> list[Mapping[str, Any]]:
        """The evidence of each run, as `assay.run/1`."""
        return [document.tree for document in self.documents()]

    @property
    def passed(self) -> bool:
        """Whether there are runs and every one passed."""
        return bool(self.graded) and all(graded_run.grade.passed for graded_run in self.graded)

    @property
    def pass_rate(self) -> float:
        """The share of runs that passed."""
        return sum(graded_run.grade.passed for graded_run in self.graded) / max(1, len(self.graded))

    @property
    def failed(self) -> list[str]:
        """The ids of the runs that did not pass."""
        return [
            graded_run.grade.scorecard.run_id
            for graded_run in self.graded
            if not graded_run.grade.passed
        ]

    def __bool__(self) -> bool:
        return self.passed

    def __len__(self) -> int:
        return len(self.graded)

    def __iter__(self) -> Iterator[Payload]:
        return iter(self.grades)

    def documents(self) -> Iterator[Document]:
        """The evidence as a comparison reads it."""
        for place, graded_run in enumerate(self.graded, 1):
            yield Document(
                parse_json(canonical(graded_run.evidence)), self.name or "evaluation", place
            )

    def save(self, path: str) -> None:
        """Write the runs as JSON Lines, which every command reads."""
        with atomic_write(path) as stream:
            for document in self.documents():
                stream.write(encode(document.tree) + b"\n")

    def _parts(self) -> Sequence[Part]:
        if self.evaluation is None:
            from assay.views.summary import summary_view

            return summary_view(block_of(self.graded))
        worst: list[WorstSample] = []
        reasons = RunReasons()
        for graded_run in self.graded:
            keep_worst(worst, graded_run.payload(), graded_run.run)
            reasons.add(graded_run.grade)
        used = f"Graded by {self.evaluation.settings['scored_by']['profile']}."
        notes = [used, *self.notes]
        return evaluation_view(self.evaluation, worst=worst, notes=notes, reasons=reasons)


def block_of(graded: Sequence[Graded]) -> SummaryBlock:
    """The summary of graded runs."""
    summary = Summary()
    for graded_run in graded:
        summary.add(graded_run.grade)
    return summary.block()


class GateOutcome(Displayed):
    """A decision: `outcome` is promote, hold, reject or not_enough_evidence; only promote is
    true.
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.outcome = decision.outcome

    def __bool__(self) -> bool:
        return self.outcome == "promote"

    def document(self) -> bytes:
        """The decision as `assay.decision/1`."""
        return pretty(self.decision)

    def _parts(self) -> Sequence[Part]:
        from assay.views.decision import decision_summary

        return decision_summary(self.decision)


class RehearsalOutcome(Displayed):
    """A rehearsal of a release policy; `rehearsal` has every number."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal

    def document(self) -> bytes:
        """The rehearsal as `assay.rehearsal/1`."""
        return pretty(self.rehearsal)

    def _parts(self) -> Sequence[Part]:
        from assay.views.rehearsal import rehearsal_summary

        return rehearsal_summary(self.rehearsal)


class SummaryOutcome(Displayed):
    """The reporting bundle over runs; `block` has every number. It is truthy only if every run
    passed.
    """

    def __init__(self, block: SummaryBlock) -> None:
        self.block = block

    def __bool__(self) -> bool:
        return self.block.n > 0 and self.block.pass_rate.value == 1

    def _parts(self) -> Sequence[Part]:
        from assay.views.summary import summary_view

        return summary_view(self.block)


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


def load(
    reference: str,
    *,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
    project: str | None = None,
) -> EvaluationOutcome:
    """Runs, graded: of a file (runs, scorecards, or `assay.grades/1`), or of a stored evaluation.

    A path has a slash or an extension; anything else is a reference, such as a name, `latest` or
    `latest~1`, in the ledger `store` (default: the nearest `.assay/ledger.db`). Runs are graded by
    what is given here, else by the nearest `assay.yaml`, else by what graded the evaluation.

    >>> import assay
    >>> from importlib.resources import files
    >>> found = assay.load(str(files("assay.cli") / "examples" / "rag.jsonl"))
    >>> [grade["grade"] for grade in found.grades]
    ['A', 'F', 'F']
    """
    reader = SourceReader(store, project, library)
    read = reader.read(reference)
    bar = reader.graded_by([], [read.graded], _given(profile, policy, rubric))
    choice = reader.required(bar.choice)
    graded = list(_graded(iter(read.documents), choice.grader()))
    _refuse_repeats(graded, reference)
    return EvaluationOutcome(
        None, graded, choice=choice, name=reference, made=bar.made, origin=read.origin
    )


def project_grader(profile: str | None, policy: str | None, library: str | None) -> Grader:
    """A grader by what is given, else by the nearest `assay.yaml`, whose scorers and gates are
    required of every run.
    """
    reader = SourceReader(None, None, library)
    return reader.required(reader.graded_by([], [], _given(profile, policy, None)).choice).grader()


def _given(profile: str | None, policy: str | None, rubric: str | None) -> dict[str, str]:
    """The rules that a caller names."""
    named = {"profile": profile, "policy": policy, "rubric": rubric}
    return {kind: value for kind, value in named.items() if value is not None}


def summary(
    *sources: Source,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
    project: str | None = None,
) -> SummaryOutcome:
    """Pass rate, scores, gates and the reasons of failures over all runs of the sources.

    >>> import assay
    >>> from importlib.resources import files
    >>> found = assay.summary(str(files("assay.cli") / "examples" / "rag.jsonl"))
    >>> found.block.n, round(found.block.pass_rate.value, 2)
    (3, 0.33)
    """
    graded: list[Graded] = []
    loaded: list[Graded] = []
    for source in sources:
        newer, into = source, graded
        if not isinstance(newer, EvaluationOutcome):
            into = loaded
            newer = load(
                newer,
                profile=profile,
                policy=policy,
                rubric=rubric,
                library=library,
                store=store,
                project=project,
            )
        if not newer.graded:  # the job that was to fill it did not run
            raise NotEnoughEvidence("FIL-005", "contains no runs.", where=newer.name or "")
        into += newer.graded
    _refuse_repeats([*graded, *loaded])
    return SummaryOutcome(block_of([*graded, *loaded]))


def gate(
    candidate: Source,
    baseline: Source,
    *,
    release_policy: str | None = None,
    tolerance: float | None = None,
    quarantine: Sequence[str] = (),
    slices: Sequence[str] = (),
    plan: str | None = None,
    fresh: Source | None = None,
    fresh_baseline: Source | None = None,
    accept: Acceptance | None = None,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
    project: str | None = None,
) -> GateOutcome:
    """Whether the candidate may replace the baseline, with the statistics of the decision.

    Evidence is graded again here, both sides by the same profile, rubric and policy: those given,
    else those of the baseline, else of the nearest `assay.yaml`, which also sets the release
    policy, the tolerance and the minimum pass rate. A candidate never brings its own rules: if the
    baseline doesn't say what graded it, you must name them. The result is true only for `promote`.
    `fresh` and `fresh_baseline` are runs that were made again of the samples that seem to fail
    newly.

    >>> import assay
    >>> from importlib.resources import files
    >>> sides = files("assay.cli") / "examples" / "release"
    >>> found = assay.gate(str(sides / "candidate.jsonl"), str(sides / "baseline.jsonl"))
    >>> found.outcome, bool(found)
    ('hold', False)
    """
    reader = SourceReader(store, project, library)
    given = _given(profile, policy, rubric)
    new = reader.read(candidate)
    old = reader.read(baseline, judged=new.documents)
    bar = reader.bar(new, old, given)
    grader = reader.required(bar.choice).grader()
    release = reader.release
    rules = make_release_rules(
        grader.shelf.policy_of("release", release_policy or release.policy or "release"),
        Bars(
            release.tolerance if tolerance is None else tolerance,
            release.min_pass_rate,
            release.confidence,
            release.min_overlap,
        ),
    )

    def side(read: ReadSource, name: str) -> Rereadable:
        made = side_of(read.documents, grader, name=name, severe=severe_of(rules))
        return Rereadable(made, partial(iter, read.documents))

    sides = side(new, "candidate"), side(old, "baseline")
    asked = Asked(
        tuple(dict.fromkeys((*reader.quarantine, *quarantine))),
        tuple(dict.fromkeys((*reader.slices, *slices))),
        None if plan is None else read_plan(plan),
        new.origin,
        old.origin,
        frozenset(given),
        bar.made,
        other_rules=OTHER_RULES,
        fresh=FreshRuns(
            *(
                None if source is None else side(reader.read(source), f"fresh {name}")
                for name, source in (("candidate", fresh), ("baseline", fresh_baseline))
            )
        ),
        accepted=accept or Acceptance(),
    )
    return GateOutcome(compare(sides[0], sides[1], rules, grader, asked))


def rehearse(
    evaluation: Source,
    other: Source | None = None,
    *,
    release_policy: str | None = None,
    tolerance: float | None = None,
    recommend: bool = False,
    seed: int = 0,
    releases: int = RELEASES,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
    project: str | None = None,
) -> RehearsalOutcome:
    """How often a release policy would reject, hold and promote a version against itself, from its
    repeats, and which planted regressions it would find; with `other`, how often that version would
    be promoted over this one.

    `recommend` also proposes numbers of runs, a margin and a policy. Runs are graded as in `gate`,
    where the evaluation is the baseline.

    >>> import assay
    >>> from itertools import cycle
    >>> answers = cycle(["WHY", "WHY", "WHY", "HOW"])
    >>> repeats = assay.evaluate(
    ...     lambda question: next(answers),
    ...     [{"id": f"q{n}", "question": "why", "expected": {"answer": "WHY"}} for n in range(30)],
    ...     profile="rag-measured",
    ...     repeats=3,
    ... )
    >>> made = assay.rehearse(repeats, releases=20).rehearsal
    >>> made.evaluation.samples, made.evaluation.runs, made.policy
    (30, 90, 'release@1')
    """
    reader = SourceReader(store, project, library)
    given = _given(profile, policy, rubric)
    older = reader.read(evaluation)
    newer = None if other is None else reader.read(other)
    grader = reader.required(reader.bar(older, older, given).choice).grader()
    release = reader.release
    rules = make_release_rules(
        grader.shelf.policy_of("release", release_policy or release.policy or "release"),
        Bars(
            release.tolerance if tolerance is None else tolerance,
            release.min_pass_rate,
            release.confidence,
        ),
    )

    def side(read: ReadSource, name: str) -> Side:
        named = read.source if isinstance(read.source, str) else read.source.name or name
        return side_of(read.documents, grader, name=named, severe=severe_of(rules))

    made = rehearse_sides(
        side(older, "the evaluation"),
        rules,
        Rehearsing(releases, seed, recommend),
        other=None if newer is None else side(newer, "the other version"),
    )
    return RehearsalOutcome(made)


def _graded(documents: Iterator[Document | Unread], grader: Grader) -> Iterator[Graded]:
    for document in documents:
        if isinstance(document, Unread):
            raise_faults([document.fault], where=document.fault.file)
        else:
            yield from grades_of(document, grader)


def _refuse_repeats(graded: Sequence[Graded], where: str = "") -> None:
    """Refuse a run that would count twice."""
    seen: set[str] = set()
    for graded_run in graded:
        run = graded_run.grade.run_id
        if run in seen:
            raise InputError(
                "FIL-007", f"the run id {run[:80]!r} appears more than once.", where=where
            )
        seen.add(run)
