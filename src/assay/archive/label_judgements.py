"""Matches a judge's verdicts with a labelled set: same rubric or question, criterion and runs.

Verdicts are matched by the digest of the run, never by their place or by a name alone. If the judge
got a pair in the opposite order, its verdict is reversed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.archive.evaluations import read_evaluation
from assay.errors import InputError
from assay.judging.identity import definition_name
from assay.judging.labels import Label
from assay.records.label import LabelledEvaluation, LabelSet
from assay.store.ledger import Ledger
from assay.views.label_use import compare_commands

_FLIPPED = {"a": "b", "b": "a"}


class _KnownVerdicts(NamedTuple):
    """The runs of each side that the judge may have been asked about, by digest."""

    first: Mapping[str, str]
    second: Mapping[str, str]
    pairs: Mapping[tuple[str, str | None], str]
    """The items of the set, by their runs."""


def judged_rows(
    ledger: Ledger,
    label_set: LabelSet,
    people: Mapping[str, Any],
    judgements: Mapping[str, Any],
    criterion: str,
    *,
    project: str,
) -> tuple[list[Label], dict[str, Any]]:
    """Every item that was judged or labelled, and the judgements as they count for this set."""
    _check_rubric(label_set, judgements["scorer"].get("rubric"))
    verdicts = _of_criterion(label_set, judgements["items"], criterion)
    known = _known(ledger, label_set, project)
    keys = ("run",) if label_set.other is None else ("a_run", "b_run")
    named = {"criterion": criterion} if label_set.other is None else {}
    rows: dict[str, Label] = {}
    counted, unnamed, strange, double = [], [], [], []
    for judgement in verdicts:
        name = str(judgement.get("id"))
        runs = [run for key in keys if isinstance(run := judgement.get(key), str)]
        if len(runs) < len(keys):
            unnamed.append(name)
        elif (place := _place(known, runs)) is None:
            strange.append(name)
        else:
            row_id, run, is_flipped = place
            verdict = judgement.get("raw" if label_set.other is None else "winner")
            if is_flipped and isinstance(verdict, str):
                verdict = _FLIPPED.get(verdict, verdict)
            if row_id in rows:
                double.append(row_id)
            rows[row_id] = Label(row_id, people.get(run), verdict, judgement.get("group"))
            counted.append({**judgement, "id": row_id, **named, "raw": verdict})
    _refuse(label_set, len(verdicts), unnamed, strange, double)
    for item in label_set.items:
        name = item.run_id if label_set.other is None else item.sample
        if people.get(item.run) is not None and name not in rows:
            rows[name] = Label(name, people[item.run], None)
    return list(rows.values()), {**judgements, "items": counted}


def _check_rubric(label_set: LabelSet, by: Any) -> None:
    """Refuse verdicts that were given by another rubric, or as an answer to another question."""
    if label_set.rubric is None:
        if by != definition_name(label_set.question):
            raise _problem(label_set, "the judge was not asked the question of this set.")
        return
    if not isinstance(by, str) or not by:
        raise _problem(
            label_set, f"the judgements name no rubric; people scored by {label_set.rubric.id}."
        )
    name, _, content = by.partition("+")
    wanted, _, known = label_set.rubric.id.partition("+")
    if name != wanted or (content and content != known):
        raise InputError(
            "JDG-009",
            f"the judge scored by the rubric {by[:120]}, people by {label_set.rubric.id}.",
            fix="Make a set with the judge's rubric: `assay label new EVALUATION --rubric R`.",
        )


def _of_criterion(
    label_set: LabelSet, items: Sequence[Any], criterion: str
) -> list[Mapping[str, Any]]:
    """The judgements of a criterion; of pairs, all of them."""
    judgements = [item for item in items if isinstance(item, Mapping)]
    if label_set.other is None:
        judgements = [
            judgement for judgement in judgements if judgement.get("criterion") == criterion
        ]
    if not judgements:
        about = "pairs" if label_set.other else f"the criterion '{criterion}'"
        raise _problem(label_set, f"the judgements have no verdict on {about}.")
    return judgements


def _known(ledger: Ledger, label_set: LabelSet, project: str) -> _KnownVerdicts:
    first = {item.run: item.run_id for item in label_set.items}
    second = {item.other: str(item.other_run_id) for item in label_set.items if item.other}
    first.update(_runs_of(ledger, label_set.evaluation, project))
    second.update(_runs_of(ledger, label_set.other, project) if label_set.other else ())
    pairs = {(item.run, item.other): item.sample for item in label_set.items}
    return _KnownVerdicts(first, second, pairs)


def _runs_of(ledger: Ledger, named: LabelledEvaluation, project: str) -> Iterator[tuple[str, str]]:
    """The runs of an evaluation; none if it was forgotten."""
    item = ledger.get(named.digest, project=project)
    if item is not None and item.body is not None:
        for run in read_evaluation(item).evaluation.runs:
            yield run.digest, run.run_id


def _place(known: _KnownVerdicts, runs: Sequence[str]) -> tuple[str, str, bool] | None:
    """A judgement's row, its run as labelled, and whether its pair is reversed; None if unknown."""
    if len(runs) == 1:
        name = known.first.get(runs[0])
        return None if name is None else (name, runs[0], False)
    for is_flipped, (a, b) in ((False, runs), (True, runs[::-1])):
        if (a, b) in known.pairs:
            return known.pairs[a, b], a, is_flipped
    for is_flipped, (a, b) in ((False, runs), (True, runs[::-1])):
        if a in known.first and b in known.second:
            return f"{known.first[a]} and {known.second[b]}", "", is_flipped
    return None


def _refuse(
    label_set: LabelSet,
    n: int,
    unnamed: Sequence[str],
    strange: Sequence[str],
    double: Sequence[str],
) -> None:
    if unnamed:
        raise _problem(
            label_set,
            f"{len(unnamed):,} of {n:,} judgements don't say which"
            f" {'runs' if label_set.other else 'run'} they are about, such as {unnamed[0][:80]!r}.",
        )
    if strange:
        names = [
            repr(evaluation.name)
            for evaluation in (label_set.evaluation, label_set.other)
            if evaluation is not None
        ]
        raise _problem(
            label_set,
            f"{len(strange):,} of {n:,} judgements are about runs that {' and '.join(names)}"
            f" {'do' if label_set.other else 'does'} not have, such as {strange[0][:80]!r}.",
        )
    if double:
        raise InputError(
            "JDG-008",
            f"the judgements have several verdicts on {double[0][:80]!r}.",
            fix="Keep one verdict on each item.",
        )


def _problem(label_set: LabelSet, message: str) -> InputError:
    commands = compare_commands(label_set)[:-1]
    if label_set.rubric is not None:
        rubric = shlex.quote(label_set.rubric.id.partition("+")[0])
        command = f"assay judge rubric {shlex.quote(label_set.evaluation.id)} --rubric {rubric}"
        commands = [f"{command} --judge judge.yaml -o judgements.json"]
    listed = ", then ".join(f"`{command}`" for command in commands)
    return InputError(
        "JDG-009",
        message,
        fix=f"Ask the judge about the runs of this set: {listed}. Answers in its journal are free.",
    )
