"""The published JSON Schemas of this family (`data/*.schema.json`), our extended forms of a grading
entry and an index, what breaks them, and reading an entry of any form.

The schemas describe form only. That a slug belongs to its id, that scores belong to this schema and
that a grade follows from its answers is checked by `protocol` and `entry`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from assay.families.tools.answers import NA_REASONS
from assay.families.tools.records import GradingEntry
from assay.families.tools.veto import evidence_text
from assay.records.systems import GRADING_PATTERN, SCORING_PATTERN
from assay.records.typed import convert

if TYPE_CHECKING:
    import jsonschema_rs

EXTENDED_FORM = "assay.grading-entry/1"
VALIDATION_FAILED, FEW_TESTS, NO_ABOUT = (
    "validation-failed",
    "fewer-than-three-tests",
    "no-about",
)
BLOCKED_REASONS = (
    VALIDATION_FAILED,
    FEW_TESTS,
    "fewer-than-two-tests",
    NO_ABOUT,
    "api-down",
    "all-schemas-unparseable",
    "not-imported",
)
_OLDER_KEYS = frozenset({"grader", "createdAt", "grade", "dimension", "recordedAt", "isVeto"})
"""Keys of entries and answers by the reference program, which the published form doesn't have."""
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


@cache
def published_schema(name: str) -> dict[str, Any]:
    """A JSON Schema that ships with the product, as `grading-entry` or `index`."""
    with open(os.path.join(DATA, f"{name}.schema.json"), encoding="utf-8") as stream:
        schema: dict[str, Any] = json.load(stream)
    return schema


@cache
def extended_schema() -> dict[str, Any]:
    """The JSON Schema of our extended form: the published one, relaxed where it can't express the
    facts.
    """
    strict = published_schema("grading-entry")
    known = strict["properties"]
    text = {"type": "string", "minLength": 1}
    return {
        **strict,
        "$id": "urn:assay:grading-entry:1",
        "title": "Grading entry, extended form",
        "description": (
            "The published grading entry, for what that has no room for: another harness, an"
            " unpublished policy, no grade yet, a blocked node."
        ),
        "required": [*strict["required"], "form"],
        "properties": {
            **known,
            "form": {"const": EXTENDED_FORM},
            "harness": text,
            "version": text,
            "scoringSystem": {"type": "string", "pattern": SCORING_PATTERN},
            "gradingSystem": {"type": "string", "pattern": GRADING_PATTERN},
            "aggregateGrade": {"enum": [*known["aggregateGrade"]["enum"], None]},
            "gradings": {**known["gradings"], "minItems": 0},
            "rawGrade": {"enum": ["A", "B", "C", "D", "F", None]},
            "normalizedScore": {"type": ["number", "null"]},
            "blocked": {"type": "boolean"},
            "blockedReason": {"enum": list(BLOCKED_REASONS)},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
    }


@cache
def extended_index_schema() -> dict[str, Any]:
    """The JSON Schema of an index as a tree has it: the published one with the two versions at the
    top.
    """
    strict = published_schema("index")
    return {
        **strict,
        "$id": "urn:assay:index:1",
        "title": "Index of graded tools, extended form",
        "description": "The published index with the scoring and the grading system at the top.",
        "properties": {
            **strict["properties"],
            "scoringSystem": {"type": "string", "pattern": SCORING_PATTERN},
            "gradingSystem": {"type": "string", "pattern": GRADING_PATTERN},
        },
    }


def all_schemas() -> dict[str, dict[str, Any]]:
    """Every schema of this family, as `assay schema-of` prints them."""
    names = ("prompts", "scores", "grade-report", "grading-entry")
    return {
        **{name: published_schema(name) for name in names},
        "grading-entry-extended": extended_schema(),
        "index": published_schema("index"),
        "index-extended": extended_index_schema(),
    }


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs  # slow to load, and not needed to read a module

    # The times of an index are those of file names, which no format of JSON Schema describes.
    return jsonschema_rs.Draft202012Validator(
        all_schemas()[name], offline=True, validate_formats=not name.startswith("index")
    )


def is_extended(entry: object) -> bool:
    """Whether an entry states the extended form."""
    return isinstance(entry, dict) and entry.get("form") == EXTENDED_FORM


def schema_valid(entry: Any) -> bool:
    """Whether an entry has the form that it states."""
    return bool(_validator(_form(entry)).is_valid(entry))


def schema_faults(entry: Any) -> list[str]:
    """What breaks the form of an entry, place by place."""
    return faults_by(_form(entry), entry, "the entry")


def faults_by(name: str, document: Any, whole: str) -> list[str]:
    """What breaks the schema of that name, place by place."""
    faults = []
    for error in _validator(name).iter_errors(document):
        path = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path
        ).lstrip(".")
        faults.append(f"{path or whole}: {error.message}")
    return faults


