"""Read evaluations back, summarize them, and decide between two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import structs

from assay.api.configured import Configured, nearest, profile_folder
from assay.api.results import EvaluationOutcome, GateOutcome, SummaryOutcome, block_of
from assay.archive.evaluation_choice import refuse_unknown_bar
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.files.json_files import Document, Unread, stream_documents
from assay.files.upwards import find_upwards
from assay.library.shelf import Shelf
from assay.pipeline.choice import Choice
from assay.pipeline.deciding import Terms, decide, declared, side_of
from assay.pipeline.given_grades import grades_of
from assay.pipeline.grading import DEFAULT_POLICY
from assay.registry import is_path
from assay.release.baseline import check_age, find, names, refuse_exam
from assay.release.comparability import check_kept_rules
from assay.release.policy import Bars, make_release_rules
from assay.running.post_run import required_profile

if TYPE_CHECKING:
    from assay.pipeline.grading import Graded, Grader
    from assay.release.baseline import StoredBaseline
    from assay.running.config import ReleaseBars

Source = str | EvaluationOutcome
"""An outcome, a file of runs or grades, or a reference to a stored evaluation."""
_OTHER_RULES = (
    "Name the rules for both sides with `profile=`, `rubric=` or `policy=`, or load the baseline by"
    " its own with `assay.load`."
)
LEDGER = ".assay/ledger.db"
BASELINES = ".assay/baselines"
DEFAULT_PROJECT = "default"


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
    reader = _Reader(store, project)
    documents = list(reader.documents(reference))
    choice = reader.required(reader.choice(profile, policy, rubric, library))
    graded = list(_graded(iter(documents), choice.grader()))
    _refuse_repeats(graded, reference)
    return EvaluationOutcome(None, graded, choice=choice, name=reference)


def project_grader(profile: str | None, policy: str | None, library: str | None) -> Grader:
    """A grader by what is given, else by the nearest `assay.yaml`, whose scorers and gates are
    required of every run.
    """
    reader = _Reader(None, None)
    return reader.required(reader.choice(profile, policy, None, library)).grader()


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
        found, into = source, graded
        if not isinstance(found, EvaluationOutcome):
            into = loaded
            found = load(
                found,
                profile=profile,
                policy=policy,
                rubric=rubric,
                library=library,
                store=store,
                project=project,
            )
        if not found.graded:  # the job that was to fill it did not run
            raise NotEnoughEvidence("FIL-005", "contains no runs.", where=found.name or "")
        into += found.graded
    _refuse_repeats(loaded)
    return SummaryOutcome(block_of([*graded, *loaded]))


def gate(
    candidate: Source,
    baseline: Source,
    *,
    release_policy: str | None = None,
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
    policy, the margin and the minimum pass rate. A candidate never brings its own rules: if the
    baseline doesn't say what graded it, you must name them. The result is true only for `promote`.

    >>> import assay
    >>> from importlib.resources import files
    >>> sides = files("assay.cli") / "examples" / "release"
    >>> found = assay.gate(str(sides / "candidate.jsonl"), str(sides / "baseline.jsonl"))
    >>> found.outcome, bool(found)
    ('reject', False)
    """
    reader = _Reader(store, project)
    new = list(reader.documents(candidate))
    ours = reader.rules_of(candidate)
    old = list(reader.baseline(baseline, judged=new))
    given = {"policy": policy, "profile": profile, "rubric": rubric}
    base = reader.bar(ours, reader.rules_of(baseline), given=given)
    chosen = Choice(
        policy or base.policy,
        profile or base.profile,
        rubric or base.rubric,
        library or base.library,
    )
    grader = reader.required(chosen).grader()
    release = reader.release
    rules = make_release_rules(
        grader.shelf.policy_of("release", release_policy or release.policy or "release"),
        Bars(release.margin, release.min_pass_rate, release.confidence, release.min_overlap),
    )
    if reader.taken is not None:
        check_age(reader.taken, rules, now=None)
    sides = side_of(new, grader, name="candidate"), side_of(old, grader, name="baseline")
    if reader.taken is not None:
        named = {kind for kind, value in given.items() if value is not None}
        named |= {"rubric"} if "profile" in named else set()
        check_kept_rules(
            reader.taken.record, sides[1], name=reader.taken.name, given=named, fix=_OTHER_RULES
        )
    plan, samples = declared(None, rules, looks=1, slices=())
    terms = Terms(plan=plan, samples=samples)
    return GateOutcome(decide(sides[0], sides[1], rules, grader, terms=terms))


