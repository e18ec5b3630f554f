"""Evaluations: named, kept in a ledger with their runs and grades, listed and found."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import DecodeError, ValidationError, field
from msgspec.json import Decoder

from assay.canon import digest as digest_of
from assay.errors import AssayError, InputError, NotEnoughEvidence, UsageError
from assay.records.evaluation import EvaluatedRun, Evaluation, VersionedName
from assay.registry import is_path, near_miss

if TYPE_CHECKING:
    from assay.store.drafts import Item
    from assay.store.ledger import Ledger


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ID = re.compile(r"ev-[0-9a-f]{12}")
_REFERENCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99})(?:~([0-9]{1,4}))?")
LATEST = "latest"


def check_name(name: str) -> None:
    """Refuse a name that could be taken for a path, for `latest` or for an id.

    >>> check_name("nightly-2026.11")
    >>> check_name("latest")
    Traceback (most recent call last):
    assay.errors.UsageError: An evaluation can't be named 'latest'. Use up to 100 letters, digits, '.', '_' and '-', but no extension such as '.json', and not 'latest'.
    """  # noqa: E501
    if not _NAME.fullmatch(name) or is_path(name) or name == LATEST or _ID.fullmatch(name):
        raise UsageError(
            "CLI-001",
            f"An evaluation can't be named {name[:120]!r}.",
            fix=(
                "Use up to 100 letters, digits, '.', '_' and '-', but no extension such as '.json',"
                " and not 'latest'."
            ),
        )


def default_name(workflow: str, now: datetime) -> str:
    """The name of an evaluation that was given none: the workflow and the moment.

    >>> default_name("support bot", datetime(2026, 11, 16, 10, 5, tzinfo=UTC))
    'support-bot-20261116T100500Z'
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", workflow)[:60].lstrip("._-") or "evaluation"
    return f"{plain}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"


class StoredEvaluation(NamedTuple):
    """An evaluation of a ledger."""

    digest: str
    seq: int
    stored_at: str
    evaluation: Evaluation

    @property
    def runs_digest(self) -> str:
        """A digest of its runs, whatever its name."""
        return digest_of(sorted(run.digest for run in self.evaluation.runs))


def read_evaluation(item: Item) -> StoredEvaluation:
    """A stored evaluation, after checking its content against its digest."""
    evaluation = item.read_as(Evaluation, "an evaluation")
    return StoredEvaluation(item.digest, item.seq, item.created_at, evaluation)


class _WithoutRuns(Evaluation, frozen=True, kw_only=True):
    """An evaluation without its list of runs, which may be most of its size."""

    runs: list[EvaluatedRun] = field(default_factory=list, name="")


_brief = Decoder(_WithoutRuns)


def read_brief(item: Item) -> StoredEvaluation:
    """A stored evaluation without its list of runs, for lists of evaluations."""
    try:
        evaluation = _brief.decode(item.checked())
    except (ValidationError, DecodeError) as error:
        raise InputError("STO-010", f"is not an evaluation: {error}.", where=item.digest) from None
    return StoredEvaluation(item.digest, item.seq, item.created_at, evaluation)


_REMEMBERED = 2000
_read: dict[tuple[str, str, int, str], StoredEvaluation] = {}
"""Evaluations without their runs, by ledger, project, how much was ever forgotten, and digest: the
same evaluation has another position in another project.
"""


def brief_evaluations(
    ledger: Ledger, project: str, digests: Sequence[str]
) -> list[StoredEvaluation]:
    """Evaluations without their lists of runs, in this order. One that was forgotten, or doesn't
    match its digest, is left out.
    """
    if len(_read) > _REMEMBERED:
        _read.clear()
    forgotten = ledger.count("tombstone", project=project).n
    evaluations: list[StoredEvaluation] = []
    for digest in digests:  # one by one: a record lists all runs of its evaluation
        key = (ledger.where, project, forgotten, digest)
        stored = _read.get(key)
        if stored is None:
            item = ledger.get(digest, project=project)
            if item is None or item.body is None:
                continue
            try:
                stored = _read[key] = read_brief(item)
            except AssayError:  # the page of the evaluation shows what is wrong
                continue
        evaluations.append(stored)
    return evaluations


