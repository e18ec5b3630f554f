"""What the columns of a table of results mean: as the user maps them, or as their names suggest.

A mapping is `KEY=COLUMN`, such as `id=ticket` or `score:faithfulness=faith`. A scale other than
0..1 follows the column: `score:quality=stars:1..5`; where less is better, the other way round:
`score:calm=anger:10..0`. The rest is guessed; `KEY=` without a column maps nothing.
A guess takes a column only where one name alone fits, and never makes up a verdict. Where several
may be the verdict, the status or a score, there is no guess: none of them may be left out. Every
column that may report an error counts: `error`, and `error:NAME` for each further one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from assay.errors import InputError, UsageError
from assay.importers.metric_names import may_be_less, plain_name
from assay.registry import near_miss

SCORE = "score:"
ERROR = "error:"
"""The prefix for a further column that reports why a row has no result."""
KEYS = (
    *("id", "answer", "expected", "input", "passed", "error", "status"),
    *("latency_ms", "latency_s", "cost_usd", "tokens", "attempt", "group"),
)
NEEDED = ("passed", "status")
"""Columns that must not be overlooked: without them, failures would look like successes."""
_SCALE = re.compile(r"(.*):(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)", re.DOTALL)
_NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "sample_id", "case_id", "test_id", "example_id", "item_id", "question_id"),
    "answer": (
        *("answer", "output", "response", "reply", "prediction", "completion", "actual_output"),
        *("model_output", "model_answer", "generated_answer"),
    ),
    "expected": (
        *("expected", "expected_output", "expected_answer", "reference", "ground_truth"),
        *("gold", "target", "ideal"),
    ),
    "input": ("input", "question", "query", "prompt"),
    "passed": (
        *("passed", "pass", "is_passed", "success", "is_success", "correct", "is_correct"),
        "succeeded",
    ),
    "status": ("status",),
    "latency_ms": ("latency_ms",),
    "latency_s": ("latency_s", "latency_seconds"),
    "cost_usd": ("cost_usd",),
    "tokens": ("tokens", "total_tokens"),
    "attempt": ("attempt", "epoch"),
}
_DETAIL = (
    r"(?:_(?:message|msg|text|type|code|class|name|reason|count|details?|info|mode|string|trace))?"
)
_ERROR = re.compile(
    r"(?:is_|has_|was_|num_|n_)?(?:errors?|errored|exceptions?|traceback|fail|failed|failures?|skip"
    r"|skipped|timed_out|aborted|canceled|cancelled|crash|crashed|excluded|invalid|incomplete)"
    rf"{_DETAIL}|exit_(?:code|status)|return_?code"
)
"""Names of columns that report that a row failed, was skipped or has an error."""
_KIND_OF_ERROR = re.compile(
    r"(?!expected|gold|reference|target|ideal|input|question|user)(?:[a-z0-9]+_)*"
    rf"(?:errors?|err|exceptions?|traceback|failures?|timeout|crash){_DETAIL}"
)
"""Names of columns such as `judge_error`: a text there reports a failure, but a number may be a
measure of error, a limit, or a count of what was tried again.
"""
_ENDING = re.compile(
    r"(?:is_)?(?:ok|valid|completed?|finished)|outcome|state|result|verdict|finish_reason"
    r"|stop_reason|(?:http_)?(?:status|response)_code|http_code"
    r"|(?:run|sample|case|task|test|trial|job|eval|evaluation|execution|judge|grader|scorer|model"
    r"|api|http|request|response|completion|generation|final|overall)_status"
)
"""Names of columns that report a failure only by a word or an HTTP status for one."""
_METRIC = re.compile(
    r"score|accuracy|f1|exact_match|faithfulness|relevan(?:ce|cy)|precision|recall|correctness"
    r"|bleu|rouge(?:_?[l12])?|similarity|groundedness|helpfulness|completeness"
    r"|(?:answer|context|response)_(?:relevan(?:ce|cy)|precision|recall|correctness|similarity)"
    r"|\w+_score|toxicity|hallucination|harmfulness|noise_sensitivity|brier|wer|cer|perplexity"
)
"""Names of metrics. Those where less may be better are taken too, and named as not graded."""
_VERDICTS = ("yes", "no", "y", "n", "true", "false", "pass", "fail", "passed", "failed")
_WORD = r"(?=.*[^\W\d])[\w.:/#-]+"
_NO_SCORE = re.compile(r"rude|cost|(?:^|_)(?:id|no|nr|number|index|ms|time|date|tokens|n)(?:_|$)")
"""Names of columns that are not offered as a score, as are those where less may be better."""
_OWN = frozenset(("hard_gates", "criteria", "workflow", "schema", "run_id"))
"""Keys of Assay's own records: a file with them is not a table of results."""
_OWN_TABLES = {
    frozenset(("reason", "faults", "policy", "scoring_system", "grading_system")): (
        "is an output of `assay batch`; a table of results would lose its norms and gates",
        "Give its Parquet output, with the record next to it, to `assay gate`.",
    ),
    frozenset(("schema_contract_valid", "no_critical_step_failures")): (
        "has verdicts of gates, which a table of results would lose",
        "Grade it with `assay batch`, and decide over two such outputs with `assay gate`.",
    ),
    frozenset(("run_id", "passed", "provisional_grade", "weighted_score", "pass_threshold")): (
        "is a table of grades by Assay; a table of results would lose their scores and gates",
        "Give the runs, or write the grades with `assay grade ... -o grades.jsonl`.",
    ),
    frozenset(("criterion", "raw", "gate", "verdict", "stored_passed", "record")): (
        "is from `assay ledger export`, which writes a row for each score and verdict of a run",
        "Grade it with `assay batch`, and decide over two such outputs with `assay gate`.",
    ),
}
"""Columns of the tables that Assay writes: why it isn't imported, and what to do."""


