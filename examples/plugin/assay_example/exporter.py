"""An exporter: one line for each run, and how many passed."""

from __future__ import annotations

from typing import Any

from assay.plugins import Exporter, Format


class Digest(Format):
    """A digest for a chat channel."""

    def piece(self, result: Any) -> bytes:
        """One line."""
        mark = "ok " if result["passed"] is True else "BAD"
        return f"{mark} {result['grade']} {result['run_id']}\n".encode()

    def foot(self, faults: Any, counts: Any) -> bytes:
        """How many passed."""
        return f"{counts['passed']} of {counts['graded']} passed\n".encode()


DIGEST = Exporter("assay_example.digest", "A digest for a chat channel", (".txt",), Digest)