def _form(entry: object) -> str:
    return "grading-entry-extended" if is_extended(entry) else "grading-entry"


# --- reading entries


def read_form(tree: dict[str, Any]) -> GradingEntry | None:
    """An entry of the published form, of the extended one, or of the older form of the reference
    program; None for anything else.
    """
    if tree.get("blocked") is True and "form" not in tree:
        # as newer versions of the specification write it
        tree = {"notes": [], **tree, "form": EXTENDED_FORM}
    tree = upgrade(tree)
    return convert(tree, GradingEntry) if schema_valid(tree) else None


def upgrade(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry as the reference program writes it, in the published form as far as it goes. Any
    other stays as it is: with a key or a form that a newer version may have added, it isn't read.
    """
    if schema_valid(entry) or not _is_older(entry):
        return entry
    made = dict(entry)
    grader, created = made.pop("grader", None), made.pop("createdAt", None)
    known = published_schema("grading-entry")["properties"]
    if "aggregateGrade" not in made and "grade" in made:
        made["aggregateGrade"] = made["grade"]
    made = {key: value for key, value in made.items() if key in known or _marks_veto(key, value)}
    for key in ("persona", "regradingTrigger"):  # they name no lens and no superseded entry
        if isinstance(made.get(key), str):
            del made[key]
    answers = made.get("gradings")
    made["gradings"] = [
        _upgraded(answer, grader, created) if isinstance(answer, dict) else answer
        for answer in (answers if isinstance(answers, list) else [answers])
    ]
    veto = made.setdefault("categoricalVeto", None)
    if isinstance(veto, dict) and isinstance(veto.get("evidence"), dict):
        made["categoricalVeto"] = {**veto, "evidence": evidence_text(veto["evidence"])}
    return made


def _is_older(entry: Mapping[str, Any]) -> bool:
    """Whether an entry has keys that only the reference program writes, and names no form."""
    answers = entry.get("gradings")
    listed = answers if isinstance(answers, list) else []
    parts = [entry, *(item for item in listed if isinstance(item, dict))]
    return "form" not in entry and any(not _OLDER_KEYS.isdisjoint(part) for part in parts)


def _upgraded(answer: dict[str, Any], grader: object, created: object) -> dict[str, Any]:
    changed = dict(answer)
    when = changed.pop("recordedAt", created)
    if when is not None:
        changed.setdefault("timestamp", when)
    if "graderIdentity" not in changed and isinstance(grader, dict):
        changed["graderIdentity"] = {
            key: grader[key] for key in ("kind", "name", "version") if key in grader
        }
        if grader.get("llmModel"):
            changed.setdefault("llmModel", grader["llmModel"])
    if "questionId" not in changed and isinstance(changed.get("dimension"), str):
        changed["questionId"] = f"Q-{changed['dimension']}"
    if changed.get("score") == "n/a" and "naReason" not in changed:
        changed["naReason"] = NA_REASONS[0]
    known = published_schema("grading-entry")["properties"]["gradings"]["items"]["properties"]
    return {key: value for key, value in changed.items() if key in known or _marks_veto(key, value)}


def _marks_veto(key: str, value: object) -> bool:
    """Whether a key of another form speaks of a veto. It is not dropped: without it the veto would
    be read as a plain score; with it the entry has no form that is known.
    """
    return bool(value) and "veto" in key.lower()
