"""A team's own scorers: functions that see what went in, what came out and what was expected, after
the run, and give raw scores.

A scorer that raises or answers nonsense gives no score, and the reason is kept: a criterion without
a score fails closed in grading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay.canon import canonical
from assay.errors import AssayError, InputError
from assay.files.json_files import parse_json
from assay.running.adapters.loading import load
from assay.running.checks import said

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.running.compatibility import Prepared
    from assay.running.runner import After
    from assay.running.workflow import Scorer, Workflow


def scorers_of(workflow: Workflow) -> list[After]:
    """The scorers that a workflow file names, each as something that is measured after a run."""
    return [_scorer(spec, workflow) for spec in workflow.spec.scorers]


def _scorer(spec: Scorer, workflow: Workflow) -> After:
    function: Callable[..., Any] = load(spec.target, workflow.folder, workflow.where)
    if not callable(function):
        raise InputError(
            "RUN-004", f"the scorer {spec.target!r} cannot be called.", where=workflow.where
        )
    source = {
        "kind": "script",
        "name": spec.name or spec.target,
        **({} if spec.version is None else {"version": spec.version}),
    }

    def measure(sample: Prepared, run: dict[str, Any]) -> dict[str, Any]:
        if run.get("outputs") is None:
            return {}
        try:
            found = function(
                *(
                    parse_json(canonical(value))
                    for value in (sample.inputs, run["outputs"], sample.expected)
                )
            )
            scores = _scores(found, source)
        except Exception as error:
            words = error.message if isinstance(error, AssayError) else said(error)
            return {
                "metadata": {
                    "scorer_errors": {
                        **run.get("metadata", {}).get("scorer_errors", {}),
                        spec.target: words,
                    }
                }
            }
        return {"scores": {**run.get("scores", {}), **scores}}

    return measure


def _scores(found: Any, source: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(found, Mapping):
        raise InputError(
            "RUN-006", f"a scorer returns raw scores by name, not {type(found).__name__}."
        )
    made = {}
    for name, value in found.items():
        one = value if isinstance(value, Mapping) and "raw" in value else {"raw": value}
        made[str(name)] = {**one, "source": dict(source)}
    tree: dict[str, Any] = parse_json(canonical(made))
    return tree
