"""What a record is found by: columns and tags, taken from its canonical body.

The writer and `verify` call the same function on the same bytes, so a column that differs from the
body is detected. Nothing is interpreted here: an absent key is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.canon import time_of
from assay.errors import InputError
from assay.records.grade import GRADES_SCHEMA

KEY_BYTES = 200
"""How long a text may be to be indexed as it is."""
_SCHEMAS = {"grade": GRADES_SCHEMA}
"""The schema of a record that doesn't name its own."""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

Value = str | bool | None


class _Named(Struct):
    """A workflow or a dataset."""

    id: Any = None
    version: Any = None
    family: Any = None
    sample_id: Any = None


_NAMELESS = _Named()
_MaybeNamed = _Named | str | int | float | bool | list[Any] | None


class _Any(Struct):
    schema: Any = None
    run_id: Any = None
    workflow: _MaybeNamed = None
    dataset: _MaybeNamed = None
    sample_id: Any = None
    grade: Any = None
    passed: Any = None
    policy: Any = None
    profile: Any = None
    status: Any = None
    outcome: Any = None
    started_at: Any = None
    tags: Any = None


class _Evaluation(_Any):
    id: Any = None
    name: Any = None
    labels: Any = None
    started: Any = None


class _Label(_Any):
    set: Any = None
    evaluation: Any = None
    run: Any = None
    pair: Any = None


_read_any = msgspec.json.Decoder(_Any).decode
_read_evaluation = msgspec.json.Decoder(_Evaluation).decode
_read_label = msgspec.json.Decoder(_Label).decode


class Facets(NamedTuple):
    """What is stored with a body. `columns` is in the order of `tables.FACETS`."""

    schema: str | None
    columns: tuple[Value, ...]
    tags: tuple[str, ...]


def facets_of(kind: str, body: bytes) -> Facets:
    """What a record of that kind is found by.

    >>> facets_of(
    ...     "grade",
    ...     b'{"grade":"B","passed":true,"run_id":"r-1","workflow":{"id":"faq","version":"3"}}',
    ... ).columns[:3]
    ('r-1', 'faq', '3')
    """
    try:
        peek = _READ.get(kind, _read_any)(body)
    except msgspec.ValidationError as error:
        raise InputError(
            "STO-010", f"is not a {kind} record as the ledger stores it: {error}."
        ) from None
    workflow = peek.workflow if isinstance(peek.workflow, _Named) else _NAMELESS
    dataset = peek.dataset if isinstance(peek.dataset, _Named) else _NAMELESS
    columns = (
        _key(peek.run_id),
        _key(workflow.id),
        _key(workflow.version),
        _key(workflow.family),
        _key(dataset.id),
        _key(dataset.version),
        _key(peek.sample_id if peek.sample_id is not None else dataset.sample_id),
        _key(peek.grade),
        _flag(peek.passed),
        _key(peek.policy),
        _key(peek.profile),
        _key(peek.status if peek.status is not None else peek.outcome),
        moment_key(peek.started if isinstance(peek, _Evaluation) else peek.started_at),
    )
    named = _NAMED.get(type(peek))
    texts = peek.tags if named is None else named(peek)
    tags = (
        tuple(dict.fromkeys([key(tag) for tag in texts if isinstance(tag, str)]))
        if isinstance(texts, list)
        else ()
    )
    return Facets(_key(peek.schema) or _SCHEMAS.get(kind), columns, tags)


_READ: dict[str, Callable[[bytes], Any]] = {
    "evaluation": _read_evaluation,
    "labelset": _read_evaluation,
    "label": _read_label,
}
"""Readers for the kinds of body that need their own."""


def _names(peek: _Evaluation) -> list[str]:
    """The tags of an evaluation or a set of labels: id, name, labels."""
    labels = peek.labels if isinstance(peek.labels, list) else []
    return [f"id:{peek.id}", f"name:{peek.name}", *(f"label:{label}" for label in labels)]


def _about(peek: _Label) -> list[str]:
    """The tags of a label: its set, its evaluation, each run it is about."""
    other = peek.pair.get("b") if isinstance(peek.pair, dict) else None
    named = ("set", peek.set), ("evaluation", peek.evaluation), ("run", peek.run), ("run", other)
    return [f"{what}:{value}" for what, value in named if value is not None]


_NAMED: dict[type, Callable[[Any], list[str]]] = {_Evaluation: _names, _Label: _about}


@lru_cache(maxsize=4096)  # the same few names, over and over
def key(text: str) -> str:
    r"""A text as it is indexed: itself, or its digest if a database would not take it (a NUL, a
    lone surrogate, or too long).

    >>> key("r-1"), key("a\0b")[:14]
    ('r-1', 'sha256:59b271a')
    """
    data = text.encode("utf-8", "surrogatepass")
    # A text that looks like a digest is hashed too, so that it can't pass for another text.
    if len(data) <= KEY_BYTES and not _UNSTORABLE.search(text) and not text.startswith("sha256:"):
        return text
    return f"sha256:{sha256(data).hexdigest()}"


def moment_key(text: object) -> str | None:
    """A moment in UTC to the microsecond, so that the order of the texts is the order of time; None
    for anything else.

    >>> moment_key("2026-11-15T10:00:00+01:00")
    '2026-11-15T09:00:00.000000Z'
    """
    return _moment(text) if isinstance(text, str) else None


@lru_cache(maxsize=256)
def _moment(text: str) -> str | None:
    moment = time_of(text, UTC)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _key(value: object) -> str | None:
    return key(value) if type(value) is str else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
