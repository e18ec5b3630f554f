"""Which cells of a table report that a row has no result. The rule is the same for every tool whose
results are a table, because people add columns that the tool doesn't know.

In a column about errors any text is one, unless it says that there was none; but a number, also one
with a unit of time, is a setting or a measure where the name allows it (`timeout`, `judge_error`).
In a column about how a row ended, only a word for a failure and an HTTP status from 400 are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from assay.importers.column_map import is_ending, is_kind_of_error, may_report_failure
from assay.importers.metric_names import plain_name

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