def list_evaluations(
    ledger: Ledger,
    *,
    project: str,
    workflow: str | None = None,
    dataset: str | None = None,
) -> Iterator[StoredEvaluation]:
    """The evaluations of a project, the newest first. What was forgotten is left out."""
    named = {"workflow": workflow, "dataset": dataset}
    filters = {name: value for name, value in named.items() if value is not None}
    return _matching(ledger, filters, project)


def find_evaluation(
    ledger: Ledger, reference: str, *, project: str, workflow: str | None = None
) -> StoredEvaluation | None:
    """The evaluation that `latest`, `latest~N`, an id, a name or `NAME~N` means; None if the
    project has none. `workflow` narrows `latest` down, which skips evaluations of chosen samples.
    """
    matched = _REFERENCE.fullmatch(reference)
    if matched is None:
        return None
    name, back = matched[1], int(matched[2] or 0)
    if name == LATEST:
        filters = {} if workflow is None else {"workflow": workflow}
    elif _ID.fullmatch(name):
        filters = {"tag": f"id:{name}"}
    else:
        filters = {"tag": f"name:{name}"}
    matching = _matching(ledger, filters, project)
    if name == LATEST:
        matching = (stored for stored in matching if not stored.evaluation.only)
    return next(islice(matching, back, None), None)


def evaluation_names(ledger: Ledger, *, project: str) -> list[str]:
    """The names of the evaluations, the newest first."""
    return ledger.evaluation_tags("name:", project=project)


def need_evaluation(
    ledger: Ledger,
    reference: str,
    *,
    project: str,
    judged: Collection[VersionedName] = (),
    where: str = "",
    fix: str = "`assay evals` lists them; `assay run` and `assay import` store one.",
) -> StoredEvaluation:
    """The evaluation that `find_other_version` finds; if there is none, an error with the near
    miss.
    """
    evaluation = find_other_version(ledger, reference, project=project, judged=judged)
    if evaluation is not None:
        return evaluation
    other = " of another version than the candidate" if judged else ""
    raise NotEnoughEvidence(
        "STO-012",
        f"there is no evaluation {reference[:100]!r}{other} in the project '{project}'."
        f"{near_miss(reference, evaluation_names(ledger, project=project))}",
        where=where or ledger.where,
        fix=fix,
    )


def ambiguous(text: str, this: str, other: str) -> UsageError:
    """The error for a name that means two things."""
    return UsageError(
        "CLI-001",
        f"{text!r} is both {this} and {other}.",
        fix="Name the evaluation by its id, or rename one of them.",
    )


def described(stored: StoredEvaluation) -> str:
    """An evaluation by its id and time, in words."""
    return f"the evaluation {stored.evaluation.id} of {stored.evaluation.started}"


def versions_of(documents: Iterable[Any]) -> set[VersionedName]:
    """The workflow versions that runs state."""
    named = [tree.get("workflow") for tree in documents if isinstance(tree, Mapping)]
    pairs = [
        (workflow.get("id"), workflow.get("version"))
        for workflow in named
        if isinstance(workflow, Mapping)
    ]
    return {
        VersionedName(id=id, version=version)
        for id, version in pairs
        if isinstance(id, str) and isinstance(version, str | None)
    }


