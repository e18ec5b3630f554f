"""`assay conform`: run a file of conformance cases and compare."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from assay import exact
from assay.canon import encode, pretty
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg
from assay.errors import (
    AssayError,
    EvidenceError,
    ExitCode,
    FormulaError,
    InputError,
    NotEnoughEvidence,
    ShelfError,
)
from assay.exact import NORM_DIGITS, NORM_ONE
from assay.family import merged
from assay.files.atomic import write_file
from assay.files.json_files import Document, parse_wide_json, read_json
from assay.formulas import normalise, scale_norm
from assay.grading.grade import grade
from assay.grading.policy import CardTerms, Rules, disagrees_too_often, make_rules
from assay.library.shelf import Shelf
from assay.records.evidence import Run
from assay.records.reading import read_record, read_run
from assay.records.scorecard import Scorecard
from assay.release.ranking import near_equal
from assay.scoring.gates import GATES
from assay.scoring.profile import ProfileCriterion

Input = dict[str, Any]
Output = dict[str, Any]

_SHELF = Shelf()


def _rules() -> Rules:
    """The shipped policy. A vector states the whole input of the algorithm, so an empty map of
    gates is intended.
    """
    return make_rules(_SHELF.policy("workflow"))._replace(cards=CardTerms(without_gates=True))


def _normalize(given: Input) -> Output:
    params = given.get("params")
    if params is not None and not isinstance(params, dict):
        raise FormulaError("SCO-005", "the parameters must be an object.")
    return {
        "norm": exact.shown(
            normalise(given.get("raw"), str(given.get("formula_id")), params), NORM_DIGITS
        )
    }


def _number(given: Input, key: str, default: Any = None) -> exact.Ratio:
    try:
        return exact.ratio(given.get(key, default))
    except ValueError as error:
        raise FormulaError("SCO-003", f"'{key}' must be a number; {error}.") from None


def _unit(value: exact.Ratio, key: str) -> exact.Ratio:
    if not 0 <= value.num <= value.den:
        raise FormulaError("SCO-001", f"'{key}' must be in 0..1.")
    return value


def _adjusted_norm(given: Input) -> Output:
    n = _number(given, "n")
    norm, prior, k = (
        _unit(_number(given, "norm"), "norm"),
        _unit(_number(given, "prior", 0.5), "prior"),
        _number(given, "k", 20),
    )
    if n.den != 1 or n.num < 0:
        raise FormulaError("SCO-001", "'n' must be a whole number of at least 0.")
    if k.num < 0 or n.num * k.den + k.num <= 0:
        raise FormulaError("SCO-001", "'n' + 'k' must be positive.")
    return {
        "adjusted_norm": exact.shown(
            exact.shrink(exact.norm_of(norm), n.num, exact.shrinkage(prior, k)), NORM_DIGITS
        )
    }


def _floor_convert(given: Input) -> Output:
    scale = given.get("scale")
    if not isinstance(scale, list) or len(scale) != 2:
        raise FormulaError("GRD-104", "'scale' must be [low, high].")
    return {
        "critical_floor_norm": exact.shown(
            scale_norm(given.get("critical_floor"), scale[0], scale[1]), NORM_DIGITS
        )
    }


def _workflow_grade(given: Input) -> Output:
    criteria = given.get("criteria")
    if not isinstance(criteria, list) or not all(isinstance(item, dict) for item in criteria):
        raise EvidenceError("GRD-101", "'criteria' must be a list of objects.")
    listed = []
    for item in criteria:
        _unit(_number(item, "norm"), "norm")
        floor = item.get("critical_floor_norm")
        listed.append(
            {
                "name": item.get("name"),
                "raw_score": item.get("norm"),
                "formula_id": "zero_one",
                "weight": item.get("weight"),
                "critical_floor": None if floor is None else {"norm": floor},
            }
        )
    card = {
        "schema": "assay.scorecard/1",
        "run_id": "conform",
        "hard_gates": given.get("hard_gates", {}),
        "criteria": listed,
        "pass_threshold": given.get("pass_threshold"),
    }
    rules, threshold = _rules(), card["pass_threshold"]
    if exact.is_number(threshold):  # the vector's threshold is the policy's, not a card's own
        rules = rules._replace(
            pass_threshold=threshold, threshold=exact.reach(threshold, exact.SCORE_DIGITS)
        )
    result = grade(read_record(Document(card, "input"), Scorecard, "GRD-101"), rules)
    return {
        "weighted_score": result.weighted_score,
        "weighted_score_adjusted": result.weighted_score_adjusted,
        "provisional_grade": result.provisional_grade,
        "grade": result.grade,
        "passed": result.passed,
        "reason": result.reason,
        "hard_gate_failures": list(result.hard_gate_failures),
        "floor_failed": list(result.floor_failures),
    }


def _weighed(profile: str) -> list[ProfileCriterion]:
    """The criteria of a profile that carry a weight; one that has only a floor moves no score."""
    return [item for item in _SHELF.profile(profile).criteria if exact.ratio(item.weight).num]


def _profile(given: Input) -> Output:
    name = given.get("profile")
    if not isinstance(name, str):
        raise ShelfError("LIB-001", "'profile' must be a name.")
    criteria = _weighed(name)
    weights = {item.id: exact.ratio(item.weight) for item in criteria}
    return {
        "weights": {name: weight.num / weight.den for name, weight in weights.items()},
        "sum": exact.shown(
            exact.total([item.weight for item in criteria], NORM_DIGITS), NORM_DIGITS
        ),
    }


def _profile_score(given: Input) -> Output:
    norms = given.get("norms")
    weighed = _weighed(str(given.get("profile")))
    names = [item.id for item in weighed]
    if not isinstance(norms, dict) or set(norms) != set(names):
        raise EvidenceError(
            "GRD-103", f"'norms' must have exactly the criteria {', '.join(names)}."
        )
    criteria = [
        {"name": item.id, "norm": norms[item.id], "weight": item.weight} for item in weighed
    ]
    return {"weighted_score": _workflow_grade({"criteria": criteria})["weighted_score"]}


def _swe_gates(given: Input) -> Output:
    tests, shares = {}, {}
    for key, name in (("f2p", "fail_to_pass"), ("p2p", "pass_to_pass")):
        pair = given.get(key)
        if not isinstance(pair, list) or len(pair) != 2:
            raise EvidenceError("SCO-003", f"'{key}' must be [passed, total].")
        tests[name] = {"passed": pair[0], "total": pair[1]}
        shares[name] = exact.shown(normalise(tests[name], "ratio"), NORM_DIGITS)
    run: Run = read_run(
        Document(
            {
                "schema": "assay.run/1",
                "run_id": "conform",
                "workflow": {"id": "w", "version": "1"},
                "status": "success",
                "tests": tests,
                "dataset": {"id": "d", "version": "1", "sample_id": "s"},
            },
            "input",
        )
    )
    gates = {}
    for name in ("tests_fail_to_pass_all_green", "tests_pass_to_pass_threshold_met"):
        gate = GATES[name]
        gates[name] = gate.check(run, gate.params).passed
    return {**shares, "gates": gates}


def _judge_rate(given: Input) -> Output:
    rate = _unit(_number(given, "rate"), "rate")
    limit = Fraction(_rules().disagreement_limit, NORM_ONE)
    return {"warn": disagrees_too_often(Fraction(*rate), limit)}


def _near(given: Input) -> Output:
    a, b = _number(given, "a"), _number(given, "b")
    apart = (Fraction(*a) - Fraction(*b)) * exact.SCORE_ONE
    return {"near_equal": near_equal(apart, _rules().tie_window)}


_CORE: dict[str, Callable[[Input], Output]] = {
    "normalize": _normalize,
    "adjusted_norm": _adjusted_norm,
    "floor.convert": _floor_convert,
    "workflow.grade": _workflow_grade,
    "profile": _profile,
    "profile.score": _profile_score,
    "swe.gates": _swe_gates,
    "judge.rate": _judge_rate,
    "tiebreak.near": _near,
}
OPS = merged("conform", _CORE)
"""The operations of the core and of the families, by name."""

REQUIRED = frozenset(
    [
        "normalize",
        "adjusted_norm",
        "floor.convert",
        "workflow.grade",
        "profile",
        "profile.score",
        "swe.gates",
        "judge.rate",
        "tiebreak.near",
        "capstone.item",
        "capstone.match",
        "capstone.conciseness",
        "capstone.exam",
        "capstone.gate",
        "capstone.eval_gate",
        "capstone.soft",
        "score.validate",
        "score.weighted_sum",
        "na.validate",
        "grade.aggregate",
        "veto.apply",
        "veto.triggers",
        "stable.eligibility",
        "node.status",
        "partial.sequence",
        "partial.build",
        "resolve.latest",
        "index.node_status",
        "index.rollup_status",
        "index.rollup_grade",
        "index.schema_status",
        "index.validate",
        "precondition",
        "selection.size",
        "aging",
        "hash8",
        "hash8.compare",
        "slug",
        "filename.grading",
        "path.gradings",
        "report.schema_id",
        "report.filename",
        "schemahash.report",
        "prompts.build",
        "cli.consume",
        "entry.add_answer",
        "annex.validate",
    ]
)
"""The operations that a conforming program supports; any other describes a quirk of one program and
is optional.
"""


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
