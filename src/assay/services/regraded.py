"""The note that an evaluation is now graded by something other than when it was stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assay.canon import plain
from assay.services.grading import Grader

_BY = ("profile", "rubric", "policy")


def regraded_note(
    name: str, before: str, now: str, word: str = "decision", *, kind: str = "evaluation"
) -> str:
    """The note that an evaluation or a baseline was graded by something else when it was stored."""
    sides = "both sides" if word == "decision" else "it"
    return (
        f"{kind} {name} was graded by {before} when it was stored; this {word} grades {sides} by"
        f" {now}."
    )


def regraded(
    name: str, before: Mapping[str, Any], now: Mapping[str, Any], word: str = "decision"
) -> str:
    """The note for a run's grade before and now; empty if both were made by the same."""
    differing = [kind for kind in _BY if _graded_by(before, kind) != _graded_by(now, kind)]
    if not differing:
        return ""
    then, today = (
        ", ".join(_words(grade, kind, before, now) for kind in differing) for grade in (before, now)
    )
    return regraded_note(name, then, today, word)


def regraded_in(
    name: str,
    before: Mapping[str, Any],
    documents: Iterable[Any],
    grader: Grader,
    word: str = "decision",
) -> str:
    """The note for the run of a stored grade, graded again; empty if the documents lack the run."""
    for document in documents:
        tree = getattr(document, "tree", None)
        if isinstance(tree, dict) and tree.get("run_id") == before["run_id"]:
            return regraded(name, before, plain(grader.grade(document).payload()), word)
    return ""


def _graded_by(grade: Mapping[str, Any], kind: str) -> tuple[str | None, str | None, str]:
    """The name of a rule, its digest, and the system in which a profile's plugins are."""
    if kind == "policy":
        return grade["policy"], grade["digests"].get("policy"), ""
    chosen = grade["selection"].get(kind)
    system = str(grade["scoringSystem"]) if kind == "profile" else ""
    return None if chosen is None else chosen["id"], grade["digests"].get(kind), system


def _words(
    grade: Mapping[str, Any], kind: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> str:
    name, digest, system = _graded_by(grade, kind)
    label = "" if kind == "profile" else f"{kind} "
    if name is None:
        return f"no {kind}"
    then, today = (_graded_by(rules, kind) for rules in (before, now))
    if then[:2] == today[:2]:
        return f"{label}{name} ({system})"
    if then[0] == today[0]:
        return f"{label}{name} ({(digest or 'no digest').removeprefix('sha256:')[:12]})"
    return f"{label}{name}"
