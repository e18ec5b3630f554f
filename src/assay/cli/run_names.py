"""What a person may call a run after `--run`: its id, its sample, its name in the tool that made
it, or the end of one of them where no other run has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from assay.errors import UsageError
from assay.registry import near_miss
from assay.views.documents import names_of

KNOWN = 10_000
"""Runs that are remembered, to find the one that was meant."""
_PART = re.compile(r"/|::")


def run_names(tree: Mapping[str, Any]) -> tuple[Any, ...]:
    """The names of a run or of its grade."""
    dataset = tree.get("dataset")
    if not isinstance(dataset, dict):
        return tree.get("run_id"), tree.get("sample_id")
    return names_of({**tree, "sample_id": dataset.get("sample_id") or tree.get("sample_id")})


class OtherRuns:
    """The runs that do not have a name exactly."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def add(self, tree: Mapping[str, Any]) -> None:
        """Remember a run, or its grade, by its names and their ends."""
        run_id, *others = (str(name) for name in run_names(tree) if name)
        if len(self._names) >= 4 * KNOWN:
            return
        metadata = tree.get("metadata")
        named = metadata.get("name") if isinstance(metadata, dict) else None
        for name in {run_id, *others, *([named] if isinstance(named, str) else [])}:
            self._names.setdefault(name, set()).add(run_id)
            for part in _PART.finditer(name):
                self._names.setdefault(name[part.end() :], set()).add(run_id)

    def meant(self, text: str) -> str | None:
        """The id of the only run whose name has this ending.

        >>> found = OtherRuns()
        >>> found.add({"run_id": "junit-1/tests.test_bot::test_tone[calm]"})
        >>> found.meant("test_tone[calm]"), found.meant("tone")
        ('junit-1/tests.test_bot::test_tone[calm]', None)
        """
        runs = self._names.get(text, set())
        return next(iter(runs)) if len(runs) == 1 else None

    def unknown(self, text: str, where: str) -> UsageError:
        """The error for a name that no run has, or that several have."""
        runs = sorted(self._names.get(text, ()))
        if runs:
            return UsageError(
                "CLI-001",
                f"{len(runs):,} runs are named {text!r}: {', '.join(runs[:3])}"
                f"{', ...' if runs[3:] else ''}.",
                where=where,
                fix="Give the whole id.",
            )
        return UsageError(
            "CLI-001", f"no run is named {text!r}.{near_miss(text, self._names)}", where=where
        )

    def __bool__(self) -> bool:
        return bool(self._names)
