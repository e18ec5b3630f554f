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
from typing import Any

from assay.canon import digest
from assay.errors import NotEnoughEvidence
from assay.files.json_files import member
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.parts import amount, is_number, objects
from assay.importers.promptfoo_rows import COLUMN, PromptfooRow, is_line, is_yaml, parts_of
from assay.importers.samples import UNVERSIONED, ResultOrigin, file_id, sample_run, short_id
from assay.importers.spool import Spool
from assay.importers.tally import ImportTally
from assay.records.evidence import DESCRIPTION


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
