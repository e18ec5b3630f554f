"""What is measured of a run once it is over, in order: first what its repository shows of a patch,
then the team's own scorers.

A scorer is a function that sees what went in, what came out and what was expected, and gives raw
scores. One that raises or returns nonsense gives no score, and the reason is kept: a criterion
without a score fails closed in grading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay.canon import canonical
from assay.errors import AssayError, InputError
from assay.files.json_files import parse_json
from assay.running.adapters.loading import load
from assay.tracing.failures import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.running.compatibility import PreparedSample
    from assay.running.runner import PostRun
    from assay.running.workflow import LoadedWorkflow, Scorer


def after_of(workflow: LoadedWorkflow) -> list[PostRun]:
    """Everything that a workflow file asks to be measured after a run."""
    measures: list[PostRun] = []
    if workflow.spec.repository is not None:
        from assay.running.repair import repair_of  # it needs git and the sandbox

        measures.append(repair_of(workflow))
    return measures + [_scorer(spec, workflow) for spec in workflow.spec.scorers]


def _scorer(spec: Scorer, workflow: LoadedWorkflow) -> PostRun:
    function: Callable[..., Any] = load(spec.target, workflow.folder, workflow.where)
    if not callable(function):
        raise InputError(
            "RUN-004", f"the scorer {spec.target!r} cannot be called.", where=workflow.where
        )
    source = {"kind": "script", "name": spec.name or spec.target}
    if spec.version is not None:
        source["version"] = spec.version

    def measure(sample: PreparedSample, run: dict[str, Any]) -> dict[str, Any]:
        if run.get("outputs") is None:
            return {}
        given = (sample.inputs, run["outputs"], sample.expected)
        try:
            # copies: what a scorer changes does not change the evidence
            scores = _scores(function(*(parse_json(canonical(value)) for value in given)), source)
        except Exception as error:
            reason = error.message if isinstance(error, AssayError) else describe(error)
            errors = run.get("metadata", {}).get("scorer_errors", {})
            return {"metadata": {"scorer_errors": {**errors, spec.target: reason}}}
        return {"scores": {**run.get("scores", {}), **scores}}

    return measure


def _scores(result: Any, source: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(result, Mapping):
        raise InputError(
            "RUN-006", f"a scorer returns raw scores by name, not {type(result).__name__}."
        )
    made = {}
    for name, value in result.items():
        score = value if isinstance(value, Mapping) and "raw" in value else {"raw": value}
        made[str(name)] = {**score, "source": dict(source)}
    tree: dict[str, Any] = parse_json(canonical(made))
    return tree
