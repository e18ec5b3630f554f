"""What goes into a ledger and what comes out of it: drafts, links, items, pages; and what a record
is found by. Nothing here needs a database, so any process can make drafts.

A draft is a record with its canonical body and its digest. Two records with the same body are one
record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, structs

from assay.canon import canonical, time_of
from assay.errors import InputError
from assay.files.json_files import MAX_LINE, parse_json
from assay.records.grade import GRADES_SCHEMA
from assay.records.scorecard import SCORING_SYSTEM, Scorecard
from assay.records.typed import convert
from assay.registry import near_miss

KINDS = (
    "run",
    "scorecard",
    "grade",
    "decision",
    "evaluation",
    "exam",
    "entry",
    "index",
    "check",
    "card",
    "audit",
    "calibration",
    "judgement",
    "baseline",
    "labelset",
    "label",
    "result",
    "event",
    "tombstone",
)
RELATIONS = (
    "evidence_of",
    "graded_from",
    "decides",
    "evaluates",
    "supersedes",
    "corrects",
    "candidate_of",
    "baseline_of",
    "fresh_candidate_of",
    "fresh_baseline_of",
)
EVIDENCE = ("run", "scorecard")
"""The kinds of record that a grade may be made from."""
LINKS_SCHEMA = "assay.links/1"
TOMBSTONE_SCHEMA = "assay.tombstone/1"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
DIGEST_BYTES = 32
TEXT_LIMIT = 2000
NESTING = 200


R = TypeVar("R")


class Link(NamedTuple):
    """`source` has this relation to `target`; both are digests. The default source is the record
    that brings the link.
    """

    relation: str
    target: str
    source: str | None = None


class Facets(NamedTuple):
    """What is stored with a body. `columns` is in the order of `tables.FACETS`."""

    schema: str | None
    columns: tuple[Value, ...]
    tags: tuple[str, ...]


class Draft(NamedTuple):
    """A record, ready to be appended."""

    digest: bytes
    kind: str
    body: bytes
    facets: Facets
    author: str | None
    reason: str | None
    links: tuple[Link, ...]
    evaluates: bytes = b""
    """The digests of what an evaluation links to, concatenated: there may be very many."""

    @property
    def name(self) -> str:
        """Its digest as text, to link to before it is stored."""
        return digest_text(self.digest)

    def linked(self, relation: str, sources: Iterable[str]) -> Draft:
        """The same draft, to which these records have this relation; `sources` are digests."""
        own = self.name
        links = [Link(relation, own, source) for source in sources]
        return self._replace(links=(*self.links, *links))


class Stored(NamedTuple):
    """Where a record is. `new` is false if it was there before: the same record is stored once."""

    digest: str
    seq: int
    new: bool


class Item(NamedTuple):
    """A record as it is stored. `body` is None if it was forgotten."""

    project: str
    seq: int
    digest: str
    kind: str
    schema: str | None
    created_at: str
    author: str | None
    reason: str | None
    body: bytes | None

    def checked(self) -> bytes:
        """The body. One that doesn't match its digest is refused."""
        if self.body is None:
            raise InputError(
                "STO-008", "this record was forgotten; only its digest is left.", where=self.digest
            )
        if f"sha256:{sha256(self.body).hexdigest()}" != self.digest:
            raise InputError(
                "STO-007",
                "the stored record does not match its digest.",
                where=self.digest,
                fix="`assay ledger verify` lists what was changed.",
            )
        return self.body

    def tree(self) -> Any:
        """The record, every number exact."""
        return parse_json(self.checked())

    def read_as(self, kind: type[R], what: str) -> R:
        """The record as its class, after checking its content against its digest. `what` names the
        class in an error.
        """
        try:
            return convert(self.tree(), kind)
        except msgspec.ValidationError as error:
            raise InputError("STO-010", f"is not {what}: {error}.", where=self.digest) from None


class Page(NamedTuple):
    """Some items, and the cursor to continue from; None if there are no more."""

    items: tuple[Item, ...]
    next_cursor: int | None


class RecordCount(NamedTuple):
    """How many records. If `exact` is false, there are at least this many."""

    n: int
    exact: bool


class Tombstone(NamedTuple):
    """Who had a record forgotten, why and when. `rests_on_it` are records that were made from it
    and are still there.
    """

    digest: str
    author: str
    reason: str
    at: str
    rests_on_it: tuple[str, ...] = ()


def digest_text(data: bytes) -> str:
    """`sha256:` and 64 hexadecimal digits."""
    return f"sha256:{data.hex()}"


def digest_bytes(text: str) -> bytes:
    """The 32 bytes of a digest that is written out.

    >>> len(digest_bytes("sha256:" + "0f" * 32))
    32
    """
    head, _, digits = text.partition(":")
    if head == "sha256" and len(digits) == 2 * DIGEST_BYTES and digits.isascii():
        try:
            return bytes.fromhex(digits)
        except ValueError:
            pass
    raise InputError(
        "STO-013",
        f"{text[:100]!r} is not a digest.",
        fix="It is sha256: and 64 hexadecimal digits.",
    )


