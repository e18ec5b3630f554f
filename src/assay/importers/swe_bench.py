"""Results of SWE-bench: the run report, the `report.json` of instances, and their logs.

A report of an instance has its tests and whether the patch applied; the run report has the verdicts
of all instances, and names those that were not submitted or ended in an error, which are missing
evidence. What is given together must agree: the run report with the instances, the lists of tests
with `resolved`, and the logs with both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.files.inputs import open_input
from assay.files.json_files import member
from assay.files.json_stream import stream_json
from assay.files.swe_bench import is_names, report_lists
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    file_id,
    file_stem,
    head_of,
    name_of,
    optional,
    sample_run,
    shaped,
    short_id,
)
from assay.importers.tally import ImportTally

MAX_LINE = 1024 * 1024
"""Bytes of a log's line that are looked at."""
_MARK = ">>>>> "
_MARKS = (
    "Start Test Output",
    "Patch Apply Failed",
    "Applied Patch",
    "Tests Errored",
    "Tests Timed Out",
    "Reset Failed",
)
_BROKEN = tuple(
    f"{_MARK}{mark}".encode() for mark in ("Tests Errored", "Tests Timed Out", "Reset Failed")
)
_NOT_APPLIED = f"{_MARK}Patch Apply Failed".encode()
_STARTED = f"{_MARK}Start Test Output".encode()
_ENDED = f"{_MARK}End Test Output".encode()
_INSTANCE = re.compile(r"(?:Creating container for|Grading answer for|Container for) (\S+?)[. ]")
_RESULT = re.compile(rb"Result for \S+: resolved: (True|False)")
_TEST = re.compile(rb"(PASSED|FAILED|ERROR|SKIPPED|XFAIL) (\S+)")


def is_log(head: Head) -> bool:
    """Whether this is a log of SWE-bench."""
    return not head.keys and (
        any(f"{_MARK}{mark}" in head.text for mark in _MARKS)
        or (os.path.basename(head.path) == "run_instance.log" and bool(_INSTANCE.search(head.text)))
    )


def instance_of(head: Head) -> str:
    """The instance of a log: by what it says, or else by the folder that it is in."""
    match = _INSTANCE.search(head.text)
    return match[1] if match else os.path.basename(os.path.dirname(os.path.abspath(head.path)))


def check_log(
    path: str,
    name: str,
    resolved: bool | None,
    applied: bool | None,
    passed: Collection[str],
) -> None:
    """Raise InputError SCO-034 where a log contradicts a report: it shows a patch that did not
    apply, tests that broke off, or a failure of a test among those that `passed`.
    """
    names = {test.encode() for test in passed}
    last: dict[bytes, bytes] = {}
    started = ended = False
    with open_input(path) as stream:
        while line := stream.readline(MAX_LINE):
            started |= _STARTED in line
            ended |= _ENDED in line
            if applied and _NOT_APPLIED in line:
                raise _contradiction(path, name, "the patch applied", "that it did not")
            if resolved and any(mark in line for mark in _BROKEN):
                raise _contradiction(path, name, "it is resolved", "that its tests stopped early")
            result = _RESULT.search(line)
            if result is not None and (result[1] == b"True") is not (resolved is True):
                shown = result[1].decode().lower()
                claimed = "it is resolved" if resolved else "it is not resolved"
                raise _contradiction(path, name, claimed, f"resolved: {shown}")
            test = _TEST.match(line)
            if test is not None and test[2] in names:
                last[test[2]] = test[1]
    if resolved and started and not ended:
        raise _contradiction(path, name, "it is resolved", "no end of its tests")
    for test_name, status in last.items():
        if status in (b"FAILED", b"ERROR"):
            shown = test_name.decode("utf-8", "replace")[:100]
            raise _contradiction(path, name, f"{shown} passed", status.decode())


def _contradiction(path: str, name: str, claimed: str, shown: str) -> InputError:
    return InputError(
        "SCO-034",
        f"the report of {name!r} says that {claimed}; the log says {shown}.",
        where=path,
        fix="Give the report and the log of the same run.",
    )


TOOL = "swe_bench"
_NAME = "swe-bench"


class Outcome(NamedTuple):
    """What became of an instance."""

    status: str
    resolved: bool | None
    reason: str = ""
    applied: bool | None = None


