"""Runs as rows of the list: each with its question, its answer, its grade, and why it did or did
not pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.server.run_pages import briefly
from assay.server.state import Services
from assay.store.reading import grades_of
from assay.views.blocks import Column
from assay.views.grade_line import GradeLine, outcome
from assay.views.pieces import (
    absent,
    address,
    clip,
    letter,
    line,
    link,
    moment,
    phrase,
    points,
    shown,
    small,
)
from assay.views.samples import QUESTIONS, answer_text, main_text, sample_evidence

COLUMNS = (
    Column("Run"),
    Column("Question", "text"),
    Column("Answer", "text"),
    Column("Grade"),
    Column("Score", "n"),
    Column("Verdict", "wide"),
    Column("Workflow and dataset"),
    Column("Started", "tight"),
)
MAX_TEXT = 240
"""How many characters of a question or an answer a row shows."""


_reason = msgspec.json.Decoder(GradeLine).decode


def brief_runs(services: Services, project: str, digests: Sequence[str]) -> list[dict[str, Any]]:
    """Runs as the list shows them, by their digests and in their order."""
    there = services.ledger.get_many(digests, project=project)
    runs = [there[digest] for digest in digests if digest in there]
    rows: list[dict[str, Any]] = briefly(
        runs, grades_of(services.ledger.database, project, list(there)), None
    )["items"]
    return rows


def part_of(item: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The workflow or the dataset of a run; empty if none is stated."""
    part = item.get(name)
    return part if isinstance(part, dict) else {}


def reasons(
    services: Services, project: str, items: Sequence[Mapping[str, Any]]
) -> dict[str, GradeLine]:
    """The grades of these runs in brief, by the digest of the grade."""
    wanted = [item["grade"]["digest"] for item in items if item["grade"]]
    return {
        digest: _reason(grade.body)
        for digest, grade in services.ledger.get_many(wanted, project=project).items()
        if grade.body is not None
    }


def rows_of_runs(
    services: Services, project: str, items: Sequence[Mapping[str, Any]]
) -> list[list[str]]:
    """A row for each run."""
    lines = reasons(services, project, items)
    runs = services.ledger.get_many([item["digest"] for item in items], project=project)
    rows: list[list[str]] = []
    for item in items:
        run = runs.get(item["digest"])
        grade = item["grade"]
        why = lines.get(grade["digest"]) if grade else None
        rows.append(
            [
                run_link(item),
                *_texts(None if run is None else run.body),
                letter(grade["grade"], grade["policy"]) if grade else shown(None, "not graded"),
                points(why.weighted_score) if why else shown(None, "no score"),
                _verdict(grade, why),
                phrase(line(workflow_of(item)), line(sample_of(item))),
                moment(item["started_at"] or None, "not stated"),
            ]
        )
    return rows


def _texts(body: bytes | None) -> tuple[str, str]:
    """The question and the answer of a run."""
    if body is None:
        return absent("forgotten"), absent("forgotten")
    evidence = sample_evidence(body)
    question = main_text(evidence.inputs, QUESTIONS)
    question_line = line(clip(question, MAX_TEXT)) if question else absent("no inputs")
    return question_line, line(clip(answer_text(evidence), MAX_TEXT))


def run_link(item: Mapping[str, Any]) -> str:
    """A run by its id, at the address of its digest: ids need not be unique."""
    name = "forgotten run" if item["forgotten"] else str(item["run_id"] or "without an id")
    return link(name, address("runs", item["digest"]))


def _verdict(grade: Mapping[str, Any] | None, why: GradeLine | None) -> str:
    if grade is None:
        return absent("no grade is stored")
    reason = clip(why.why) if why and why.why else "" if why else "its grade was forgotten"
    verdict = outcome(grade["passed"])
    return phrase(verdict, " ", small(reason)) if reason else verdict


def workflow_of(item: Mapping[str, Any]) -> str:
    """The workflow with its version."""
    workflow = part_of(item, "workflow")
    if not workflow:
        return shown(None, "not stated")
    return phrase(
        *[
            clip(workflow.get("id")),
            " ",
            small("version ", clip(workflow.get("version"), 60)),
        ]
    )


def sample_of(item: Mapping[str, Any]) -> str:
    """The dataset with the sample."""
    dataset = part_of(item, "dataset")
    if not dataset:
        return shown(None, "not stated")
    return phrase(
        *[
            clip(dataset.get("id")),
            " ",
            small(clip(dataset.get("sample_id"), absent_as="no sample")),
        ]
    )
