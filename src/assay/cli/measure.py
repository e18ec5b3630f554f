"""`assay measure`: one family of metrics on files, no run needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.measuring import finish, make_parser, parse, read_ks, shown, trees
from assay.cli.memory import uncollected
from assay.errors import ExitCode, InputError, NotEnoughEvidence, UsageError
from assay.files.json_files import Document, read_json, stream_documents
from assay.registry import near_miss

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: dict[str, str] = {
    "retrieval": "ranked retrieval, as trec_eval measures it, from qrels and a run file",
    "pass-at-k": "unbiased pass@k and pass^k from counts or attempts",
    "tests": "fail-to-pass and pass-to-pass, resolved full, partial or no, with three denominators",
    "tool-calls": (
        "tool calls against what was expected: selection, arguments, the verdicts of BFCL"
    ),
    "solutions": "untrusted solutions run against their tests in the sandbox, and pass@k over them",
    "patch": "whether patches apply cleanly to a tree, and how alike they are to a reference",
    "repair": "a patch judged by tests in the sandbox, each run without it and with it",
    "agreement": (
        "two or more raters of the same items: kappas, alpha, correlations, each with its interval"
    ),
    "pairwise": (
        "verdicts on pairs in both orders: consistency, win rate, accuracy, preference for a"
        " position"
    ),
    "text": "answers against expected texts: exact, substring, word, numbers, edit similarity",
}


def run(verb: str, argv: list[str]) -> int:
    """Measure one family."""
    kind = opt.choose(
        "measure",
        argv,
        KINDS,
        what="Take one family of metrics on files; no run and no profile needed.",
        example="assay measure retrieval --qrels qrels.txt --run run.txt --metric ndcg_cut_10",
        word="KIND",
    )
    if isinstance(kind, ExitCode):
        return kind
    take: dict[str, Callable[[list[str]], int]] = {
        "retrieval": _retrieval,
        "pass-at-k": _pass_at_k,
        "tests": _tests,
        "tool-calls": _tool_calls,
        "solutions": _solutions,
        "patch": _patch,
        "repair": _repair,
        "agreement": _agreement,
        "pairwise": _pairwise,
        "text": _text,
    }
    return take[kind](argv[1:])


def _retrieval(argv: list[str]) -> int:
    from assay.scoring.metrics.retrieval import DEFAULT_METRICS, METRIC_NAMES, evaluate
    from assay.scoring.metrics.trec_files import read_qrels, read_run

    made = make_parser(
        "retrieval",
        "Ranked retrieval by trec_eval's own rules: order by score, ties by document id, linear"
        " gain.",
        "assay measure retrieval --qrels qrels.txt --run run.txt --metric ndcg_cut_10 --metric map",
    )
    made.add_argument(
        "--qrels",
        metavar="Q",
        required=True,
        help="TREC judgements: query iteration document grade",
    )
    made.add_argument(
        "--run", metavar="R", required=True, help="TREC results: query Q0 document rank score name"
    )
    made.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        default=[],
        help=f"may be repeated: {', '.join(METRIC_NAMES)} (default: {', '.join(DEFAULT_METRICS)})",
    )
    made.add_argument(
        "--complete",
        action="store_true",
        help=(
            "a judged query that the run lacks counts 0 (trec_eval's -c); otherwise it is left out"
            " and named"
        ),
    )
    made.add_argument(
        "--relevance-level",
        metavar="N",
        type=int,
        default=1,
        help="the lowest grade that is relevant (default: 1)",
    )
    options = parse(made, argv)
    found = evaluate(
        read_qrels(options.qrels),
        read_run(options.run),
        options.metric or DEFAULT_METRICS,
        relevance_level=options.relevance_level,
        complete=options.complete,
    )
    if not found.mean:
        raise NotEnoughEvidence(
            "SCO-030",
            "no judged query is in the run.",
            where=options.run,
            fix="Are both files of the same collection? --complete counts them 0.",
        )
    document = {
        key: value
        for key, value in found._asdict().items()
        if value not in ((), [], {}) or key in ("mean", "queries")
    }
    lines = [f"{name:<20} {shown(value)}" for name, value in found.mean.items()]
    lines.append(f"{len(found.queries):,} queries")
    return finish(options, document, lines)


def _pass_at_k(argv: list[str]) -> int:
    from assay.scoring.metrics.passk import read_tasks, report

    made = make_parser(
        "pass-at-k",
        "Unbiased pass@k and pass^k, exact; tasks may have different numbers of attempts.",
        "assay measure pass-at-k attempts.jsonl --k 1,5",
    )
    made.add_argument(
        "file",
        metavar="FILE",
        help='.jsonl of {"task_id", "n", "c"}, or {"task_id", "passed"} for each attempt',
    )
    made.add_argument(
        "--k", metavar="K,...", default="1", help="how many attempts are drawn (default: 1)"
    )
    options = parse(made, argv)
    ks = read_ks(options.k)
    document = report(read_tasks(stream_documents(options.file), where=options.file), ks)
    lines = [
        f"{name:<8} {shown(value)}{'  ' + document.get('reasons', {}).get(name, '') if value is None else ''}"  # noqa: E501
        for name, value in document.items()
        if "@" in name or "^" in name
    ]
    lines.append(f"{document['tasks']:,} tasks")
    return finish(options, document, lines)


def _tests(argv: list[str]) -> int:
    from assay.scoring.metrics.outcomes import (
        check_report,
        is_report,
        read_instances,
        read_report,
        summarise,
    )

    made = make_parser(
        "tests",
        "Fail-to-pass and pass-to-pass of each instance, and how many are resolved.",
        "assay measure tests results.jsonl",
    )
    made.add_argument(
        "file",
        metavar="FILE",
        help=(
            '.jsonl of {"instance_id", "fail_to_pass": {"passed": [...], "failed": [...]},'
            ' "pass_to_pass": {...}}; or a run report of SWE-bench'
        ),
    )
    made.add_argument(
        "--report",
        metavar="FILE",
        help=(
            "a run report of SWE-bench on the same instances: it must call resolved what the lists"
            " resolve"
        ),
    )
    options = parse(made, argv)
    documents = list(stream_documents(options.file))
    first = documents[0] if documents else None
    if (
        len(documents) == 1
        and isinstance(first, Document)
        and is_report(first.tree)
        and options.report is None
    ):
        document = read_report(first.tree, where=options.file)
    else:
        document = summarise(read_instances(documents, where=options.file))
    if options.report is not None:
        check_report(read_json(options.report).tree, document, where=options.report)
    lines = [f"{name:<20} {count:,}" for name, count in document["counts"].items()]
    lines += [f"{name:<20} {shown(rate)}" for name, rate in document["rates"].items()]
    return finish(options, document, lines)


def _tool_calls(argv: list[str]) -> int:
    from assay.scoring.metrics.tool_calls import measure_tool_calls

    made = make_parser(
        "tool-calls",
        "Tool calls against what was expected, by optimal assignment; parallel calls match in any"
        " order.",
        "assay measure tool-calls calls.jsonl --rules bfcl",
    )
    made.add_argument(
        "file",
        metavar="FILE",
        help=(
            '.jsonl of {"id", "tools", "calls": [{"name", "arguments"}], "expected": [{"name",'
            ' "arguments": {arg: [values]}}]}'
        ),
    )
    made.add_argument(
        "--rules",
        choices=("plain", "bfcl"),
        default="plain",
        help="how values are compared (default: plain)",
    )
    options = parse(made, argv)
    with uncollected():
        document = measure_tool_calls(trees(options.file), options.rules)
    if not document["n"]:
        raise NotEnoughEvidence("SCO-036", "there are no items in the file.", where=options.file)
    wrong = [(name, item) for name, item in document["items"].items() if not item["correct"]]
    lines = [
        (
            f"accuracy  {shown(float(document['accuracy']))}  ({document['n'] - len(wrong):,} of"
            f" {document['n']:,})"
        )
    ]
    lines += [f"  wrong {name}: {item['error']}" for name, item in wrong[:20]]
    if len(wrong) > 20:
        lines.append(f"  ... and {len(wrong) - 20:,} more")
    return finish(options, document, lines)


def _solutions(argv: list[str]) -> int:
    from assay.cli.measure_code import measure_solutions

    return measure_solutions(argv)


def _patch(argv: list[str]) -> int:
    from assay.cli.measure_code import measure_patch

    return measure_patch(argv)


def _repair(argv: list[str]) -> int:
    from assay.cli.measure_code import measure_repair

    return measure_repair(argv)


def _agreement(argv: list[str]) -> int:
    from assay.cli.measure_raters import measure_agreement

    return measure_agreement(argv)


def _pairwise(argv: list[str]) -> int:
    from assay.cli.measure_raters import measure_pairwise

    return measure_pairwise(argv)


def _text(argv: list[str]) -> int:
    from assay.scoring.metrics.similarity import edit_similarity
    from assay.scoring.metrics.text import STEPS, has_substring, has_word, is_exact
    from assay.scoring.metrics.values import is_close, numeric

    made = make_parser(
        "text",
        "Answers against expected texts.",
        "assay measure text answers.jsonl --match substring --steps nfc,strip,lower",
    )
    made.add_argument("file", metavar="FILE", help='.jsonl of {"id", "actual", "expected"}')
    made.add_argument(
        "--match",
        choices=("exact", "substring", "word", "numeric"),
        default="exact",
        help="what is right (default: exact)",
    )
    made.add_argument(
        "--steps",
        metavar="STEP,...",
        default="nfc,strip",
        help=f"normalisation of both sides, in order: {', '.join(STEPS)} (default: nfc,strip)",
    )
    made.add_argument(
        "--tolerance",
        metavar="X",
        default="0",
        help="with numeric: how far apart two numbers may be",
    )
    options = parse(made, argv)
    steps = [step for step in options.steps.split(",") if step]
    unknown = [step for step in steps if step not in STEPS]
    if unknown:
        raise UsageError(
            "CLI-001",
            f"there is no step '{unknown[0]}'.{near_miss(unknown[0], STEPS)}",
            fix=f"They are {', '.join(STEPS)}.",
        )
    from decimal import Decimal, InvalidOperation

    try:
        tolerance = Decimal(options.tolerance)
    except InvalidOperation:
        raise UsageError("CLI-001", f"--tolerance {options.tolerance!r} is no number.") from None
    holds: dict[str, Callable[[str, str], bool]] = {
        "exact": lambda actual, expected: is_exact(actual, expected, steps=steps),
        "substring": lambda actual, expected: has_substring(actual, expected, steps=steps),
        "word": lambda actual, expected: has_word(actual, expected, steps=steps),
    }
    items: dict[str, Any] = {}
    for tree in trees(options.file):
        name, actual, expected = (
            (tree.get(key) for key in ("id", "actual", "expected"))
            if isinstance(tree, dict)
            else (None, None, None)
        )
        if not isinstance(name, str) or actual is None or expected is None:
            raise InputError(
                "SCO-036", "a line must hold id, actual and expected.", where=options.file
            )
        if name in items:
            raise InputError("FIL-007", f"the id '{name}' stands twice.", where=options.file)
        if options.match == "numeric":
            left, right = numeric(actual), numeric(expected)
            if right is None:
                raise InputError(
                    "SCO-036", f"{name}: the expected value is no number.", where=options.file
                )
            items[name] = {
                "correct": left is not None and is_close(left, right, absolute=tolerance),
                "similarity": None,
            }
            continue
        if not isinstance(actual, str) or not isinstance(expected, str):
            raise InputError(
                "SCO-036", f"{name}: actual and expected must be texts.", where=options.file
            )
        close = edit_similarity(actual, expected)
        items[name] = {
            "correct": holds[options.match](actual, expected),
            "similarity": close.num / close.den,
        }
    if not items:
        raise NotEnoughEvidence("SCO-036", "there are no items in the file.", where=options.file)
    right_ones = sum(item["correct"] for item in items.values())
    document = {
        "items": items,
        "accuracy": right_ones / len(items),
        "n": len(items),
        "match": options.match,
        "steps": steps,
    }
    return finish(
        options,
        document,
        [f"accuracy  {document['accuracy']:.4f}  ({right_ones:,} of {len(items):,})"],
    )
