"""Output items of a run of OpenAI's Evals API: pages as the API lists them, a list, or lines.

An item has the results of its graders, each with `passed` and perhaps a `score`. It passes where
all of them pass. An item whose sample ended in an error is missing evidence. Pages are refused
where some of a run are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from assay.errors import InputError, NotEnoughEvidence, count
from assay.files.json_files import member
from assay.files.json_stream import stream_json, stream_lines
from assay.importers.head import Head
from assay.importers.importer import NameVersion, Wanted
from assay.importers.parts import head_of, is_number, name_of, objects, optional, shaped
from assay.importers.samples import UNVERSIONED, ResultOrigin, sample_run, short_id
from assay.importers.spool import Spool
from assay.importers.tally import ImportTally

_KIND = "eval.run.output_item"
_USED = (
    *("object", "eval_id", "run_id", "datasource_item_id", "datasource_item", "status", "results"),
    *("sample",),
)
_SAMPLED = ("model", "output", "usage", "error")
"""The parts of an item and of its sample that its run needs."""
_STATUSES = (None, "pass", "passed", "fail", "failed", "completed")
"""How an item ends that has a verdict; in any other state it has none."""


def is_items(head: Head) -> bool:
    """Whether this is a page, a list or lines of output items."""
    return _KIND in head.text and any(
        f"{base}datasource_item_id" in head.keys for base in ("", "[].", "data[].")
    )


def read_items(
    tool: str, paths: Sequence[str], wanted: Wanted, tally: ImportTally
) -> Iterator[dict[str, Any]]:
    """The runs of output items; pages of one run may be several files."""
    graders: dict[str, bool] = {}
    pages = _Pages()
    with Spool(", ".join(paths)) as rows:
        for path in paths:
            for where, item in _items(path, pages):
                for result in objects(item.get("results")):
                    name = str(result.get("name"))
                    graders[name] = graders.get(name, False) or "score" in result
                rows.add((where, _used(item)))
        pages.check()
        for where, item in rows:
            tally.read["items"] += 1
            yield _run(tool, item, where, wanted, tally, graders)


class _Pages:
    """The pages of each run, and whether the API has more after them."""

    def __init__(self) -> None:
        self._items: Counter[str] = Counter()
        self._more: dict[str, dict[str, bool]] = {}

    def add(self, path: str, runs: Counter[str], more: bool) -> None:
        """Add a page with the number of its items by run."""
        self._items += runs
        for run in runs:
            self._more.setdefault(run, {})[path] = more

    def check(self) -> None:
        """Refuse the pages of a run if the last one is missing."""
        for run, more in self._more.items():
            if all(more.values()):
                raise NotEnoughEvidence(
                    "FIL-005",
                    f"only {count(self._items[run], 'item')} of the run {run}: OpenAI has more.",
                    where=", ".join(more),
                    fix="Pass the other pages too. To import only these, save the list in `data`"
                    " alone.",
                )


def _items(path: str, pages: _Pages) -> Iterator[tuple[str, dict[str, Any]]]:
    """The items of a file with the place of each; what its page says goes to `pages`."""
    head = head_of(path)
    if "datasource_item_id" in head.keys and not head.text.startswith("["):
        for line, item in stream_lines(path):
            yield f"{path}:{line}", shaped(item, dict, "an item", f"{path}:{line}")
        return
    runs: Counter[str] = Counter()
    more = False
    for place, value in stream_json(path, [(), ("data",)]):
        if place == ("has_more",):
            more = shaped(value, bool, "`has_more`", path)
        elif place and (len(place) == 2 or isinstance(place[0], int)):
            where = f"{path}: item {place[-1]}"
            item = shaped(value, dict, "an item", where)
            runs[str(item.get("run_id"))] += 1
            yield where, item
    pages.add(path, runs, more)


def _used(item: Mapping[str, Any]) -> dict[str, Any]:
    used = {key: item[key] for key in _USED if key in item}
    if isinstance(sample := used.get("sample"), dict):
        used["sample"] = {key: sample[key] for key in _SAMPLED if key in sample}
    return used


def _origin(
    tool: str, item: Mapping[str, Any], where: str, judged: Collection[str]
) -> ResultOrigin:
    name = name_of(item.get("eval_id"), "`eval_id`", where)
    model = (item.get("sample") or {}).get("model")
    return ResultOrigin(
        tool,
        NameVersion(name, model if isinstance(model, str) and model else UNVERSIONED),
        NameVersion(name, UNVERSIONED),
        name_of(item.get("run_id"), "`run_id`", where),
        answers=False,  # items of stored answers have no answer themselves
        verdicts=True,
        judged=judged,
    )


def _run(
    tool: str,
    item: Mapping[str, Any],
    where: str,
    wanted: Wanted,
    tally: ImportTally,
    graders: Mapping[str, bool],
) -> dict[str, Any]:
    """The run of an item. `graders` are those of all items, and whether they give scores. An item
    that lacks one has no verdict; a result that lacks the score of its grader has none, as a passed
    one would gain by losing it.
    """
    if item.get("object") != _KIND:
        raise InputError("SCO-011", f"`object` isn't {_KIND!r} in this item.", where=where)
    sample = optional(item.get("sample"), dict, "`sample`", where) or {}
    fault = optional(sample.get("error"), dict, "`sample.error`", where)
    scores: dict[str, Any] = {}
    verdicts: list[bool | None] = []
    failed: list[str] = []
    judged: list[str] = []
    for result in shaped(item.get("results") or [], list, "`results`", where):
        shaped(result, dict, "a result", where)
        label = name_of(result.get("name"), "the `name` of a result", where)
        passed = optional(result.get("passed"), bool, "`passed`", where)
        score = result.get("score", None if graders[label] else passed)
        if score is not None and not is_number(score):
            raise InputError("SCO-011", f"the score of {label!r} is not a number.", where=where)
        if label in scores:
            raise InputError("SCO-011", f"two results are named {label!r}.", where=where)
        scores[label] = score
        verdicts.append(passed)
        if not passed:
            failed.append(label)
        if "model" in str(result.get("type")):
            judged.append(label)
    lost = [name for name in graders if name not in scores]
    scores |= dict.fromkeys(lost)
    verdict = None if not verdicts or None in verdicts else all(verdicts)
    verdict = None if lost and verdict else verdict
    status = optional(item.get("status"), str, "`status`", where)
    if verdict and status in ("fail", "failed"):
        verdict, failed = False, [f"the item's status, {status!r}"]
    if verdict is False and status in ("pass", "passed"):
        raise InputError(
            "SCO-011",
            f"the item's status is {status!r}, and {failed[0]!r} did not pass.",
            where=where,
            fix="Fetch the items again.",
        )
    broken = fault is not None or status not in _STATUSES
    tokens = member(sample, "usage", "total_tokens")
    answer = _answer(sample.get("output"))
    datasource = optional(item.get("datasource_item"), dict, "`datasource_item`", where)
    return sample_run(
        _origin(tool, item, where, judged),
        wanted,
        tally,
        sample_id=short_id(
            name_of(item.get("datasource_item_id"), "`datasource_item_id`", where), 1
        ),
        status="error" if broken else "success",
        scores=scores,
        verdict=verdict,
        endings={"status"} & item.keys(),
        reason=_reason(fault, failed or [f"{name} (missing)" for name in lost], broken),
        inputs={"item": datasource} if datasource else None,
        outputs=None if answer is None else {"answer": answer},
        tokens=tokens if type(tokens) is int and tokens >= 0 else None,
    )


def _reason(fault: Mapping[str, Any] | None, failed: Sequence[str], broken: bool) -> str:
    if broken:
        reason = (fault or {}).get("message") or (fault or {}).get("code")
        return (
            f"the sample ended in an error: {reason}" if reason else "the sample ended in an error"
        )
    return f"not passed: {', '.join(failed)}" if failed else ""


def _answer(output: Any) -> Any:
    """The text of the last message."""
    if isinstance(output, list) and output and isinstance(output[-1], dict):
        return output[-1].get("content")
    return output if isinstance(output, str) else None
