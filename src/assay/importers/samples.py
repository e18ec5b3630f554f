"""One sample of another tool's results as a run; every importer uses this.

The run has the fields that the gates of every run check. If the format has an answer, an input or a
verdict for each sample and this sample lacks it, that is missing evidence, which fails. Anything
that the format never has is not required.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from hashlib import sha256
from math import isfinite
from typing import Any, NamedTuple, TypeGuard, TypeVar

from assay.canon import digest
from assay.errors import InputError, UsageError
from assay.files.inputs import file_digest, open_input
from assay.importers.column_map import is_ending, is_kind_of_error, may_report_failure
from assay.importers.head import HEAD, Head
from assay.importers.importer import NameVersion, Wanted
from assay.importers.metric_names import plain_name
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


T = TypeVar("T")
_JUDGE_KEYS = {"model", "model_name", "judge_model", "prompt_version", "evaluator_version"}
"""What the metadata of a score calls the judge."""
NEAR = Fraction(1, 10**6)
_KINDS: dict[Any, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a whole number",
    bool: "true or false",
}


def shaped(value: Any, kind: type[T], what: str, where: str) -> T:
    """The value, if it is of this type; otherwise an error.

    >>> shaped([1], list, "`results`", "log.json")
    [1]
    """
    if type(value) is kind:  # a bool is not an int here
        return value
    raise InputError(
        "SCO-011",
        f"{what} must be {_KINDS[kind]}; here it is {_shown(value)}.",
        where=where,
        fix="The file is damaged, or another version of the tool wrote it.",
    )


def optional(value: Any, kind: type[T], what: str, where: str) -> T | None:
    """The value, if it is of this type; None if there is none."""
    return None if value is None else shaped(value, kind, what, where)


def name_of(value: Any, what: str, where: str) -> str:
    """An id or a name: a text that isn't blank, or a whole number.

    >>> name_of(7, "`doc_id`", "x"), name_of("a/1", "`id`", "x")
    ('7', 'a/1')
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**40:
        return str(value)
    text = shaped(value, str, what, where)
    if not text.strip():
        raise InputError("SCO-011", f"{what} is blank.", where=where)
    return text


def is_number(value: Any) -> TypeGuard[int | Decimal]:
    """Whether this can be a score."""
    return isinstance(value, NUMBERS)


def amount(value: Any, factor: int = 1) -> Decimal | int | None:
    """A time, a cost or a count of at least 0, times `factor`; None for anything else."""
    is_amount = is_number(value) and not isinstance(value, bool) and 0 <= value < 10**12
    return value * factor if is_amount else None


def sum_of(*counts: Any) -> int | None:
    """The sum of counts, of tokens say; None if one is missing."""
    known = [amount(count) for count in counts]
    return None if None in known else int(sum(count or 0 for count in known))


def keyed(value: Any, name: str) -> dict[str, Any] | None:
    """A value as an object: itself if it is one, or else under this name; None if there is none."""
    if value is None:
        return None
    return value if isinstance(value, dict) else {name: value}


def exact(value: int | Decimal, what: str, where: str) -> Fraction:
    """A number as a fraction. One with hundreds of digits is refused: it could exhaust memory."""
    if is_immense(value):
        raise InputError("SCO-011", f"{what} is out of range.", where=where)
    return Fraction(value)


def is_near(value: Fraction, other: Fraction) -> bool:
    """Whether two numbers are equal apart from float rounding."""
    return abs(value - other) <= NEAR * max(Fraction(1), abs(other))


def refused(message: str, where: str, fix: str) -> InputError:
    """The error for a file that contradicts itself."""
    return InputError("SCO-011", message, where=where, fix=fix)


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; empty for anything but a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def judge_checks(label: str, kind: str, metadata: Any) -> dict[str, int]:
    """What a comparison requires of a metric that a model scored: a judge, and each thing that the
    metadata of the score names it by. More in the candidate's metadata does no harm.

    >>> list(judge_checks("good", "LLM", {"model": "m-1", "prompt_version": 2, "seconds": 3}))
    ['good by LLM', 'good by LLM (model m-1)', 'good by LLM (prompt_version 2)']
    """
    stated = metadata if isinstance(metadata, dict) else {}
    judge = f"{label[:100]} by {kind}"
    named = (f"{judge} ({key} {str(stated[key])[:60]})" for key in sorted(_JUDGE_KEYS & {*stated}))
    return dict.fromkeys((judge, *named), 0)


def head_of(path: str) -> Head:
    """The beginning of a file."""
    with open_input(path) as stream:
        return Head(path, stream.read(HEAD))


