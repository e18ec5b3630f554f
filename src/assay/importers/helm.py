"""Results of a HELM run: `per_instance_stats.json`, with `run_spec.json`, `scenario_state.json` and
`stats.json` where they are given.

An instance, a perturbation of it and a train trial are one sample; its statistics are in several
places of the file. Counts of tokens, seconds and prompts are not scores. The scenario state has
the prompts and completions, and the instances that were asked: one without statistics is missing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import IO, Any

from assay.canon import digest
from assay.files.json_stream import stream_json
from assay.files.line_groups import JsonLine, LineGroups
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    amount,
    exact,
    file_id,
    head_of,
    is_near,
    is_number,
    name_of,
    objects,
    optional,
    refused,
    sample_run,
    shaped,
    short_id,
    sum_of,
)
from assay.importers.spool import json_line
from assay.importers.tally import ImportTally

TOOL = "helm"
KINDS = {
    "run_spec.json": ("scenario_spec", "adapter_spec", "metric_specs"),
    "scenario_state.json": ("adapter_spec", "request_states"),
    "per_instance_stats.json": ("[].instance_id", "[].train_trial_index", "[].stats"),
    "stats.json": ("[].name.name", "[].count", "[].sum_squared"),
}
BOOKKEEPING = (
    "num_",
    "finish_reason_",
    "training_",
    "inference_",
    "batch_size",
    "prompt_truncated",
)
NO_QUALITY = ("max_prob", "predicted_index", "platt_", "logprob")
_NO_SCORES = (*BOOKKEEPING, *NO_QUALITY)


def _kind(head: Head) -> str | None:
    return next((name for name, keys in KINDS.items() if head.has(*keys)), None)


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    files: dict[str, str] = {}
    for path in paths:
        kind = _kind(head_of(path))
        if kind is None:
            raise refused("isn't a file of a HELM run.", path, f"Give {', '.join(KINDS)}.")
        if kind in files:
            raise refused(f"a second {kind}.", path, "Import the runs one by one.")
        files[kind] = path
    main = files.get("per_instance_stats.json")
    if main is None:
        raise refused("has no scores of instances.", paths[0], "Give per_instance_stats.json too.")
    spec = _spec(files.get("run_spec.json"))
    name, model = _names(spec, files.get("run_spec.json"), main)
    checks = _checks(spec)
    state = files.get("scenario_state.json")
    origin = ResultOrigin(
        TOOL,
        NameVersion(name, model),
        NameVersion(name, UNVERSIONED),
        file_id(main),
        answers=state is not None,
    )
    with tempfile.TemporaryFile(buffering=1024 * 1024) as spool:
        perturbed = _spool_stats(main, spool, tally)
        if state is not None:
            _spool_states(state, spool, tally)
        with LineGroups(main, "sample", opened=spool) as groups:
            for group in groups:
                yield _run(group, origin, wanted, tally, main, checks)
    if "stats.json" in files and not perturbed:
        _state_means(files["stats.json"], tally)


def _spec(run_spec: str | None) -> dict[tuple[Any, ...], Any]:
    """The parts of a run's specification by their places."""
    return {} if run_spec is None else dict(stream_json(run_spec, [("adapter_spec", "*")]))


def _checks(spec: Mapping[tuple[Any, ...], Any]) -> dict[str, int]:
    """What a comparison requires: the metrics and the annotators, which may ask a judge, with the
    same arguments. Others may be easier to please.
    """
    checks = {}
    for kind in ("metric", "annotator"):
        listed = spec.get(("metric_specs",) if kind == "metric" else ("annotators",))
        for entry in objects(listed):
            given = entry.get("args") or {}
            if isinstance(given, dict):  # where a metric is computed changes no score
                given = {key: value for key, value in given.items() if key != "device"}
            suffix = f" with the arguments {digest(given)[7:19]}" if given else ""
            checks[f"{kind} {str(entry.get('class_name'))[:150]}{suffix}"] = 0
    return checks