def find_other_version(
    ledger: Ledger, reference: str, *, project: str, judged: Collection[VersionedName]
) -> StoredEvaluation | None:
    """The evaluation that a reference means as a baseline. `latest~N` goes N steps back from the
    newest evaluation of the judged workflow and skips those of the judged versions: running a
    rejected candidate again doesn't make it its own baseline. It also skips those of chosen
    samples. Any other reference is resolved as usual.
    """
    if not judged or reference.partition("~")[0] != LATEST or not _REFERENCE.fullmatch(reference):
        return find_evaluation(ledger, reference, project=project)
    workflows = sorted({workflow.id for workflow in judged})
    back = int(reference.partition("~")[2] or 0)
    newest = True
    for stored in list_evaluations(
        ledger, project=project, workflow=workflows[0] if len(workflows) == 1 else None
    ):
        version = stored.evaluation.workflow
        if version.id not in workflows or stored.evaluation.only:
            continue
        if version in judged:
            back -= newest and back > 0
        elif back:
            back -= 1
        else:
            return stored
        newest = False
    return None


def no_other_version(
    ledger: Ledger, reference: str, *, project: str, judged: Collection[VersionedName]
) -> NotEnoughEvidence:
    """The error if `find_other_version` finds nothing."""
    named = ", ".join(sorted(f"{workflow.id}@{workflow.version}" for workflow in judged))
    workflow = min(workflow.id for workflow in judged)
    any_other = find_other_version(ledger, LATEST, project=project, judged=judged)
    why = (
        f"every stored evaluation of {workflow} has the candidate's version, {named}"
        if any_other is None
        else f"there are too few evaluations of a version other than the candidate's, {named}"
    )
    return NotEnoughEvidence(
        "STO-012",
        f"there is no {reference} to compare with: {why}.",
        fix=(
            "Name the baseline after --baseline: an evaluation that `assay evals` lists, or a file."
            " To tell two imported versions apart, import each with"
            f" `--workflow {shlex.quote(workflow)}@VERSION`."
        ),
    )


def _matching(
    ledger: Ledger, filters: Mapping[str, str], project: str
) -> Iterator[StoredEvaluation]:
    # One by one: a record lists all runs of its evaluation.
    items = ledger.each("evaluation", filters, project=project, at_once=1, newest_first=True)
    return map(read_evaluation, items)


def stored_runs(ledger: Ledger, stored: StoredEvaluation, *, project: str) -> Iterator[Item]:
    """The runs of an evaluation, in its order. A missing run is an error."""
    return _items(ledger, stored, [run.digest for run in stored.evaluation.runs], "run", project)


def stored_grades(ledger: Ledger, stored: StoredEvaluation, *, project: str) -> Iterator[Item]:
    """The grades of an evaluation, in its order; a run that could not be graded has none."""
    grades = [run.grade for run in stored.evaluation.runs if run.grade is not None]
    return _items(ledger, stored, grades, "grade", project)


def stored_items(
    ledger: Ledger, evaluation: Evaluation, *, project: str
) -> Iterator[tuple[EvaluatedRun, Item | None, Item | None]]:
    """Each run of an evaluation with its stored run and grade; None for what is missing."""
    runs = evaluation.runs
    of_runs = ledger.in_order((run.digest for run in runs), project=project)
    grades = ledger.in_order((run.grade for run in runs), project=project)
    return zip(runs, of_runs, grades, strict=True)


def first_grade(ledger: Ledger, stored: StoredEvaluation, *, project: str) -> Any:
    """The first grade of an evaluation; None if it has none, or if it was forgotten."""
    digest = next((run.grade for run in stored.evaluation.runs if run.grade is not None), None)
    item = None if digest is None else ledger.get(digest, project=project)
    return None if item is None or item.body is None else item.tree()


def evaluation_label(ledger: Ledger, stored: StoredEvaluation, *, project: str) -> str:
    """An evaluation by its name; by its id where several have the name."""
    evaluation = stored.evaluation
    same = ledger.count("evaluation", {"tag": f"name:{evaluation.name}"}, project=project).n
    return evaluation.name if same == 1 else evaluation.id


def _items(
    ledger: Ledger, stored: StoredEvaluation, digests: Sequence[str], kind: str, project: str
) -> Iterator[Item]:
    return ledger.complete(
        digests,
        kinds=(kind,),
        what=f"a {kind} of the evaluation {stored.evaluation.name!r}",
        where=stored.digest,
        fix="Run the evaluation again.",
        project=project,
    )