class ScoreScale(NamedTuple):
    """The values of a score: the worst and the best."""

    low: Decimal
    high: Decimal

    def share(self, value: Decimal | int) -> Decimal:
        """How far a value is from the worst to the best, from 0 to 1, to twelve places.

        >>> ScoreScale(Decimal(1), Decimal(0)).share(Decimal("0.05"))
        Decimal('0.95')
        """
        low, span = Fraction(self.low), Fraction(self.high) - Fraction(self.low)
        share = min(max((Fraction(value) - low) / span, Fraction(0)), Fraction(1))
        return Decimal(round(share * 10**12)).scaleb(-12).normalize()

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


class ScoreColumn(NamedTuple):
    """The column of a score and its scale; None for 0..1."""

    name: str
    scale: ScoreScale | None


class NamedScale(NamedTuple):
    """The scale of a score and the name to grade it under."""

    name: str
    scale: ScoreScale


class GuessedMap(NamedTuple):
    """A mapping by names, and what could not be decided."""

    mapping: dict[str, str]
    open: tuple[str, ...]
    refused: Mapping[str, tuple[str, ...]] = {}
    """What a person has to decide: the columns that may be it."""


def parse_map(texts: Iterable[str]) -> dict[str, str]:
    """The mapping that `--map` gives; several are one.

    >>> parse_map(["id=ticket,answer=output", "score:quality=stars:1..5"])
    {'id': 'ticket', 'answer': 'output', 'score:quality': 'stars:1..5'}
    """
    columns: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",") if part.strip()):
        key, sign, column = (piece.strip() for piece in part.partition("="))
        if not sign:
            raise UsageError(
                "CLI-001",
                f"--map has {part!r}; write it as KEY=COLUMN.",
                fix="Write, for example, --map id=ticket,answer=output,score:faithfulness=faith.",
            )
        if key in columns:
            raise UsageError("CLI-001", f"--map names '{key}' twice.", fix="Keep one.")
        columns[key] = column
    check_map(columns, "--map")
    return columns


