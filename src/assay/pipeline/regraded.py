"""Whether an evaluation is graded by something else than when it was stored, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.pipeline.deciding import regraded_note

_BY = ("profile", "rubric", "policy")


def regraded(
    name: str, before: Mapping[str, Any], now: Mapping[str, Any], word: str = "decision"
) -> str:
    """How a run of an evaluation was graded and how it is graded now; empty if that is the same."""
    other = [kind for kind in _BY if _graded_by(before, kind) != _graded_by(now, kind)]
    if not other:
        return ""
    then, today = (
        ", ".join(_words(one, kind, before, now) for kind in other) for one in (before, now)
    )
    return regraded_note(name, then, today, word)


def _graded_by(grade: Mapping[str, Any], kind: str) -> tuple[str | None, str | None]:
    if kind == "policy":
        return grade["policy"], grade["digests"].get("policy")
    chosen = grade["selection"].get(kind)
    return None if chosen is None else chosen["id"], grade["digests"].get(kind)


def _words(
    one: Mapping[str, Any], kind: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> str:
    name, digest = _graded_by(one, kind)
    label = "" if kind == "profile" else f"{kind} "
    if name is None:
        return f"no {kind}"
    if _graded_by(before, kind)[0] == _graded_by(now, kind)[0]:
        return f"{label}{name} ({(digest or 'no digest').removeprefix('sha256:')[:12]})"
    return f"{label}{name}"
