"""`--store` of the verbs that only compute: their document as a record, tied to what of their input
is in the ledger.

The document is kept as `--json` prints it, with its schema. The input is never stored here: `assay
grade --store` and `assay judge card --store` keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from assay.cli.kept import result_draft
from assay.store.drafts import body_of
from assay.store.results import stored_of

if TYPE_CHECKING:
    from assay.cli.keeping import Store


class Result:
    """A result on its way into a ledger, and the digests of what it was made of."""

    def __init__(self, store: Store, verb: str) -> None:
        self.store = store
        self._verb = verb
        self._made_of: dict[bytes, None] = {}

    def made_of(self, record: Any) -> None:
        """Say that the result was made of this record, whether or not the ledger has it."""
        self._made_of[sha256(body_of(record)).digest()] = None

    def put(self, document: Mapping[str, Any]) -> None:
        """Store the result with links to those of its records that are there, and say how much of
        it was new.
        """
        there = stored_of(self.store.ledger.database, self.store.project, self._made_of)
        self.store.put([result_draft(document, self._verb, there)])