def _names(spec: Mapping[tuple[Any, ...], Any], run_spec: str | None, main: str) -> tuple[str, str]:
    """The run's name without its model, and the model. HELM calls a run's folder by its name."""
    model: Any = None
    if run_spec is not None:
        full = name_of(spec.get(("name",)), "`name`", run_spec)
        model = spec.get(("adapter_spec", "model"))
    else:
        full = os.path.basename(os.path.dirname(os.path.abspath(main)))
        if ":" not in full or "model=" not in full:
            return TOOL, UNVERSIONED
    base, _, arguments = full.partition(":")
    kept = [part for part in arguments.split(",") if part and not part.startswith("model=")]
    named = [part[6:] for part in arguments.split(",") if part.startswith("model=")]
    version = model if isinstance(model, str) and model else (named or [UNVERSIONED])[0]
    return (f"{base}:{','.join(kept)}" if kept else base) or TOOL, version or UNVERSIONED


# --- what belongs to one sample, gathered in a temporary file


def _key(instance_id: str, perturbation: Any, trial: int) -> tuple[str, str]:
    """What an entry belongs to, and the sample's id."""
    sample_id = short_id(instance_id, 1)
    if perturbation is not None:
        name = perturbation.get("name") if isinstance(perturbation, dict) else None
        sample_id += f"/{name or 'perturbed'}-{digest(perturbation)[7:13]}"
    return f"{trial}/{sample_id}", sample_id


def _spool_stats(path: str, spool: IO[bytes], tally: ImportTally) -> bool:
    """Whether any of the instances is perturbed."""
    perturbed = False
    for place, value in stream_json(path, [()]):
        where = f"{path}: entry {place[0] if place else 0}"
        entry = shaped(value, dict, "an entry", where)
        instance = name_of(entry.get("instance_id"), "`instance_id`", where)
        trial = shaped(entry.get("train_trial_index", 0), int, "`train_trial_index`", where)
        perturbation = optional(entry.get("perturbation"), dict, "`perturbation`", where)
        perturbed |= perturbation is not None
        key, sample_id = _key(instance, perturbation, trial)
        stats: dict[str, Any] = {}
        split: str | None = None
        for stat in shaped(entry.get("stats"), list, "`stats`", where):
            name = shaped(shaped(stat, dict, "a stat", where).get("name"), dict, "`name`", where)
            label = name_of(name.get("name"), "the name of a stat", where)
            split = optional(name.get("split"), str, "`split`", where) or split
            if name.get("perturbation") != perturbation:
                raise refused(f"{label!r} is of another perturbation than its entry.", where, "")
            if label in stats:
                raise refused(f"has {label!r} twice.", where, "")
            stats[label] = _mean(stat, label, where)
            tally.read["stats"] += 1
        line = {"sample": key, "id": sample_id, "trial": trial, "split": split, "stats": stats}
        spool.write(json_line(line))
    return perturbed


def _mean(stat: Mapping[str, Any], label: str, where: str) -> Any:
    """The mean of a statistic; None if it counts nothing."""
    count = stat.get("count", 0)
    if type(count) is not int:
        shaped(count, int, f"the count of {label!r}", where)
    mean, total = stat.get("mean"), stat.get("sum", 0)
    if count == 0 or mean is None:
        return None
    if count == 1 and type(mean) is Decimal and mean == total:
        return mean
    if not is_number(mean) or not is_number(total):
        raise refused(f"{label!r} has a mean or a sum that isn't a number.", where, "")
    total_found = exact(mean, f"the mean of {label!r}", where) * min(count, 10**9)
    if not is_near(total_found, exact(total, f"the sum of {label!r}", where)):
        words = f"{label!r} has the mean {mean}, and {count} values of sum {total}."
        raise refused(words, where, "")
    return mean


