"""Run reports of SWE-bench, old and new: counts and rates of instances named by id.

A report claims; the lists of tests show. `check_report` holds the one against the other.
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

    The newer report of swebench, with `submitted_ids`, `completed_ids` and `resolved_ids`, is read
    too; its counts must be those of its lists. `all` are the instances named anywhere, once each:
    an id may be in two of the lists. A newer report may count more (`total_instances`).
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
    """Raise InputError SCO-034 where a run report calls others resolved than the lists of tests
    do.
    """
    read_report(tree, where=where)
    claimed = set(tree.get("resolved_ids", tree.get("resolved", [])))
    shown = {name for name, item in document["instances"].items() if item["status"] == "full"}
    if claimed != shown:
        name = min(claimed ^ shown)
        words = (
            "is resolved by the report, and not by its lists of tests"
            if name in claimed
            else "is resolved by its lists of tests, and not by the report"
        )
        raise InputError(
            "SCO-034",
            f"instance {name!r} {words}.",
            where=where,
            fix="Give the report and the results of the same run.",
        )
