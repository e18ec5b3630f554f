"""Results of lm-evaluation-harness: `results_*.json`, `samples_*.jsonl`, or both.

A results file alone gives one run for each task, with the task's metrics and the number of
documents behind them. Samples give one run for each document; the rows of several filters are one
run. Where both are given, each mean that the results state must be the mean of its samples.
Groups repeat their tasks and are left out.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import IO, Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError
from assay.files.json_files import member
from assay.files.json_stream import stream_json
from assay.files.line_groups import JsonLine, LineGroups
from assay.files.tables import table_rows
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.metric_names import may_be_less
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    exact,
    file_id,
    file_stem,
    head_of,
    is_near,
    is_number,
    name_of,
    objects,
    optional,
    refused,
    sample_run,
    shaped,
)
from assay.importers.spool import json_line
from assay.importers.tally import ImportTally

_AGGREGATED = ("aggregation", "higher_is_better")
_DEFINITION = (
    *("filter_list", "process_results", "output_type", "dataset_name", "test_split"),
    *("doc_to_target", "doc_to_choice"),
)
"""What a task's configuration says of its samples and of what is right."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""What Python prints of a function's place in memory."""


class Results(NamedTuple):
    """What a results file says."""

    path: str
    model: str
    tasks: dict[str, dict[str, Any]]
    """The metrics of each task; of one that the file only announces, none."""
    versions: Mapping[str, Any]
    samples: Mapping[str, Any]
    higher: Mapping[str, Any]
    configs: Mapping[str, Any]
    shots: Mapping[str, Any]
    config: Mapping[str, Any]

    def size(self, task: str) -> int | None:
        """How many documents the task has, where the file says it."""
        count = member(self.samples, task, "effective")
        count = self.tasks[task].get("sample_len") if count is None else count
        return optional(count, int, f"the number of samples of {task!r}", self.path)

    def shot_count(self, task: str) -> int | None:
        """How many examples each prompt has, where the file says it."""
        own = member(self.configs, task, "num_fewshot")
        counts = (self.shots.get(task), own, self.config.get("num_fewshot"))
        count = next((count for count in counts if count is not None), None)
        return optional(count, int, f"the number of shots of {task!r}", self.path)

    def content(self, task: str, metric: str | None) -> dict[str, Any]:
        """What the task was: its mean is comparable only with one over the same documents, asked in
        the same way. `metric` is the one that represents them all.
        """
        size = self.size(task)
        content = {
            "task": task,
            "version": self.version(task),
            "shots": self.shot_count(task),
            "documents": size,
            "limit": self.config.get("limit") if size is None else None,
            "metric": metric,
        }
        return {key: value for key, value in content.items() if value is not None}

    def is_mean(self, task: str, metric: str) -> bool:
        """Whether the file says that the metric is the mean of its samples."""
        return any(
            entry.get("metric") == metric and entry.get("aggregation") == "mean"
            for entry in objects(member(self.configs, task, "metric_list"))
        )

    def checks(self, task: str) -> dict[str, int]:
        """What a comparison requires: the same definition of the task, as far as it decides what is
        right, with the metrics and filters and their options. Another may be easier to please.
        """
        config = self.configs.get(task)
        if not isinstance(config, dict):
            return {}
        metrics = [
            {key: value for key, value in entry.items() if key not in _AGGREGATED}
            for entry in objects(config.get("metric_list"))
        ]
        defined = [metrics, *(config.get(key) for key in _DEFINITION)]
        stated = _ADDRESS.sub("", json_line(defined).decode())
        return {f"definition of {task[:100]} with the options {digest(stated)[7:19]}": 0}

    def version(self, task: str) -> str:
        """The version of a task, which older files have as a number."""
        version = self.versions.get(task)
        known = is_number(version) or isinstance(version, str)
        return str(version) or UNVERSIONED if known else UNVERSIONED


def read_results(path: str, tally: ImportTally) -> Results:
    """What a results file says of its tasks. Groups, which repeat their tasks, are left out."""
    parts: dict[str, Any] = {}
    tasks: dict[str, dict[str, Any]] = {}
    for place, value in stream_json(path, [("results", "*")]):
        if len(place) == 2:
            task = str(place[1])
            tasks[name_of(task, "a task", path)] = shaped(value, dict, f"`results.{task}`", path)
        elif place:
            parts[str(place[0])] = value
    sections = {
        key: shaped(parts.get(key) or {}, dict, f"`{key}`", path)
        for key in (
            "group_subtasks",
            "groups",
            "versions",
            "n-samples",
            "higher_is_better",
            "configs",
            "config",
            "n-shot",
        )
    }
    groups = {name for name, inner in sections["group_subtasks"].items() if inner}
    groups = (groups | set(sections["groups"])) - set(
        sections["n-samples"]
    )  # only tasks have documents
    announced = [
        *sections["n-samples"],
        *(
            name
            for inner in sections["group_subtasks"].values()
            for name in shaped(inner, list, "`group_subtasks`", path)
            if isinstance(name, str)
        ),
    ]
    kept = {name: tasks.get(name, {}) for name in [*tasks, *announced] if name not in groups}
    if not kept:
        raise InputError("SCO-011", "has no task.", where=path)
    dropped = sum(name in groups for name in tasks)
    if dropped:
        tally.dropped["groups_that_repeat_their_tasks"] += dropped
    tally.read["tasks"] += len(kept)
    return Results(
        path,
        _model(parts, sections["config"], path),
        kept,
        sections["versions"],
        sections["n-samples"],
        sections["higher_is_better"],
        sections["configs"],
        sections["n-shot"],
        sections["config"],
    )


def dataset_version(
    results: Results | None, tasks: Collection[str], metrics: Mapping[str, str]
) -> str:
    """The version of what the samples of tasks are: that of a task with the shots of its prompts;
    of several tasks a digest, also of the metric that is the score of each. Where two versions
    differ, samples are compared by their content.
    """
    stated: dict[str, str] = {}
    for task in tasks:
        version = UNVERSIONED if results is None else results.version(task)
        shots = None if results is None else results.shot_count(task)
        stated[task] = f"{version}+{shots}-shot" if shots else version
    if len(stated) == 1:
        return next(iter(stated.values()))
    if not metrics and set(stated.values()) == {UNVERSIONED}:
        return UNVERSIONED
    return digest({"tasks": stated, "metrics": dict(metrics)})[7:19]


def _model(parts: Mapping[str, Any], config: Mapping[str, Any], path: str) -> str:
    """The model, by the one argument that names it: other arguments may hold a key."""
    given = parts.get("model_name")
    if given:
        return name_of(given, "`model_name`", path)
    arguments = config.get("model_args")
    if isinstance(arguments, str):
        listed = dict(part.partition("=")[::2] for part in arguments.split(","))
    else:
        listed = arguments if isinstance(arguments, dict) else {}
    named = listed.get("pretrained") or listed.get("model") or config.get("model")
    return named if isinstance(named, str) and named else UNVERSIONED


_FILE = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT[\d.:\-]+)?")


def sample_rows(path: str) -> Iterator[list[JsonLine]]:
    """The rows of each document: one for each filter."""
    with ExitStack() as stack:
        lines: IO[bytes] | None = None
        if head_of(path).text.startswith("["):  # older versions write one list
            lines = stack.enter_context(tempfile.TemporaryFile())
            for _, row in stream_json(path, [()]):
                sample = shaped(row, dict, "a sample", path)
                name_of(sample.get("doc_id"), "`doc_id`", path)
                lines.write(json_line({"doc_id": sample.pop("doc_id"), **sample}))
        groups = stack.enter_context(LineGroups(path, "doc_id", opened=lines))
        if groups.loose:
            where = f"{path}:{groups.loose[0].number}"
            raise InputError("SCO-011", "this line has no `doc_id`.", where=where)
        yield from groups


def inputs_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The prompt, where the row has it; otherwise the document."""
    given = row.get("arguments")
    first: Any = next(iter(given.values()), None) if isinstance(given, dict) else given
    while isinstance(first, list) and first:
        first = first[0]
    prompt = first.get("arg_0") if isinstance(first, dict) else first
    return {"prompt": prompt} if isinstance(prompt, str) else {"doc": row.get("doc")}