def _spool_states(path: str, spool: IO[bytes], tally: ImportTally) -> None:
    for place, value in stream_json(path, [("request_states",)]):
        if len(place) != 2:
            continue
        where = f"{path}: request {place[1]}"
        state = shaped(value, dict, "a request state", where)
        instance = shaped(state.get("instance"), dict, "`instance`", where)
        trial = shaped(state.get("train_trial_index", 0), int, "`train_trial_index`", where)
        name = name_of(instance.get("id"), "the `id` of an instance", where)
        key, sample_id = _key(name, instance.get("perturbation"), trial)
        result = optional(state.get("result"), dict, "`result`", where) or {}
        request = optional(state.get("request"), dict, "`request`", where) or {}
        completions = shaped(result.get("completions") or [], list, "`completions`", where)
        texts = [
            completion.get("text") for completion in completions if isinstance(completion, dict)
        ]
        line = {
            "sample": key,
            "id": sample_id,
            "trial": trial,
            "prompt": request.get("prompt"),
            "answer": texts[0] if texts else None,
            "succeeded": result.get("success") is True,
            "error": str(result.get("error") or "")[:500],
            "references": instance.get("references"),
        }
        tally.read["requests"] += 1
        spool.write(json_line(line))


# --- runs


def _run(
    group: Sequence[JsonLine],
    origin: ResultOrigin,
    wanted: Wanted,
    tally: ImportTally,
    path: str,
    checks: Mapping[str, int],
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    states = [line.tree for line in group if "stats" not in line.tree]
    measured = [line.tree for line in group if "stats" in line.tree]
    for entry in measured:
        for label, value in entry["stats"].items():
            if label in values and values[label] != value:
                where = f"{path}: {entry['id']}"
                raise refused(f"has two values of {label!r}: {values[label]}, {value}.", where, "")
            values[label] = value
    first = group[0].tree
    failed = next((state for state in states if not state["succeeded"]), None)
    status = "error" if failed else "success" if measured else "cancelled"
    scores = {label: value for label, value in values.items() if _is_score(label, tally)}
    asked = states[0] if states else {}
    split = next((entry["split"] for entry in measured if entry["split"]), None)
    return sample_run(
        origin,
        wanted,
        tally,
        sample_id=first["id"],
        status=status,
        scores=scores,
        reason=failed["error"] if failed else "" if measured else "no statistics of this request",
        inputs=None if asked.get("prompt") is None else {"prompt": asked["prompt"]},
        outputs={"answer": asked.get("answer")} if states else None,
        expected=asked.get("references"),
        attempt=max(0, first["trial"]) + 1,
        latency_ms=amount(values.get("inference_runtime"), 1000),
        tokens=sum_of(values.get("num_prompt_tokens"), values.get("num_output_tokens")),
        tags=[f"split:{split}"] if split else None,
        checks=checks,
    )


def _is_score(label: str, tally: ImportTally) -> bool:
    is_score = not label.startswith(_NO_SCORES) or tally.scale_of(label) is not None
    if not is_score:
        tally.dropped["statistics_that_are_no_scores"] += 1
    return is_score


def _state_means(path: str, tally: ImportTally) -> None:
    """The run's own means, where each has one split. HELM also writes the worst means over the
    perturbations of each instance, even where there are none.
    """
    means_by_label: dict[str, list[Any]] = {}
    for _, value in stream_json(path, [()]):
        name = shaped(shaped(value, dict, "a stat", path).get("name"), dict, "`name`", path)
        label = name_of(name.get("name"), "the name of a stat", path)
        if name.get("perturbation") is None:
            means_by_label.setdefault(label, []).append(value.get("mean"))
    for metric in list(tally.metrics.values()):
        means = means_by_label.get(metric.label, [])
        if len(means) == 1 and is_number(means[0]) and not metric.missing:
            tally.state(tally.metric(metric.label), means[0])


IMPORTER = Importer(TOOL, "HELM per-instance statistics", lambda head: bool(_kind(head)), _read)
