"""Run reports of SWE-bench, old and new: counts and rates of instances.

`check_report` checks a report's claims against the lists of tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.errors import InputError
from assay.files.swe_bench import report_lists
from assay.scoring.metrics.outcomes import resolution_rates


def read_report(tree: Any, *, where: str = "") -> dict[str, Any]:
    """Counts and rates of a run report: lists of instance ids under `generated`, `applied`,
    `resolved`, `no_generation` and more.

    The newer format, with `submitted_ids`, `completed_ids` and `resolved_ids`, is read too; its
    counts must match its lists. `all` counts each instance in any list once; a newer report may
    have a larger count (`total_instances`).
    """
    lists = report_lists(tree, where=where)
    sets = {key: set(ids) for key, ids in lists.ids.items()}
    everything = max(lists.total, lists.named)
    rates, reasons = resolution_rates(
        len(sets["resolved"]), everything, len(sets["generated"]), len(sets["applied"])
    )
    return {
        "counts": {**{key: len(ids) for key, ids in lists.ids.items()}, "all": everything},
        "rates": rates,
        **({"reasons": reasons} if reasons else {}),
    }


def check_report(tree: Any, document: Mapping[str, Any], *, where: str = "") -> None:
    """Raise InputError SCO-034 if a report and the lists of tests differ on what is resolved."""
    claimed = set(report_lists(tree, where=where).ids["resolved"])
    shown = {name for name, item in document["instances"].items() if item["status"] == "full"}
    if claimed != shown:
        name = min(claimed ^ shown)
        words = (
            "is resolved according to the report, but not according to its lists of tests"
            if name in claimed
            else "is resolved according to its lists of tests, but not according to the report"
        )
        raise InputError(
            "SCO-034",
            f"instance {name!r} {words}.",
            where=where,
            fix="Pass the report and the results of the same run.",
        )