def kinds_of(
    paths: Sequence[str], kind: Callable[[Head], str | None], refusal: str
) -> dict[str, str]:
    """What each file of an export contains, by its beginning; unknown files are refused."""
    kinds = {path: kind(head_of(path)) for path in paths}
    unknown = next((path for path, known in kinds.items() if known is None), None)
    if unknown is not None:
        raise InputError("FIL-006", refusal, where=unknown)
    return {path: str(known) for path, known in kinds.items()}


def file_stem(path: str) -> str:
    """The name of a file without folder and extension.

    >>> file_stem("logs/run 1.results.json")
    'run 1.results'
    """
    stem = re.sub(r"\.[A-Za-z0-9]{1,8}$", "", os.path.basename(path))
    return "stdin" if path == "-" else stem or "file"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return _KINDS[type(value)]
    return repr(value)[:60]


NOTHING = ("", "nan", "null", "none", "n/a", "na")
_NO_ERROR = (
    *(*NOTHING, "-", "false", "no", "n", "f", "0", "0.0", "[]", "{}"),
    *("ok", "success", "pass", "passed", "no_error", "no_errors", "no error", "no errors"),
)
_STATUSES = {
    **dict.fromkeys(("success", "succeeded", "successful", "passed", "pass"), "success"),
    **dict.fromkeys(("ok", "completed", "complete", "done", "finished"), "success"),
    **dict.fromkeys(("failed", "fail", "failure"), "failed"),
    **dict.fromkeys(("error", "errored", "exception", "crashed"), "error"),
    **dict.fromkeys(("timeout", "timed_out", "timedout"), "timeout"),
    **dict.fromkeys(("cancelled", "canceled", "aborted", "skipped"), "cancelled"),
}
_NOT_OK = ("false", "no", "n", "f", "0", "0.0")
_FAILURES = ("content_filter", "safety", "refusal", "invalid", "incorrect", "wrong")
"""Words for a failure in a column such as `finish_reason`, besides those of a status."""
_HTTP_OK = re.compile(r"20[0-6](?:\.0)?(?: [a-z -]+)?")
"""What an `error_code` is after a request that went well."""
_HTTP_FAILURE = re.compile(r"(?:http\S* )?[45]\d\d(?:\W.*)?", re.DOTALL)
_UNIT = re.compile(r" ?(?:%|ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)$")
YES = ("ok", "valid", "verdict", "complete", "completed", "finished")
"""Endings of the names of columns in which `no` or 0 reports a failure."""


def status_of(word: str) -> str | None:
    """The status that a word in lower case means; None if Assay doesn't know it.

    >>> status_of("timed out"), status_of("pending")
    ('timeout', None)
    """
    return _STATUSES.get(re.sub(r"[ -]+", "_", word))


def failure_of(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    """Why a row has no result, from the first of these columns that reports it; empty if none does.

    >>> failure_of({"judge_error": "no JSON", "score": 1}, ["score", "judge_error"])
    'judge_error: no JSON'
    """
    for column in columns:
        is_status = plain_name(column) == "status"
        if is_status or may_report_failure(column):
            value = row.get(column)
            if reports_failure(column, value):
                return f"{column}: {value}"
    return ""


def is_about_failure(column: str) -> bool:
    """Whether a column reports failures even if its values are numbers, or true and false. A column
    such as `verdict` or `ok` may be a metric.

    >>> [is_about_failure(name) for name in ("error", "status_code", "verdict", "faithfulness")]
    [True, True, False, False]
    """
    name = plain_name(column)
    is_code = name.endswith(("status", "code"))
    return name == "status" or (may_report_failure(column) and (is_code or not is_ending(column)))


def reports_failure(column: str, value: Any, *, named: bool = False) -> bool:
    """Whether the value in a column reports a failure; `named` if the user named the column."""
    word = "" if value is None else str(value).strip().lower()
    if is_ending(column) or (not named and plain_name(column) == "status"):
        return _is_failure(column, word)
    if plain_name(column).endswith("error_code") and _HTTP_OK.fullmatch(word):
        return False
    is_number = not named and is_kind_of_error(column) and _is_number(word)
    return bool(value) and word not in _NO_ERROR and not is_number


def _is_failure(column: str, word: str) -> bool:
    """Whether a word reports a failure; in a column of answers, `no` or 0 doesn't."""
    name = plain_name(column)
    failed = re.sub(r"[ -]+", "_", word) in _FAILURES or status_of(word) not in (None, "success")
    if name.endswith(("status", "code")):
        return failed or _HTTP_FAILURE.fullmatch(word) is not None
    return failed or (word in _NOT_OK and name.endswith(YES))


def _is_number(word: str) -> bool:
    try:
        return Decimal(_UNIT.sub("", word)).is_finite()
    except InvalidOperation:
        return False
