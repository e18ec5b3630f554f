"""Context precision and recall through a judge: whether each retrieved passage helps to answer the
question, and which statements of the expected answer the passages contain.

Nothing is asked about a run whose dataset names the relevant passages (`expected.relevant_ids`).
Otherwise only undecided passages are asked about, and a yes needs a quote. A question without a
verdict leaves its criterion undetermined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from assay.errors import InputError
from assay.judging.claims_task import AskedPart, context_of, judged_runs
from assay.judging.client import JudgeAnswer
from assay.judging.items import JudgedItem
from assay.judging.questions import ClaimQuestion, PassageQuestion
from assay.records.evidence import Run

MAX_STATEMENTS = 40
"""Statements of one expected answer that are asked about; the rest of it is left out."""
_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def passages_of(items: Sequence[JudgedItem], *, again: bool = False) -> list[AskedPart]:
    """What to ask: the undecided passages, or all of them with `again`, and the statements of each
    expected answer. Nothing if the dataset names the relevant passages.
    """
    passages: list[AskedPart] = []
    for item in items:
        run = item.run
        if run is None:
            raise InputError(
                "JDG-005", f"the item {item.id!r} is not a run; passages are part of a run."
            )
        if not run.retrieval or _names_relevant(run):
            continue
        statements = statements_of(run)
        reference = " ".join(statements) or None
        passages += [
            AskedPart(
                item.id, "passage", place, PassageQuestion(item.task, passage.text, reference)
            )
            for place, passage in enumerate(run.retrieval)
            if passage.text and (again or passage.relevant is None)
        ]
        claims = run.expected_claims or ()
        if again or not claims or any(claim.supported is None for claim in claims):
            context = context_of(run)
            passages += [
                AskedPart(item.id, "statement", place, ClaimQuestion(text, context))
                for place, text in enumerate(statements)
            ]
    return passages


def _names_relevant(run: Run) -> bool:
    return isinstance(run.expected, dict) and "relevant_ids" in run.expected


def statements_of(run: Run) -> list[str]:
    """The sentences of the expected answer: of the outputs that the workflow must give, of `answer`
    where it declares none, or of a plain text.

    >>> from assay.records.evidence import Dataset, Run, Workflow
    >>> run = Run(
    ...     schema="assay.run/1",
    ...     run_id="r",
    ...     status="success",
    ...     workflow=Workflow(id="w", version="1"),
    ...     dataset=Dataset(id="d", version="1", sample_id="s"),
    ...     expected="It is open. It closes at 9.",
    ... )
    >>> statements_of(run)
    ['It is open.', 'It closes at 9.']
    """
    if isinstance(run.expected, dict):
        names = run.required_outputs or ["answer"]
        given = [run.expected.get(name) for name in names]
    else:
        given = [run.expected]
    texts = [
        text
        for value in given
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str)
    ]
    sentences = [part.strip() for text in texts for part in _END.split(text)]
    return [part for part in sentences if any(map(str.isalnum, part))][:MAX_STATEMENTS]


def weighed_runs(
    items: Sequence[JudgedItem],
    parts: Sequence[AskedPart],
    answers: Sequence[JudgeAnswer],
    *,
    model: str,
    version: str | None,
) -> list[dict[str, Any]]:
    """The runs with the judge's verdicts on their passages and expected answers."""
    runs = judged_runs(items, parts, answers, model=model, version=version)
    for item, tree in zip(items, runs, strict=True):
        if item.run is not None and item.run.retrieval == [] and not _names_relevant(item.run):
            # nothing was retrieved, so no statement is supported, without asking
            nothing = [{"text": text, "supported": False} for text in statements_of(item.run)]
            tree.update({"expected_claims": nothing} if nothing else {})
    return runs
