"""`assay measure` of files that need no run: retrieval, pass@k, tests, tool calls, texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, NamedTuple

from assay.cli import options as opt
from assay.cli.frame import STORE, Argument, Command, Options, arg, flag, repeated
from assay.cli.ledger import storing_result
from assay.cli.memory import uncollected
from assay.errors import InputError, NotEnoughEvidence, UsageError, count
from assay.files.json_files import Document, read_documents, read_json, stream_documents
from assay.files.swe_bench import is_report
from assay.files.trec_files import read_qrels, read_run
from assay.records.grade import ENGINE
from assay.scoring.checks import (
    MATCHES,
    STEPS,
    Normaliser,
    expected_text,
    is_close,
    number_of,
    step_name,
    unknown_step,
)
from assay.scoring.metrics.outcomes import check_report, read_instances, read_report, summarise
from assay.scoring.metrics.passk import read_tasks, report
from assay.scoring.metrics.retrieval import DEFAULT_METRICS, METRIC_NAMES, evaluate
from assay.scoring.metrics.similarity import edit_similarity
from assay.scoring.metrics.tool_calls import measure_tool_calls


class Measured(NamedTuple):
    """What a measure found: the document, and the lines for a terminal."""

    document: dict[str, Any]
    lines: Iterable[str]
    stored: dict[str, Any] | None = None
    """The document without what varies between runs, such as durations: the same measurement is one
    record.
    """


def measure(
    kind: str,
    take: Callable[[Options], Measured],
    description: str,
    example: str,
    *arguments: Argument,
) -> Command:
    """The command of one kind, with the options that every measure has."""
    return Command(
        partial(_run, f"measure {kind}", take),
        description,
        example,
        (*arguments, *STORE),
        formats=(".json",),
    )


K = arg(
    "--k",
    kind="text",
    trust="freely",
    metavar="K,...",
    default="1",
    help="how many attempts to draw (default: 1)",
)


def _run(verb: str, take: Callable[[Options], Measured], options: Options) -> int:
    given = [value for name, value in vars(options).items() if name not in ("output", "formats")]
    # before any work: an output that is read or cannot be written, a ledger that cannot be opened
    inputs = [text for value in given for text in (value if isinstance(value, list) else [value])]
    opt.outputs(options, *(text for text in inputs if isinstance(text, str)))
    with storing_result(options, verb):
        pass
    document, lines, stored = take(options)
    document = {**document, **ENGINE}
    with storing_result(options, verb) as result:
        if result is not None:
            result.put(document if stored is None else {**stored, **ENGINE})
    return opt.give(options, document, lines)


def shown(value: Any) -> str:
    """A number for a person; "none" for none.

    >>> shown(0.5), shown(None), shown(3)
    ('0.5000', 'none', '3')
    """
    return "none" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def read_ks(text: str) -> list[int]:
    """The whole numbers of `--k 1,5`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            "CLI-001", f"--k {text!r} is not a list of whole numbers.", fix="Write --k 1,5."
        ) from None


def trees(path: str) -> Iterator[Any]:
    """The documents of a file; an unreadable line is an error."""
    return (document.tree for document in read_documents(path))


def _retrieval(options: Options) -> Measured:
    evaluated = evaluate(
        read_qrels(options.qrels),
        read_run(options.run),
        options.metric or DEFAULT_METRICS,
        relevance_level=options.relevance_level,
        complete=options.complete,
    )
    if not evaluated.mean:
        raise NotEnoughEvidence(
            "SCO-030",
            "no judged query is in the run.",
            where=options.run,
            fix="Are both files of the same collection? --complete counts them as 0.",
        )
    document = {
        key: value
        for key, value in evaluated._asdict().items()
        if value not in ((), [], {}) or key in ("mean", "queries")
    }
    lines = [f"{name:<20} {shown(value)}" for name, value in evaluated.mean.items()]
    return Measured(document, [*lines, count(len(evaluated.queries), "query", "queries")])


