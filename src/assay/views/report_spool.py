"""Keeps the runs of a report on disk until its page is written, then returns them by sample, the
worst first.

A stream of any length takes the memory of one sample. Every run keeps what its row shows; only the
worst keep their evidence, which is larger.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

KEPT = 400
"""Runs whose evidence is kept; more than a page has room for."""
REPEATS = 1000
"""Repeats of a sample that are read; the counts have them all."""

_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE runs (place INTEGER PRIMARY KEY, sample TEXT, passed INTEGER, score REAL, row BLOB);
CREATE TABLE evidence (place INTEGER PRIMARY KEY, passed INTEGER, score REAL, body BLOB);
"""
_DROP = """
DELETE FROM evidence WHERE place NOT IN (
  SELECT place FROM evidence ORDER BY passed, score, place LIMIT ?
)
"""
_SAMPLES = """
SELECT sample, min(passed) AS good, avg(score) AS mean, min(place) AS first, count(*)
FROM runs GROUP BY sample ORDER BY good, mean, first LIMIT ?
"""
_RUNS = """
SELECT row, body FROM runs LEFT JOIN evidence USING (place)
WHERE sample = ? ORDER BY runs.passed, runs.score, place LIMIT ?
"""


class SampleSpool:
    """Runs in a file that is gone when it is closed."""

    def __init__(self) -> None:
        # SQLite keeps a database without a name in a private file, and only while it is open
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(_TABLES)
        self._database.execute("BEGIN")
        self._kept = 0
        self._limit: tuple[float, float] = (2, 0)
        """The verdict and the score above which evidence would be dropped again."""

    def add(self, sample: str, *, passed: bool, score: float, row: bytes, evidence: bytes) -> None:
        """Let a run wait."""
        name = sample.encode("utf-8", "replace").decode()
        added = self._database.execute(
            "INSERT INTO runs (sample, passed, score, row) VALUES (?, ?, ?, ?)",
            (name, passed, score, row),
        )
        if (passed, score) > self._limit:
            return
        self._database.execute(
            "INSERT INTO evidence VALUES (?, ?, ?, ?)", (added.lastrowid, passed, score, evidence)
        )
        self._kept += 1
        if self._kept >= 2 * KEPT:
            self._database.execute(_DROP, (KEPT,))
            self._kept = KEPT
            self._limit = self._database.execute(
                "SELECT passed, score FROM evidence ORDER BY passed DESC, score DESC"
            ).fetchone()

    def count(self) -> tuple[int, int]:
        """How many samples there are, and how many of them passed in every repeat."""
        self._database.execute(
            "CREATE INDEX IF NOT EXISTS by_sample ON runs (sample, passed, score, place)"
        )
        counts = self._database.execute(
            "SELECT count(*), sum(good) FROM (SELECT min(passed) AS good FROM runs GROUP BY sample)"
        ).fetchone()
        return counts[0], counts[1] or 0

    def samples(self, most: int) -> Iterator[tuple[int, list[bytes], bytes | None]]:
        """The worst samples: those that did not pass, and after them those that did, by score. Of
        each how many runs it has, the rows of them, the worst first, and the evidence of the worst,
        where it was kept.
        """
        for sample, _, _, _, n in self._database.execute(_SAMPLES, (most,)):
            kept_runs = self._database.execute(_RUNS, (sample, REPEATS)).fetchall()
            yield n, [row for row, _ in kept_runs], kept_runs[0][1]

    def close(self) -> None:
        """Drop what waits."""
        self._database.close()
