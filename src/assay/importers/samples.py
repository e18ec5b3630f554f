"""One sample of another tool's results as a run; every importer uses this.

The run has the fields that the gates of every run check. If the format has an answer, an input or a
verdict for each sample and this sample lacks it, that is missing evidence, which fails. Anything
that the format never has is not required.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from typing import Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError, UsageError
from assay.files.inputs import file_digest
from assay.importers.importer import NameVersion, Wanted
from assay.importers.tally import ImportTally, Metric
from assay.records.evidence import IMPORTED, RUN_SCHEMA

UNVERSIONED = "unversioned"
"""The version of a dataset or workflow that has none."""
MAX_ID = 120
"""The longest sample id that is kept as it is, in characters."""
MAX_EXPONENT = 100
"""The largest order of magnitude of a score: sums of larger numbers could exhaust memory."""
MAX_RUN_ID = 500
NUMBERS = (int, Decimal)
"""The types in which readers of files return numbers."""
ENDED = ("success", "failed")
"""How a sample ended that has a result; any other has none."""


class ResultOrigin(NamedTuple):
    """Where the samples of a file come from. The user's own statements take precedence."""

    tool: str
    """The importer's name."""
    workflow: NameVersion
    dataset: NameVersion
    run: str
    """Tells this result file from others of the same workflow: the start of each run's id."""
    answers: bool = True
    """Whether the format has an answer for each sample."""
    verdicts: bool = False
    """Whether the format has the tool's own verdict, passed or not, for each sample."""
    judged: Collection[str] = ()
    """The metrics, by their labels in the tool, that a model scored."""


def short_id(content: Any, index: int) -> str:
    """The id of a sample: its own, a short digest of its content, or its index.

    >>> short_id(7, 1), short_id("case-a", 1), short_id({"q": "?"}, 1), short_id(None, 1)
    ('7', 'case-a', '406a2696d5e5', '1')
    """
    if content is None:
        return str(index)
    text = str(content) if isinstance(content, str | int) else ""
    plain = text.strip() and text.isprintable() and len(text) <= MAX_ID
    return text if plain else digest(content)[7:19]


def file_id(path: str) -> str:
    """A name for results without one: the file's name and a digest of its content."""
    name = os.path.basename(path).partition(".")[0] or "results"
    return f"{name[:60]}-{file_digest(path)[:8]}"


def gate_name(tool: str) -> str:
    """The gate for the tool's own verdict.

    >>> gate_name("pydantic-evals")
    'pydantic_evals_passed'
    """
    return f"{tool.replace('-', '_')}_passed"


def mean_of(values: Sequence[Any]) -> Any:
    """The mean of several scores with one name; None if any of them is missing.

    >>> mean_of([1]), mean_of([1, Decimal("0.5")]), mean_of([1, None])
    (1, Decimal('0.75'), None)
    """
    if not values or None in values:
        return None
    if len(values) == 1:
        return values[0]
    mean = sum(map(Decimal, values), Decimal(0)) / len(values)
    return mean if len(mean.as_tuple().digits) < 10 else round(mean, 9)