def _pass_at_k(options: Options) -> Measured:
    ks = read_ks(options.k)
    document = report(read_tasks(stream_documents(options.file), where=options.file), ks)
    reasons = document.get("reasons", {})
    lines = [
        f"{name:<8} {shown(value)}{'  ' + reasons.get(name, '') if value is None else ''}"
        for name, value in document.items()
        if "@" in name or "^" in name
    ]
    return Measured(document, [*lines, count(document["tasks"], "task")])


def _tests(options: Options) -> Measured:
    documents = list(stream_documents(options.file))
    first = documents[0] if len(documents) == 1 and options.report is None else None
    if isinstance(first, Document) and is_report(first.tree):
        document = read_report(first.tree, where=options.file)
    else:
        document = summarise(read_instances(documents, where=options.file))
    if options.report is not None:
        check_report(read_json(options.report).tree, document, where=options.report)
    lines = [f"{name:<20} {count:,}" for name, count in document["counts"].items()]
    lines += [f"{name:<20} {shown(rate)}" for name, rate in document["rates"].items()]
    return Measured(document, lines)


def _tool_calls(options: Options) -> Measured:
    with uncollected():
        document = measure_tool_calls(trees(options.file), options.rules)
    if not document["n"]:
        raise NotEnoughEvidence("SCO-036", "there are no items in the file.", where=options.file)
    wrong = [(name, item) for name, item in document["items"].items() if not item["correct"]]
    lines = [_accuracy(document, document["n"] - len(wrong))]
    lines += [f"  wrong {name}: {item['error']}" for name, item in wrong[:20]]
    if len(wrong) > 20:
        lines.append(f"  ... and {len(wrong) - 20:,} more")
    return Measured(document, lines)


def _accuracy(document: dict[str, Any], right: int) -> str:
    return f"accuracy  {document['accuracy']:.4f}  ({right:,} of {document['n']:,})"


def _text(options: Options) -> Measured:
    steps = [step for step in options.steps.split(",") if step]
    if unknown := [step for step in steps if step_name(step) is None]:
        raise UsageError("CLI-001", unknown_step(unknown[0]))
    try:
        tolerance = Decimal(options.tolerance)
    except InvalidOperation:
        raise UsageError("CLI-001", f"--tolerance {options.tolerance!r} is not a number.") from None
    items: dict[str, Any] = {}
    for tree in trees(options.file):
        row = tree if isinstance(tree, dict) else {}
        name, actual, expected = row.get("id"), row.get("actual"), row.get("expected")
        if not isinstance(name, str) or actual is None or expected is None:
            raise InputError(
                "SCO-036", "a line must have id, actual and expected.", where=options.file
            )
        if name in items:
            raise InputError("FIL-007", f"the id '{name}' appears twice.", where=options.file)
        try:
            items[name] = _compared(actual, expected, options.match, steps, tolerance)
        except ValueError as error:
            raise InputError("SCO-036", f"{name}: {error}.", where=options.file) from None
    if not items:
        raise NotEnoughEvidence("SCO-036", "there are no items in the file.", where=options.file)
    right = sum(item["correct"] for item in items.values())
    document = {
        "items": items,
        "accuracy": right / len(items),
        "n": len(items),
        "match": options.match,
        "steps": steps,
    }
    return Measured(document, [_accuracy(document, right)])


def _compared(
    actual: Any, expected: Any, match: str, steps: list[str], tolerance: Decimal
) -> dict[str, Any]:
    if match == "numeric":
        left, right = number_of(actual), number_of(expected)
        if right is None:
            raise ValueError("the expected value is not a number")
        correct = left is not None and is_close(left, right, absolute=tolerance)
        return {"correct": correct, "similarity": None}
    if not isinstance(actual, str) or not isinstance(expected, str):
        raise ValueError("actual and expected must be strings")
    normal = Normaliser(steps)
    wanted = normal(expected) if match == "exact" else expected_text(expected, normal)
    close = edit_similarity(actual, expected)
    return {
        "correct": MATCHES[match](normal(actual), wanted),
        "similarity": close.num / close.den,
    }


