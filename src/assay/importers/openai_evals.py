"""Logs of OpenAI's `evals` package (`oaieval`), and output items of runs of the Evals API.

A log has a line with the `spec`, lines of events with their sample, and a line with the
`final_report`. The `match` events of a sample are its verdicts, the `metrics` events its scores;
several of them are attempts, since the tool counts each. A sample with an error, and one without a
verdict in a log that has them, is missing evidence; so is the rest of a log without a final report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence, count
from assay.files.json_files import member
from assay.files.json_stream import stream_json, stream_lines
from assay.files.line_groups import JsonLine, LineGroups
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    head_of,
    is_number,
    name_of,
    objects,
    optional,
    sample_run,
    shaped,
    short_id,
)
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


TOOL = "openai_evals"
CORRECT = "correct"
"""The score of a match event; the final report calls its mean `accuracy`."""


def _is_log(head: Head) -> bool:
    return head.has("spec.eval_name", "spec.completion_fns")


def _fits(head: Head) -> bool:
    return _is_log(head) or is_items(head)


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    logs: list[str] = []
    items: list[str] = []
    for path in paths:
        head = head_of(path)
        if not _fits(head):
            raise InputError(
                "SCO-011",
                "is neither a log of `oaieval`, which begins with its spec, nor a list of output"
                " items of the Evals API.",
                where=path,
            )
        (logs if _is_log(head) else items).append(path)
    for path in logs:
        yield from _log(path, wanted, tally, is_only=len(paths) == 1)
    if items:
        yield from read_items(TOOL, items, wanted, tally)


def _log(
    path: str, wanted: Wanted, tally: ImportTally, *, is_only: bool
) -> Iterator[dict[str, Any]]:
    with LineGroups(path, "sample_id") as groups:
        spec, report = _ends(groups.loose, path)
        name = name_of(spec.get("eval_name"), "`spec.eval_name`", path)
        models = shaped(spec.get("completion_fns"), list, "`spec.completion_fns`", path)
        model = ",".join(name_of(model, "a completion function", path) for model in models)
        origin = ResultOrigin(
            TOOL,
            NameVersion(name, model or UNVERSIONED),
            NameVersion(name, UNVERSIONED),
            name_of(spec.get("run_id"), "`spec.run_id`", path),
            answers=_has(groups, "match") or _has(groups, "sampling"),
            verdicts=_has(groups, "match"),
        )
        checks = _checks(spec)
        for group in groups:
            tally.read["events"] += len(group)
            for run in _sample(group, origin, wanted, tally, path):
                yield {**run, "checks": {**run.get("checks", {}), **checks}} if checks else run
    if report is None:
        tally.note(f"{path} has no final report: the run did not finish.")
        yield sample_run(
            origin,
            wanted,
            tally,
            sample_id="missing-1",
            status="cancelled",
            reason="the log has no final report, so the rest of its samples is missing",
        )
    elif is_only:
        for key, value in report.items():
            label = CORRECT if key == "accuracy" and "accuracy" not in _labels(tally) else key
            if label in _labels(tally) and is_number(value):
                # of the match events, `oaieval` itself makes the accuracy
                tally.state(tally.metric(label), value, is_plain=label != key)


def _checks(spec: Mapping[str, Any]) -> dict[str, int]:
    """What a comparison requires: the eval's class with the same arguments, apart from the file
    that its samples come from. Another one may be easier to please.
    """
    for config in objects([spec.get("run_config")]):
        for made in objects([config.get("eval_spec")]):
            given = next(iter(objects([made.get("args")])), {})
            options = {key: value for key, value in given.items() if key != "samples_jsonl"}
            suffix = f"with the options {digest(options)[7:19]}" if options else "without options"
            return {f"eval {str(made.get('cls'))[:100]} {suffix}": 0}
    return {}


def _has(groups: LineGroups, kind: str) -> bool:
    """Whether the log has such events."""
    return any(groups.contains(f'"type":{gap}"{kind}"'.encode()) for gap in (" ", ""))


def _labels(tally: ImportTally) -> set[str]:
    return {metric.label for metric in tally.metrics.values()}


def _ends(loose: Sequence[JsonLine], path: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The spec, and the final report if there is one."""
    spec: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    for number, tree in loose:
        where = f"{path}:{number}"
        line = shaped(tree, dict, "a line of the log", where)
        if "spec" in line and spec is None:
            spec = shaped(line["spec"], dict, "`spec`", where)
        elif "final_report" in line and report is None:
            # an eval may report nothing, or anything: what is not an object has no means
            report = line["final_report"] if isinstance(line["final_report"], dict) else {}
        else:
            raise InputError(
                "SCO-011",
                "this line is not an event of a sample; a log has only one spec and one report.",
                where=where,
                fix="Give one log at a time.",
            )
    if spec is None:
        raise InputError("SCO-011", "the log has no line with its `spec`.", where=path)
    return spec, report