def sample_run(
    origin: ResultOrigin,
    wanted: Wanted,
    tally: ImportTally,
    *,
    sample_id: str,
    status: str = "success",
    scores: Mapping[str, Any] = {},
    verdict: bool | None = None,
    reason: str = "",
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    attempt: int = 1,
    line: int | None = None,
    unused: Mapping[str, Any] = {},
    endings: Collection[str] = (),
    checks: Mapping[str, Any] = {},
    unchecked: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """The run of one sample. `scores` maps the tool's label of each metric to a number, true or
    false, None for no value, or a list of values: their mean counts, and a comparison requires as
    many. A sample that broke off has no scores and no verdict. `reason` explains the verdict or the
    status. `line` is the line of the sample in its file. `unused` is data of the sample that the
    run leaves out: only its digest is kept, so that samples that differ only there stay distinct.
    `endings` are the fields in which the tool says how the sample ended: a comparison requires
    those of the baseline, because leaving one out could hide an error. `checks` are what the tool
    checked of the sample, as in `assay.run/1`: a comparison requires those too. `unchecked` samples
    passed although the tool checked nothing. `more` are other parts of `assay.run/1`, such as
    `expected`, `latency_ms` or `steps`.
    """
    workflow, dataset = wanted.workflow or origin.workflow, wanted.dataset or origin.dataset
    if tally.apart and tally.results.setdefault((workflow, dataset), origin.run) != origin.run:
        raise UsageError(
            "CLI-001",
            f"{tally.results[workflow, dataset]} and {origin.run} are separate results of"
            f" {workflow.id}@{workflow.version} on {dataset.id}@{dataset.version}, and would become"
            " one evaluation.",
            fix=(
                "Give one result file at a time. If they have two versions, import each with"
                f" `--workflow {workflow.id}@VERSION`."
            ),
        )
    attempted = "" if attempt == 1 else f"/{attempt}"
    inputs, outputs = inputs or {}, outputs or {}
    if status not in ENDED:
        scores, verdict = dict.fromkeys(scores), None
    needed = sorted(outputs) if outputs else ["answer"] if origin.answers else []
    run: dict[str, Any] = {
        "schema": RUN_SCHEMA,
        "run_id": _short(f"{origin.run}/{sample_id}{attempted}"),
        "workflow": {"id": workflow.id, "version": workflow.version},
        "dataset": {"id": dataset.id, "version": dataset.version, "sample_id": sample_id},
        "status": status,
        "inputs": dict(inputs),
        "required_inputs": sorted(inputs),
        "outputs": {key: value for key, value in outputs.items() if value is not None},
        "required_outputs": needed,
        "output_schema": {"type": "object", "required": needed},
        "steps": [{"name": origin.tool, "status": status, "critical": True}],
        "attempt": attempt,
    }
    if wanted.family is not None:
        run["workflow"]["family"] = wanted.family
    tally.samples += 1
    if status != "success":
        tally.errors += 1
        tally.first_error = tally.first_error or reason
    if origin.verdicts:
        known = None if verdict is None else bool(verdict)
        run["gates"] = {gate_name(origin.tool): {"passed": known, "reason": reason[:2000]}}
        tally.verdicts += known is not None
        tally.passed += known is True
    metadata = more.get("metadata") or {}
    required = {
        **checks,
        **{f"field {name}": 0 for name in sorted(endings)},
        **{
            f"scores of {label[:100]}": len(values)
            for label, values in scores.items()
            if isinstance(values, list) and len(values) > 1
        },
    }
    if required:
        run["checks"] = required
    if unchecked:
        run["unchecked"] = True
    if reason and (status != "success" or not origin.verdicts):
        metadata = {"reason": reason[:2000], **metadata}
    tally.unchecked += unchecked
    # not `digest`: unused data may contain what JSON can't express, such as an infinite number
    text = repr(sorted(unused.items())).encode("utf-8", "surrogatepass")
    imported = {
        "from": origin.tool,
        **({} if line is None else {"line": line}),
        **({"unused": f"sha256:{sha256(text).hexdigest()}"} if unused else {}),
    }
    if scores:
        run["scores"], written = {}, {}
        for label, given in scores.items():
            value = mean_of(given) if isinstance(given, list) else given
            name = tally.metric(label)
            metric = tally.metrics[name]
            run["scores"][name] = _score(origin, metric, value, sample_id)
            if metric.scale is not None and value is not None:
                written[label] = value
        if written:
            metadata = {"as_written": written, **metadata}
    more["metadata"] = {**metadata, IMPORTED: imported}
    for key, value in more.items():
        if value is not None:
            run[key] = value
    return run


def is_immense(value: int | Decimal) -> bool:
    """Whether a number is beyond the orders of magnitude that a score may have."""
    return abs(Decimal(value).adjusted()) > MAX_EXPONENT and value != 0


def _short(run_id: str) -> str:
    """A run's id within the allowed length: a long one ends in a digest of the whole id."""
    if len(run_id) <= MAX_RUN_ID:
        return run_id
    return f"{run_id[: MAX_RUN_ID - 17]}~{sha256(run_id.encode()).hexdigest()[:16]}"


def _score(origin: ResultOrigin, metric: Metric, value: Any, sample_id: str) -> dict[str, Any]:
    label = metric.label
    if isinstance(value, bool):
        value = int(value)
    elif isinstance(value, float) and isfinite(value):  # from a plugin
        value = Decimal(repr(value))
    if value is not None and not (isinstance(value, NUMBERS) and Decimal(value).is_finite()):
        raise InputError(
            "SCO-011",
            f"the sample {sample_id!r} has {value!r} as its {label!r}; a score is a number.",
            where=origin.run,
        )
    number = None if value is None else Decimal(value)
    if number is not None and is_immense(number):
        raise InputError(
            "SCO-011",
            f"the sample {sample_id!r} has a {label!r} that is too large or too small: its"
            f" exponent is {number.adjusted():+}.",
            where=origin.run,
        )
    metric.add(number, sample_id)
    if metric.scale is not None and value is not None:
        if metric.outside:
            raise InputError(
                "SCO-011",
                f"the sample {sample_id!r} has {value} as its {label!r}, outside the scale"
                f" {metric.scale}.",
                where=origin.run,
            )
        value = metric.scale.share(value)
    kind = "script"
    if label in origin.judged:
        kind, metric.judged = "llm", True
    return {"raw": value, "source": {"kind": kind, "name": f"{origin.tool}:{label}"}}
