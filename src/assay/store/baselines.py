"""The baselines of a ledger, by name, and the evidence that they name.

A name means its newest baseline. A record that doesn't match its digest stops the search: it may
have been the newest baseline of that name, so an older one would be the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import InputError, NotEnoughEvidence
from assay.store.drafts import DIGEST, Item

if TYPE_CHECKING:
    from assay.store.ledger import Ledger

_PAGE = 200


class KeptBaseline(NamedTuple):
    """A baseline of a ledger: its digest, and its record, which names its evidence."""

    digest: str
    record: dict[str, Any]


def find_baseline(ledger: Ledger, name: str, *, project: str) -> KeptBaseline | None:
    """The newest baseline of a name, or one by its digest; None if the project has none."""
    if DIGEST.fullmatch(name):
        item = ledger.get(name, project=project)
        return (
            None
            if item is None or item.kind != "baseline"
            else _whole(item.digest, item.tree(), name)
        )
    return next(
        (
            _whole(digest, record, name)
            for digest, record in _all(ledger, project)
            if record.get("name") == name
        ),
        None,
    )


def baseline_names(ledger: Ledger, *, project: str) -> list[str]:
    """The names that baselines of a project have, in order."""
    return sorted({str(record.get("name")) for _, record in _all(ledger, project)})


class ListedBaseline(NamedTuple):
    """A baseline in a list, or what is wrong with it."""

    digest: str
    kept: KeptBaseline | None
    fault: str


def list_baselines(ledger: Ledger, *, project: str) -> Iterator[ListedBaseline]:
    """Every baseline of a project, the newest first. One that was changed is listed with its
    fault, and the list continues.
    """
    for item in _items(ledger, project):
        try:
            record = item.tree()
            yield ListedBaseline(
                item.digest, _whole(item.digest, record, str(record.get("name"))), ""
            )
        except (InputError, NotEnoughEvidence) as error:
            yield ListedBaseline(item.digest, None, str(error))


def evidence_of_baseline(
    ledger: Ledger, baseline: KeptBaseline, *, kinds: tuple[str, ...], project: str
) -> Iterator[Item]:
    """The evidence of a baseline, in the order in which it names it. A missing record is an error,
    and so is one of another kind.
    """
    return ledger.complete(
        [str(digest) for digest in baseline.record["evidence_digests"]],
        kinds=kinds,
        what="evidence of this baseline",
        where=baseline.digest,
        fix="Keep a new baseline.",
        project=project,
    )


def _all(ledger: Ledger, project: str) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((item.digest, item.tree()) for item in _items(ledger, project))


def _items(ledger: Ledger, project: str) -> Iterator[Item]:
    """Every baseline of a project that was not forgotten, the newest first."""
    return ledger.each("baseline", project=project, at_once=_PAGE, newest_first=True)


def _whole(digest: str, record: dict[str, Any], name: str) -> KeptBaseline:
    if not isinstance(record.get("evidence_digests"), list):
        raise NotEnoughEvidence(
            "REL-005",
            f"the baseline {name[:80]!r} names no evidence in this ledger.",
            where="baseline",
        )
    return KeptBaseline(digest, record)
