"""`--store`: puts evidence and results into a ledger.

Records wait here until a command has succeeded, and then go into the ledger in bulk, dependencies
first. So a failed command stores nothing, and one killed while it stores leaves a ledger that
verifies. A stream that is graded by worker processes hands its records over in a file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from assay.archive.grades import basis_of, evidence_body
from assay.archive.records import result_draft
from assay.errors import AssayError, InputError, count
from assay.store.drafts import Body, Draft, body_of, graded_drafts
from assay.store.reading import stored_of

if TYPE_CHECKING:
    from assay.archive.evaluation_builder import EvaluationBuilder
    from assay.pipeline.choice import Choice
    from assay.pipeline.grading import Graded
    from assay.records.evaluation import Evaluation
    from assay.records.grade import Payload
    from assay.store.ledger import Ledger

BATCH = 500
"""Groups of records stored in one transaction: enough to be fast, few enough that other writers
get a turn.
"""
IN_MEMORY = 8 * 1024 * 1024
"""Bytes that wait in memory; beyond that they wait in a temporary file."""

_pack = msgspec.msgpack.encode
_unpack = msgspec.msgpack.Decoder(list[tuple[int, Draft]]).decode


class Store:
    """A project of a ledger, and the groups of drafts that wait for it. A group is stored as a
    whole or not at all. `waiting` is the file they wait in, `report` gets each sentence for the
    user. If storing is not `needed`, a failure is reported but not raised.
    """

    def __init__(
        self,
        ledger: Ledger,
        project: str,
        waiting: IO[bytes],
        report: Callable[[str], None],
        *,
        needed: bool = True,
    ) -> None:
        self.ledger = ledger
        self.project = project
        self._report = report
        self.needed = needed
        self._waiting = waiting
        self._notes: list[str] = []

    def add(self, group: list[Draft]) -> None:
        """Add a group to the queue."""
        data = _pack([(len(draft.body), draft._replace(body=b"")) for draft in group])
        self._waiting.write(len(data).to_bytes(8))
        self._waiting.write(data)
        for draft in group:
            self._waiting.write(draft.body)

    def note(self, text: str) -> None:
        """Report a sentence once everything is stored: a failed command reports only its error."""
        self._notes.append(text)

    def put(self, *groups: list[Draft]) -> None:
        """Store what waits and then these groups, and report how much was new. When this returns,
        all of it is on disk.
        """
        self.put_all(chain(self._waited(), groups))

    def put_all(self, groups: Iterable[list[Draft]]) -> bool:
        """Store groups, many of them in one transaction, and report how much was new; or, if
        storing is optional and failed, why. Returns whether they are stored.
        """
        try:
            self._put_all(groups)
            return True
        except AssayError as error:
            if self.needed:
                raise
            self._report(f"nothing is stored in a ledger: {error}")
            return False

    def _put_all(self, groups: Iterable[list[Draft]]) -> None:
        new = known = 0
        waiting = iter(groups)
        while batch := [draft for group in islice(waiting, BATCH) for draft in group]:
            for stored in self.ledger.put_many(batch, project=self.project):
                new += stored.new
                known += not stored.new
        seq, head = self.ledger.head(project=self.project)
        self.ledger.close()
        self.report_notes()
        if not self.needed:
            self._report(f"stored in {self.ledger.where}")
            return
        self._report(
            f"{count(new, 'record')} stored in {self.ledger.where}, {known:,} already there. The"
            f" head is {self.project}:{seq}:{head}."
        )

    def report_notes(self) -> None:
        """Report the sentences of `note`."""
        for text in self._notes:
            self._report(text)

    def _waited(self) -> Iterator[list[Draft]]:
        self._waiting.seek(0)
        while size := self._waiting.read(8):
            group = _unpack(self._waiting.read(int.from_bytes(size)))
            yield [draft._replace(body=self._waiting.read(length)) for length, draft in group]


class Result:
    """The document of a verb that only computes, on its way into a ledger, and the digests of what
    it was made of. The input itself is never stored here.
    """

    def __init__(self, store: Store, verb: str) -> None:
        self.store = store
        self._verb = verb
        self._made_of: dict[bytes, None] = {}

    def made_of(self, record: Any) -> None:
        """Remember that the result was made of this record, whether or not the ledger has it."""
        self._made_of[sha256(body_of(record)).digest()] = None

    def put(self, document: Mapping[str, Any]) -> None:
        """Store the result with links to those of its records that are in the ledger."""
        there = stored_of(self.store.ledger.database, self.store.project, self._made_of)
        self.store.put([result_draft(document, self._verb, there)])


# --- streams


class StoredStream:
    """A stream of grades for a ledger, and the file in which they wait."""

    def __init__(
        self,
        store: Store | None,
        choice: Choice,
        stack: ExitStack,
        *,
        builder: EvaluationBuilder | None = None,
    ) -> None:
        self.path = os.path.join(
            stack.enter_context(tempfile.TemporaryDirectory()), "grades.ledger"
        )
        self.choice = structs.replace(choice.dated(), stored=True)
        self.evaluation: Evaluation | None = None
        """The evaluation without its list of runs, after `put`; None if none is made."""
        self._draft: Draft | None = None
        self.stored = False
        """Whether they are in a ledger, after `put`."""
        self._store = store
        self._builder = builder
        self._basis = basis_of(self.choice.read_cards(), self.choice.now)

    def put(self, *, finished: datetime | None = None) -> None:
        """Store what waits, the evaluation last, and report how much of it was new. Without a
        ledger only the evaluation is made.
        """
        if self._builder is not None:
            with open(self.path, "rb") as stream:
                for bodies in map(_read_line, stream):
                    self._builder.add_stored(bytes(bodies.evidence), bytes(bodies.grade))
            self.evaluation, self._draft = self._builder.drafted(finished or datetime.now(UTC))
        if self._store is not None:
            with open(self.path, "rb") as stream:
                self.stored = self._store.put_all(self._groups(stream))

    def _groups(self, stream: IO[bytes]) -> Iterator[list[Draft]]:
        if self._basis.drafts:
            yield list(self._basis.drafts)
        for line in stream:
            bodies = _read_line(line)
            yield graded_drafts(
                Body(bodies.evidence),
                Body(bodies.scorecard),
                Body(bodies.grade),
                links=self._basis.links,
            )
        if self._draft is not None:
            yield [self._draft]


class _LedgerLine(msgspec.Struct):
    evidence: msgspec.Raw
    scorecard: msgspec.Raw
    grade: msgspec.Raw


_read_line = msgspec.json.Decoder(_LedgerLine).decode


def ledger_line(graded: Graded, payload: Payload) -> bytes:
    """A grade with everything it depends on as one line, each body as the ledger stores it."""
    if graded.evidence is None:
        raise InputError(
            "STO-011",
            f"the grade of {graded.grade.run_id!r} came without its run, so it can't be stored.",
            fix="Store the runs themselves.",
        )
    return b'{"evidence":%b,"scorecard":%b,"grade":%b}\n' % (
        evidence_body(graded),
        body_of(graded.grade.scorecard),
        body_of(payload),
    )
