"""Measures that compare outputs with expected values, after named normalisation steps.

The comparisons are those of `checks`; the similarity of texts is in `similarity`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import fsum
from typing import Any

from msgspec import structs

from assay.errors import InputError
from assay.exact import Ratio
from assay.records.evidence import Run
from assay.scoring.checks import Normaliser, expected_text, holds, is_close, number_of, same
from assay.scoring.metrics.measure import Measure, Undetermined
from assay.scoring.metrics.similarity import bleu, edit_similarity, rouge_l, token_recall

# --- measures of one run

_Pair = tuple[str, Any, Any]
_Reader = Callable[["Run", Mapping[str, Any]], Any]
_normal = lru_cache(maxsize=256)(Normaliser)
_ABSENT = object()
"""An output that is not there, which no expected value equals, not even null."""


def _pairs(run: Run, params: Mapping[str, Any]) -> list[_Pair]:
    """The name, actual value and expected value of each expected output, or of the one that
    `output` names. The actual value of a missing output is `_ABSENT`.
    """
    if not isinstance(run.expected, dict) or not run.expected:
        raise Undetermined("the run has no `expected` object of outputs and their values")
    if run.outputs is None:
        raise Undetermined("the run has no `outputs`")
    name = params.get("output")
    if name is not None and name not in run.expected:
        raise Undetermined(f"`expected` says nothing about the output '{name}'")
    names = [name] if name is not None else list(run.expected)
    return [(key, run.outputs.get(key, _ABSENT), run.expected[key]) for key in names]


_NOT_OUTPUTS = ("relevant_ids", "tool_calls", "tools", "handoffs")
"""Keys of `expected` that are not outputs; other measures read them."""


def _of_outputs(read: _Reader) -> _Reader:
    """A measure of the required outputs only; without `required_outputs`, of everything expected
    that other measures don't read.
    """

    def of_outputs(run: Run, params: Mapping[str, Any]) -> Any:
        if params.get("output") is None and isinstance(run.expected, dict):
            due = run.required_outputs or [key for key in run.expected if key not in _NOT_OUTPUTS]
            kept = {name: run.expected[name] for name in due if name in run.expected}
            if not kept:
                raise Undetermined("`expected` does not mention any output of the workflow")
            run = structs.replace(run, expected=kept)
        return read(run, params)

    return of_outputs


_Compare = Callable[[Any, Any, Mapping[str, Any]], Any]


def _each(run: Run, params: Mapping[str, Any], compare: _Compare) -> list[Any]:
    """The result of a comparison for each expected output. Raises `Undetermined` with the name of
    an output that can't be compared.
    """
    results = []
    for name, actual, expected in _pairs(run, params):
        try:
            results.append(compare(actual, expected, params))
        except (InputError, ValueError, Undetermined) as error:
            raise Undetermined(f"output '{name}': {error}") from None
    return results


def _share(compare: _Compare) -> Callable[[Run, Mapping[str, Any]], Any]:
    """A measure of how many expected outputs pass a comparison. A missing output doesn't pass:
    leaving it out of the count would reward silence.
    """

    def read(run: Run, params: Mapping[str, Any]) -> Any:
        verdicts = _each(run, params, compare)
        return {"passed": sum(verdicts), "total": len(verdicts)}

    return read


def _equal(actual: Any, expected: Any, params: Mapping[str, Any]) -> bool:
    if isinstance(actual, str) and isinstance(expected, str):
        normal = _normal(tuple(params.get("steps", ())))
        return normal(actual) == normal(expected)
    return same(actual, expected)


def _contains(actual: Any, expected: Any, params: Mapping[str, Any]) -> bool:
    wanted = expected if isinstance(expected, list) else [expected]
    if not wanted or not all(isinstance(item, str) for item in wanted):
        raise Undetermined("the expected value must be a string or a list of strings")
    normal = _normal(tuple(params["steps"]))
    entries = [expected_text(item, normal) for item in wanted]
    return isinstance(actual, str) and holds(normal(actual), entries, params["match"])


def _close(actual: Any, expected: Any, params: Mapping[str, Any]) -> bool:
    wanted = number_of(expected)
    if wanted is None:
        raise Undetermined("the expected value is not a number")
    given = number_of(actual)
    return given is not None and is_close(
        given, wanted, absolute=params.get("absolute", 0), relative=params.get("relative", 0)
    )


def _mean(
    score: Callable[[str, str], Ratio | float | None],
) -> Callable[[Run, Mapping[str, Any]], Any]:
    """A measure that averages a similarity over the expected outputs; a missing one counts as 0."""

    def compare(actual: Any, expected: Any, params: Mapping[str, Any]) -> float:
        if not isinstance(expected, str):
            raise Undetermined("the expected value is not a string")
        if not isinstance(actual, str):
            return 0.0
        normal = _normal(tuple(params.get("steps", ())))
        similarity = score(normal(actual), normal(expected))
        if similarity is None:
            raise Undetermined("there are no words to compare")
        return similarity.num / similarity.den if isinstance(similarity, Ratio) else similarity

    def read(run: Run, params: Mapping[str, Any]) -> Any:
        scores = _each(run, params, compare)
        return fsum(scores) / len(scores)

    return read


def _bleu(actual: str, expected: str) -> float | None:
    return bleu(actual, expected) if actual.strip() else 0.0


def _schema_valid(run: Run, _params: Mapping[str, Any]) -> Any:
    if run.output_schema is None or run.outputs is None:
        raise Undetermined(
            f"the run has no `{'output_schema' if run.output_schema is None else 'outputs'}`"
        )
    # imported late: the validator takes as long to load as all the rest, and many runs need none
    from assay.records.contract import check

    valid, reason = check(run.output_schema, run.outputs)
    if valid is None:
        raise Undetermined(reason)
    return int(valid)


def _within_budget(run: Run, params: Mapping[str, Any]) -> Any:
    budget, name = params["words"], params["output"]
    if budget is None:
        raise Undetermined("the parameter `words` says how many words there may be")
    if run.outputs is None or name not in run.outputs:
        raise Undetermined(f"the run has no output '{name}'")
    text = run.outputs[name]
    if not isinstance(text, str):
        raise Undetermined(f"the output '{name}' is not a string")
    return int(len(text.split()) <= budget)


_BOTH = (("outputs", "expected"),)
_UNIT, _UP, _OUT = "share", "higher is better", "undetermined"
_STEPS = ("nfc", "strip")
_ADVICE = (
    "Advisory only: it counts shared words and says nothing of truth; no gate or floor may rest"
    " on it."
)
TEXT = (
    Measure(
        "exact_match",
        "1",
        "Expected outputs that came out exactly",
        _UNIT,
        _UP,
        "ratio",
        _BOTH,
        _OUT,
        _share(_equal),
        params={"output": None, "steps": _STEPS},
        citation="Rajpurkar et al., SQuAD, 2016",
        limits=(
            "An answer in other words is a miss. Texts are compared after `steps`, all else as"
            " JSON, numbers by value."
        ),
    ),
    Measure(
        "contains_expected",
        "2",
        "Outputs that contain what is expected",
        _UNIT,
        _UP,
        "ratio",
        (("outputs", "required_outputs", "expected"),),
        _OUT,
        _of_outputs(_share(_contains)),
        params={"output": None, "steps": _STEPS, "match": "substring"},
        limits="'not Paris' contains 'Paris'. Of a list of texts all must be there.",
    ),
    Measure(
        "numeric_close",
        "1",
        "Expected numbers that came out within the tolerance",
        _UNIT,
        _UP,
        "ratio",
        _BOTH,
        _OUT,
        _share(_close),
        params={"output": None, "absolute": 0, "relative": 0},
        limits=(
            "A text counts where all of it is one number, as `1,000.5` is. The wider tolerance"
            " holds."
        ),
    ),
    Measure(
        "json_schema_valid",
        "1",
        "The outputs match their JSON Schema",
        "yes or no",
        _UP,
        "binary",
        (("outputs", "output_schema"),),
        _OUT,
        _schema_valid,
        range="0 or 1",
        citation="JSON Schema 2020-12",
        limits="Shape only: a valid output can be wrong.",
    ),
    Measure(
        "edit_similarity",
        "1",
        "Likeness of outputs and expectations, character by character",
        "1 - distance / length",
        _UP,
        "zero_one",
        _BOTH,
        _OUT,
        _mean(edit_similarity),
        params={"output": None, "steps": _STEPS},
        citation="Levenshtein, 1966; Myers, 1999",
        limits=(
            "'is' and 'is not' are alike. Texts of more than 20,000 characters are not compared."
        ),
    ),
    Measure(
        "token_recall",
        "1",
        "Expected words that came out",
        _UNIT,
        _UP,
        "zero_one",
        _BOTH,
        _OUT,
        _mean(token_recall),
        params={"output": None, "steps": _STEPS},
        citation="Rajpurkar et al., SQuAD, 2016",
        limits="Order and negation do not count, and a longer answer never loses.",
    ),
    Measure(
        "word_budget",
        "1",
        "An output stays within its word budget",
        "yes or no",
        _UP,
        "binary",
        (("outputs",),),
        _OUT,
        _within_budget,
        range="0 or 1",
        params={"output": "answer", "words": None},
        limits="Words are what white space separates.",
    ),
    Measure(
        "bleu",
        "1",
        "BLEU of outputs against expectations",
        "1",
        _UP,
        "zero_one",
        _BOTH,
        _OUT,
        _mean(_bleu),
        params={"output": None, "steps": _STEPS},
        citation="Papineni et al., BLEU, 2002; sacrebleu's exp smoothing",
        limits=_ADVICE,
    ),
    Measure(
        "rouge_l",
        "1",
        "ROUGE-L of outputs against expectations",
        "1",
        _UP,
        "zero_one",
        _BOTH,
        _OUT,
        _mean(rouge_l),
        params={"output": None, "steps": _STEPS},
        citation="Lin, ROUGE, 2004",
        limits=_ADVICE,
    ),
)