RESOLVED = Outcome("success", True, "resolved", True)
UNRESOLVED = Outcome("success", False, "not resolved")
_OUTCOMES = (
    # the later of two holds: an instance that errored after it was submitted has errored
    ("generated", Outcome("cancelled", None, "submitted; the report has no outcome for it")),
    ("applied", UNRESOLVED._replace(applied=True)),
    ("unresolved", UNRESOLVED),
    ("resolved", RESOLVED),
    ("no_generation", Outcome("failed", False, "no patch was generated", False)),
    ("empty_patch", Outcome("failed", False, "the patch is empty", False)),
    ("no_apply", Outcome("failed", False, "the patch did not apply", False)),
    ("incomplete", Outcome("cancelled", None, "not submitted")),
    ("install_fail", Outcome("error", None, "the installation failed")),
    ("reset_failed", Outcome("error", None, "the repository could not be reset")),
    ("test_errored", Outcome("error", None, "the tests ended in an error")),
    ("test_timeout", Outcome("timeout", None, "the tests timed out")),
    ("infra_failure", Outcome("error", None, "the environment failed")),
    ("ambiguous_failure", Outcome("error", None, "the patch or the environment failed")),
    ("error", Outcome("error", None, "the evaluation ended in an error")),
)


def _is_run_report(head: Head) -> bool:
    old = {"resolved", "no_generation", "no_apply", "with_logs"}
    return head.has("total_instances", "resolved_instances") or (
        head.has("generated") and bool(head.keys & old)
    )


def _is_instances(head: Head) -> bool:
    return any(key.endswith(".patch_successfully_applied") for key in head.keys)


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    report: str | None = None
    instances: list[str] = []
    logs: dict[str, list[str]] = {}
    for path in paths:
        head = head_of(path)
        if is_log(head):
            logs.setdefault(instance_of(head), []).append(path)
            tally.read["logs"] += 1
        elif _is_instances(head):
            instances.append(path)
        elif not _is_run_report(head):
            raise _refuse("is neither a report nor a log of SWE-bench.", path, "")
        elif report is not None:
            raise _refuse("two run reports at once.", path, "Import them one by one.")
        else:
            report = path
    if report is None and not instances:
        raise _refuse(
            "logs have no verdicts.", paths[0], "Give the report.json of their instances too."
        )
    outcomes, total = _outcomes(report)
    named = NameVersion(_NAME, _model(report, instances))
    origin = ResultOrigin(
        TOOL,
        named,
        NameVersion(_NAME, UNVERSIONED),
        file_id(report or instances[0]),
        answers=False,
        verdicts=True,
    )

    def made(name: str, outcome: Outcome, tests: Any = None) -> dict[str, Any]:
        given = tests or {}
        for log in logs.pop(name, ()):
            check_log(log, name, outcome.resolved, outcome.applied, given.get("passed", ()))
        run = sample_run(
            origin,
            wanted,
            tally,
            sample_id=short_id(name, tally.samples + 1),
            status=outcome.status,
            scores={"resolved": outcome.resolved},
            verdict=outcome.resolved,
            reason=outcome.reason,
            patch_applies=outcome.applied,
            tests=given.get("counts"),
            # the verdict rests on these tests
            checks={name: tally["total"] for name, tally in given.get("counts", {}).items()},
        )
        run["steps"][0]["name"] = "tests"
        return run

    seen: set[str] = set()
    for path in instances:
        for name, value in _instances(path):
            outcome, tests = _instance(name, value, path)
            if name in seen:
                raise _refuse(f"the instance {name!r} has two reports.", path, "Keep one.")
            if report is not None:
                _agree(name, outcome, outcomes.get(name), report)
            seen.add(name)
            tally.read["instance reports"] += 1
            if outcome.resolved and tests and not tests["counts"]["fail_to_pass"]["total"]:
                tally.note(f"{name} counts as resolved without a test that failed before.")
            yield made(name, outcome, tests)
    for name, outcome in outcomes.items():
        if name not in seen:
            yield made(name, outcome)
    for index in range(len(outcomes.keys() | seen), total):
        yield made(f"missing-{index + 1}", Outcome("cancelled", None, "not named in the report"))
    if logs:
        raise _refuse(
            f"the reports don't have the instance {min(logs)!r}.",
            logs[min(logs)][0],
            "Leave out its log, or give its report.",
        )
    if report is not None:
        tally.state("passed", sum(outcome.resolved is True for outcome in outcomes.values()))
        tally.state("samples", max(total, len(outcomes)))


def _outcomes(path: str | None) -> tuple[dict[str, Outcome], int]:
    """The outcomes by instance that a run report states, and how many instances it counts."""
    if path is None:
        return {}, 0
    tree = dict[str, Any]()
    for place, value in stream_json(path, [("*",)]):
        tree[str(place[0]) if place else ""] = value
    lists = report_lists(tree, where=path)
    outcomes: dict[str, Outcome] = {}
    for key in ("submitted", *(key for key, _ in _OUTCOMES)):
        outcome = dict(_OUTCOMES).get(key, _OUTCOMES[0][1])
        for name in lists.ids.get(key, ()):
            given = member(tree, "failure_reasons", name)
            words = f"{outcome.reason}: {given}" if isinstance(given, str) else outcome.reason
            outcomes[name_of(name, "an instance id", path)] = outcome._replace(reason=words)
    return outcomes, lists.total


