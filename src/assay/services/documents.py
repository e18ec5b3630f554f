"""The registry of documents: every JSON or YAML document with a published schema, what it is, and
which commands read or write it. `assay schema-of`, the server and the reference use it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from assay.family import merged
from assay.records.descriptions import described_schema
from assay.registry import home_value


class DocumentKind(NamedTuple):
    """A kind of document."""

    home: str
    """The import path of its record or schema, as `module:name` or `module:name[key]`."""
    title: str
    """What it is, in a sentence."""
    used: str
    """Which commands read or write it."""
    is_input: bool = True
    """Whether people or other tools write it."""

    @property
    def record(self) -> type | None:
        """The record class; None if there is only a schema."""
        value = home_value(self.home) if "[" not in self.home else None
        return value if isinstance(value, type) else None

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        if (record := self.record) is not None:
            return described_schema(record)
        module, _, name = self.home.partition(":")
        name, _, key = name.rstrip("]").partition("[")
        value: Any = getattr(import_module(module), name)
        value = value() if callable(value) else value
        schema: dict[str, Any] = value[key] if key else value
        return schema


_CORE: dict[str, DocumentKind] = {
    "run": DocumentKind(
        "assay.records.evidence:Run",
        "The evidence of one run of a workflow on one sample.",
        "`assay run` and `assay import` write it; `assay grade`, `gate` and most others read it.",
    ),
    "scorecard": DocumentKind(
        "assay.records.scorecard:Scorecard",
        "Gates and scores of one run, ready to be graded.",
        "`assay grade` reads it, for teams that score with their own scripts.",
    ),
    "config": DocumentKind(
        "assay.project.config:ConfigFile",
        "The configuration of a project, `assay.yaml`.",
        "`assay init` writes one; every command takes its defaults from it.",
    ),
    "profile": DocumentKind(
        "assay.scoring.profile:Profile",
        "How a family of workflows is scored.",
        "`--profile` takes one; `assay library check` checks one.",
    ),
    "policy": DocumentKind(
        "assay.grading.policy:Policy",
        "How scores become letters.",
        "`--policy` takes one; `assay library check` checks one.",
    ),
    "release-policy": DocumentKind(
        "assay.release.policy:ReleasePolicy",
        "When a candidate may replace a baseline.",
        "`assay gate --release-policy` takes one.",
    ),
    "rubric": DocumentKind(
        "assay.scoring.rubric:Rubric",
        "What a judge or a person looks for.",
        "`assay judge rubric` and `assay label new` take one.",
    ),
    "grades": DocumentKind(
        "assay.views.schemas:SCHEMAS[grades]",
        "Graded runs: a letter for each, with everything that explains it.",
        "`assay grade --json` and `-o grades.json` write it.",
        is_input=False,
    ),
    "summary": DocumentKind(
        "assay.views.schemas:SCHEMAS[summary]",
        "Rates, scores and reasons over many runs.",
        "`assay report summary --json` writes it.",
        is_input=False,
    ),
    "decision": DocumentKind(
        "assay.records.decision:Decision",
        "Whether a candidate may replace a baseline, and why.",
        "`assay gate --json` writes it.",
        is_input=False,
    ),
    "rehearsal": DocumentKind(
        "assay.records.rehearsal:Rehearsal",
        "How often a release policy would reject, hold and promote a version against itself.",
        "`assay rehearse --json` writes it.",
        is_input=False,
    ),
    "evaluation": DocumentKind(
        "assay.records.evaluation:Evaluation",
        "One version of a workflow on one version of a dataset.",
        "`assay run` and `assay import` store it; `assay evals NAME --json` prints it.",
        is_input=False,
    ),
    "event": DocumentKind(
        "assay.views.events:SCHEMA",
        "One event of a run.",
        "`assay run --events` and the server's streams write it; see [Events](../events.md).",
        is_input=False,
    ),
    "judge-card": DocumentKind(
        "assay.records.judge_card:JudgeCard",
        "What was measured of one judge.",
        "`assay judge card` writes it; `--judge-card` takes it.",
        is_input=False,
    ),
}


@cache
def document_kinds() -> dict[str, DocumentKind]:
    """Every kind of document, by the name that `assay schema-of` takes: those of the core, then
    those of the families.
    """
    return merged("documents", _CORE)
