"""Run reports of SWE-bench, old and new: lists of instance ids by outcome."""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.errors import InputError


class ReportLists(NamedTuple):
    """The instances of a run report, by the names of the older report: `generated`, `applied`,
    `resolved` and more.
    """

    ids: dict[str, list[str]]
    total: int
    """How many instances a newer report counts in all; 0 for an older one."""

    @property
    def named(self) -> int:
        """How many instances are named anywhere, once each: an id may be in two lists."""
        return len(set().union(*self.ids.values()))


def is_names(value: Any) -> bool:
    """Whether this is a list of strings."""
    return isinstance(value, list) and set(map(type, value)) <= {str}


def is_report(tree: Any) -> bool:
    """Whether this is a run report of SWE-bench, old or new."""
    return isinstance(tree, dict) and (
        "resolved_ids" in tree or {"generated", "applied", "resolved"} <= tree.keys()
    )


def report_lists(tree: Any, *, where: str = "") -> ReportLists:
    """The lists of a run report. The newer report, with `submitted_ids`, `completed_ids` and
    `resolved_ids`, is read too; its counts must be those of its lists. A report that contradicts
    itself is refused.
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
    return ReportLists(tree, total)


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
                f"`{name}_ids` must be a list of different instance ids, as many as"
                f" `{name}_instances` states.",
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
