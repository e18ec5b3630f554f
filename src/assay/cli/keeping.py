"""`--store`: evidence and results, into a ledger.

What a verb stores waits here until all of its work was good, and then goes into the ledger in bulk,
what others rest on first. So a verb that fails as a whole stores nothing, and one that is killed
while it stores leaves a ledger that verifies. A stream that is graded by workers hands its bodies
over in a file.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any

import msgspec

from assay.archive.regrading import Basis, KeepingGrader, basis_of
from assay.archive.regrading import Kept as KeptGrade
from assay.cli.stream import Choice, read_cards
from assay.errors import printable
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.pipeline.deciding import side_of
from assay.records.reading import KINDS as EVIDENCE_SCHEMAS
from assay.records.reading import read_scorecard
from assay.server.keeping import KeptSide, keep_side
from assay.store.baselines import evidence_of_baseline
from assay.store.drafts import EVIDENCE, Body, Draft, body_of, graded_drafts
from assay.views.documents import FORMATS, JsonLines

if TYPE_CHECKING:
    from assay.files.json_files import Unread
    from assay.pipeline.grading import Graded, Grader
    from assay.records.grade import Payload
    from assay.release.sides import Side
    from assay.store.baselines import KeptBaseline
    from assay.store.ledger import Ledger

SPOOL = ".ledger"
BATCH = 1500
"""Records stored in one transaction: enough to be quick, few enough that others get their turn."""
IN_MEMORY = 32 * 1024 * 1024
"""Bytes that wait in memory; more of them wait in a temporary file."""


class Store:
    """A ledger to store into, and the groups of drafts that wait for it. A group is stored whole or
    not at all.
    """

    def __init__(self, ledger: Ledger, project: str, waiting: IO[bytes]) -> None:
        self.ledger = ledger
        self.project = project
        self._waiting = waiting
        self._said: list[str] = []

    @classmethod
    @contextmanager
    def of(cls, ledger: Ledger, project: str) -> Iterator[Store]:
        """A store into a project of a ledger. What was not put into it is forgotten."""
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as waiting:
            yield cls(ledger, project, waiting)

    def add(self, group: list[Draft]) -> None:
        """Let a group wait, behind those that came before."""
        data = _pack(group)
        self._waiting.write(len(data).to_bytes(8))
        self._waiting.write(data)

    def say(self, text: str) -> None:
        """A sentence that is told once all is stored: a verb that fails says why, and nothing
        else.
        """
        self._said.append(text)

    def put(self, *groups: list[Draft]) -> None:
        """Store what waits and then these, and say how much of it was new. What this returns from
        is on the disk.
        """
        self.put_all(chain(self._waited(), groups))

    def put_all(self, groups: Iterable[list[Draft]]) -> None:
        """Store groups, many of them in one transaction, and say how much of it was new."""
        new = known = 0
        waiting = iter(groups)
        while batch := [one for group in islice(waiting, BATCH // 3) for one in group]:
            for stored in self.ledger.put_many(batch, project=self.project):
                new += stored.new
                known += not stored.new
        seq, chain = self.ledger.head(project=self.project)
        self.ledger.close()
        self.tell()
        head = f"The head is {self.project}:{seq}:{chain}."
        sys.stderr.write(
            f"assay: {new:,} records stored in {printable(self.ledger.where)}, {known:,} were there"
            f" before. {head}\n"
        )

    def tell(self) -> None:
        """Say what was to be told."""
        for text in self._said:
            sys.stderr.write(f"assay: {printable(text)}\n")

    def _waited(self) -> Iterator[list[Draft]]:
        self._waiting.seek(0)
        while size := self._waiting.read(8):
            yield _unpack(self._waiting.read(int.from_bytes(size)))


_pack = msgspec.msgpack.Encoder(enc_hook=bytes).encode  # a body is bytes of a class of its own
_unpack = msgspec.msgpack.Decoder(list[Draft]).decode


def dated(choice: Choice) -> Choice:
    """A choice with the moment from which the age of cards is counted: it is noted with the grades,
    so that they can be replayed.
    """
    return choice._replace(now=choice.now or (datetime.now(UTC) if choice.cards else None))


class Looked:
    """The sides of a comparison, of which a baseline may be in the ledger. They are read once, and
    nothing of them is stored.
    """

    def __init__(self, store: Store, *, made_of: Callable[[Any], None] | None = None) -> None:
        self.store = store
        self._made_of = made_of

    def read(
        self,
        documents: Iterable[Document | Unread],
        grader: Grader,
        *,
        name: str,
        where: str,
        stored: Mapping[str, Body] | None = None,
    ) -> Side:
        """One side, as `deciding.side_of` makes it; `made_of` is told of its evidence. `stored` has
        the bodies of what comes from a ledger, by its digest.
        """

        def seen(document: Document, graded: Graded) -> None:
            if self._made_of is not None and document.tree.get("schema") in EVIDENCE_SCHEMAS:
                given: Any = graded.run if graded.run is not None else read_scorecard(document)
                self._made_of((stored or {}).get(document.file, given))

        return side_of(documents, grader, name=name, where=where, seen=seen)

    def read_baseline(self, baseline: KeptBaseline, grader: Grader, *, name: str) -> Side:
        """The side that a baseline of the ledger is."""
        bodies: dict[str, Body] = {}
        documents = _documents(self.store, baseline, bodies)
        return self.read(documents, grader, name=name, where=baseline.digest, stored=bodies)


class Sides(Looked):
    """The sides of a comparison, read once and kept with all they rest on."""

    def __init__(self, store: Store, choice: Choice) -> None:
        super().__init__(store)
        self.kept: list[KeptSide] = []
        self._basis = basis_of(read_cards(choice.cards, now=choice.now), choice.now)

    def read(
        self,
        documents: Iterable[Document | Unread],
        grader: Grader,
        *,
        name: str,
        where: str,
        stored: Mapping[str, Body] | None = None,
    ) -> Side:
        """One side, as `deciding.side_of` makes it. `stored` has the bodies of evidence that comes
        from a ledger, by its digest.
        """
        self.kept.append(
            keep_side(
                documents,
                grader,
                self.store.add,
                name=name,
                where=where,
                basis=self._basis,
                stored=stored,
            )
        )
        return self.kept[-1].side


def _documents(store: Store, baseline: KeptBaseline, bodies: dict[str, Body]) -> Iterator[Document]:
    """The evidence of a baseline as documents. `bodies` holds that of the newest one: each is done
    with before the next one is asked for.
    """
    for item in evidence_of_baseline(store.ledger, baseline, kinds=EVIDENCE, project=store.project):
        bodies.clear()
        bodies[item.digest] = Body(item.body or b"")
        yield Document(item.tree(), item.digest)
    store.ledger.close()  # as it was before


# --- streams


class Keeping:
    """A stream that is graded into a ledger, and the file in which bodies wait."""

    def __init__(self, store: Store, choice: Choice, stack: ExitStack) -> None:
        self.path = os.path.join(
            stack.enter_context(tempfile.TemporaryDirectory()), f"bodies{SPOOL}"
        )
        self.choice: Choice = KeepingChoice(*dated(choice))
        self._store = store
        self._basis = basis_of(read_cards(self.choice.cards, now=self.choice.now), self.choice.now)

    def store(self) -> None:
        """Put what waits into the ledger, and say how much of it was new."""
        with open(self.path, "rb") as stream:
            self._store.put_all(_groups(stream, self._basis))


class _Evidenced(dict[str, Any]):
    """A payload that knows what it rests on."""

    kept: KeptGrade


class _Graded(KeptGrade):
    __slots__ = ()

    def payload(self) -> Payload:
        found = _Evidenced(super().payload())
        found.kept = self
        return found


class _Grader(KeepingGrader):
    def grade(self, document: Document) -> KeptGrade:
        graded = super().grade(document)
        return _Graded(graded, graded.given)


class KeepingChoice(Choice):
    """A choice whose graders keep the evidence."""

    def grader(self) -> _Grader:
        """A grader for this choice."""
        shelf = Shelf(self.library) if self.library else Shelf()
        return _Grader(
            shelf,
            policy=self.policy,
            profile=self.profile,
            rubric=self.rubric,
            cards=read_cards(self.cards, now=self.now),
            now=self.now,
        )


class _Line(msgspec.Struct):
    evidence: msgspec.Raw
    scorecard: msgspec.Raw
    grade: msgspec.Raw


class _Bodies(JsonLines):
    """One grade on each line with all it rests on, each body as the ledger keeps it."""

    def piece(self, result: Payload) -> bytes:
        assert isinstance(result, _Evidenced)
        kept = result.kept
        return b'{"evidence":%b,"scorecard":%b,"grade":%b}\n' % (
            body_of(kept.evidence),
            body_of(kept.grade.scorecard),
            body_of(result),
        )


FORMATS[SPOOL] = (
    # at import, so that a worker that starts anew has it too: it imports this module for its choice
    _Bodies
)
_read_line = msgspec.json.Decoder(_Line).decode


def _groups(stream: Any, basis: Basis) -> Iterator[list[Draft]]:
    if basis.drafts:
        yield list(basis.drafts)
    for line in stream:
        found = _read_line(line)
        yield graded_drafts(
            Body(found.evidence), Body(found.scorecard), Body(found.grade), links=basis.links
        )
