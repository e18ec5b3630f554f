"""Score files of the Berkeley Function Calling Leaderboard, alone or with their result files.

A score file has a line with its counts and then the items that failed. The items that passed are
not listed: they come from the result file of the same category, or, without one, from the count
alone. An item whose inference failed is missing evidence, even if the leaderboard counts it as
correct.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

from assay.files.json_stream import stream_lines
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    amount,
    exact,
    file_id,
    file_stem,
    head_of,
    is_near,
    is_number,
    name_of,
    refused,
    sample_run,
    shaped,
    short_id,
    sum_of,
)
from assay.importers.tally import ImportTally

TOOL = "bfcl"
_FILE = re.compile(r"(?:BFCL_v\d+_|gorilla_openfunctions_v1_test_)?(.+?)(?:_score|_result)?")
_NAMED = re.compile(r"BFCL_v\d+_.+_result")
_BROKEN = "Error during inference"


def _is_score(head: Head) -> bool:
    return head.has("accuracy", "correct_count", "total_count")


def _fits(head: Head) -> bool:
    is_named = "input_token_count" in head.keys or bool(_NAMED.fullmatch(file_stem(head.path)))
    return _is_score(head) or (head.has("id", "result") and is_named)


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    scores: dict[str, str] = {}
    results: dict[str, str] = {}
    for path in paths:
        category = _category(path)
        files = scores if _is_score(head_of(path)) else results
        if category in files:
            raise refused(
                f"two files of the category {category!r}.", path, "Import them one by one."
            )
        files[category] = path
    several = len(scores.keys() | results.keys()) > 1
    model = _model(list(scores.values()))
    for category, path in scores.items():
        origin = _origin(category, path, model, several)
        yield from _scored(origin, category, path, results.pop(category, None), wanted, tally)
    for category, path in results.items():
        tally.note(f"{path} has no verdicts: give the score file of {category!r} too.")
        origin = _origin(category, path, model, several)
        for where, row in _rows(path):
            tally.read["results"] += 1
            yield _result(origin, row, where, None, wanted, tally)


def _origin(category: str, path: str, model: str, several: bool) -> ResultOrigin:
    name = TOOL if several else category
    return ResultOrigin(
        TOOL,
        NameVersion(name, model),
        NameVersion(name, UNVERSIONED),
        file_id(path),
        answers=False,
        verdicts=True,
    )


def _model(paths: Sequence[str]) -> str:
    """The model, which the first failure of a score file names."""
    names: set[str] = set()
    for path in paths:
        for _, row in islice(_rows(path), 1, 2):
            name = row.get("model_name")
            names |= {name} if isinstance(name, str) and name else set()
    if len(names) > 1:
        words = " and ".join(sorted(names)[:2])
        raise refused(f"the files are from two models: {words}.", paths[0], "Import one at a time.")
    return names.pop() if names else UNVERSIONED


def _scored(
    origin: ResultOrigin,
    category: str,
    path: str,
    results: str | None,
    wanted: Wanted,
    tally: ImportTally,
) -> Iterator[dict[str, Any]]:
    rows = _rows(path)
    where, header = next(rows)
    total, correct = _counts(header, where)
    listed: dict[str, bool] = {}
    for where, row in rows:
        name = name_of(row.get("id"), "`id`", where)
        if name in listed:
            raise refused(f"the item {name!r} is listed twice.", where, "Keep one.")
        listed[name] = shaped(row.get("valid", False), bool, "`valid`", where)
        tally.read["failures"] += not listed[name]
        yield _failure(origin, name, row, listed[name], wanted, tally)
    failed = sum(not valid for valid in listed.values())
    if failed > total - correct or len(listed) > total:
        raise refused(
            f"lists {failed:,} failures; its first line says {total - correct:,}.",
            path,
            "Evaluate the results again.",
        )
    lost = total - correct - failed
    good = correct - (len(listed) - failed)
    broken = 0
    if results is not None:
        broken = yield from _passed(origin, results, listed, good + lost, lost, wanted, tally)
    else:
        if good:
            tally.note(
                f"{path} doesn't name the {good:,} items that passed: they are numbered, and pair"
                " with no other run. Give the result file of the category to name them."
            )
        for index in range(good):
            yield sample_run(
                origin,
                wanted,
                tally,
                sample_id=f"{category}/passed-{index + 1}",
                scores={"valid": True},
                verdict=True,
            )
        for index in range(lost):
            yield sample_run(
                origin,
                wanted,
                tally,
                sample_id=f"{category}/missing-{index + 1}",
                status="cancelled",
                scores={"valid": None},
                reason="counted as failed, and not listed",
            )
    tally.state("samples", total)
    tally.state("passed", correct - broken)


def _passed(
    origin: ResultOrigin,
    path: str,
    listed: Mapping[str, bool],
    rest: int,
    lost: int,
    wanted: Wanted,
    tally: ImportTally,
) -> Generator[dict[str, Any], None, int]:
    """The items of a result file that the score file doesn't list, which passed. Returns how many
    of them failed in the inference. Where failures are missing in the score file, nobody knows
    which items passed, and none has a verdict.
    """
    count = broken = 0
    for where, row in _rows(path):
        tally.read["results"] += 1
        if name_of(row.get("id"), "`id`", where) in listed:
            continue
        count += 1
        run = _result(origin, row, where, None if lost else True, wanted, tally)
        broken += run["status"] == "error"
        yield run
    if count != rest:
        raise refused(
            f"items missing from the score file's list: {count:,}; it counts {rest:,}.",
            path,
            "Give the score file and the result file of the same run.",
        )
    if broken:
        tally.note(
            "BFCL counts items as correct whose inference failed; here they are missing:"
            f" {broken:,}."
        )
    return rest - lost if lost else broken


def _counts(header: Mapping[str, Any], where: str) -> tuple[int, int]:
    """How many items a score file has, and how many of them are correct, by its first line."""
    total = shaped(header.get("total_count"), int, "`total_count`", where)
    correct = shaped(header.get("correct_count"), int, "`correct_count`", where)
    accuracy = header.get("accuracy")
    if not 0 <= correct <= total or total > 10**7:
        raise refused(f"counts {correct} correct items of {total}.", where, "")
    share = Fraction(correct, total or 1)
    if not is_number(accuracy) or not is_near(exact(accuracy, "the accuracy", where), share):
        raise refused(
            f"the accuracy is {accuracy}, and {correct:,} of {total:,} items are correct.",
            where,
            "Evaluate the results again.",
        )
    return total, correct


def _failure(
    origin: ResultOrigin,
    name: str,
    row: Mapping[str, Any],
    valid: bool,
    wanted: Wanted,
    tally: ImportTally,
) -> dict[str, Any]:
    error = row.get("error")
    kind = row.get("error_type")
    if isinstance(error, dict):
        kind = error.get("error_type", kind)
        error = error.get("error_message", error.get("error"))
    words = error if isinstance(error, list) else [error]
    message = "; ".join(
        str(message_part)[:300] for message_part in words if message_part is not None
    )
    answer = row.get("model_result", row.get("model_result_raw"))
    broken = str(kind).endswith("inference_error") or _is_broken(answer)
    # what only failures have can't be required of a candidate that passes
    question = {key: row[key] for key in ("prompt", "possible_answer") if row.get(key) is not None}
    return sample_run(
        origin,
        wanted,
        tally,
        sample_id=short_id(name, 1),
        status="error" if broken else "success",
        scores={"valid": valid},
        verdict=valid,
        reason=f"{kind}: {message}" if kind is not None else message,
        outputs=None if answer is None else {"answer": answer},
        metadata=question,
    )


def _result(
    origin: ResultOrigin,
    row: Mapping[str, Any],
    where: str,
    verdict: bool | None,
    wanted: Wanted,
    tally: ImportTally,
) -> dict[str, Any]:
    answer = row.get("result")
    broken = _is_broken(answer)
    return sample_run(
        origin,
        wanted,
        tally,
        sample_id=short_id(name_of(row.get("id"), "`id`", where), 1),
        status="error" if broken else "success",
        scores={"valid": verdict},
        verdict=verdict,
        reason=str(answer)[:300] if broken else "",
        outputs=None if broken or answer is None else {"answer": answer},
        tokens=sum_of(row.get("input_token_count"), row.get("output_token_count")),
        latency_ms=amount(row.get("latency"), 1000),
    )


def _is_broken(answer: Any) -> bool:
    return isinstance(answer, str) and answer.startswith(_BROKEN)


def _rows(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for line, row in stream_lines(path):
        where = f"{path}:{line}"
        yield where, shaped(row, dict, "a line", where)


def _category(path: str) -> str:
    """The category, which is in the name of a file.

    >>> _category("score/m/BFCL_v4_simple_python_score.json")
    'simple_python'
    """
    match = _FILE.fullmatch(file_stem(path))
    return match[1] if match else TOOL


IMPORTER = Importer(TOOL, "score and result files of BFCL", _fits, _read)