def draft(
    record: Any,
    *,
    kind: str,
    author: str | None = None,
    reason: str | None = None,
    links: Sequence[Link] = (),
) -> Draft:
    """A record with its body and digest.

    >>> draft({"schema": "assay.event/1", "weight": 0.10}, kind="event").body
    b'{"schema":"assay.event/1","weight":0.1}'
    """
    _check(kind, links)
    body = body_of(record)
    return _drafted(body, kind, facets_of(kind, body), author, reason, links)


def _check(kind: str, links: Sequence[Link]) -> None:
    if kind not in KINDS:
        raise InputError(
            "STO-010",
            f"there is no kind '{kind}'.{near_miss(kind, KINDS)}",
            fix=f"Kinds: {', '.join(KINDS)}.",
        )
    for link in links:
        if link.relation not in RELATIONS:
            raise InputError(
                "STO-011",
                f"there is no relation '{link.relation}'.{near_miss(link.relation, RELATIONS)}",
                fix=f"Relations: {', '.join(RELATIONS)}.",
            )


def _drafted(
    body: bytes,
    kind: str,
    facets: Facets,
    author: str | None,
    reason: str | None,
    links: Sequence[Link] = (),
) -> Draft:
    return Draft(
        sha256(body).digest(),
        kind,
        body,
        facets,
        note("author", author),
        note("reason", reason),
        tuple(links),
    )


class Body(bytes):
    """Canonical JSON that `body_of` made, perhaps in another process."""


class _Card(Scorecard, frozen=True, kw_only=True):
    """A scorecard of the default version as it is stored: with its version, because a scorecard
    without one would take on whatever version is current.
    """

    scoring_system: str = msgspec.field(name="scoringSystem")


def body_of(record: Any, text: Callable[[], bytes] | None = None) -> Body:
    """The canonical JSON of a record; `text` returns it where it may have been made before.
    Anything that couldn't be read back is refused.
    """
    if isinstance(record, Body):
        return record
    if isinstance(record, Scorecard) and record.scoring_system == SCORING_SYSTEM:
        record = _Card(**structs.asdict(record))
    try:
        body = canonical(record) if text is None else text()
    except RecursionError:
        raise InputError("FIL-004", f"the record nests more than {NESTING} deep.") from None
    except ValueError as error:
        raise InputError(
            "STO-010", f"a value that JSON can't express can't be stored: {error}."
        ) from None
    if not body.startswith(b"{"):
        raise InputError("STO-010", "a record is a JSON object.")
    check_size(body)
    # With fewer brackets it can't be too deep; with more, only parsing shows whether it is.
    if body.count(b"[") + body.count(b"{") >= NESTING:
        try:
            parse_json(body)
        except ValueError:
            raise InputError("FIL-004", f"the record nests more than {NESTING} deep.") from None
    return Body(body)


def check_size(body: bytes) -> None:
    """Refuse a record that is too large to be read again."""
    if len(body) > MAX_LINE:
        raise InputError(
            "FIL-004", f"the record has {len(body):,} bytes; the limit is {MAX_LINE // 2**20} MiB."
        )


def note(what: str, text: str | None, *, needed: bool = False) -> str | None:
    """An author or a reason, in a form that every database accepts."""
    if text is None or not text.strip():
        if needed:
            raise InputError(
                "STO-013",
                f"the {what} is missing.",
                fix="Every change to a ledger records who made it and why.",
            )
        return None
    if len(text) > TEXT_LIMIT or not text.replace("\n", " ").isprintable():
        raise InputError(
            "STO-013",
            f"the {what} is longer than {TEXT_LIMIT} characters, or contains characters that"
            " cannot be shown.",
        )
    return text


def graded_drafts(
    evidence: Any,
    scorecard: Any,
    grade: Any,
    *,
    author: str | None = None,
    reason: str | None = None,
    links: Sequence[Link] = (),
) -> list[Draft]:
    """A grade with everything it depends on: the evidence as it came, the scorecard that was
    graded, the grade, and the links between them.

    `evidence` is a run, a scorecard, or the draft of one. If it is the scorecard that was graded,
    it is stored once.
    """
    if not isinstance(evidence, Draft):
        evidence = evidence_draft(evidence, author=author, reason=reason)
    card = draft(scorecard, kind="scorecard", author=author, reason=reason)
    links = (Link("graded_from", card.name), *links)
    last = draft(grade, kind="grade", author=author, reason=reason, links=links)
    if card.digest == evidence.digest:
        return [evidence, last]
    return [evidence, card.linked("evidence_of", [evidence.name]), last]


def evidence_draft(evidence: Any, *, author: str | None = None, reason: str | None = None) -> Draft:
    """A run or a scorecard, whether a record, a tree or a stored body."""
    body = body_of(evidence)
    facets = facets_of(EVIDENCE[0], body)  # as of any kind that has no reader of its own
    kind = {f"assay.{kind}/1": kind for kind in EVIDENCE}.get(str(facets.schema), "")
    if not kind:
        raise InputError(
            "STO-011",
            f"a grade can't be made from a document with the schema {facets.schema!r}.",
            fix="Give a run (assay.run/1) or a scorecard (assay.scorecard/1).",
        )
    return _drafted(body, kind, facets, author, reason)


# --- what a record is found by: columns and tags, taken from its canonical body. The writer and
# `verify` call the same function on the same bytes, so a column that differs from the body is
# detected. Nothing is interpreted here: an absent key is None.

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
