"""Compares what a tool declares about its effects with its name and description."""

from __future__ import annotations

import re

from assay.families.tools.rules.rule import SchemaFindings
from assay.families.tools.rules.shown import ShownTool

_WORDS = re.compile(r"[^\W_]+")
_CHANGES = re.compile(
    r"delete|remove|drop|destroy|purge|erase|wipe|truncate|overwrite|reset|kill|terminate|revoke|cancel|send|write|update|create|insert|transfer|pay|execute|run|commit|push|merge"
)
_MAY_READ = ("execute", "run")
"""What a tool may do to anything, also to a query."""
_DESTROYS = (
    *("delete", "remove", "drop", "destroy", "purge", "erase", "wipe"),
    *("truncate", "overwrite", "kill", "terminate", "revoke"),
)
_READS = re.compile(
    r"get|list|read|show|search|find|fetch|describe|query|check|view|count|preview|diff|compare"
    r"|is|has|can|validate|explain|plan|estimate|simulate|lookup|select|inspect|status|log|who"
)
"""A name that begins so reads: get_commit, can_delete."""
_SAYS = re.compile(
    r"(?:(?:\A|[.!?;:]\s+|\n\s*)(?:permanently |irreversibly )?"
    r"|\b(?:and|then|also|permanently|irreversibly|it|tool) )"
    r"(delete|destroy|purge|erase|wipe|overwrite|terminate|revoke)s\b"
    r"|\A\s*(?:permanently |irreversibly )?"
    r"(delete|destroy|purge|erase|wipe|overwrite|terminate|revoke)\b",
    re.IGNORECASE,
)
"""A description whose verb destroys something."""


def check(tool: ShownTool, findings: SchemaFindings) -> None:
    """Check what one tool declares about its effects."""
    words = _words_of(tool.name)
    hints = tool.annotations
    if not {"readOnlyHint", "destructiveHint"} & hints.keys():
        verb = next((word for word in words[:2] if _CHANGES.fullmatch(word)), None)
        if verb is not None or tool.writes:
            findings.add(
                "effects-unsaid",
                tool.path,
                f"{tool.name!r} looks as if it changed something ({verb or 'PUT or DELETE'}) and"
                " does not say so.",
            )
        return
    verb = _verb_of(words)
    declared = _SAYS.search(tool.description, 0, 2000)
    destroys = verb if verb in _DESTROYS else None
    described = None if declared is None else (declared[1] or declared[2]).lower()
    if hints.get("readOnlyHint") is True:
        changes = verb or described or ("PUT or DELETE" if tool.writes else None)
        hint = "readOnlyHint is true"
    else:
        changes = destroys or described if hints.get("destructiveHint") is False else None
        hint = "destructiveHint is false"
    if changes is not None:
        where = "name" if changes == verb else "description" if changes == described else "method"
        message = f"{hint}, and the {where} of {tool.name[:80]!r} says {changes!r}."
        findings.add("effects-contradicted", tool.path, message)


def _words_of(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.replace("_", " "))
    return [word.casefold() for word in _WORDS.findall(spaced)]


def _verb_of(words: list[str]) -> str | None:
    """The verb in a name that plainly changes something; None if there is none. The second word
    counts where the first is a subject, as in `file_delete`.
    """
    if not words or _READS.fullmatch(words[0]):
        return None
    if _CHANGES.fullmatch(words[0]):
        return None if words[0] in _MAY_READ else words[0]
    return next((word for word in words[1:2] if word in _DESTROYS), None)