class _Reader:
    """Reads sources, and keeps what they were graded by."""

    def __init__(self, store: str | None, project: str | None) -> None:
        self._store = store
        self._project = project
        self._graded_by: dict[str, str] | None = None
        """What graded the stored evaluation that was read last."""
        self.taken: StoredBaseline | None = None
        """The stored baseline that was read by its name."""

    @cached_property
    def _config(self) -> Configured:
        return nearest()

    def choice(
        self,
        profile: str | None,
        policy: str | None,
        rubric: str | None,
        library: str | None,
    ) -> Choice:
        """What to grade by: what is given, else the configuration's, else the evaluation's."""
        config, graded_by = self._config, self._graded_by or {}
        return Choice(
            policy or config.policy or graded_by.get("policy") or DEFAULT_POLICY,
            profile or config.profile or graded_by.get("profile"),
            rubric or config.rubric or graded_by.get("rubric"),
            library or config.library,
        )

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
            folder=profile_folder,
            where="assay.yaml",
        )
        return structs.replace(choice, profile=profile)

    @property
    def release(self) -> ReleaseBars:
        """The release rules of the nearest configuration."""
        if names := self._config.only_command:
            raise UsageError(
                "CFG-001",
                f"assay.yaml sets {', '.join(names)} of `assay gate`, which `assay.gate` can't"
                " apply.",
                fix="Decide with `assay gate`, or leave them out.",
            )
        return self._config.release

    def rules_of(self, source: Source) -> Choice | None:
        """What graded a source that was read just now; None if it doesn't say."""
        if isinstance(source, EvaluationOutcome):
            return source.choice
        if self._graded_by is None:
            return None
        made, self._graded_by = self.choice(None, None, None, None), None
        return made

    def bar(
        self, ours: Choice | None, theirs: Choice | None, *, given: Mapping[str, str | None]
    ) -> Choice:
        """What both sides are graded by: the baseline's rules. A stored baseline is checked against
        the rules it was stored under; one without rules takes none from the candidate.
        """
        if theirs is not None:
            return theirs
        if self.taken is not None and ours is not None:
            return ours
        base = self.choice(None, None, None, None)
        if ours is not None:
            same = {kind for kind in given if getattr(ours, kind) == getattr(base, kind)}
            refuse_unknown_bar(
                "the candidate",
                {kind: getattr(ours, kind) for kind in given},
                given=same | {kind for kind, value in given.items() if value is not None},
                fix=_OTHER_RULES,
            )
        return base

    def documents(
        self, source: Source, *, judged: Sequence[Document | Unread] = ()
    ) -> Iterator[Document | Unread]:
        """The runs or grades of a source; of a baseline, for the runs that are judged by it."""
        if isinstance(source, EvaluationOutcome):
            yield from source.documents()
        elif is_path(source):
            yield from stream_documents(source)
        else:
            yield from self._stored(source, judged)

    def baseline(
        self, source: Source, *, judged: Sequence[Document | Unread]
    ) -> Iterator[Document | Unread]:
        """The runs of a baseline, which may also be a stored one by its name, as for the command;
        the caller, who knows the policy, refuses one that is too old.
        """
        if isinstance(source, EvaluationOutcome) or is_path(source):
            yield from self.documents(source)
            return
        folder = find_upwards(BASELINES) or BASELINES
        if source.partition("@")[0] not in names(folder):
            yield from self.documents(source, judged=judged)
            return
        self.taken = find(folder, source)
        refuse_exam(self.taken.kind, self.taken.name, where=self.taken.path)
        yield from stream_documents(self.taken.path)

    def _stored(self, reference: str, judged: Sequence[Document | Unread]) -> Iterator[Document]:
        from assay.archive.evaluations import need_evaluation, stored_runs, versions_of
        from assay.store.ledger import open_ledger

        project = self._project or self._config.project or DEFAULT_PROJECT
        url = self._store or _nearest_ledger()
        with open_ledger(url if "://" in url else f"sqlite:///{url}", read_only=True) as ledger:
            versions = versions_of(one.tree for one in judged if isinstance(one, Document))
            evaluation = need_evaluation(
                ledger,
                reference,
                project=project,
                judged=versions,
                fix="`assay evals` lists them. A path has a slash or an extension.",
            )
            graded_by = self._graded_by = {}
            for key in ("profile", "policy", "rubric"):
                value = evaluation.evaluation.settings.get(key)
                if isinstance(value, str) and not is_path(value) and "#" not in value:
                    graded_by[key] = value
            for item in stored_runs(ledger, evaluation, project=project):
                yield Document(item.tree(), reference)


def _nearest_ledger() -> str:
    """The ledger of the nearest folder that has one, from the working folder upwards."""
    found = find_upwards(LEDGER)
    if found is not None:
        return found
    raise NotEnoughEvidence(
        "STO-008",
        f"there is no {LEDGER} here or above.",
        fix="`assay run` stores its evaluations there; or name a file of runs by its path.",
    )


def _graded(documents: Iterator[Document | Unread], grader: Grader) -> Iterator[Graded]:
    for document in documents:
        if isinstance(document, Unread):
            fault = document.fault
            raise InputError(fault.code, fault.message, where=fault.file, faults=[fault])
        yield from grades_of(document, grader)


def _refuse_repeats(graded: Sequence[Graded], where: str = "") -> None:
    """Refuse a run that would count twice."""
    seen: set[str] = set()
    for one in graded:
        run = one.grade.run_id
        if run in seen:
            raise InputError(
                "FIL-007", f"the run id {run[:80]!r} appears more than once.", where=where
            )
        seen.add(run)
