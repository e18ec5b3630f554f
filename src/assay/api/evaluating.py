"""Run a workflow or a function on samples, and grade the runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from assay.api.comparing import EvaluationOutcome
from assay.errors import InputError, UsageError
from assay.files.json_files import Document
from assay.project.settings import configured
from assay.registry import is_path
from assay.running.columns import is_misspelt_assert
from assay.running.dataset import from_rows, read_dataset
from assay.running.runner import RunSettings
from assay.running.workflow import make_workflow, read_workflow
from assay.services.choice import Choice
from assay.services.evaluations import default_name
from assay.services.grading import DEFAULT_POLICY
from assay.services.run import RunRequest, run_judge
from assay.services.run import run as run_workflow

_HOME = "assay_given_functions"
_numbers = count(1)


@contextmanager
def named(functions: Sequence[Callable[..., Any]]) -> Iterator[list[str]]:
    """The names of the functions, valid until the block ends."""
    module = sys.modules.setdefault(_HOME, ModuleType(_HOME))
    names = [f"{plain_name(function)}_{next(_numbers)}" for function in functions]
    for name, function in zip(names, functions, strict=True):
        setattr(module, name, function)
    try:
        yield [f"{_HOME}:{name}" for name in names]
    finally:
        for name in names:
            delattr(module, name)


def plain_name(function: Callable[..., Any]) -> str:
    """The name of a function as an identifier.

    >>> plain_name(len), plain_name(lambda x: x)
    ('len', 'function')
    """
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "function"


def as_workflow(function: Callable[..., Any], inputs: Sequence[str]) -> Callable[..., Any]:
    """A function as a workflow calls it: with a mapping of inputs.

    Parameters with the names of inputs get those; a function with one other parameter gets all of
    them.

    >>> as_workflow(lambda question: question.upper(), ["question"])({"question": "why"})
    'WHY'
    """
    if not callable(function):
        raise InputError("API-001", f"{type(function).__name__} can't be called.")
    names = _parameters(function)
    by_name = bool(names) and set(names) <= set(inputs)

    def call(given: Mapping[str, Any], *more: Any) -> Any:
        if by_name:
            return function(**{name: given[name] for name in names if name in given})
        return function(given, *more)

    if inspect.iscoroutinefunction(function):

        async def answered(inputs: Mapping[str, Any]) -> Any:
            return await call(inputs)

        return answered
    if not by_name and names[1:2] in (["record"], ["recorder"]):

        def recorded(inputs: Mapping[str, Any], record: Any) -> Any:
            return call(inputs, record)

        return recorded

    def answer(inputs: Mapping[str, Any]) -> Any:
        return call(inputs)

    return answer


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    plain = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    return [parameter.name for parameter in parameters if parameter.kind in plain]


NOT_INPUTS = frozenset(
    ["id", "sample_id", "group", "tags", "split", "metadata", "inputs", "assert", "assertions"]
)
"""Fields of a sample that are not inputs, besides the expected answer."""


def run(
    workflow: str | None = None,
    dataset: str | Sequence[Mapping[str, Any]] | None = None,
    *,
    profile: str | None = None,
    policy: str | None = None,
    rubric: str | None = None,
    library: str | None = None,
    repeats: int | None = None,
    limit: int | None = None,
    concurrency: int | None = None,
    timeout_s: float | None = None,
    name: str | None = None,
    judge: str | None = None,
) -> EvaluationOutcome:
    """Run a workflow on a dataset and grade every run, as `assay run --no-store` does.

    `workflow` is a workflow's name in the nearest `assay.yaml` from the working folder upwards, its
    own YAML file, or another `assay.yaml`; without one, the workflow that the configuration
    chooses. `dataset` is a name, a file or a list of samples; without one, the configuration's.
    What is given here wins over the configuration. `judge` is a judge's name in the configuration,
    or its file, within the limits of the configuration; without one, nothing is judged by a model,
    and criteria that only a judge fills are missing, which fails closed. Nothing is stored.

    >>> import assay
    >>> from importlib.resources import files
    >>> project = files("assay.cli") / "examples" / "projects" / "rag"
    >>> found = assay.run(str(project / "assay.yaml"), limit=2)
    >>> len(found), found.passed
    (2, True)
    """
    _check_numbers(timeout_s, repeats=repeats, limit=limit, concurrency=concurrency)
    settings = configured(workflow, dataset if isinstance(dataset, str) else None, judge)
    data = settings.dataset if dataset is None or isinstance(dataset, str) else dataset
    if data is None:
        raise UsageError("CLI-001", "no dataset is given.", fix="Pass `dataset=`.")
    loaded = read_workflow(settings.workflow)
    samples = (
        read_dataset(data)
        if isinstance(data, str)
        else from_rows(list(map(dict, data)), id="samples", version=None, where="samples")
    )
    limits = settings.limits
    started = datetime.now(UTC)
    return _evaluated(
        RunRequest(
            workflow=loaded,
            dataset=samples,
            settings=RunSettings(
                name=name or default_name(loaded.id, started),
                concurrency=concurrency or limits.concurrency or 8,
                repeat=repeats or settings.repeats or 1,
                timeout_s=limits.timeout_s if timeout_s is None else timeout_s,
                retries=limits.retries,
            ),
            choice=Choice(
                policy or settings.policy or DEFAULT_POLICY,
                profile or settings.profile,
                rubric or settings.rubric,
                library or settings.library,
            ),
            scorers=settings.scorers,
            limit=limits.samples if limit is None else limit,
            judge=None
            if settings.judge is None
            else run_judge(settings.judge, max_usd=limits.judge_usd),
            max_calls=limits.judge_calls,
            started=started,
        )
    )


def evaluate(
    function: Callable[..., Any],
    samples: Sequence[Mapping[str, Any]],
    *,
    scorers: Sequence[Callable[..., Any] | Mapping[str, Any]] = (),
    outputs: Sequence[str] = ("answer",),
    output_schema: Mapping[str, Any] | None = None,
    profile: str | None = None,
    policy: str = DEFAULT_POLICY,
    rubric: str | None = None,
    library: str | None = None,
    repeats: int = 1,
    concurrency: int = 8,
    timeout_s: float | None = None,
    name: str | None = None,
    version: str = "1",
    dataset: str = "samples",
) -> EvaluationOutcome:
    """Call a function on every sample, score what it returns, and grade it. Works in a notebook.

    A sample is a mapping with the inputs and optionally an `id` and `expected`. The function gets
    the inputs by their names, or all of them as one mapping, and returns its outputs as a mapping,
    or an answer. It may be a coroutine function. `outputs` names the outputs that must be there;
    they are the contract of the outputs, unless you give an `output_schema`.

    A scorer is a function of the run that returns scores by criterion (see "Scorers" in the guide
    on `assay run`), or a mapping of the same keys as in `assay.yaml` with the function as `target`.
    A scorer that raises, hangs or returns nothing fails closed.

    >>> import assay
    >>> found = assay.evaluate(
    ...     lambda question: question.upper(),
    ...     [{"id": "a", "question": "why", "expected": {"answer": "WHY"}}],
    ...     profile="rag-measured",
    ... )
    >>> len(found), found.grades[0]["run_id"].endswith(":a")
    (1, True)
    """
    _check_numbers(timeout_s, repeats=repeats, concurrency=concurrency)
    listed = list(samples)  # a generator can be read only once
    if isinstance(samples, Mapping) or not all(isinstance(row, Mapping) for row in listed):
        raise InputError(
            "API-001",
            "samples must be a list of mappings.",
            fix="Read a file into such a list, or run a workflow on it with `assay.run`.",
        )
    rows = [dict(sample) for sample in listed]
    inputs = _inputs(rows, outputs)
    specs = [
        dict(scorer) if isinstance(scorer, Mapping) else {"target": scorer} for scorer in scorers
    ]
    wrong = [spec for spec in specs if not callable(spec.get("target"))]
    if wrong:
        raise InputError(
            "API-001",
            "a scorer is a function, or a mapping whose `target` is one.",
            fix="Pass `scorers=[my_scorer]`.",
        )
    adapter = as_workflow(function, list(inputs))
    with named([adapter, *(spec["target"] for spec in specs)]) as (target, *targets):
        tree: dict[str, Any] = {
            "workflow": plain_name(function),
            "version": version,
            "adapter": {"kind": "python", "target": target},
            "inputs": inputs,
            "outputs": list(outputs),
            "output_schema": dict(output_schema or {"type": "object", "required": list(outputs)}),
            "scorers": [
                {"name": plain_name(spec["target"]), **spec, "target": place}
                for spec, place in zip(specs, targets, strict=True)
            ],
        }
        for key, value in (("profile", profile), ("rubric", rubric)):
            if value is not None and not is_path(value):  # a run names what is on the shelf
                tree[key] = value
        workflow = make_workflow(Document(tree, "evaluate"), Path.cwd())
        loaded = from_rows(rows, id=dataset, version=None, where="samples")
        started = datetime.now(UTC)
        outcome = _evaluated(
            RunRequest(
                workflow=workflow,
                dataset=loaded,
                settings=RunSettings(
                    name=name or default_name(workflow.id, started),
                    concurrency=concurrency,
                    repeat=repeats,
                    timeout_s=timeout_s,
                ),
                choice=Choice(policy, profile, rubric, library),
                started=started,
            )
        )
    for place, spec in zip(targets, specs, strict=True):
        label = str(spec.get("name") or plain_name(spec["target"]))
        outcome.notes = tuple(note.replace(place, label) for note in outcome.notes)
    return outcome


def _check_numbers(timeout_s: float | None, **counts: int | None) -> None:
    """Refuse a number that would leave out samples, or run none."""
    for name, value in counts.items():
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < 1
        ):
            raise UsageError("API-001", f"{name} is {value!r}; it must be a whole number above 0.")
    if timeout_s is not None and not timeout_s > 0:
        raise UsageError("API-001", f"timeout_s is {timeout_s!r}; it must be above 0.")


def _inputs(rows: Sequence[Mapping[str, Any]], outputs: Sequence[str]) -> dict[str, Any]:
    """The inputs of samples; one that some samples lack is optional. Fields with expected values
    are not inputs, nor is a field with the name of an output: it has that output's expected value.
    """
    seen: dict[str, int] = {}
    for row in rows:
        fields = row["inputs"] if isinstance(row.get("inputs"), Mapping) else row
        for field in fields:
            is_output = fields is row and field in outputs
            is_expected = is_output or field.startswith(("expected", "gold"))
            is_slip = fields is row and is_misspelt_assert(field, fields[field])
            if field not in NOT_INPUTS and not is_expected and not is_slip:
                seen[field] = seen.get(field, 0) + 1
    return {field: {"required": n == len(rows)} for field, n in seen.items()}


def _evaluated(request: RunRequest) -> EvaluationOutcome:
    result = run_workflow(request)
    outcome = EvaluationOutcome(result.evaluation, result.graded, choice=result.choice)
    outcome.notes = tuple(f"warning: {sentence}" for sentence in result.warnings)
    return outcome