def _instances(path: str) -> Iterator[tuple[str, Any]]:
    for place, value in stream_json(path, [("*",)]):
        if not place:
            raise _refuse("must be an object of instances by their ids.", path, "")
        yield name_of(place[0], "an instance id", path), value


def _instance(name: str, value: Any, path: str) -> tuple[Outcome, dict[str, Any] | None]:
    """The outcome of an instance by its own report, and its tests."""
    where = f"{path}: {name}"
    entry = shaped(value, dict, "the report of an instance", where)
    flags = {
        key: shaped(entry.get(key, False), bool, f"`{key}`", where)
        for key in ("patch_is_None", "infra_failure")
    }
    exists, applied, resolved = (
        shaped(entry.get(key), bool, f"`{key}`", where)
        for key in ("patch_exists", "patch_successfully_applied", "resolved")
    )
    if (resolved and not applied) or (applied and not exists):
        raise _refuse(
            "calls a patch resolved that did not apply, or applied that does not exist.",
            where,
            "Evaluate the instance again.",
        )
    tests = _tests(entry, resolved, applied, where)
    if flags["infra_failure"]:
        words = optional(entry.get("infra_failure_reason"), str, "`infra_failure_reason`", where)
        return Outcome("error", None, f"the environment failed: {words or ''}".rstrip(": ")), tests
    if flags["patch_is_None"] or not exists:
        return Outcome("failed", False, "no patch was generated", False), tests
    if not applied:
        return Outcome("failed", False, "the patch did not apply, or no test ran", False), tests
    return (RESOLVED if resolved else UNRESOLVED._replace(applied=True)), tests


def _tests(
    entry: Mapping[str, Any], resolved: bool, applied: bool, where: str
) -> dict[str, Any] | None:
    """How many tests passed, and which; `resolved` must be what they show."""
    given = optional(entry.get("tests_status"), dict, "`tests_status`", where)
    if given is None or not applied:
        return None
    counts: dict[str, Any] = {}
    passed: list[str] = []
    for ours, theirs in (("fail_to_pass", "FAIL_TO_PASS"), ("pass_to_pass", "PASS_TO_PASS")):
        part = shaped(given.get(theirs), dict, f"`{theirs}`", where)
        lists = [part.get("success"), part.get("failure")]
        if not all(is_names(names) for names in lists):
            raise _refuse(f"`{theirs}` needs lists of tests under success and failure.", where, "")
        good, bad = set(lists[0] or ()), set(lists[1] or ())
        if good & bad:
            raise _refuse(f"the test {min(good & bad)[:100]!r} both passed and failed.", where, "")
        counts[ours] = {"passed": len(good), "total": len(good | bad)}
        passed += good
    all_green = all(count["passed"] == count["total"] for count in counts.values())
    if all_green is not resolved:
        raise _refuse(
            f"says resolved: {str(resolved).lower()}, and its tests say {str(all_green).lower()}.",
            where,
            "Evaluate the instance again.",
        )
    return {"counts": counts, "passed": passed}


def _agree(name: str, outcome: Outcome, claimed: Outcome | None, report: str) -> None:
    if claimed is None or (claimed.resolved is True) is not (outcome.resolved is True):
        words = (
            "isn't named in the run report"
            if claimed is None
            else "is resolved by the run report, and not by its own"
            if claimed.resolved
            else "is resolved by its own report, and not by the run report"
        )
        raise _refuse(
            f"the instance {name!r} {words}.", report, "Give the reports of the same run."
        )


def _model(report: str | None, instances: Sequence[str]) -> str:
    """The model: swebench names a run report MODEL.RUN.json, and the folder of an instance's report
    is MODEL/INSTANCE.
    """
    if report is not None:
        model = file_stem(report).rpartition(".")[0]
        return model.replace("__", "/") or UNVERSIONED
    parts = os.path.normpath(instances[0]).split(os.sep)
    known = parts[-1] == "report.json" and len(parts) >= 5 and parts[-5] == "run_evaluation"
    return parts[-3].replace("__", "/") if known else UNVERSIONED


def _refuse(message: str, where: str, fix: str) -> InputError:
    return InputError("SCO-034", message, where=where, fix=fix)


IMPORTER = Importer(
    TOOL,
    "SWE-bench run reports, instance reports and logs",
    lambda head: _is_run_report(head) or _is_instances(head) or is_log(head),
    _read,
)
