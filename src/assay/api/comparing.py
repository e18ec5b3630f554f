"""Read evaluations back, summarize them, and decide between two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from assay.api.configured import Configured, nearest
from assay.api.results import EvaluationOutcome, GateOutcome, SummaryOutcome, block_of
from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import Document, Unread, stream_documents
from assay.files.upwards import find_upwards
from assay.pipeline.choice import Choice
from assay.pipeline.deciding import Terms, decide, declared, side_of
from assay.pipeline.given_grades import grades_of
from assay.pipeline.grading import DEFAULT_POLICY
from assay.registry import is_path
from assay.release.baseline import check_age, find, names
from assay.release.policy import make_release_rules

if TYPE_CHECKING:
    from assay.pipeline.grading import Graded, Grader
    from assay.release.baseline import StoredBaseline

Source = str | EvaluationOutcome
"""An outcome, a file of runs or grades, or a reference to a stored evaluation."""
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
    choice = reader.choice(profile, policy, rubric, library)
    graded = list(_graded(iter(documents), choice.grader()))
    return EvaluationOutcome(None, graded, choice=choice, name=reference)


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
    for source in sources:
        if isinstance(source, EvaluationOutcome):
            graded += source.graded
        else:
            graded += load(
                source,
                profile=profile,
                policy=policy,
                rubric=rubric,
                library=library,
                store=store,
                project=project,
            ).graded
    return SummaryOutcome(block_of(graded))


def gate(
    candidate: Source,
    baseline: Source,
    *,
    release_policy: str = "release",
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    store: str | None = None,
    project: str | None = None,
) -> GateOutcome:
    """Whether the candidate may replace the baseline, with the statistics of the decision.

    Evidence is graded again here, both sides by the same profile, rubric and policy: those given,
    else those of the baseline, else of the candidate. The result is true only for `promote`.

    >>> import assay
    >>> from importlib.resources import files
    >>> sides = files("assay.cli") / "examples" / "release"
    >>> found = assay.gate(str(sides / "candidate.jsonl"), str(sides / "baseline.jsonl"))
    >>> found.outcome, bool(found)
    ('reject', False)
    """
    reader = _Reader(store, project)
    new = list(reader.documents(candidate))
    old = list(reader.baseline(baseline, judged=new))
    known = [one.choice for one in (baseline, candidate) if isinstance(one, EvaluationOutcome)]
    base = known[0] if known else reader.choice(None, None, None, None)
    grader = Choice(
        policy or base.policy,
        profile or base.profile,
        rubric or base.rubric,
        library or base.library,
    ).grader()
    rules = make_release_rules(grader.shelf.policy_of("release", release_policy))
    if reader.taken is not None:
        check_age(reader.taken, rules, now=None)
    sides = side_of(new, grader, name="candidate"), side_of(old, grader, name="baseline")
    plan, samples = declared(None, rules, looks=1, slices=())
    terms = Terms(plan=plan, samples=samples)
    return GateOutcome(decide(sides[0], sides[1], rules, grader, terms=terms))


class _Reader:
    """Reads sources, and knows what they were graded by."""

    def __init__(self, store: str | None, project: str | None) -> None:
        self._store = store
        self._project = project
        self._said: dict[str, str] = {}
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
        config, said = self._config, self._said
        return Choice(
            policy or config.policy or said.get("policy") or DEFAULT_POLICY,
            profile or config.profile or said.get("profile"),
            rubric or config.rubric or said.get("rubric"),
            library or config.library,
        )

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
        if self.taken.kind != "runs":
            raise InputError(
                "REL-002",
                f"the baseline {self.taken.name} is a graded exam, and has no runs to pair.",
                where=self.taken.path,
                fix="Use `assay exam gate`.",
            )
        yield from stream_documents(self.taken.path)

    def _stored(self, reference: str, judged: Sequence[Document | Unread]) -> Iterator[Document]:
        from assay.archive.evaluations import find_other_version, stored_runs, versions_of
        from assay.store.ledger import open_ledger

        project = self._project or self._config.project or DEFAULT_PROJECT
        url = self._store or _nearest_ledger()
        with open_ledger(url if "://" in url else f"sqlite:///{url}", read_only=True) as ledger:
            versions = versions_of(one.tree for one in judged if isinstance(one, Document))
            found = find_other_version(ledger, reference, project=project, judged=versions)
            if found is None:
                other = " of another version than the candidate" if versions else ""
                raise NotEnoughEvidence(
                    "STO-012",
                    f"no evaluation{other} is named '{reference[:100]}' in the project"
                    f" '{project}'.",
                    where=ledger.where,
                    fix="`assay evals` lists them. A path has a slash or an extension.",
                )
            for key in ("profile", "policy", "rubric"):
                value = found.evaluation.settings.get(key)
                if isinstance(value, str) and not is_path(value) and "#" not in value:
                    self._said.setdefault(key, value)
            for item in stored_runs(ledger, found, project=project):
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
