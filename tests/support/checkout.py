"""Where this checkout is, whichever folder a test is in."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
SHARED = ROOT.parent / "shared"