COMMANDS = {
    "measure retrieval": measure(
        "retrieval",
        _retrieval,
        "Measure ranked retrieval by trec_eval's rules: order by score, ties by document id, linear"
        " gain.",
        "assay measure retrieval --qrels qrels.txt --run run.txt --metric ndcg_cut_10 --metric map",
        arg(
            "--qrels",
            kind="path",
            metavar="Q",
            required=True,
            help="TREC judgements: query iteration document grade",
        ),
        arg(
            "--run",
            kind="path",
            metavar="R",
            required=True,
            help="TREC results: query Q0 document rank score name",
        ),
        repeated(
            "--metric",
            "NAME",
            f"may be repeated: {', '.join(METRIC_NAMES)} (default: {', '.join(DEFAULT_METRICS)})",
            kind="text",
            trust="freely",
        ),
        flag(
            "--complete",
            "count a judged query that the run lacks as 0 (trec_eval's -c); otherwise it is"
            " left out and named",
        ),
        arg(
            "--relevance-level",
            metavar="N",
            type=int,
            default=1,
            help="the lowest grade that is relevant (default: 1)",
        ),
    ),
    "measure pass-at-k": measure(
        "pass-at-k",
        _pass_at_k,
        "Estimate pass@k and pass^k without bias; tasks may have different numbers of attempts.",
        "assay measure pass-at-k attempts.jsonl --k 1,5",
        arg(
            "file",
            metavar="FILE",
            help='.jsonl of {"task_id", "n", "c"}, or {"task_id", "passed"} for each attempt',
        ),
        K,
    ),
    "measure tests": measure(
        "tests",
        _tests,
        "Count fail-to-pass and pass-to-pass tests, and the instances they resolve.",
        "assay measure tests results.jsonl",
        arg(
            "file",
            metavar="FILE",
            help=(
                '.jsonl of {"instance_id", "fail_to_pass": {"passed": [...], "failed": [...]},'
                ' "pass_to_pass": {...}}; or a run report of SWE-bench'
            ),
        ),
        arg(
            "--report",
            kind="path",
            metavar="FILE",
            help=(
                "a SWE-bench run report on the same instances; it must agree with the lists on"
                " what is resolved"
            ),
        ),
    ),
    "measure tool-calls": measure(
        "tool-calls",
        _tool_calls,
        "Compare tool calls with the expected ones, by optimal assignment; parallel calls match in"
        " any order.",
        "assay measure tool-calls calls.jsonl --rules bfcl",
        arg(
            "file",
            metavar="FILE",
            help=(
                '.jsonl of {"id", "tools", "calls": [{"name", "arguments"}], "expected": [{"name",'
                ' "arguments": {arg: [values]}}]}'
            ),
        ),
        arg(
            "--rules",
            choices=("plain", "bfcl"),
            default="plain",
            help="how values are compared (default: plain)",
        ),
    ),
    "measure text": measure(
        "text",
        _text,
        "Compare answers with expected texts.",
        "assay measure text answers.jsonl --match substring --steps nfc,strip,case-fold",
        arg("file", metavar="FILE", help='.jsonl of {"id", "actual", "expected"}'),
        arg(
            "--match",
            choices=("exact", "substring", "word", "numeric"),
            default="exact",
            help="what counts as a match (default: exact)",
        ),
        arg(
            "--steps",
            kind="text",
            trust="freely",
            metavar="STEP,...",
            default="nfc,strip",
            help=f"normalisation of both sides, in order: {', '.join(STEPS)} (default: nfc,strip)",
        ),
        arg(
            "--tolerance",
            kind="number",
            metavar="X",
            default="0",
            help="with numeric: how far apart two numbers may be (default: 0)",
        ),
    ),
}