def answer_of(row: Mapping[str, Any]) -> Any:
    """What the model answered, as the filter left it; None if there is nothing."""
    given = row.get("filtered_resps", row.get("resps"))
    while isinstance(given, list) and len(given) == 1:
        given = given[0]
    return None if given == [] else given


def task_of(path: str) -> str:
    """The task, which only the name of a samples file contains.

    >>> task_of("out/samples_arc_easy_2026-11-15T01-06-32.295209.jsonl")
    'arc_easy'
    """
    match = _FILE.fullmatch(file_stem(os.path.basename(path)))
    return match[1] if match else file_stem(path)


TOOL = "lm_eval"
_NO_METRICS = frozenset(
    {
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
        "name",
        "alias",
        "sample_len",
        "sample_count",
        "samples",
    }
)


def _is_results(head: Head) -> bool:
    return (
        "results" in head.keys
        and bool(head.keys & {"versions", "group_subtasks", "configs"})
        and any(key.startswith("results.") for key in head.keys)
        and "version" not in head.keys
    )


def _is_samples(head: Head) -> bool:
    return any(
        head.has(f"{base}doc_id", f"{base}doc")
        and bool(head.keys & {f"{base}resps", f"{base}filtered_resps", f"{base}arguments"})
        for base in ("", "[].")
    )


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    results: Results | None = None
    samples: dict[str, str] = {}
    for path in paths:
        head = head_of(path)
        if _is_results(head):
            if results is not None:
                raise refused("two results files at once.", path, "Import them one by one.")
            results = read_results(path, tally)
        elif _is_samples(head):
            task = task_of(path)
            if task in samples:
                raise refused(
                    f"two samples files of the task {task!r}.", path, "Import them one by one."
                )
            samples[task] = path
        else:
            raise refused(
                "is neither a results file nor a samples file of lm-evaluation-harness.", path, ""
            )
    if not samples:
        assert results is not None
        yield from _task_runs(results, wanted, tally)
        return
    if results is not None and samples.keys() != results.tasks.keys():
        odd = sorted(samples.keys() ^ results.tasks.keys())[0]
        raise refused(
            f"the results have the task {odd!r}, and there is no samples file for it."
            if odd in results.tasks
            else f"the samples belong to the task {odd!r}, which the results don't have.",
            results.path,
            "Give the results with the samples of all their tasks, or one of the two kinds alone.",
        )
    main: dict[str, str] = {}
    if len(samples) > 1:
        looked = ImportTally()
        labels = {
            task: _first_labels(path, looked)
            if results is None
            else list(_graded(results, task, looked))
            for task, path in samples.items()
        }
        main = _main_metrics(labels, looked)
        tally.notes += looked.notes
    version = dataset_version(results, samples, main)
    for task, path in samples.items():
        named = NameVersion(task if len(samples) == 1 else TOOL, version)
        yield from _sample_runs(task, path, results, named, main.get(task), wanted, tally)


