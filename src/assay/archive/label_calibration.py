"""The rows of a calibration from people's labels in a ledger: for each item, people's value and the
judge's.

The judge's verdicts come from its judgements in a file, or from the scores in the runs of the
evaluation. Rows are all runs that the set could have drawn, so that the labels are a sample of
them. If the set was not drawn at random, they aren't a sample: the calibration then names no judge,
and no card made from it lets a judge gate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct, to_builtins

from assay.archive.evaluations import StoredEvaluation, read_evaluation
from assay.archive.label_draws import LabelPool
from assay.archive.label_judgements import judged_rows
from assay.archive.label_results import CHOICE, HOW, criteria_of, people_say
from assay.canon import digest
from assay.errors import NotEnoughEvidence, UsageError, count
from assay.judging.labels import Label, drawn_sentence, own_labels
from assay.records.evidence import Source
from assay.registry import near_miss
from assay.store.ledger import Ledger
from assay.views.label_use import compare_commands
from assay.views.labels import LabelResults, changed_sentence, rater_names, typed_sentence


class LabelledRows(NamedTuple):
    """The input of a calibration."""

    rows: list[Label]
    judgements: dict[str, Any] | None
    """The judge and its verdicts; None if the labels can't qualify a judge."""
    about: dict[str, Any]
    """The set, its draw, and how several raters became one value."""
    sentences: list[str]


class _JudgedScore(Struct):
    raw: Any = None
    source: Source | None = None


class _JudgedRun(Struct):
    scores: dict[str, _JudgedScore] = {}
    group: str | None = None
    inputs: Raw = Raw()
    outputs: Raw = Raw()


_read_run = msgspec.json.Decoder(_JudgedRun).decode


def labelled_rows(
    ledger: Ledger,
    results: LabelResults,
    *,
    project: str,
    criterion: str | None = None,
    judgements: Mapping[str, Any] | None = None,
) -> LabelledRows:
    """The rows for a criterion of a set; without one, for its only criterion."""
    name = _criterion(results, criterion)
    people = people_say(results, name)
    label_set = results.stored.set
    rows, judged = (
        _of_runs(ledger, results, people, name, project)
        if judgements is None
        else judged_rows(ledger, label_set, people, judgements, name, project=project)
    )
    verdicts: dict[str, Any] | None = judged
    about = {
        "name": label_set.name,
        "id": label_set.id,
        "digest": results.stored.digest,
        "criterion": None if name == CHOICE else name,
        "draw": label_set.draw.how,
        "seed": label_set.draw.seed,
        "items": len(label_set.items),
        "labelled": sum(value is not None for value in people.values()),
        "raters": list(rater_names(progress.rater for progress in results.progress).values()),
        "typed_raters": results.typed,
        "independent_raters": results.independent,
        "changed": results.changed,
        "changed_after_others": results.changed_late,
        "aggregated": HOW[label_set.task],
    }
    raters = len(results.progress)
    by = f"by {count(raters, 'rater')}; {HOW[label_set.task]}" if raters > 1 else "by 1 rater"
    whole = f"{results.labelled:,} of {count(len(label_set.items), 'item')}"
    sentences = [f"Labels from the set {label_set.name} ({label_set.id}): {whole}, {by}."]
    sentences += [
        sentence for sentence in (typed_sentence(results), changed_sentence(results)) if sentence
    ]
    names = _raters(results)
    if own := own_labels(names, judged):
        verdicts = None
        sentences.append(own)
    if label_set.draw.how != "random":
        verdicts = None
        sentences.append(drawn_sentence(label_set.draw.how))
        rows = [row._replace(draw=label_set.draw.how) for row in rows]
    rows = [row if row.human is None else row._replace(raters=names) for row in rows]
    return LabelledRows(rows, verdicts, about, sentences)


def _raters(results: LabelResults) -> list[str]:
    return sorted({progress.rater.name for progress in results.progress})


def unjudged_rows(results: LabelResults, *, criterion: str | None) -> list[Label]:
    """The rows of a criterion of a set without a judge."""
    people = people_say(results, _criterion(results, criterion))
    drawn = results.stored.set
    draw = None if drawn.draw.how == "random" else drawn.draw.how
    names = _raters(results)
    return [
        Label(item.run_id, value, None, draw=draw, raters=None if value is None else names)
        for item in drawn.items
        for value in [people.get(item.run)]
    ]


