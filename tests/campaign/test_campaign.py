"""The files of `make campaign`, which the suite doesn't run, take names from tests that it changes."""

from __future__ import annotations

import importlib
from pathlib import Path


def test_every_file_of_the_campaign_can_be_imported() -> None:
    files = sorted(Path(__file__).parent.glob("campaign_*.py"))
    assert len(files) > 5
    for file in files:
        importlib.import_module(file.stem)