def _task_runs(results: Results, wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    only = next(iter(results.tasks)) if len(results.tasks) == 1 else None
    name = only or TOOL
    graded = {task: _graded(results, task, tally) for task in results.tasks}
    main = _main_metrics(graded, tally)
    origin = ResultOrigin(
        TOOL,
        NameVersion(name, results.model),
        NameVersion(name, dataset_version(results, results.tasks, main)),
        file_id(results.path),
        answers=False,
    )
    for task, metrics in results.tasks.items():
        scores, others = _shared(graded[task], main.get(task), tally)
        size = results.size(task)
        content = results.content(task, main.get(task))
        # the mean of no documents is undefined, whatever the file says
        run = sample_run(
            origin,
            wanted,
            tally,
            sample_id=task,
            status="success" if metrics else "cancelled",
            scores=scores if size != 0 else dict.fromkeys(scores),
            reason="" if metrics else "the results list this task but have no metrics for it",
            inputs=content,
            checks=results.checks(task),
            metadata={"task_version": results.version(task), **others},
        )
        run["dataset"]["row"] = digest(content)
        for score in run.get("scores", {}).values():
            if size is not None:
                score["n"] = size
        yield run
    tally.note(
        "Each run is a whole task, compared only with one of the same version, shots and number of"
        " documents. The samples files have a run for each document."
    )


def _graded(results: Results, task: str, tally: ImportTally) -> dict[str, Any]:
    """The metrics of a task that can be scores."""
    scores = {}
    for label, value in results.tasks[task].items():
        metric = label.partition(",")[0]
        if metric in _NO_METRICS or metric.endswith("_stderr") or not metric.strip():
            continue
        if value is not None and not is_number(value):
            tally.dropped["values_that_are_no_number"] += 1
        else:
            scores[label] = value
            _note_direction(results, task, metric, label, tally)
    return scores


def _main_metrics(labels: Mapping[str, Collection[str]], tally: ImportTally) -> dict[str, str]:
    """The first metric of each task, where tasks have different ones: it is their shared score, as
    no task could pass by metrics that only another has.
    """
    sure = {
        task: [metric for metric in given if metric not in tally.doubts]
        for task, given in labels.items()
    }
    known = {task: given for task, given in sure.items() if given}
    if len({frozenset(given) for given in known.values()}) < 2:
        return {}
    main = {task: given[0] for task, given in known.items()}
    shown = ", ".join(f"{label} for {task}" for task, label in list(main.items())[:5])
    tally.note(
        "The tasks have different metrics, so the first of each is its score:"
        f" {shown}{', ...' if len(main) > 5 else ''}. Import one task to grade all its metrics."
    )
    return main


def _shared(
    scores: dict[str, Any], main: str | None, tally: ImportTally
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The scores of a sample. With a main metric: that one alone, and all metrics separately."""
    if main is None:
        return scores, {}
    tally.dropped["metrics_besides_the_score_of_their_task"] += len(scores) - (main in scores)
    return {"score": scores.get(main)}, {"metric": main, "metrics": scores}


def _note_direction(
    results: Results | None, task: str, metric: str, label: str, tally: ImportTally
) -> None:
    """Note which direction of a metric is better, as far as the file or its name shows."""
    stated = None if results is None else member(results.higher, task, metric)
    if stated is False or (stated is None and may_be_less(metric)):
        tally.doubts[label] = "it is better when lower, and its scale is not known"
    elif stated is True:
        tally.higher_is_better.add(label)


def _sample_runs(
    task: str,
    path: str,
    results: Results | None,
    dataset: NameVersion,
    main: str | None,
    wanted: Wanted,
    tally: ImportTally,
) -> Iterator[dict[str, Any]]:
    model = UNVERSIONED if results is None else results.model
    several = dataset.id != task
    origin = ResultOrigin(TOOL, NameVersion(dataset.id, model), dataset, file_id(path))
    lead = f"{task}/" if several else ""
    checks = {} if results is None else results.checks(task)
    sums: dict[str, Fraction | None] = {}
    count = 0
    for rows in sample_rows(path):
        tally.read["rows"] += len(rows)
        where = f"{path}:{rows[0].number}"
        scores: dict[str, Any] = {}
        for number, row in rows:
            scores_found = _scores(row, results, task, tally, f"{path}:{number}")
            for name in row.get("metrics") or () if main is None else ():
                if (label := f"{name},{row.get('filter', 'none')}") not in scores_found:
                    tally.in_words(label)  # pairs of texts, say: a comparison must not lose it
            for label, value in scores_found.items():
                if label in scores:
                    raise refused(
                        f"the document {row.get('doc_id')} has two rows with {label!r}.",
                        f"{path}:{number}",
                        "Import one samples file at a time.",
                    )
                scores[label] = value
                if results is None:
                    continue
                total = sums.get(label, Fraction(0))
                sums[label] = (
                    None if total is None or value is None else total + exact(value, label, where)
                )
        row = rows[0].tree
        count += 1
        shared, others = _shared(scores, main, tally)
        yield sample_run(
            origin,
            wanted,
            tally,
            sample_id=lead + name_of(row.get("doc_id"), "`doc_id`", where),
            scores=shared,
            inputs=inputs_of(row) | ({} if main is None else {"metric": main}),
            outputs={"answer": answer_of(row)},
            expected=row.get("target"),
            tags=[f"task:{task}"] if several else None,
            checks=checks,
            metadata=others,
        )
    if results is not None:
        size = results.size(task)
        if size is not None and count > size:
            raise refused(
                f"has {count:,} documents; the results state {size:,}.",
                path,
                "Give the results and the samples of the same run.",
            )
        for index in range(count, size or 0):
            yield sample_run(
                origin,
                wanted,
                tally,
                sample_id=f"{lead}missing-{index + 1 - count}",
                status="cancelled",
                reason="the results count this document, and the samples don't have it",
                checks=checks,
            )
        _check_means(task, results, sums, count, tally)


def _first_labels(path: str, tally: ImportTally) -> list[str]:
    """The metrics that the first row of a samples file has."""
    for row, _ in table_rows(path):
        return list(_scores(shaped(row, dict, "a sample", path), None, "", tally, path))
    return []


def _scores(
    row: Mapping[str, Any], results: Results | None, task: str, tally: ImportTally, where: str
) -> dict[str, Any]:
    chosen = shaped(row.get("filter", "none"), str, "`filter`", where)
    listed = optional(row.get("metrics"), list, "`metrics`", where)
    names = [key for key in row if key not in _NO_METRICS] if listed is None else listed
    scores: dict[str, Any] = {}
    for name in names:
        metric = name_of(name, "a metric", where)
        value, label = row.get(metric), f"{metric},{chosen}"
        if value is not None and not is_number(value):
            tally.dropped["values_that_are_no_number"] += 1
        else:
            scores[label] = value
            _note_direction(results, task, metric, label, tally)
    return scores


def _check_means(
    task: str,
    results: Results,
    sums: Mapping[str, Fraction | None],
    count: int,
    tally: ImportTally,
) -> None:
    """Compare the results with their samples: they belong to one run only if the means are
    equal.
    """
    for label, total in sums.items():
        metrics = results.tasks[task]
        stated = metrics.get(label, metrics.get(label.partition(",")[0]))
        if total is None or not is_number(stated):
            continue
        mean = total / count
        if is_near(mean, exact(stated, label, results.path)):
            tally.read["means_that_agree"] += 1
            continue
        words = (
            f"the results state {label} = {stated} for {task!r}; its samples give {float(mean):.6g}"
        )
        if results.is_mean(task, label.partition(",")[0]):
            raise refused(f"{words}.", results.path, "Give the results and samples of one run.")
        tally.note(f"{words}. The tool may not report a plain mean.")


IMPORTER = Importer(
    TOOL,
    "lm-evaluation-harness results and samples",
    lambda head: _is_results(head) or _is_samples(head),
    _read,
)
