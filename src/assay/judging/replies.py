"""Reads a verdict from a reply, strictly: it must have the requested shape, be on the scale, and
quote the text. Otherwise there is no verdict, with the reason.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from assay.files.json_files import parse_json
from assay.judging.endpoints import Reply
from assay.judging.questions import (
    ClaimQuestion,
    PairQuestion,
    PassageQuestion,
    Question,
    RubricQuestion,
    occurs,
)
from assay.records.schemas import engine

_encode = msgspec.json.Encoder(order="sorted").encode


class JudgeVerdict(NamedTuple):
    """A verdict that can be used: a score with its quotes, or the winner by name."""

    score: int | None
    quotes: tuple[str, ...]
    winner: Literal["a", "b", "tie"] | None
    place: str | None
    """Where the winner was: first, second, or tie."""


class Read(NamedTuple):
    """The result of reading a reply. Without a verdict, `fault` says why, and `repairable` whether
    asking to repair it makes sense.
    """

    outcome: Literal["scored", "tie", "unparsable", "refused"]
    verdict: JudgeVerdict | None
    reason: str
    fault: str | None
    repairable: bool = False


def read_verdict(reply: Reply, question: Question, schema: dict[str, Any]) -> Read:
    """The verdict in a reply."""
    if reply.refusal is not None or reply.finish in ("content_filter", "refusal"):
        return Read(
            "refused", None, "", f"the judge refused: {(reply.refusal or reply.finish or '')[:300]}"
        )
    if reply.text is None or not reply.text.strip():
        return _unusable("the reply is empty.")
    text = unfenced(reply.text)
    try:
        tree = parse_json(text.strip().encode("utf-8", "replace"))
    except ValueError as error:
        cut = (
            " It was cut off at its longest length."
            if reply.finish in ("length", "max_tokens")
            else ""
        )
        return _unusable(f"the reply is not JSON ({error}).{cut}")
    fault = _shape_fault(tree, schema)
    if fault is not None:
        return _unusable(fault)
    if isinstance(question, PairQuestion):
        place = tree["winner"]
        return Read(
            "tie" if place == "tie" else "scored",
            JudgeVerdict(None, (), question.winner(place), place),
            tree["reason"],
            None,
        )
    return _quoted(tree, question)


def unfenced(text: str) -> str:
    """A reply without the one code block that models like to put around JSON."""
    head, newline, rest = text.strip().partition("\n")
    language = head.removeprefix("```")
    if not newline or language == head or language.removeprefix("json").strip():
        return text
    inner = rest.removesuffix("```").rstrip()
    if inner == rest:
        return text
    begin = len(inner) - len(inner.lstrip())
    return inner[inner.rfind("\n", 0, begin) + 1 :]


def _unusable(fault: str) -> Read:
    # The fault goes back to the judge and into the key of the repair: with other words, the answers
    # in existing journals would not be found.
    return Read("unparsable", None, "", fault, repairable=True)


def _quoted(
    tree: dict[str, Any], question: ClaimQuestion | PassageQuestion | RubricQuestion
) -> Read:
    """A verdict that needs quotes from the text it is about."""
    if isinstance(question, ClaimQuestion):
        text, name, key = question.context, "context", "supported"
        bare = "a claim that is supported needs a quote from the context that bears it out."
    elif isinstance(question, PassageQuestion):
        text, name, key = question.passage, "passage", "relevant"
        bare = "a passage that is relevant needs a quote from it that the answer needs."
    else:
        text, name, key, bare = question.candidate, "candidate", "score", ""
    quotes = tuple(tree["quotes"])
    for quote in quotes:
        if not occurs(quote, text):
            return _unusable(f"the quote {quote[:80]!r} is not in the {name}.")
    if bare and tree[key] and not quotes:
        return _unusable(bare)
    return Read("scored", JudgeVerdict(int(tree[key]), quotes, None, None), tree["reason"], None)


def _shape_fault(tree: Any, schema: dict[str, Any]) -> str | None:
    validator = _validator(_encode(schema))
    try:
        if validator.is_valid(tree):
            return None
        error = next(iter(validator.iter_errors(tree)))
    except ValueError as problem:  # a number that is out of range
        return f"it contains something that can't be checked ({problem})."
    where = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path
    ).lstrip(".")
    return f"{where or 'the reply'}: {error.message[:300]}."


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    return engine().validator_for(schema.decode())