def check_map(mapping: Mapping[str, str], where: str) -> None:
    """Refuse a key that means nothing, and a scale without extent."""
    for key, column in mapping.items():
        if key.startswith(SCORE) and key != SCORE:
            scale = column_of(column).scale
            if scale is not None and scale.low == scale.high:
                raise UsageError(
                    "CLI-001", f"the scale of {key!r} begins and ends at one value.", where=where
                )
        elif key not in KEYS and (not key.startswith(ERROR) or key == ERROR):
            raise UsageError(
                "CLI-001",
                f"unknown key '{key}'.{near_miss(key, KEYS)}",
                where=where,
                fix=f"Use {', '.join(KEYS)}, error:NAME or score:NAME.",
            )


def column_of(text: str) -> ScoreColumn:
    """The column of a score, and its scale.

    >>> column_of("stars:1..5")
    ScoreColumn(name='stars', scale=ScoreScale(low=Decimal('1'), high=Decimal('5')))
    """
    match = _SCALE.fullmatch(text)
    if match is None:
        return ScoreColumn(text, None)
    return ScoreColumn(match[1], ScoreScale(Decimal(match[2]), Decimal(match[3])))


def scales_of(mapping: Mapping[str, str]) -> dict[str, NamedScale]:
    """The scales that a mapping gives to metrics of a tool, by their names there.

    >>> scales_of({"id": "ticket", "score:calm": "anger:10..0"})["anger"].name
    'calm'
    """
    scales = {}
    for key, text in mapping.items():
        column = column_of(text)
        if key.startswith(SCORE) and column.scale is not None:
            scales[column.name] = NamedScale(key.removeprefix(SCORE), column.scale)
    return scales


def columns_of(mapping: Mapping[str, str]) -> list[str]:
    """The columns that a mapping names."""
    return [
        column_of(text).name if key.startswith(SCORE) else text
        for key, text in mapping.items()
        if text
    ]


def completed(mapping: Mapping[str, str], columns: Iterable[str]) -> GuessedMap:
    """What the user maps, with a guess for the rest of the columns.

    >>> completed({"score:s": "stars:1..5", "error": ""}, ["id", "stars", "error"]).mapping
    {'score:s': 'stars:1..5', 'id': 'id'}
    """
    guessed = guess(name for name in columns if name not in columns_of(mapping))
    rest = {key: name for key, name in guessed.mapping.items() if key not in mapping}
    refused = {key: names for key, names in guessed.refused.items() if key not in mapping}
    undecided = tuple(text for text in guessed.open if text.partition(" ")[0] not in mapping)
    mapped = {key: text for key, text in mapping.items() if text}
    return GuessedMap({**mapped, **rest}, undecided, refused)


