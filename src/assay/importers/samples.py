"""One sample of another tool's results as a run: the one way for every importer.

The run has what the gates that every run needs look at. An answer, an input or a verdict that the
format has for each sample and this sample lacks is missing evidence, which fails; what the format
never has is not required.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.importers.importer import NameVersion, Wanted
from assay.importers.tally import Tally
from assay.records.evidence import RUN_SCHEMA

UNVERSIONED = "unversioned"
"""The version of a dataset or workflow that has none."""
STATUSES = ("success", "failed", "error", "cancelled", "timeout")


class Origin(NamedTuple):
    """Where the samples of a file come from. What the user says of it wins."""

    tool: str
    """The importer's name."""
    workflow: NameVersion
    dataset: NameVersion
    run: str
    """What tells this result file from another of the same workflow: it begins each run's id."""
    answers: bool = True
    """Whether the format has an answer for each sample."""
    verdicts: bool = False
    """Whether the format has the tool's own verdict, passed or not, for each sample."""
    judged: Collection[str] = ()
    """The metrics, by their labels in the tool, that a model scored."""


def gate_name(tool: str) -> str:
    """The gate that holds the tool's own verdict.

    >>> gate_name("pydantic-evals")
    'pydantic_evals_passed'
    """
    return f"{tool.replace('-', '_')}_passed"


def sample_run(
    origin: Origin,
    wanted: Wanted,
    tally: Tally,
    *,
    sample_id: str,
    status: str = "success",
    scores: Mapping[str, Any] = {},
    verdict: bool | None = None,
    reason: str = "",
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    attempt: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """The run of one sample. `scores` are by the metric's label in the tool; a value is a number,
    true or false, or None where there is none. `reason` says why the verdict or the status is what
    it is. `more` are other parts of `assay.run/1`, such as `expected`, `latency_ms` or `steps`.
    """
    workflow, dataset = wanted.workflow or origin.workflow, wanted.dataset or origin.dataset
    attempted = "" if attempt == 1 else f"/{attempt}"
    given = {key: value for key, value in (outputs or {}).items() if value is not None}
    needed = sorted(outputs) if outputs else ["answer"] if origin.answers else []
    run: dict[str, Any] = {
        "schema": RUN_SCHEMA,
        "run_id": f"{origin.run}/{sample_id}{attempted}",
        "workflow": {"id": workflow.id, "version": workflow.version},
        "dataset": {"id": dataset.id, "version": dataset.version, "sample_id": sample_id},
        "status": status,
        "inputs": dict(inputs or {}),
        "required_inputs": sorted(inputs or {}),
        "outputs": given,
        "required_outputs": needed,
        "output_schema": {"type": "object", "required": needed},
        "steps": [{"name": origin.tool, "status": status, "critical": True}],
        "attempt": attempt,
    }
    if wanted.family is not None:
        run["workflow"]["family"] = wanted.family
    tally.samples += 1
    tally.errors += status != "success"
    if origin.verdicts:
        known = None if verdict is None else bool(verdict)
        run["gates"] = {gate_name(origin.tool): {"passed": known, "reason": reason[:2000]}}
        tally.verdicts += known is not None
        tally.passed += known is True
    elif reason:
        more["metadata"] = {"reason": reason[:2000], **more.get("metadata", {})}
    if scores:
        run["scores"] = {
            tally.metric(label): _score(origin, tally, label, value, sample_id)
            for label, value in scores.items()
        }
    run |= {key: value for key, value in more.items() if value is not None}
    return run


def _score(origin: Origin, tally: Tally, label: str, value: Any, sample_id: str) -> dict[str, Any]:
    if isinstance(value, bool):
        value = int(value)
    if value is not None and not isinstance(value, int | Decimal):
        raise InputError(
            "SCO-011",
            f"the sample {sample_id!r} has {value!r} as its {label!r}; a score is a number.",
            where=origin.run,
        )
    tally.metrics[tally.metric(label)].add(value)
    kind = "llm" if label in origin.judged else "script"
    return {"raw": value, "source": {"kind": kind, "name": f"{origin.tool}:{label}"}}
