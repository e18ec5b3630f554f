"""The tasks in a results file of lm-evaluation-harness."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError
from assay.files.json_files import member
from assay.files.json_stream import stream_json
from assay.importers.parts import is_number, name_of, objects, optional, shaped
from assay.importers.samples import UNVERSIONED
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