def _criterion(results: LabelResults, wanted: str | None) -> str:
    known = criteria_of(results.stored)
    if wanted is None and len(known) == 1:
        return known[0]
    if wanted in known and wanted is not None:
        return wanted
    problem = (
        f"the set {results.stored.set.name} has {len(known)} criteria; a calibration is about one."
        if wanted is None
        else f"the set has no criterion {wanted[:80]!r}.{near_miss(wanted, known)}"
    )
    raise UsageError("CLI-001", problem, fix=f"Choose with --criterion: {', '.join(known)}.")


def _of_runs(
    ledger: Ledger, results: LabelResults, people: Mapping[str, Any], criterion: str, project: str
) -> tuple[list[Label], dict[str, Any]]:
    label_set = results.stored.set
    if label_set.rubric is None:
        raise UsageError(
            "CLI-001",
            "runs carry no judge's choice between two answers.",
            fix=f"{', then '.join(f'`{command}`' for command in compare_commands(label_set))}.",
        )
    item = ledger.get(label_set.evaluation.digest, project=project)
    if item is None or item.body is None:
        raise NotEnoughEvidence(
            "STO-008",
            f"the evaluation {label_set.evaluation.name!r} of this set was forgotten.",
            where=label_set.evaluation.digest,
            fix="Give the judge's verdicts with --judgements FILE.",
        )
    stored = read_evaluation(item)
    pool = LabelPool(ledger, stored, project=project, seed=label_set.draw.seed)
    runs = {run.digest: run.run_id for run in pool.runs.values()}
    rows: list[Label] = []
    items: list[dict[str, Any]] = []
    sources: Counter[Source] = Counter()
    for run, stored_run in zip(runs, ledger.in_order(runs, project=project), strict=True):
        assert stored_run is not None, "the pool has only runs that are there"
        read, raw = _read_run(stored_run.checked()), None
        score = read.scores.get(criterion)
        if score is not None and score.source is not None and score.source.kind == "llm":
            raw = score.raw
            sources[score.source] += raw is not None
        rows.append(Label(runs[run], people.get(run), raw, read.group))
        # what a judge is shown, so that copies count once
        key = digest([bytes(read.inputs).decode(), bytes(read.outputs).decode()])
        items.append(
            {"id": runs[run], "criterion": criterion, "raw": raw, "samples": [{"key": key}]}
        )
    judged = _judged(stored, +sources, label_set.rubric.id, criterion)
    return rows, {**judged, "items": items}


def _judged(
    stored: StoredEvaluation,
    sources: Counter[Source],
    rubric: str,
    criterion: str,
) -> dict[str, Any]:
    """What the runs state about their judge, as in a judgements document."""
    name = stored.evaluation.name
    if not sources:
        raise NotEnoughEvidence(
            "JDG-010",
            f"no run of {name!r} has a judge's score for '{criterion}'.",
            fix="Run it with --judge, or give the judge's verdicts with --judgements FILE.",
        )
    if len(sources) > 1:
        raise UsageError(
            "JDG-009",
            f"the runs of {name!r} were scored by {len(sources)} judges:"
            f" {'; '.join(sorted(source.judge for source in sources))}.",
            fix="A calibration is of one judge. Give its verdicts with --judgements FILE.",
        )
    source = next(iter(sources))
    if source.rubric is not None and source.rubric != rubric:
        raise UsageError(
            "JDG-009",
            f"the judge scored by the rubric {source.rubric}, people by {rubric}.",
            fix="Make a set with the judge's rubric: `assay label new EVALUATION --rubric R`.",
        )
    identity = dict(stored.evaluation.settings.get("judge") or {})
    described = identity.pop("name", source.name)
    judge, asked_from = {"judge": source.name, "model": source.name}, None
    if identity.get("model") == source.name:  # as `assay run` described the judge that it asked
        judge = {"judge": described, **identity, "digest": digest(identity)}
        if stored.evaluation.source == "run":  # none of its answers is older than the evaluation
            asked_from = f"{stored.evaluation.started[:19]}Z"
    return {
        "schema": "assay.judgements/1",
        "judge": judge,
        "scorer": to_builtins(source),
        "usage": {"answered_at": asked_from},
    }
