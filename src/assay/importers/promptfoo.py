"""Results of promptfoo: each answer to a test is a run, with promptfoo's own verdict and score.

Where a file has several prompts or several providers, they are part of the sample's id and its
tags. Repeats of a test are attempts. Named metrics are criteria where every graded answer has them;
a metric that belongs to some tests only is inside `score`, which all of them have. A row that ended
in an error has no verdict and no score. A test with other assertions, weights or thresholds is
another sample; a comparison requires each assertion that the baseline passed.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence, count
from assay.files.inputs import open_input
from assay.files.json_files import member
from assay.files.json_stream import loads, stream_json, stream_lines
from assay.files.tables import csv_records
from assay.files.yaml_files import read_written_yaml
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    amount,
    file_id,
    head_of,
    is_number,
    objects,
    optional,
    sample_run,
    shaped,
    short_id,
)
from assay.importers.spool import Spool
from assay.importers.tally import ImportTally
from assay.records.evidence import DESCRIPTION

COLUMN = re.compile(r"\[([^\]]+)\] (.*)", re.DOTALL)
"""The head of a column of answers: who was asked, and by which prompt."""
_YAML = re.compile(r"(evalId|version|results|createdAt|id|config):[^\n]*\n")
_STATED = re.compile(r"\[(PASS|FAIL|ERROR)\](?: \((-?[\d.]{1,20})\))?\s*(.*)", re.DOTALL)
_REASON = re.compile(r"\n\n(?:Pass|Fail) Reason:\s*(.*)\Z", re.DOTALL)
_ROWS = [
    ("results",),
    ("results", "results"),
    ("results", "table", "body"),
    ("table", "body"),
    ("body",),
    ("config", "tests"),
]
MAX_DESCRIPTION = 200
MAX_COMPONENTS = 100
"""Assertions of a test that are told apart."""
ASSERTED, FAILED = 1, 2
"""`failureReason` of a row that failed an assertion, and of one that could not be asked."""


class PromptfooRow(NamedTuple):
    """One answer to one test."""

    vars: dict[str, Any]
    prompt: str
    provider: str
    answer: Any
    passed: bool | None
    score: Any
    named: dict[str, Any]
    error: str | None
    """Why there is no verdict."""
    reason: str
    checks: list[Any]
    """What tells this test from another with the same variables, and from an easier one."""
    components: dict[str, bool]
    """The assertions that count, by their names, and whether each passed; of an answer without a
    verdict, those that the test has.
    """
    latency_ms: Any = None
    cost_usd: Any = None
    tokens: Any = None
    description: str = ""
    """What the test is called."""


Part = tuple[str, Any]
"""`row` and a row, `table` and a row of a table, or the name and value of a part of the header."""


def parts_of(path: str) -> Iterator[Part]:
    """The parts of a file, in their order."""
    head = head_of(path)
    if is_line(head):
        for number, value in stream_lines(path):
            yield "row", _row(value, f"{path}:{number}")
    elif head.text.startswith(("{", "[")):
        yield from _header(stream_json(path, _ROWS), path)
    elif is_yaml(head):
        yield from _header(_walk(read_written_yaml(path)), path)
    else:
        with open_input(path) as stream:
            yield from _csv(path, stream)


def is_line(head: Head) -> bool:
    """Whether each line is a row."""
    return head.has("success", "vars") and (head.has("gradingResult") or head.has("namedScores"))


def is_yaml(head: Head) -> bool:
    """Whether it is a YAML document with results."""
    return bool(_YAML.match(head.text)) and "\nresults:" in f"\n{head.text}"


def _walk(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """A tree in the pieces that `stream_json` would give."""
    if isinstance(tree, list) and place in _ROWS:
        for index, item in enumerate(tree):
            yield (*place, index), item
    elif isinstance(tree, dict) and (not place or any(row[: len(place)] == place for row in _ROWS)):
        for key, item in tree.items():
            yield from _walk(item, (*place, key))
    else:
        yield place, tree


def _header(pieces: Iterator[tuple[tuple[Any, ...], Any]], path: str) -> Iterator[Part]:
    head: dict[str, Any] = {}
    for place, value in pieces:
        keys = place[1:] if place[:1] == ("results",) and len(place) > 1 else place
        if place[:1] == ("results",) and (
            (len(place) == 2 and isinstance(place[1], int)) or place[1:2] == ("results",)
        ):
            if not isinstance(place[-1], int):
                raise InputError("SCO-011", "`results` is not a list of rows.", where=path)
            yield "row", _row(value, f"{path}: results[{place[-1]}]")
        elif keys[-2:-1] == ("head",) or keys in (("head",), ("table", "head")):
            head |= value if isinstance(value, dict) else {str(keys[-1]): value}
        elif keys[-2:-1] == ("body",):
            for row in _table_rows(value, head, f"{path}: body[{keys[-1]}]"):
                yield "table", row
        elif place[:1] == ("config",):
            if len(place) == 2 and place[1] == "description":
                yield "description", value
        elif not place:
            raise InputError("FIL-006", "is not a result of promptfoo.", where=path)
        elif keys[-1] not in ("row", "table"):
            yield str(keys[-1]), value


def _row(value: Any, where: str) -> PromptfooRow:
    row = shaped(value, dict, "a row", where)
    grading = optional(row.get("gradingResult"), dict, "`gradingResult`", where) or {}
    test = optional(row.get("testCase"), dict, "`testCase`", where) or {}
    variables, title = row.get("vars", test.get("vars")), test.get("description")
    prompt = row.get("prompt")
    provider = row.get("provider")
    response = row.get("response", row.get("providerResponse"))
    response = response if isinstance(response, dict) else {"output": response}
    usage = response.get("tokenUsage", row.get("tokenUsage"))
    named = row.get("namedScores", grading.get("namedScores")) or {}
    success = optional(row.get("success", grading.get("pass")), bool, "`success`", where)
    error = _error(row, grading, response, passed=success is True)
    failed = grading.get("pass") is False
    if success and (failed or row.get("failureReason") == ASSERTED):
        other = (
            "`gradingResult.pass` is false" if failed else "`failureReason` is a failed assertion"
        )
        raise InputError(
            "SCO-011",
            f"its `success` is true, and its {other}.",
            where=where,
            fix="The file was changed after promptfoo wrote it. Write it again.",
        )
    return PromptfooRow(
        vars=_variables(variables, where),
        prompt=_prompt(prompt),
        provider=_provider(provider),
        answer=response.get("output"),
        passed=success,
        score=row.get("score", grading.get("score")),
        named=shaped(named, dict, "`namedScores`", where),
        error=error,
        reason=_reason(grading, row, passed=success is True),
        checks=_checks(test),
        components=_components(
            _declared(test) if error is not None else grading.get("componentResults")
        ),
        latency_ms=row.get("latencyMs"),
        cost_usd=row.get("cost"),
        tokens=usage.get("total") if isinstance(usage, dict) else None,
        description=" ".join(title[:MAX_DESCRIPTION].split()) if isinstance(title, str) else "",
    )


def _error(
    row: dict[str, Any], grading: dict[str, Any], response: dict[str, Any], *, passed: bool
) -> str | None:
    """Why the row has no verdict. Before promptfoo had `failureReason`, `error` also explained why
    an assertion failed; such a row was graded, and can't have passed.
    """
    error, why = row.get("error"), row.get("failureReason")
    ungraded = bool(error) and (passed or not grading) and why != ASSERTED
    if why == FAILED or ungraded or response.get("error"):
        return str(error or response.get("error") or "it ended in an error")
    return None


def _reason(grading: dict[str, Any], row: dict[str, Any], *, passed: bool) -> str:
    """Why it passed or failed: the reasons of the assertions that failed, or that of the whole. A
    test can pass with failed assertions, by its threshold or their weights.
    """
    parts = objects(grading.get("componentResults"))
    failed = [part for part in parts if part.get("pass") is False]
    reasons = "; ".join(str(part["reason"]) for part in failed if part.get("reason"))
    if failed and passed:
        return f"passed although an assertion failed{f': {reasons}' if reasons else ''}"
    return reasons or str(grading.get("reason") or row.get("error") or "")


def _variables(value: Any, where: str) -> dict[str, Any]:
    made = optional(value, dict, "`vars`", where) or {}
    # promptfoo gives each conversation its own id
    return {str(key): value for key, value in made.items() if key != "sessionId"}


def _prompt(value: Any) -> str:
    if isinstance(value, dict):
        value = next((value[key] for key in ("label", "display", "raw") if value.get(key)), "")
    return value if isinstance(value, str) else ""


def _provider(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("label") or value.get("id")
    return value if isinstance(value, str) else ""


_JUDGE = ("transform", "rubricPrompt", "provider")
_BAR = ("weight", "threshold", "contextTransform", "config", "assert", *_JUDGE)
_TEST_BAR = ("threshold", "assertScoringFunction")
_OPTIONS_BAR = ("postprocess", "factuality", *_JUDGE)
"""What makes an assertion, a whole test, or all its assertions easier or harder to pass."""


def _checks(test: dict[str, Any]) -> list[Any]:
    made = [
        [*(assertion.get(key) for key in ("type", "value", "metric")), *_stated(assertion, _BAR)]
        for assertion in objects(test.get("assert"))
    ]
    options = next(iter(objects([test.get("options")])), {})
    return made + _stated(test, _TEST_BAR) + _stated(options, _OPTIONS_BAR)


def _stated(tree: dict[str, Any], keys: tuple[str, ...]) -> list[Any]:
    stated = {key: tree[key] for key in keys if tree.get(key) is not None}
    if stated.get("weight") == 1:  # as without one
        del stated["weight"]
    return [stated] if stated else []


def _declared(test: dict[str, Any]) -> list[Any]:
    """The assertions of a test in the form of results that failed; those of a set come after it."""
    return [
        {"assertion": each}
        for assertion in objects(test.get("assert"))
        for each in (assertion, *objects(assertion.get("assert")))
    ]


def _components(results: Any) -> dict[str, bool]:
    """Whether each assertion passed, by its metric or type; where many have one name, by number.
    One with a weight of 0 can't fail a test.
    """
    made: dict[str, bool] = {}
    counts: Counter[str] = Counter()
    for component in objects(results):
        assertion = component.get("assertion")
        known = assertion if isinstance(assertion, dict) else {"type": "assert-set"}
        if known.get("weight") == 0:
            continue
        name = str(known.get("metric") or known.get("type") or "assertion")[:100]
        counts[name] += 1
        name = name if counts[name] == 1 else f"{name}-{counts[name]}"
        name = name if len(made) < MAX_COMPONENTS else "other assertions"
        made[name] = made.get(name, True) and component.get("pass") is True
    return made


def _table_rows(value: Any, head: dict[str, Any], where: str) -> Iterator[PromptfooRow]:
    """The rows of one line of a table: one for each of its columns."""
    line = shaped(value, dict, "a line of the table", where)
    outputs = shaped(line.get("outputs"), list, "`outputs`", where)
    names = optional(head.get("vars"), list, "`vars` of the head", where) or []
    texts = line.get("vars")
    variables = (
        dict(zip(map(str, names), texts, strict=False)) if isinstance(texts, list) else texts
    )
    prompts = optional(head.get("prompts"), list, "`prompts` of the head", where) or []
    test = line.get("test")
    for index, output in enumerate(outputs):
        column = prompts[index] if index < len(prompts) else ""
        cell = output if isinstance(output, dict) else _cell(output)
        grading = cell.get("gradingResult")
        made = {
            "vars": variables,
            "prompt": column if column else cell.get("prompt"),
            "provider": column.get("provider")
            if isinstance(column, dict)
            else cell.get("provider"),
            "response": {"output": cell.get("text"), "tokenUsage": cell.get("tokenUsage")},
            "success": cell.get("pass"),
            "testCase": cell.get("testCase", test),
            **{key: cell[key] for key in _CELL if key in cell},
            "gradingResult": grading,
        }
        yield _row(made, where)


_CELL = ("score", "namedScores", "latencyMs", "cost", "error", "failureReason")


def _cell(text: Any) -> dict[str, Any]:
    """What the text of a cell says: its verdict in brackets, its score, and the answer."""
    match = _STATED.match(text) if isinstance(text, str) else None
    if match is None:
        return {"text": text}
    verdict, score, answer = match.groups()
    why = _REASON.search(answer)
    reason = why[1] if why else ""
    return {
        "text": answer[: why.start()] if why else answer,
        "pass": verdict == "PASS",
        "score": _number(score),
        "failureReason": FAILED if verdict == "ERROR" else None,
        "error": answer if verdict == "ERROR" else None,
        "gradingResult": None if verdict == "ERROR" else {"reason": reason},
    }


def _number(text: str | None) -> Decimal | None:
    try:
        return Decimal(text) if text else None
    except ArithmeticError:
        return None


def _csv(path: str, stream: Any) -> Iterator[Part]:
    records = csv_records(path, opened=stream)
    names = next(records, ([], 0))[0]
    starts = [index for index, name in enumerate(names) if COLUMN.fullmatch(name)]
    if not starts:
        raise InputError(
            "FIL-006",
            "is not a CSV file of promptfoo: no column is named '[provider] prompt'.",
            where=path,
        )
    ends = [*starts[1:], len(names)]
    first = names[0] == "Description" and starts[0] > 0
    for fields, line in records:
        where = f"{path}:{line}"
        if len(fields) != len(names):
            raise InputError(
                "FIL-006",
                f"the row has {len(fields)} instead of {count(len(names), 'column')}.",
                where=where,
            )
        variables = dict(zip(names[first : starts[0]], fields[first : starts[0]], strict=True))
        for start, end in zip(starts, ends, strict=True):
            column = COLUMN.fullmatch(names[start])
            assert column is not None
            more = dict(zip(names[start + 1 : end], fields[start + 1 : end], strict=True))
            cell = _csv_cell(fields[start], more, where)
            made = {
                **cell,
                "vars": variables,
                "provider": column[1],
                "prompt": column[2],
                "response": {"output": cell.pop("text")},
                "success": cell.pop("pass", None),
                "testCase": {"description": fields[0]} if first else None,
            }
            yield "row", _row(made, where)


def _csv_cell(text: str, more: dict[str, str], where: str) -> dict[str, Any]:
    """What the columns of one answer say: older files have all of it in the first."""
    status = more.get("Status")
    if status is None:
        cell = _cell(text)
        if "pass" not in cell:
            raise InputError(
                "SCO-011", f"the cell {text[:60]!r} has no verdict such as [PASS].", where=where
            )
        return cell
    if status not in ("PASS", "FAIL", "ERROR"):
        raise InputError(
            "SCO-011", f"a status is {status[:60]!r}, not PASS, FAIL or ERROR.", where=where
        )
    reason = more.get("Grader Reason", "")
    listed = more.get("Named Scores")
    named = loads(listed.encode(), where) if listed else {}
    return {
        "text": None if status == "ERROR" else text,
        "pass": status == "PASS",
        "score": _number(more.get("Score")),
        "namedScores": named,
        "failureReason": FAILED if status == "ERROR" else None,
        "error": reason or "it ended in an error" if status == "ERROR" else None,
        "gradingResult": None if status == "ERROR" else {"reason": reason},
    }


def _fits(head: Head) -> bool:
    if is_line(head) or is_yaml(head):
        return True
    if not head.text.startswith("{"):
        return _is_table(head.text)
    return any(
        head.has(*keys)
        for keys in (
            ("results.version", "results.results[].vars"),
            ("results.version", "results.results[].success"),
            ("results.version", "results.prompts[].provider"),
            ("results.version", "results.table.head"),
            ("version", "results[].prompt", "results[].success"),
            ("config", "results[].promptIdx", "results[].success"),
            ("id", "createdAt", "config.prompts", "config.providers"),
            ("table.head.prompts", "table.body"),
            ("head.prompts", "head.vars", "body"),
        )
    )


def _is_table(text: str) -> bool:
    """Whether it is CSV with a column of answers and one of verdicts, or verdicts in the answers.
    The heads of columns may have several lines.
    """
    if "[" not in text or text[:1] in "[<":
        return False
    try:
        names = next(csv.reader(io.StringIO(text)), [])
    except csv.Error:
        return False
    stated = "Status" in names or re.search(r"\[(PASS|FAIL|ERROR)\]", text)
    return bool(stated) and any(COLUMN.fullmatch(name) for name in names)


class _PromptfooFile:
    """What is known of a file before its rows become runs."""

    def __init__(self, rows: Spool, table: Spool) -> None:
        self.rows, self.table = rows, table
        self.providers: dict[str, None] = {}
        self.prompts: dict[str, None] = {}
        self.named: dict[str, None] = {}
        """The metrics of graded rows."""
        self.having: Counter[str] = Counter()
        """How many graded rows have each metric, or an assertion of its name without a value."""
        self.graded = 0
        self.scored = False
        self.waived: Counter[str] = Counter()
        """Assertions that failed where the test passed all the same."""
        self.counts: Counter[str] = Counter()
        self.ids: list[Any] = []
        self.header: dict[str, Any] = {}
        """The description, the counts, and the prompts with what promptfoo counted for each."""

    def take(self, key: str, value: Any) -> None:
        if key in ("row", "table"):
            self.counts[key] += 1
            (self.rows if key == "row" else self.table).add(value)
            self._row(value)
        elif key in ("description", "prompts", "stats"):
            self.header[key] = value
        elif key in ("evalId", "id"):
            self.ids.append(value)

    def _row(self, row: PromptfooRow) -> None:
        self.providers[row.provider] = self.prompts[row.prompt] = None
        if row.error is not None:
            return
        self.scored = self.scored or row.score is not None
        self.graded += 1
        self.named |= dict.fromkeys(row.named)
        self.having.update({*row.named, *row.components})

    @property
    def names(self) -> list[str]:
        """The metrics that every graded row has."""
        return [name for name in self.named if self.having[name] == self.graded]


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    for path in paths:
        with Spool(path) as rows, Spool(path) as table:
            survey = _PromptfooFile(rows, table)
            for key, value in parts_of(path):
                survey.take(key, value)
            if not survey.counts:
                raise NotEnoughEvidence("FIL-005", "the file has no results.", where=path)
            if loose := survey.named.keys() - survey.names:
                listed = ", ".join(sorted(loose)[:5])
                tally.note(f"metrics that only some tests have are inside `score`: {listed}")
            yield from _runs(path, survey, wanted, tally)
            if survey.waived:
                listed = ", ".join(f"{name} on {n:,}" for name, n in survey.waived.most_common(5))
                tally.note(f"promptfoo passed answers with a failed assertion: {listed}")
        if len(paths) == 1:
            _state_means(_metrics(survey.header.get("prompts")), tally)
    if tally.unchecked:
        tally.note(
            f"{tally.unchecked:,} of {tally.samples:,} answers have no assertion; promptfoo passes"
            " them unchecked"
        )


def _runs(
    path: str, survey: _PromptfooFile, wanted: Wanted, tally: ImportTally
) -> Iterator[dict[str, Any]]:
    origin = _origin(path, survey)
    attempts: Counter[str] = Counter()
    names = survey.names
    if survey.counts["row"] and survey.counts["table"]:
        tally.read["table_cells"] += survey.counts["table"]
    for values in survey.rows if survey.counts["row"] else survey.table:
        tally.read["results"] += 1
        yield _run(PromptfooRow(*values), origin, survey, names, wanted, tally, attempts)
    _state(survey.header.get("stats"), _metrics(survey.header.get("prompts")), tally)


def _origin(path: str, survey: _PromptfooFile) -> ResultOrigin:
    text = survey.header.get("description")
    name = text.strip()[:120] if isinstance(text, str) and text.strip() else "promptfoo"
    only = next(iter(survey.providers)) if len(survey.providers) == 1 else ""
    ids = [id_text for id_text in survey.ids if isinstance(id_text, str) and id_text.strip()]
    return ResultOrigin(
        "promptfoo",
        NameVersion(name, only[:120] or UNVERSIONED),
        NameVersion(name, UNVERSIONED),
        ids[0][:120] if ids else file_id(path),
        verdicts=True,
    )


def _run(
    row: PromptfooRow,
    origin: ResultOrigin,
    survey: _PromptfooFile,
    names: Sequence[str],
    wanted: Wanted,
    tally: ImportTally,
    attempts: Counter[str],
) -> dict[str, Any]:
    variants = [
        (what, value)
        for what, value, all_ in (
            ("prompt", row.prompt, survey.prompts),
            ("provider", row.provider, survey.providers),
        )
        if len(all_) > 1
    ]
    content = [row.vars, row.checks] if row.checks else row.vars
    if not row.vars and "prompt" not in dict(variants):
        content = [row.prompt, row.checks]
    parts = [
        digest(content)[7:19],
        *(
            (short_id(value if len(value) <= 40 else [value], 0) if value else "-")
            for _, value in variants
        ),
    ]
    sample_id = "/".join(parts)
    attempts[sample_id] += 1
    scores: dict[str, Any] = {}
    passed = row.passed and row.error is None
    waived = [name for name, ok in row.components.items() if passed and not ok]
    survey.waived.update(waived)
    required = {name: 0 for name in row.components if name not in waived}
    if row.error is None:
        scores = {"score": row.score} if survey.scored else {"passed": row.passed}
        scores |= {name: row.named.get(name) for name in names}
    return sample_run(
        origin,
        wanted,
        tally,
        sample_id=sample_id,
        attempt=attempts[sample_id],
        status="success" if row.error is None else "error",
        scores=scores,
        verdict=row.passed,
        unchecked=row.reason == "No assertions",
        reason=row.reason if row.error is None else row.error,
        inputs=row.vars or {"prompt": row.prompt},
        outputs={"answer": row.answer},
        tags=[f"{what}:{value}"[:200] for what, value in variants if value] or None,
        latency_ms=amount(row.latency_ms),
        cost_usd=amount(row.cost_usd),
        checks=required,
        metadata={DESCRIPTION: row.description} if row.description else None,
        tokens=row.tokens if isinstance(row.tokens, int) and amount(row.tokens) else None,
    )


def _state(stats: Any, metrics: list[dict[str, Any]], tally: ImportTally) -> None:
    """The totals that promptfoo counted for the whole, or else for its prompts."""
    counts = stats if isinstance(stats, dict) and "successes" in stats else None
    keys = ("successes", "failures", "errors")
    if counts is None and metrics:
        names = ("testPassCount", "testFailCount", "testErrorCount")
        listed = [[metric.get(name, 0) for name in names] for metric in metrics]
        if all(isinstance(n, int) for column in listed for n in column):
            counts = dict(zip(keys, map(sum, zip(*listed, strict=True)), strict=True))
    known = [counts.get(key, 0) for key in keys] if counts else []
    if known and all(isinstance(n, int) and n >= 0 for n in known):
        tally.state("samples", sum(known))
        tally.state("passed", known[0])
        tally.stated_errors += known[2]


def _metrics(columns: Any) -> list[dict[str, Any]]:
    """What promptfoo counted for each prompt; nothing if it did not for one of them."""
    listed = columns if isinstance(columns, list) else []
    metrics = objects([member(prompt, "metrics") for prompt in listed])
    return metrics if len(metrics) == len(listed) else []


def _state_means(metrics: list[dict[str, Any]], tally: ImportTally) -> None:
    """The means of metrics, by the sums that promptfoo has for each prompt."""
    for name, metric in list(tally.metrics.items()):
        keys = ("score",) if metric.label == "score" else ("namedScores", metric.label)
        sums = [member(metric, *keys) for metric in metrics]
        if sums and metric.n and all(is_number(value) for value in sums):
            tally.state(name, Decimal(sum(sums)) / metric.n)


def _again(titles: Sequence[str], times: int, _workflow: str) -> str:
    r"""The tests by their descriptions, which is all that promptfoo filters by.

    >>> _again(["capital of Kenya", "sum (1+1)"], 7, "")
    "promptfoo eval --filter-pattern '^(capital of Kenya|sum \\(1\\+1\\))$' --repeat 7 --no-cache -o fresh.json"
    """  # noqa: E501
    pattern = "|".join(re.escape(title).replace("\\ ", " ") for title in titles)
    return (
        f"promptfoo eval --filter-pattern {shlex.quote(f'^({pattern})$')} --repeat {times}"
        " --no-cache -o fresh.json"
    )


IMPORTER = Importer("promptfoo", "promptfoo results", _fits, _read, apart=True, again=_again)
