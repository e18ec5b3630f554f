"""How far a long input is: a line on the terminal, and silence elsewhere."""

from __future__ import annotations

import os
import sys
import time


class Progress:
    """A line on the terminal with share, rate and time left; silent elsewhere."""

    def __init__(self, total: int, what: str) -> None:
        self.total = total
        self.what = what
        self.done = 0
        self.started = time.monotonic()
        self.shown = 0.0
        self.on = sys.stderr.isatty() and not os.environ.get("CI")

    def add(self, size: int) -> None:
        """Count bytes done, and show them now and then."""
        self.done += size
        now = time.monotonic()
        if not self.on or now - self.shown < 0.2:
            return
        self.shown = now
        rate = self.done / max(now - self.started, 1e-9)
        left = (self.total - self.done) / rate
        bar = "#" * (30 * self.done // max(self.total, 1))
        sys.stderr.write(f"\r{self.what[-30:]} [{bar:<30}] {100 * self.done // max(self.total, 1)}%  {rate / 1e6:.1f} MB/s  {left:.0f} s left ")
        sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self.on and self.shown:
            sys.stderr.write("\r" + " " * 90 + "\r")