def suggested(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The parts of a `--map` for a table whose names don't say enough: what they suggest, a column
    that may be the id, and the first that may be a verdict or a score by its value in the first
    row.

    >>> suggested([{"Ticket": "T-1", "answer": "Hi", "ms": "90", "Stars": "4"}])
    ['id=Ticket', 'answer=answer', 'score:stars=Stars:0..5']
    >>> suggested([{"Helpful?": "Y", "Stars": "4"}])
    ['passed=Helpful?']
    >>> suggested([{"isError": "no", "Helpful?": "Y"}])
    ['error:isError=isError', 'passed=Helpful?']
    """
    usable = [name for name in rows[0] if not re.search(r"[,=]", name)]
    mapping = guess(usable).mapping
    own = None if mapping.keys() & {"id", "input"} else _id_column(rows, usable, mapping.values())
    usable = [name for name in usable if name != own]
    parts = [f"{key}={name}" for key, name in mapping.items()]
    parts[:0] = [] if own is None else [f"id={own}"]
    words = {name: str(rows[0][name]).strip().lower() for name in usable}
    for name, word in words.items():
        if _reports_error(name) or may_be_less(name):
            continue
        if word in _VERDICTS:
            return [*(part for part in parts if part != f"{ERROR}{name}={name}"), f"passed={name}"]
    for name, word in words.items():
        plain = plain_name(name)
        if not plain or _NO_SCORE.search(plain) or may_be_less(plain):
            continue
        if re.fullmatch(r"\d{1,3}(\.\d+)?", word):
            top = next(top for top in (1, 5, 10, 100, 1000) if Decimal(word) <= top)
            return [*parts, f"{SCORE}{plain}={name}" + ("" if top == 1 else f":0..{top}")]
    return parts


def _id_column(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], taken: Collection[str]
) -> str | None:
    """The column that tells these rows apart, each by one word: the first one, or one of text."""
    for name in (name for name in columns if name not in taken):
        words = {str(row.get(name)).strip() for row in rows}
        pattern = rf"\d+|{_WORD}" if name == columns[0] else _WORD
        if len(words) < len(rows) or any(word.lower() in _VERDICTS for word in words):
            continue
        if all(re.fullmatch(pattern, word) for word in words):
            return name
    return None


def check_foreign(columns: Iterable[str], where: str) -> None:
    """Refuse a table that Assay wrote itself."""
    columns_found = set(columns)
    for own, (why, fix) in _OWN_TABLES.items():
        if own <= columns_found:
            raise InputError("FIL-006", f"{why}.", where=where, fix=fix)


def guess(columns: Iterable[str]) -> GuessedMap:
    """The mapping that the names of columns suggest.

    >>> guess(["id", "question", "output", "f1"]).mapping
    {'id': 'id', 'answer': 'output', 'input': 'question', 'score:f1': 'f1'}
    >>> guess(["answer", "output", "correct"]).open
    ("answer may be 'answer' or 'output'",)
    """
    plain = {column: plain_name(column) for column in columns}
    if _OWN & set(plain):
        return GuessedMap({}, ())
    mapping: dict[str, str] = {}
    undecided: list[str] = []
    refused: dict[str, tuple[str, ...]] = {}
    for key, names in _NAMES.items():
        fitting = [column for column, name in plain.items() if name in names]
        if len(fitting) == 1:
            mapping[key] = fitting[0]
        elif fitting and key in NEEDED:
            refused[key] = tuple(fitting)
        elif fitting:
            undecided.append(_open(key, fitting))
    metrics: dict[str, list[str]] = {}
    for column, name in plain.items():
        if may_report_failure(column):
            own = name in ("error", "exception") and "error" not in mapping
            mapping["error" if own else f"{ERROR}{column}"] = column
        elif _METRIC.fullmatch(name):
            metrics.setdefault(f"{SCORE}{name}", []).append(column)
    for key, fitting in metrics.items():
        if len(fitting) == 1:
            mapping[key] = fitting[0]
        else:
            refused[key] = tuple(fitting)
    return GuessedMap(mapping, tuple(undecided), refused)


@lru_cache(1024)
def may_report_failure(column: str) -> bool:
    """Whether a column is about failures, by its name."""
    return _reports_error(column) or is_ending(column)


def _reports_error(column: str) -> bool:
    return bool(_ERROR.fullmatch(plain_name(column))) or is_kind_of_error(column)


def is_kind_of_error(column: str) -> bool:
    """Whether a column reports a failure only by a text, such as `judge_error`."""
    name = plain_name(column)
    return bool(_KIND_OF_ERROR.fullmatch(name)) and not _ERROR.fullmatch(name)


def is_ending(column: str) -> bool:
    """Whether a column reports a failure only by a word for one, such as `finish_reason`."""
    return bool(_ENDING.fullmatch(plain_name(column)))


def _open(key: str, columns: Iterable[str]) -> str:
    return f"{key} may be {' or '.join(map(repr, columns))}"


def check_guess(guessed: GuessedMap, where: str) -> None:
    """Refuse a guess that would leave out a verdict, a status or a score."""
    if not guessed.refused:
        return
    example = {**guessed.mapping, **{key: names[0] for key, names in guessed.refused.items()}}
    words = ",".join(f"{key}={name}" for key, name in example.items() if "," not in name)
    raise UsageError(
        "CLI-001",
        f"{'; '.join(_open(key, names) for key, names in guessed.refused.items())}.",
        where=where,
        fix=f"Choose with --map, for example --map {shlex.quote(words)}.",
    )
