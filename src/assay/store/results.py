"""Results of verbs that only compute (`measure`, `report`, `gate --plan`): the schema they are
stored under, and the verb that recomputes them.

Nothing is replayed from such a record: it contains what was printed, and its links name the inputs
that are in the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from assay.store.databases import Database
from assay.store.drafts import digest_text
from assay.store.writing import lookup

_NAME = re.compile(r"assay\.([a-z]+)(?:-([a-z-]+))?/[0-9]+")
_NAMES = {
    "gate plan": "gate --plan",
    "rank": "report rank",
    "rehearsal": "rehearse",
    "summary": "report summary",
}
"""Verbs whose name differs from the schema of their result."""


def schema_of(verb: str) -> str:
    """The schema of a verb's result, for a document that doesn't name one itself.

    >>> schema_of("report rank"), schema_of("measure pass-at-k"), schema_of("gate --plan")
    ('assay.rank/1', 'assay.measure-pass-at-k/1', 'assay.gate-plan/1')
    """
    name = next((name for name, other in _NAMES.items() if other == verb), verb)
    return f"assay.{name.replace(' ', '-')}/1"


def verb_of(schema: str | None) -> str | None:
    """The verb that makes results of a schema; None for a schema that isn't Assay's.

    >>> (
    ...     verb_of("assay.measure-pass-at-k/1"),
    ...     verb_of("assay.rank/1"),
    ...     verb_of("team.rank/1"),
    ...     verb_of("assay.gate-plan/1"),
    ... )
    ('measure pass-at-k', 'report rank', None, 'gate --plan')
    """
    match = _NAME.fullmatch(schema or "")
    if match is None:
        return None
    verb = " ".join(filter(None, match.groups()))
    return _NAMES.get(verb, verb)


def stored_of(database: Database, project: str, digests: Iterable[bytes]) -> list[str]:
    """Those of the records that a project has, in this order, without the forgotten ones. No body
    is read.
    """
    wanted = list(dict.fromkeys(digests))
    known = database.read(lambda connection: lookup(connection, project, wanted))
    return [
        digest_text(digest) for digest in wanted if digest in known and not known[digest].forgotten
    ]
