"""Group commit: requests that are ready together share a transaction, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from assay.server.writer import MAX_BATCH, Writer
from assay.store.drafts import draft
from assay.store.ledger import open_ledger


def stored(path: Path, n: int, *, apart: bool = False) -> tuple[Counter[str], list[Any]]:
    """Put `n` events, all ready at once or one after the other."""
    counts: Counter[str] = Counter()

    def count(name: str, by: int = 1) -> None:
        counts[name] += by

    async def put() -> list[Any]:
        writer.start()
        events = [draft({"schema": "assay.event/1", "at": at}, kind="event") for at in range(n)]
        if apart:
            return [await writer.put("p", [one]) for one in events]
        return list(await asyncio.gather(*(writer.put("p", [one]) for one in events)))

    with open_ledger(f"sqlite:///{path}/ledger.db") as ledger:
        writer = Writer(ledger, SimpleNamespace(count=count), SimpleNamespace())
        try:
            return counts, asyncio.run(put())
        finally:
            writer.close()


def test_requests_that_are_ready_together_share_a_transaction(tmp_path: Path) -> None:
    counts, found = stored(tmp_path, 50)
    assert counts == {"commits": 1, "records_sent": 50}
    assert [one.seq for (one,) in found] == list(range(1, 51))


def test_a_request_alone_waits_for_no_other(tmp_path: Path) -> None:
    counts, found = stored(tmp_path, 3, apart=True)
    assert counts["commits"] == 3
    assert [one.seq for (one,) in found] == [1, 2, 3]


def test_a_transaction_has_a_limit_and_the_rest_follows_at_once(tmp_path: Path) -> None:
    counts, found = stored(tmp_path, MAX_BATCH + 1)
    assert counts["commits"] == 2
    assert len({one.digest for (one,) in found}) == MAX_BATCH + 1
