"""The progress line for a long input: shown only on a terminal."""

from __future__ import annotations

import os
import sys
import time


class Progress:
    """A line on the terminal with share, rate and time left; silent elsewhere."""

    def __init__(self, total: int, what: str, *, unit: str = "bytes") -> None:
        self.total = total
        self.what = what
        self.unit = unit
        self.done = 0
        self.started = time.monotonic()
        self.shown = 0.0
        self.on = sys.stderr.isatty() and not os.environ.get("CI")

    def add(self, size: int) -> None:
        """Count what is done, and show it now and then."""
        self.done += size
        now = time.monotonic()
        if not self.on or now - self.shown < 0.2:
            return
        self.shown = now
        rate = self.done / max(now - self.started, 1e-9)
        left = max(0, self.total - self.done) / rate
        pace = f"{rate / 1e6:.1f} MB/s" if self.unit == "bytes" else f"{rate:.1f} {self.unit}/s"
        share = min(1.0, self.done / max(self.total, 1))
        bar = "#" * int(30 * share)
        sys.stderr.write(
            f"\r{self.what[-30:]} [{bar:<30}] {100 * share:.0f}%  {pace}  {left:.0f} s left\x1b[K"
        )
        sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self.on and self.shown:
            sys.stderr.write("\r\x1b[K")
