"""`--store`: the evidence and the results of a stream, into a ledger.

Workers make the canonical bodies and hand them over like any other output; they wait in a temporary file until the whole stream was good, and then go
into the ledger in bulk. So a stream that fails as a whole stores nothing, as it writes nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from assay.cli.ledger import open_for, store_grades
from assay.cli.stream import Choice, read_cards
from assay.jobs import Basis, KeepingGrader, basis_of
from assay.jobs import Kept as KeptGrade
from assay.library.shelf import Shelf
from assay.reports.documents import FORMATS, JsonLines
from assay.store.drafts import Body, Draft, body_of, graded_drafts

if TYPE_CHECKING:
    import argparse

    from assay.files import Document
    from assay.records.grade import Payload
    from assay.store.ledger import Ledger

SPOOL = ".ledger"


class Keeping:
    """A ledger to store into, and the file in which bodies wait."""

    def __init__(self, ledger: Ledger, path: str, choice: Choice, project: str) -> None:
        self.ledger = ledger
        self.path = path
        self.project = project
        now = choice.now or (datetime.now(UTC) if choice.cards else None)  # noted with the grades, so that it can be replayed
        self.choice: Choice = KeepingChoice(*choice[:-1], now)
        self._basis = basis_of(read_cards(choice.cards), now)

    @classmethod
    def of(cls, options: argparse.Namespace, choice: Choice, stack: ExitStack) -> Keeping:
        """What the options ask for. The ledger is opened at once: one that cannot be written is told before the work."""
        from assay.store.ledger import known_project

        known_project(options.project)
        ledger = stack.enter_context(open_for(options.store))
        ledger.close()  # it opens again by itself; a connection must not go into the worker processes
        return cls(ledger, os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), f"bodies{SPOOL}"), choice, options.project)

    def store(self) -> None:
        """Put what waits into the ledger, and say how much of it was new."""
        with open(self.path, "rb") as stream:
            kept = store_grades(self.ledger, _groups(stream, self._basis), project=self.project)
        sys.stderr.write(f"assay: {kept.new:,} records stored in {self.ledger.where}, {kept.known:,} were there before.\n")


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
        return _Grader(shelf, policy=self.policy, profile=self.profile, rubric=self.rubric, cards=read_cards(self.cards), now=self.now)


class _Line(msgspec.Struct):
    evidence: msgspec.Raw
    scorecard: msgspec.Raw
    grade: msgspec.Raw


class _Bodies(JsonLines):
    """One grade on each line with all it rests on, each body as the ledger keeps it."""

    def piece(self, result: Payload) -> bytes:
        assert isinstance(result, _Evidenced)
        kept = result.kept
        return b'{"evidence":%b,"scorecard":%b,"grade":%b}\n' % (body_of(kept.evidence), body_of(kept.grade.scorecard), body_of(result))


FORMATS[SPOOL] = _Bodies  # at import, so that a worker that starts anew has it too: it imports this module for its choice
_read_line = msgspec.json.Decoder(_Line).decode


def _groups(stream: Any, basis: Basis) -> Iterator[list[Draft]]:
    if basis.drafts:
        yield list(basis.drafts)
    for line in stream:
        found = _read_line(line)
        yield graded_drafts(Body(found.evidence), Body(found.scorecard), Body(found.grade), links=basis.links)
