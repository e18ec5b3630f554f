"""Logs of OpenAI's `evals` package (`oaieval`), and output items of runs of the Evals API.

A log has a line with the `spec`, lines of events with their sample, and a line with the
`final_report`. The `match` events of a sample are its verdicts, the `metrics` events its scores;
several of them are attempts, since the tool counts each. A sample with an error, and one without a
verdict in a log that has them, is missing evidence; so is the rest of a log without a final report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.canon import digest
from assay.errors import InputError
from assay.files.line_groups import JsonLine, LineGroups
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.openai_items import is_items, read_items
from assay.importers.parts import head_of, is_number, name_of, objects, optional, shaped
from assay.importers.samples import UNVERSIONED, ResultOrigin, sample_run, short_id
from assay.importers.tally import ImportTally

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
            reason=_reason(errors, match),
            inputs=inputs,
            outputs={"answer": _answer(match, answered)} if origin.answers else None,
            expected=match.get("expected"),
            attempt=index + 1,
        )


def _reason(errors: Sequence[Mapping[str, Any]], match: Mapping[str, Any]) -> str:
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


def _answer(match: Mapping[str, Any], answered: Any) -> Any:
    given = (match.get("sampled"), answered, match.get("picked"))
    return next((value for value in given if value is not None), None)


IMPORTER = Importer(
    TOOL, "OpenAI evals logs, and output items of its API", _fits, _read, apart=True
)
