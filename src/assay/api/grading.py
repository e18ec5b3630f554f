"""`assay.score`, `assay.grade` and `assay.explain`: one run or scorecard in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from msgspec.json import Encoder

from assay.errors import EvidenceError
from assay.files.json_files import Document
from assay.files.yaml_files import is_yaml_name
from assay.grading.explain import Explanation
from assay.grading.explain import explain as _explain
from assay.library.shelf import Shelf
from assay.records.evidence import Run
from assay.records.grade import Grade
from assay.records.reading import read_run, read_scorecard
from assay.records.scorecard import Scorecard
from assay.services.grading import DEFAULT_POLICY, Grader

R = TypeVar("R")
_encode = Encoder(decimal_format="number").encode


def _grader(policy: str, profile: str | None, rubric: str | None, library: str | None) -> Grader:
    """A grader by these rules. Only one by shipped rules is kept: a file may be edited, or the same
    path may mean another file, before the next call.
    """
    if library is None and _are_names(policy, profile, rubric):
        return _shipped_grader(policy, profile, rubric)
    return Grader(Shelf(*filter(None, [library])), policy=policy, profile=profile, rubric=rubric)


@lru_cache(maxsize=256)
def _are_names(*texts: str | None) -> bool:
    return not any(map(is_yaml_name, filter(None, texts)))


@lru_cache(maxsize=32)
def _shipped_grader(policy: str, profile: str | None, rubric: str | None) -> Grader:
    return Grader(Shelf(), policy=policy, profile=profile, rubric=rubric)


def _from_python(value: Any, what: str, read: Callable[[Document], R]) -> R:
    """A record from a mapping. Raises an error for values that JSON can't represent, such as keys
    that aren't text, half a surrogate pair, or an object.
    """
    if not isinstance(value, Mapping):
        raise EvidenceError(
            "API-001",
            f"a {what} is a mapping of the shape assay.{what}/1, not {type(value).__name__}.",
        )
    try:
        _encode(value)
        return read(Document(value, what))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EvidenceError(
            "API-001", f"the {what} contains a value that JSON can't express: {error}."
        ) from None


def score(
    run: Run | Mapping[str, Any],
    *,
    profile: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
) -> Scorecard:
    """Score a run: evaluate its gates and give each criterion its raw score.

    `run` is a `Run` or a mapping of the shape `assay.run/1`. Without `profile` the run's
    `workflow.family` selects one. A gate without evidence is None, which fails when graded; a
    criterion without evidence has a null raw score and the reason.

    >>> import assay
    >>> card = assay.score(
    ...     {
    ...         "schema": "assay.run/1",
    ...         "run_id": "r-1",
    ...         "status": "success",
    ...         "workflow": {"id": "faq", "version": "1", "family": "rag"},
    ...         "dataset": {"id": "d", "version": "1", "sample_id": "s"},
    ...     }
    ... )
    >>> card.hard_gates["overall_status_success"], card.hard_gates["answer_grounded"]
    (True, None)
    """
    record = run if isinstance(run, Run) else _from_python(run, "run", read_run)
    return _grader(DEFAULT_POLICY, profile, rubric, library).scorecard(record)


def grade(
    scorecard: Scorecard | Mapping[str, Any],
    *,
    policy: str = DEFAULT_POLICY,
    library: str | None = None,
) -> Grade:
    """Grade a scorecard by a policy: gates, floors, bands and threshold, in exact arithmetic.

    `scorecard` is a `Scorecard` or a mapping of the shape `assay.scorecard/1`. Its `hard_gates` is
    the complete list; null fails. A mapping that names a profile must meet that profile.

    >>> import assay
    >>> result = assay.grade(
    ...     {
    ...         "schema": "assay.scorecard/1",
    ...         "run_id": "r-1",
    ...         "hard_gates": {"schema_contract_valid": True},
    ...         "criteria": [
    ...             {
    ...                 "name": "correctness",
    ...                 "raw_score": 4,
    ...                 "formula_id": "likert_1_5",
    ...                 "weight": 1,
    ...                 "role": "correctness",
    ...             }
    ...         ],
    ...     }
    ... )
    >>> result.grade, result.passed, result.weighted_score
    ('C', True, 75.0)
    """
    grader = _grader(policy, None, None, library)
    if isinstance(scorecard, Scorecard):
        return grader.grade_card(scorecard, scored=True)
    if isinstance(scorecard, Run) or (
        isinstance(scorecard, Mapping) and scorecard.get("schema") == "assay.run/1"
    ):
        raise EvidenceError(
            "API-001", "this is a run, not a scorecard.", fix="Call assay.score(run) first."
        )
    # Only the caller's program can pass a Scorecard; a mapping may have been read from anywhere,
    # and the name of a profile alone must not lower a floor.
    record = _from_python(scorecard, "scorecard", read_scorecard)
    return grader.grade_card(grader.required(record))


def explain(grade: Grade) -> Explanation:
    """Why a grade is what it is, in sentences, with the smallest changes that would move it.

    >>> import assay
    >>> result = assay.grade(
    ...     {
    ...         "schema": "assay.scorecard/1",
    ...         "run_id": "r-1",
    ...         "hard_gates": {"schema_contract_valid": True},
    ...         "criteria": [
    ...             {"name": "tone", "raw_score": 0.895, "formula_id": "zero_one", "weight": 1}
    ...         ],
    ...     }
    ... )
    >>> assay.explain(result).sentences[-2]
    'Smallest change for an A: tone from 0.895 to 0.89995 (raw 0.89995).'
    """
    if not isinstance(grade, Grade):
        raise EvidenceError(
            "API-001",
            f"explain takes a Grade, not {type(grade).__name__}.",
            fix="Call assay.grade(scorecard) first.",
        )
    return _explain(grade)
