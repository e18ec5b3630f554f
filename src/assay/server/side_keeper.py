"""The process that stores beside a server: `python -m assay.server.side_keeper`. Drafts in, from
the process that grades; what became of them out.

Group commit, as in `writer`: what has come while the last transaction was written goes into the
next. Where something cannot be stored, the process that answers is told to do it itself: it finds
the same, or waits for the database, and has the words.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from assay.errors import AssayError, InputError
from assay.server.committing import MAX_BATCH, commit
from assay.server.frames import own_ends
from assay.server.grading import Posted, kept
from assay.server.logs import Log
from assay.server.side import Answer, Graded, Setup
from assay.store.databases import open_database
from assay.store.ledger import open_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.store.drafts import Draft
    from assay.store.ledger import Ledger

PATIENCE_S = 1.0
"""How long to wait for a database; then the process that answers waits for it."""


class _Order(NamedTuple):
    number: int
    project: str
    posted: Posted

    @property
    def drafts(self) -> Sequence[Draft]:
        return self.posted.drafts


_graded = msgspec.msgpack.Decoder(list[Graded]).decode


def main() -> None:
    """Store what comes."""
    ends = own_ends()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    ledger = None
    for found in ends.read():
        waiting: list[_Order] = []
        for one in found:
            if ledger is None:
                setup = msgspec.msgpack.decode(one, type=Setup)
                ledger = _open(setup.db)
                ends.write([])
                continue
            made = _graded(one)
            left = [Answer(graded.number, None) for graded in made if graded.posted is None]
            if left:
                ends.write(left)
            waiting += [
                _Order(graded.number, graded.project, graded.posted)
                for graded in made
                if graded.posted is not None
            ]
        while waiting:
            assert ledger is not None
            n = _fitting(waiting)
            stored = commit(
                ledger, waiting[:n], lambda error: None
            )  # the process that answers meets the same fault, and tells of it
            ends.write(
                [
                    Answer(
                        order.number,
                        None if isinstance(became, Exception) else kept(order.posted, became),
                    )
                    for order, became in zip(waiting[:n], stored, strict=True)
                ]
            )
            del waiting[:n]


def _open(url: str) -> Ledger:
    """The ledger that the server has opened before; one that is gone is not made anew."""
    path = open_database(url).path
    if path is not None and not os.path.exists(path):
        raise InputError("STO-001", "there is no ledger any more.", where=path)
    return open_ledger(url, patience=PATIENCE_S)


def _fitting(orders: list[_Order]) -> int:
    """How many at the start go into one transaction."""
    records = 0
    for place, one in enumerate(orders):
        records += len(one.drafts)
        if records > MAX_BATCH:
            return max(1, place)
    return len(orders)


if __name__ == "__main__":
    try:
        with suppress(BrokenPipeError):
            main()
    except AssayError as error:
        Log().fault("side", error)
        sys.exit(error.exit_code)
