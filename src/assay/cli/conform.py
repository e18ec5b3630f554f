"""`assay conform`: run a file of conformance cases and compare."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from assay.canon import encode, pretty
from assay.cli import options as opt
from assay.cli.conform_ops import OPS, REQUIRED
from assay.cli.frame import Command, Options, arg
from assay.errors import AssayError, ExitCode, InputError, NotEnoughEvidence
from assay.files.atomic import write_file
from assay.files.json_files import parse_wide_json, read_json

TOLERANCE = Decimal("1e-9")


def run(options: Options) -> int:
    """Run the cases; exit 1 on any mismatch or unsupported required operation."""
    cases = read_json(options.file, lone_surrogates=True).tree
    _check(cases, options.file)
    base = (
        _annex_base(options.file) if any(case["op"] == "annex.validate" for case in cases) else None
    )
    results = [run_case(case, base) for case in cases]
    if options.actual:
        kept = [{key: result[key] for key in ("name", "op", "actual")} for result in results]
        write_file(options.actual, _json(kept, pretty))
    counts = {
        status: sum(result["status"] == status for result in results)
        for status in ("passed", "failed", "unsupported", "computed")
    }
    missing = sorted(
        {
            result["op"]
            for result in results
            if result["status"] == "unsupported" and result["op"] in REQUIRED
        }
    )
    if options.json:
        report = {
            "file": options.file,
            "counts": counts,
            "unsupported_required": missing,
            "cases": results,
        }
        sys.stdout.buffer.write(_json(report, pretty))
    else:
        _print(results, counts, missing)
    return ExitCode.FAILED if counts["failed"] or missing else ExitCode.PASSED


def _check(cases: Any, file: str) -> None:
    if not isinstance(cases, list):
        raise InputError("CNF-001", "must be a list of cases.", where=file)
    if not cases:
        raise NotEnoughEvidence("CNF-001", "the file contains no cases.", where=file)
    seen = set()
    for index, case in enumerate(cases):
        if (
            not isinstance(case, dict)
            or not isinstance(case.get("name"), str)
            or not isinstance(case.get("op"), str)
        ):
            raise InputError(
                "CNF-001", f"case {index} must be an object with a name and an op.", where=file
            )
        key = (case["op"], case["name"])
        if key in seen:
            raise InputError(
                "CNF-001", f"two cases of the op '{key[0]}' are named '{key[1]}'.", where=file
            )
        seen.add(key)


def _annex_base(file: str) -> Any:
    """The sound entry next to the vectors that their cases change; None if it is absent."""
    path = os.path.join(os.path.dirname(os.path.abspath(file)), "annex-base.json")
    return read_json(path).tree if os.path.exists(path) else None


def run_case(case: dict[str, Any], base: Any = None) -> dict[str, Any]:
    """The result of a case."""
    op = OPS.get(case["op"])
    head = {"name": case["name"], "op": case["op"]}
    if op is None:
        return {**head, "status": "unsupported", "actual": None}
    given = case.get("input", {})
    if base is not None and case["op"] == "annex.validate" and isinstance(given, dict):
        given = {**given, "$base": base}
    try:
        actual: Any = op(given) if isinstance(given, dict) else {"error": True}
    except AssayError as error:
        actual = {"error": error.code, "message": error.message}
    except (
        Exception
    ) as error:  # an operation never raises out of conform; an internal error is a failed case
        actual = {"error": "ERR-001", "message": f"{type(error).__name__}: {error}", "fault": True}
    written = parse_wide_json(_json(actual, encode))
    if "expected" not in case:
        return {**head, "status": "computed", "actual": written}
    difference = differs(case["expected"], actual)
    if difference is None and isinstance(actual, dict) and actual.get("fault"):
        difference = "an internal error"
    if difference is None:
        return {**head, "status": "passed", "actual": written}
    more = {"difference": difference, "expected": case["expected"]}
    return {**head, "status": "failed", "actual": written, **more}


def _json(document: Any, write: Callable[[Any], bytes]) -> bytes:
    try:
        return write(document)
    except UnicodeEncodeError:
        # half of a surrogate pair, which UTF-8 cannot hold: it is written as its escape
        indent = 2 if write is pretty else None
        return json.dumps(document, default=float, indent=indent).encode() + b"\n"


def differs(expected: Any, actual: Any, path: str = "") -> str | None:
    """Where and how the actual value differs from the expected one, or None. Keys that `expected`
    does not name are ignored.
    """
    where = path or "the result"
    if path.rsplit(".", 1)[-1] in ("error", "warning") and expected is True:
        return None if actual else f"{where}: expected an error or warning, there is none"
    if expected is None:
        return None if actual is None else f"{where}: expected null, got {actual!r}"
    if isinstance(expected, bool) or isinstance(actual, bool):
        return None if expected is actual else f"{where}: expected {expected!r}, got {actual!r}"
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return f"{where}: expected an object, got {actual!r}"
        for key, value in expected.items():
            difference = differs(value, actual.get(key), f"{path}.{key}" if path else key)
            if difference is not None:
                return difference
        return None
    if isinstance(expected, list):
        if not isinstance(actual, list | tuple) or len(actual) != len(expected):
            return f"{where}: expected {expected!r}, got {actual!r}"
        for index, value in enumerate(expected):
            difference = differs(value, actual[index], f"{path}[{index}]")
            if difference is not None:
                return difference
        return None
    if isinstance(expected, int | float | Decimal):
        if not isinstance(actual, int | float | Decimal):
            return f"{where}: expected {expected}, got {actual!r}"
        apart = abs(Decimal(str(expected)) - Decimal(str(actual)))
        return None if apart <= TOLERANCE else f"{where}: expected {expected}, got {actual}"
    return None if expected == actual else f"{where}: expected {expected!r}, got {actual!r}"


def _print(results: list[dict[str, Any]], counts: dict[str, int], missing: list[str]) -> None:
    opt.print_lines(
        f"FAILED  {result['op']}: {result['name']}\n        {result['difference']}"
        for result in results
        if result["status"] == "failed"
    )
    opt.print_lines([", ".join(f"{count} {status}" for status, count in counts.items() if count)])
    if missing:
        opt.print_lines([f"required and not supported yet: {', '.join(missing)}"])


COMMANDS = {
    "conform": Command(
        run,
        "Run a file of conformance cases and compare each result with what is expected.",
        "assay conform vectors/workflow.json",
        (
            arg("file", metavar="FILE", help="a JSON list of cases {name, op, input, expected}"),
            arg(
                "--actual",
                kind="path",
                metavar="OUT.json",
                help="write what each case gives, as [{name, op, actual}]",
            ),
        ),
        configured=False,
    ),
}
