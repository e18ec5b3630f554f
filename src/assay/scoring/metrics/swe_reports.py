"""Run reports of SWE-bench, old and new: counts and rates of instances named by id.

A report claims; the lists of tests show. `check_report` holds the one against the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.scoring.metrics.outcomes import is_names, resolution_rates

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_report(tree: Any) -> bool:
    """Whether this is a run report of SWE-bench, old or new."""
    return isinstance(tree, dict) and (
        "resolved_ids" in tree or {"generated", "applied", "resolved"} <= tree.keys()
    )


def read_report(tree: Any, *, where: str = "") -> dict[str, Any]:
    """Counts and rates of a run report: lists of instance ids under `generated`, `applied`,
    `resolved`, `no_generation` and more.

    The newer report of swebench, with `submitted_ids`, `completed_ids` and `resolved_ids`, is read
    too; its counts must be those of its lists. `all` are the instances named anywhere, once each:
    an id may stand in two of the lists. A newer report may count more (`total_instances`).
    """
    if not is_report(tree):
        raise InputError(
            "SCO-034",
            "is not a run report: it must list instance ids under `generated`, `applied` and"
            " `resolved`.",
            where=where,
        )
    total = 0
    if "resolved_ids" in tree:
        tree, total = _from_new(tree, where)
    wrong = [key for key, ids in tree.items() if not is_names(ids)]
    if wrong:
        raise InputError("SCO-034", f"`{wrong[0]}` must be a list of instance ids.", where=where)
    sets = {key: set(ids) for key, ids in tree.items()}
    if not sets["resolved"] <= sets["applied"] or not sets["applied"] <= sets["generated"]:
        raise InputError(
            "SCO-034",
            "an instance is resolved that did not apply, or applied that was not generated.",
            where=where,
        )
    not_resolved = sets["resolved"].intersection(
        name for key in _NOT_RESOLVED for name in sets.get(key, ())
    )
    if not_resolved:
        raise InputError(
            "SCO-034",
            f"instance {min(not_resolved)!r} is resolved, and also listed as failed.",
            where=where,
        )
    everything = max(total, len(set().union(*sets.values())))
    rates, reasons = resolution_rates(
        len(sets["resolved"]), everything, len(sets["generated"]), len(sets["applied"])
    )
    return {
        "counts": {**{key: len(ids) for key, ids in tree.items()}, "all": everything},
        "rates": rates,
        **({"reasons": reasons} if reasons else {}),
    }


_NOT_RESOLVED = (
    "unresolved",
    "error",
    "no_apply",
    "install_fail",
    "reset_failed",
    "test_errored",
    "test_timeout",
)


def _from_new(tree: dict[str, Any], where: str) -> tuple[dict[str, Any], int]:
    """The lists of a newer report under the names of the older one, and how many instances it
    counts in all.
    """
    lists = {key.removesuffix("_ids"): ids for key, ids in tree.items() if key.endswith("_ids")}
    for name, ids in lists.items():
        count = tree.get(f"{name}_instances", len(ids) if is_names(ids) else 0)
        if not is_names(ids) or len(set(ids)) != len(ids) or count != len(ids):
            raise InputError(
                "SCO-034",
                f"`{name}_ids` must be a list of instance ids, each once, as many as"
                f" `{name}_instances` says.",
                where=where,
            )
    total = tree.get("total_instances", 0)
    if type(total) is not int or not {"submitted", "completed", "resolved"} <= lists.keys():
        raise InputError(
            "SCO-034",
            "is not a run report: it must list `submitted_ids`, `completed_ids` and"
            " `resolved_ids`.",
            where=where,
        )
    empty = set(lists.get("empty_patch", []))
    generated = [name for name in lists["submitted"] if name not in empty]
    return {
        "generated": generated,
        "applied": lists["completed"],
        **{name: ids for name, ids in lists.items() if name != "completed"},
    }, total


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
