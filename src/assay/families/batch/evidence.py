"""What is graded, as a query over what was read: text as numbers, and norms as scores.

CSV and JSON Lines give text. A text that isn't a number, or has digits that its double loses,
becomes NaN, and one that isn't a verdict becomes NULL; the text itself stays in another column, so
that the plan rejects the row and shows what was written. A JSON string such as "5" or "true" is
neither a number nor a verdict, as on a scorecard: it keeps its quotation marks. A JSON value such
as 1.5, true or [1] can't be a name, and 1.0 is not a sample size. The output of an earlier batch
gives norms: they are graded again as scores from 0 to 1, so no evidence is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from assay.families.batch.engine import SourceColumn
from assay.families.batch.layout import IN_QUOTES, NUMBERS, WRITTEN, cell_of
from assay.families.batch.norms import NUMBER
from assay.families.batch.plan import BatchPlan
from assay.families.batch.quoting import identifier, text
from assay.grouping import grouped

_FEW_DIGITS = r"^[+-]?0*[.]?0*[0-9]{1,15}([eE][+-]?[0-9]{1,3})?\z"
_MAX_DIGITS = 15
_WHOLE = r"^-?[0-9]+\z"
_TEXT = ("VARCHAR", "STRING")
_NAN = "CAST('NaN' AS DOUBLE)"
_VERDICTS = ("true", "t", "false", "f")
REJECTED = "(rejected before)"


def typed_text(
    view: str,
    columns: Sequence[SourceColumn],
    *,
    numbers: Collection[str],
    verdicts: Collection[str],
    sizes: Collection[str] = (),
    words: Collection[str] = (),
) -> str | None:
    """A query in DuckDB's dialect that reads columns of text as numbers, verdicts and the names of
    runs, criteria and gates; None if there is no such text. Some of the numbers are sample sizes.
    """
    texts = {column.name for column in columns if column.type in _TEXT}
    text_columns = texts.intersection({*numbers, *verdicts})
    expressions = [
        part
        for name in own_names(columns)
        for part in (
            _typed(name, columns, is_number=name in numbers, is_size=name in sizes)
            if name in text_columns
            else [_word(name, columns) if name in words else identifier(name)]
        )
    ]
    if not text_columns and len(expressions) == len(columns):
        return None
    return f"SELECT {', '.join(expressions)} FROM {identifier(view)}"


def own_names(columns: Sequence[SourceColumn]) -> list[str]:
    """The columns of a source, without what a reader noted about them."""
    return [column.name for column in columns if not column.name.startswith(IN_QUOTES)]


def mixed_columns(columns: Iterable[SourceColumn]) -> set[str]:
    """The columns, in lower case, with verdicts in one source and numbers in another: an engine
    would unite them with true as 1.
    """
    kinds = grouped((column.name.lower(), cell_of(column).kind) for column in columns)
    return {
        name
        for name, found in kinds.items()
        if "boolean" in found and not NUMBERS.isdisjoint(found)
    }


def _written(name: str, columns: Sequence[SourceColumn]) -> str:
    """A text as it was written: in quotation marks if it is a JSON string that would read as a
    number or a verdict without them.
    """
    own, in_quotes = identifier(name), _in_quotes(name, columns)
    if in_quotes is None:
        return own
    passes = f"(REGEXP_MATCHES({own}, {text(NUMBER)}) OR {_is_verdict(own)})"
    return f"CASE WHEN {in_quotes} = 'true' AND {passes} THEN '\"' || {own} || '\"' ELSE {own} END"


def _word(name: str, columns: Sequence[SourceColumn]) -> str:
    """A name as text; NULL where it is a JSON value other than a string or a whole number."""
    other = _is_other(name, columns)
    own = identifier(name)
    return own if other is None else f"CASE WHEN {other} THEN NULL ELSE {own} END AS {own}"


def _is_other(name: str, columns: Sequence[SourceColumn]) -> str | None:
    """Whether a text was a JSON value other than a string or a whole number; None if it was never
    JSON.
    """
    in_quotes = _in_quotes(name, columns)
    if in_quotes is None:
        return None
    return f"{in_quotes} = 'false' AND NOT REGEXP_MATCHES({identifier(name)}, {text(_WHOLE)})"


def _in_quotes(name: str, columns: Sequence[SourceColumn]) -> str | None:
    """What a reader noted about a column: 'true' for a JSON string, 'false' for another JSON value;
    None if the column was never JSON.
    """
    noted = IN_QUOTES + name
    if all(column.name != noted for column in columns):
        return None
    return f"CAST({identifier(noted)} AS VARCHAR)"


def _typed(
    name: str, columns: Sequence[SourceColumn], *, is_number: bool, is_size: bool
) -> list[str]:
    """A column of text as numbers or verdicts, and the text."""
    written = _written(name, columns)
    value = _number(written) if is_number else _verdict(written)
    other = _is_other(name, columns) if is_size else None
    if other is not None:
        value = f"CASE WHEN {other} THEN {_NAN} ELSE {value} END"
    return [f"{value} AS {identifier(name)}", f"{written} AS {identifier(WRITTEN + name)}"]


def _number(name: str) -> str:
    digits = f"REGEXP_EXTRACT({name}, '^[+-]?([^eE]+)', 1)"
    value = f"TRY_CAST({name} AS DOUBLE)"
    # a double that no decimal of 15 digits represents compares with each of them as the text does
    fits = (
        f"(REGEXP_MATCHES({name}, {text(_FEW_DIGITS)})"
        f" OR LENGTH(RTRIM(REPLACE({digits}, '.', ''), '0')) <= {_MAX_DIGITS}"
        f" OR CAST(PRINTF('%.{_MAX_DIGITS - 1}e', {value}) AS DOUBLE) <> {value})"
    )
    vanishes = f"{value} = 0 AND REGEXP_MATCHES({digits}, '[1-9]')"  # too small for a double
    return (
        f"CASE WHEN {name} IS NULL THEN NULL"
        f" WHEN REGEXP_MATCHES({name}, {text(NUMBER)}) AND {fits} AND NOT ({vanishes})"
        f" THEN COALESCE({value}, {_NAN}) ELSE {_NAN} END"
    )


def _verdict(name: str) -> str:
    return f"CASE WHEN {_is_verdict(name)} THEN LOWER({name}) IN ('true', 't') END"


def _is_verdict(name: str) -> str:
    return f"LOWER({name}) IN ({', '.join(map(text, _VERDICTS))})"


def norms_plan(plan: BatchPlan) -> BatchPlan:
    """The plan with every criterion read as its norm: floors, weights and bands stay."""
    criteria = tuple(
        criterion._replace(formula="zero_one", params={}) for criterion in plan.criteria
    )
    return plan._replace(criteria=criteria)


def norms_evidence(
    view: str, columns: Sequence[SourceColumn], plan: BatchPlan, keep: Sequence[str]
) -> str:
    """A query in DuckDB's dialect that turns the output of a batch into evidence: a wide row for
    each run, and a long row for each gate that the plan lacks and each rejected entry.
    """
    there = {column.name for column in columns}
    kept = [identifier(name) for name in keep]
    source, first = identifier(view), plan.criteria[0].name
    wide = ["run", *kept]
    for item in plan.criteria:
        name, norm = identifier(item.name), identifier(f"norm_{item.name}")
        bad = f" WHEN reason = 'invalid_evidence' THEN {_NAN}" if item.name == first else ""
        wide.append(
            f"CASE{bad} WHEN LIST_CONTAINS(missing, {text(item.name)}) THEN NULL"
            f" ELSE CAST({norm} AS DOUBLE) END AS {name}"
        )
        if f"n_{item.name}" in there:
            size = identifier(f"n_{item.name}")
            wide.append(f"{size} AS {identifier(f'{item.name}_n')}")
    wide += [f"{_gate_verdict(text(gate))} AS {identifier(gate)}" for gate in plan.gates]
    carried = ", ".join(["run", *kept])
    gates = (
        f"SELECT {carried}, gate, {_gate_verdict('gate')} AS verdict FROM (SELECT {carried},"
        f" failed_gates, undetermined_gates, UNNEST(extra_gates) AS gate FROM {source}) AS extra"
    )
    rejected = (
        f"SELECT {carried}, {text(REJECTED)} AS criterion FROM (SELECT {carried}, UNNEST(RANGE("
        "CASE WHEN reason = 'invalid_evidence' THEN faults - 1 ELSE faults END)) AS place"
        f" FROM {source} WHERE faults > 0) AS entries"
    )
    return (
        f"SELECT {', '.join(wide)}, CAST(NULL AS DOUBLE) AS raw FROM {source}"
        f" UNION ALL BY NAME {gates} UNION ALL BY NAME {rejected}"
    )


def _gate_verdict(gate: str) -> str:
    return (
        f"CASE WHEN NOT LIST_CONTAINS(undetermined_gates, {gate})"
        f" THEN NOT LIST_CONTAINS(failed_gates, {gate}) END"
    )


def sampled(view: str, run: str, size: int) -> str:
    """The rows of some runs: those whose id has the lowest MD5, so that a sample is always the
    same, on every engine.
    """
    run, view = identifier(run), identifier(view)
    drawn = (
        f"SELECT r FROM (SELECT DISTINCT {run} AS r FROM {view} WHERE NOT {run} IS NULL) AS runs"
        f" ORDER BY MD5(CAST(r AS VARCHAR)), r LIMIT {size}"
    )
    return f"SELECT * FROM {view} WHERE {run} IN ({drawn})"
