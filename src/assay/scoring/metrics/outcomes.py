"""Tests that must pass: how much of an issue is resolved, as SWE-bench counts it.

`fail_to_pass` are the tests that failed before and must pass now, `pass_to_pass` those that passed
and must still pass. An instance is fully resolved if all of both pass, partially if all of the
second and some of the first pass, and not at all otherwise. An empty list of tests counts as
passed, as in SWE-bench; instances without any tests are counted, so that nobody takes them for
solved. A patch that was not generated or did not apply resolves nothing.

Source: SWE-bench (swebench 5, harness/grading.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import lcm
from typing import Any, Literal, NamedTuple

from assay.errors import FaultList, InputError, NotEnoughEvidence
from assay.files.json_files import Document, Unread
from assay.files.swe_bench import is_names, report_lists
from assay.records.evidence import Run
from assay.scoring.metrics.measure import Measure, Undetermined, some_tests, tally

Status = Literal["full", "partial", "no"]


class Share(NamedTuple):
    """How many tests passed, of how many."""

    passed: int
    total: int

    def value(self) -> float:
        """The share; 1 if there are no tests."""
        return self.passed / self.total if self.total else 1.0


class Instance(NamedTuple):
    """The outcome of the tests of one instance."""

    instance_id: str
    fail_to_pass: Share | None
    """None if the tests did not run, because there was no patch or it did not apply."""
    pass_to_pass: Share | None
    generated: bool
    applied: bool

    def status(self) -> Status:
        """How far it is resolved."""
        if not self.applied or self.fail_to_pass is None or self.pass_to_pass is None:
            return "no"
        return resolution(self.fail_to_pass, self.pass_to_pass)


def resolution(fail_to_pass: Share, pass_to_pass: Share) -> Status:
    """`full`, `partial` or `no`.

    >>> (
    ...     resolution(Share(2, 2), Share(0, 0)),
    ...     resolution(Share(1, 2), Share(9, 9)),
    ...     resolution(Share(2, 2), Share(8, 9)),
    ... )
    ('full', 'partial', 'no')
    """
    if pass_to_pass.passed < pass_to_pass.total or (
        fail_to_pass.passed == 0 and fail_to_pass.total > 0
    ):
        return "no"
    return "full" if fail_to_pass.passed == fail_to_pass.total else "partial"


def summarise(instances: Iterable[Instance]) -> dict[str, Any]:
    """The JSON form of `assay measure tests`. A rate whose denominator is 0 is null, with its
    reason under `reasons`.

    `resolved` is the share of all instances; the shares of generated and of applied patches have
    other names.
    """
    listed = list(instances)
    if not listed:
        raise NotEnoughEvidence("SCO-034", "there are no instances in the file.")
    statuses = [item.status() for item in listed]
    ran = [
        item for item in listed if item.fail_to_pass is not None and item.pass_to_pass is not None
    ]
    counts = {
        "all": len(listed),
        "generated": sum(item.generated for item in listed),
        "applied": sum(item.applied for item in listed),
        "resolved": statuses.count("full"),
        "full": statuses.count("full"),
        "partial": statuses.count("partial"),
        "no": statuses.count("no"),
        "without_tests": sum(
            item.fail_to_pass.total + item.pass_to_pass.total == 0
            for item in ran
            if item.fail_to_pass and item.pass_to_pass
        ),
    }
    rates, reasons = resolution_rates(
        counts["resolved"], counts["all"], counts["generated"], counts["applied"]
    )
    for name in ("fail_to_pass", "pass_to_pass"):
        shares: list[Share] = [getattr(item, name) for item in ran]
        tests = sum(share.total for share in shares)
        rates[f"{name}_mean"] = _mean(shares) if shares else None
        rates[f"{name}_pooled"] = sum(share.passed for share in shares) / tests if tests else None
        if not shares:
            reasons[f"{name}_mean"] = "the tests of no instance ran"
        if not tests:
            reasons[f"{name}_pooled"] = "there are no such tests"
    return {
        "instances": {
            item.instance_id: _shown(item, status)
            for item, status in zip(listed, statuses, strict=True)
        },
        "counts": counts,
        "rates": rates,
        **({"reasons": reasons} if reasons else {}),
    }


def _mean(shares: list[Share]) -> float:
    """The mean of the shares, added exactly and rounded once."""
    common = lcm(*(share.total or 1 for share in shares))
    return sum(
        share.passed * (common // share.total) if share.total else common for share in shares
    ) / (common * len(shares))


def _shown(item: Instance, status: Status) -> dict[str, Any]:
    return {
        "status": status,
        "fail_to_pass": None if item.fail_to_pass is None else item.fail_to_pass.value(),
        "pass_to_pass": None if item.pass_to_pass is None else item.pass_to_pass.value(),
    }


def resolution_rates(
    resolved: int, everything: int, generated: int, applied: int
) -> tuple[dict[str, float | None], dict[str, str]]:
    """The resolved share over three denominators, and why one is null."""
    rates: dict[str, float | None] = {}
    reasons = {}
    for name, count, what in (
        ("resolved", everything, "instances"),
        ("resolved_of_generated", generated, "generated patches"),
        ("resolved_of_applied", applied, "applied patches"),
    ):
        rates[name] = resolved / count if count else None
        if not count:
            reasons[name] = f"there are no {what}"
    return rates, reasons


# --- reading


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


def read_instances(documents: Iterable[Document | Unread], *, where: str = "") -> list[Instance]:
    """Instances from lines `{"instance_id", "fail_to_pass": {"passed": [names], "failed": [names]},
    "pass_to_pass": {...}}`.

    `generated` and `applied` are optional and true by default. SWE-bench's format `{id:
    {"FAIL_TO_PASS": {"success", "failure"}, ...}}`, with or without `tests_status` around it, is
    read too. A test that is listed twice, or as both passed and failed, is a fault; so is a
    `resolved` that the lists don't support.
    """
    instances: dict[str, Instance] = {}
    faults = FaultList(where, code="SCO-034")
    for document in documents:
        if isinstance(document, Unread):
            faults.take(document.fault)
            continue
        for name, tree in _entries(document.tree):
            read = _instance(name, tree)
            if not isinstance(read, str) and read.instance_id in instances:
                read = f"instance '{name}' appears twice."
            if isinstance(read, str):
                faults.add(read, line=document.line, path=document.at, file=document.file)
            else:
                instances[read.instance_id] = read
    faults.raise_if_any()
    return list(instances.values())


_OURS = {"instance_id", "fail_to_pass", "pass_to_pass"}


def _entries(tree: Any) -> Iterable[tuple[Any, Any]]:
    if (
        isinstance(tree, dict)
        and tree
        and not tree.keys() & _OURS
        and all(isinstance(item, dict) for item in tree.values())
    ):
        return tree.items()
    return [(tree.get("instance_id") if isinstance(tree, dict) else None, tree)]


def _instance(name: Any, tree: Any) -> Instance | str:
    if not isinstance(tree, dict) or not isinstance(name, str) or not name:
        return 'must be an object with "instance_id", "fail_to_pass" and "pass_to_pass".'
    generated = tree.get("generated", tree.get("patch_exists", True))
    applied = tree.get("applied", tree.get("patch_successfully_applied", generated))
    if type(generated) is not bool or type(applied) is not bool or (applied and not generated):
        return (
            f"instance '{name}': `generated` and `applied` must be true or false, and what was not"
            " generated cannot have applied."
        )
    tests = tree.get("tests_status", tree)
    shares = []
    for ours, theirs in (("fail_to_pass", "FAIL_TO_PASS"), ("pass_to_pass", "PASS_TO_PASS")):
        given = tests.get(ours, tests.get(theirs)) if isinstance(tests, dict) else None
        share = None if given is None and not applied else _share(given)
        if isinstance(share, str):
            return f"instance '{name}', {ours}: {share}"
        shares.append(share)
    instance = Instance(name, shares[0], shares[1], generated, applied)
    claimed = tree.get("resolved")
    if claimed is not None and claimed is not (instance.status() == "full"):
        return (
            f"instance '{name}' says resolved: {str(claimed).lower()[:20]}, and its lists of tests"
            f" say {instance.status()}. Correct one of them."
        )
    return instance


def _share(given: Any) -> Share | str:
    if not isinstance(given, dict):
        return 'must be {"passed": [names], "failed": [names]}.'
    ours = "passed" in given or "failed" in given
    passed: Any = given.get("passed" if ours else "success")
    failed: Any = given.get("failed" if ours else "failure")
    if not is_names(passed) or not is_names(failed):
        return 'must be {"passed": [names], "failed": [names]}, both lists of strings.'
    names = {*passed, *failed}
    if len(names) < len(passed) + len(failed):
        both = sorted(set(passed) & set(failed))
        twice = both[0] if both else Counter(passed + failed).most_common(1)[0][0]
        return (
            f"the test '{twice[:100]}' appears"
            f" {'among the passed and among the failed' if both else 'twice'}. Keep one."
        )
    return Share(len(passed), len(names))


# --- measures of one run


def _share_of(name: str) -> Callable[[Run, Mapping[str, Any]], Any]:
    def read(run: Run, _params: Mapping[str, Any]) -> Any:
        counted = some_tests(run, name)
        return {"passed": counted.passed, "total": counted.total}

    return read


def _resolved(run: Run, _params: Mapping[str, Any]) -> Any:
    if run.patch_applies is False:
        return 0
    first, second = tally(run, "fail_to_pass"), tally(run, "pass_to_pass")
    if first.total == 0:
        raise Undetermined(
            "`tests.fail_to_pass` counts no tests: nothing shows that the issue is resolved"
        )
    return int(
        resolution(Share(first.passed, first.total), Share(second.passed, second.total)) == "full"
    )


def _tests_passed(run: Run, _params: Mapping[str, Any]) -> Any:
    if run.tests is None or run.tests.fail_to_pass is None or run.tests.pass_to_pass is None:
        raise Undetermined(
            "the run does not have both `tests.fail_to_pass` and `tests.pass_to_pass`"
        )
    total = run.tests.fail_to_pass.total + run.tests.pass_to_pass.total
    if total == 0:
        raise Undetermined("`tests` counts no tests")
    return {"passed": run.tests.fail_to_pass.passed + run.tests.pass_to_pass.passed, "total": total}


_SWE = "Jimenez et al., SWE-bench, 2024; swebench 5, harness/grading.py"
OUTCOMES = (
    Measure(
        "tests_passed",
        "1",
        "Tests that pass, of all that should",
        "share",
        "higher is better",
        "ratio",
        (("tests",),),
        "undetermined",
        _tests_passed,
        limits="Every test weighs the same, whether it shows the fix or a regression.",
    ),
    Measure(
        "fail_to_pass",
        "1",
        "Tests of the issue that pass now",
        "share",
        "higher is better",
        "ratio",
        (("tests.fail_to_pass",),),
        "undetermined",
        _share_of("fail_to_pass"),
        citation=_SWE,
        limits="As good as the tests: a patch can pass them and be wrong.",
    ),
    Measure(
        "pass_to_pass",
        "1",
        "Tests that passed before and still do",
        "share",
        "higher is better",
        "ratio",
        (("tests.pass_to_pass",),),
        "undetermined",
        _share_of("pass_to_pass"),
        citation=_SWE,
        limits="Sees only what the tests cover.",
    ),
    Measure(
        "tests_resolved",
        "1",
        "Every test that must pass passes",
        "yes or no",
        "higher is better",
        "binary",
        (("tests", "patch_applies"),),
        "undetermined",
        _resolved,
        range="0 or 1",
        citation=_SWE,
        limits=(
            "Without tests of the issue it is undetermined, where SWE-bench would count an empty"
            " list as passed. No credit for a partial resolution."
        ),
    ),
)