def _sample(
    group: Sequence[JsonLine], origin: ResultOrigin, wanted: Wanted, tally: ImportTally, path: str
) -> Iterator[dict[str, Any]]:
    """The runs of a sample: one for each verdict, or set of metrics, that its events have."""
    events: dict[str, list[dict[str, Any]]] = {}
    for number, event in group:
        where = f"{path}:{number}"
        kind = name_of(event.get("type"), "the `type` of an event", where)
        if event.get("run_id") != origin.run:
            raise InputError(
                "SCO-011",
                f"it belongs to the run {event.get('run_id')!r}; the spec names {origin.run!r}.",
                where=where,
                fix="Give one log at a time.",
            )
        data = event.get("data")
        events.setdefault(kind, []).append(data if isinstance(data, dict) else {"data": data})
    where = f"{path}:{group[0].number}"
    sample_id = short_id(group[0].tree["sample_id"], group[0].number)
    errors = events.get("error", [])
    matches, metrics = events.get("match", []), events.get("metrics", [])
    inputs, answered = _asked(events)
    for index in range(max(len(matches), len(metrics), 1)):
        match = matches[index] if index < len(matches) else {}
        extra = metrics[index] if index < len(metrics) else {}
        verdict = optional(match.get("correct"), bool, "`correct`", where)
        scores: dict[str, Any] = {CORRECT: verdict} if origin.verdicts else {}
        for label, value in extra.items():
            if value is None or is_number(value):
                scores[label] = value
            else:
                tally.dropped["metrics_that_are_no_number"] += 1
        # a model that classifies records its choice next to the score
        by_model = origin._replace(judged=tuple(scores)) if "choice" in extra else origin
        yield sample_run(
            by_model,
            wanted,
            tally,
            sample_id=sample_id,
            status="error" if errors else "success",
            scores=scores,
            verdict=verdict,
            reason=_sample_reason(errors, match),
            inputs=inputs,
            outputs={"answer": _sample_answer(match, answered)} if origin.answers else None,
            expected=match.get("expected"),
            attempt=index + 1,
        )


def _sample_reason(errors: Sequence[Mapping[str, Any]], match: Mapping[str, Any]) -> str:
    if errors:
        return str(errors[0].get("message") or "the sample ended in an error")
    expected = match.get("expected")
    return "" if match.get("correct") or expected is None else f"expected {expected!r}"


def _asked(events: Mapping[str, list[dict[str, Any]]]) -> tuple[dict[str, Any] | None, Any]:
    """The prompt, and the last text that the model gave for it."""
    sampled = events.get("sampling", [])
    if not sampled:
        return None, None
    prompt = sampled[0].get("prompt")
    answer: Any = sampled[-1].get("sampled")
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    return (None if prompt is None else {"prompt": prompt}), answer


def _sample_answer(match: Mapping[str, Any], answered: Any) -> Any:
    given = (match.get("sampled"), answered, match.get("picked"))
    return next((value for value in given if value is not None), None)


IMPORTER = Importer(
    TOOL, "OpenAI evals logs, and output items of its API", _fits, _read, apart=True
)
