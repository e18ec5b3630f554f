"""Run a workflow or a function on samples, and grade the runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from assay.api.functions import as_workflow, named, plain_name
from assay.api.results import EvaluationOutcome
from assay.errors import InputError, UsageError
from assay.files.json_files import Document
from assay.project.settings import configured
from assay.records.evaluation import VersionedName
from assay.records.evidence import Workflow
from assay.registry import is_path
from assay.running.columns import is_misspelt_assert, unread_expected
from assay.running.compatibility import PreparedSample, prepare
from assay.running.dataset import LoadedDataset, from_rows, read_dataset
from assay.running.post_run import (
    additions_of,
    after_of,
    all_scorers,
    idle_scorers,
    scorer_warnings,
)
from assay.running.runner import Runner, RunSettings, work_of
from assay.running.scorers import PlacedScorer
from assay.running.workflow import LoadedWorkflow, make_workflow, read_workflow
from assay.scoring.extension import extended
from assay.scoring.sources import expected_names
from assay.services.choice import Choice
from assay.services.evaluations import default_name
from assay.services.grading import DEFAULT_POLICY
from assay.services.storing import EvaluationBuilder

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
) -> EvaluationOutcome:
    """Run a workflow on a dataset and grade every run, as `assay run --no-judge --no-store` does.

    `workflow` is a workflow's name in the nearest `assay.yaml` from the working folder upwards, its
    own YAML file, or another `assay.yaml`; without one, the workflow that the configuration
    chooses. `dataset` is a name, a file or a list of samples; without one, the configuration's.
    What is given here wins over the configuration. Nothing is judged by a model, and nothing is
    stored: criteria that only a judge fills are missing, which fails closed.

    >>> import assay
    >>> from importlib.resources import files
    >>> project = files("assay.cli") / "examples" / "projects" / "rag"
    >>> found = assay.run(str(project / "assay.yaml"), limit=2)
    >>> len(found), found.passed
    (2, True)
    """
    _check_numbers(timeout_s, repeats=repeats, limit=limit, concurrency=concurrency)
    settings = configured(workflow, dataset if isinstance(dataset, str) else None)
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
    return _evaluated(
        loaded,
        samples,
        Choice(
            policy or settings.policy or DEFAULT_POLICY,
            profile or settings.profile,
            rubric or settings.rubric,
            library or settings.library,
        ),
        RunSettings(
            name=name or default_name(loaded.id, datetime.now(UTC)),
            concurrency=concurrency or limits.concurrency or 8,
            repeat=repeats or settings.repeats or 1,
            timeout_s=limits.timeout_s if timeout_s is None else timeout_s,
            retries=limits.retries,
        ),
        limit=limits.samples if limit is None else limit,
        scorers=settings.scorers,
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
        outcome = _evaluated(
            workflow,
            loaded,
            Choice(policy, profile, rubric, library),
            RunSettings(
                name=name or default_name(workflow.id, datetime.now(UTC)),
                concurrency=concurrency,
                repeat=repeats,
                timeout_s=timeout_s,
            ),
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


def _evaluated(
    workflow: LoadedWorkflow,
    dataset: LoadedDataset,
    choice: Choice,
    settings: RunSettings,
    *,
    limit: int | None = None,
    scorers: Sequence[PlacedScorer] = (),
) -> EvaluationOutcome:
    started = datetime.now(UTC)
    samples = prepare(workflow, dataset)[:limit]
    work = work_of(samples, settings)
    choice = _with_scorers(workflow, samples, choice, scorers)
    grader = choice.grader()
    planned = grader.plan_for(Workflow(**workflow.subject()))
    profile = planned.profile
    if choice.profile is not None:
        workflow.profile = profile.id
    builder = EvaluationBuilder(
        name=settings.name,
        workflow=VersionedName(id=workflow.id, version=workflow.version),
        dataset=VersionedName(id=dataset.id, version=dataset.version),
        settings={
            "workflow": workflow.digest,
            "dataset": dataset.digest,
            "policy": choice.policy,
            "profile": profile.id,
            "rubric": choice.rubric,
            "repeat": settings.repeat,
        },
        started=started,
    )
    runs: dict[str, dict[str, Any]] = {}
    runner = Runner(
        workflow,
        dataset,
        settings,
        keep=lambda run: runs.__setitem__(run["run_id"], run),
        after=after_of(workflow, criteria=planned.criteria, scorers=scorers),
    )
    _wait(runner.run(work))
    graded = [grader.grade(Document(runs[evaluated.run_id], settings.name)) for evaluated in work]
    for graded_run in graded:
        builder.add(graded_run)
    outcome = EvaluationOutcome(builder.finish(datetime.now(UTC)), graded, choice=choice)
    placed = all_scorers(workflow, scorers)
    answered = (run for run in runs.values() if run.get("outputs") is not None)
    errors = (run.get("metadata", {}).get("scorer_errors", {}) for run in answered)
    warnings = [
        *unread_expected(
            workflow,
            (sample.expected for sample in samples),
            read=expected_names(profile),
            scored=bool(placed),
        ),
        *scorer_warnings(errors, placed, total=len(runs)),
        *idle_scorers(profile, placed),
        *idle_scorers(profile, placed, runs.values()),
    ]
    outcome.notes = tuple(f"warning: {sentence}" for sentence in warnings)
    return outcome


def _with_scorers(
    workflow: LoadedWorkflow,
    samples: Sequence[PreparedSample],
    choice: Choice,
    scorers: Sequence[PlacedScorer],
) -> Choice:
    """The choice, with a profile that has the criteria and gates of scorers and assertions."""
    additions = additions_of(workflow, samples, scorers=scorers)
    if not additions.gates and not additions.criteria:
        return choice
    base = choice.grader().plan_for(Workflow(**workflow.subject())).profile
    profile = extended(base, additions)
    if profile is base:
        return choice
    return structs.replace(
        choice,
        profile=profile,
        rubric=choice.rubric or (None if choice.profile else workflow.spec.rubric),
    )


def _wait(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work that needs an event loop. If one is already running, as in a notebook, the work
    gets its own thread and loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    failure: list[BaseException] = []

    def alone() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:  # it is raised again below, where the caller waits
            failure.append(error)

    thread = threading.Thread(target=alone, name="assay-evaluate")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
