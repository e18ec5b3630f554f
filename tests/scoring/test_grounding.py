"""Retrieval-augmented answers without a model: context, citations, quotations and words, and what
they must not pass.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.exact import Ratio
from assay.formulas import normalise
from assay.records.evidence import Run
from assay.scoring.metrics import lexical
from assay.scoring.metrics.grounding import (
    GROUNDING,
    average_precision,
)
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.metrics.verdicts import VERDICTS
from documents import run
from examples import repeats

MEASURES = {measure.id: measure for measure in (*GROUNDING, *VERDICTS)}
PASSAGES = [
    {
        "id": "d1",
        "text": "The bridge opened in 1932. It is 1,149 metres long and carries eight lanes.",
    },
    {
        "id": "d2",
        "text": "The ferry does not run at night. “Tickets are sold on board,” the office says.",
    },
]


def evidence(**changes: Any) -> Run:
    changes = {"expected": None, **changes}
    return msgspec.convert(run("rag", **changes), Run)


def taken(name: str, params: dict[str, Any] | None = None, **changes: Any) -> Any:
    measure = MEASURES[name]
    raw = measure.take(evidence(**changes), {**measure.params, **(params or {})})
    if not isinstance(raw, Undetermined):
        assert 0 <= normalise(raw, measure.formula, {}) <= 10**9
    return raw


def found(*flags: bool | None, ranks: list[int] | None = None) -> list[dict[str, Any]]:
    return [
        {"id": f"d{index}", "relevant": flag, **({"rank": ranks[index]} if ranks else {})}
        for index, flag in enumerate(flags)
    ]


# --- context


@given(st.lists(st.booleans(), max_size=40))
def test_average_precision_is_the_mean_of_precision_at_each_relevant_rank(
    flags: list[bool],
) -> None:
    hits = [
        Fraction(sum(flags[:rank]), rank) for rank in range(1, len(flags) + 1) if flags[rank - 1]
    ]
    exact = sum(hits, Fraction(0)) / len(hits) if hits else Fraction(0)
    assert abs(Fraction(*average_precision(flags)) - exact) < Fraction(1, 10**29)


@given(st.lists(st.booleans(), min_size=2, max_size=12))
def test_moving_a_relevant_passage_up_never_lowers_context_precision(flags: list[bool]) -> None:
    for at in range(1, len(flags)):
        if flags[at] and not flags[at - 1]:
            moved = [*flags[: at - 1], True, False, *flags[at + 1 :]]
            assert Fraction(*average_precision(moved)) >= Fraction(*average_precision(flags))


@pytest.mark.req("W-060")
def test_context_precision_heeds_the_rank_and_the_share_does_not() -> None:
    assert taken("context_precision", retrieval=found(True, False, True)) == 0.833333333
    assert (
        taken("context_precision", retrieval=found(True, False, True, ranks=[3, 1, 2]))
        == 0.583333333
    )
    assert taken(
        "context_precision_share", retrieval=found(True, False, True, ranks=[3, 1, 2])
    ) == {"passed": 2, "total": 3}
    assert taken("context_precision", retrieval=found(False, False)) == 0


@pytest.mark.req("W-060")
def test_context_recall_counts_the_relevant_ids_that_were_found() -> None:
    ids = {"relevant_ids": ["d0", "d2", "d9"]}
    assert taken("context_recall", retrieval=found(None, None, None), expected=ids) == 0.666666667
    assert (
        taken("context_precision", retrieval=found(None, None, None), expected=ids) == 0.833333333
    )
    assert taken("context_recall", retrieval=[], expected=ids) == 0


def test_a_good_passage_retrieved_ten_times_counts_once() -> None:
    again = [{"id": "d1", "relevant": True}] * 10
    assert taken("context_precision_share", retrieval=again) == {"passed": 1, "total": 10}
    assert taken("context_recall", retrieval=again, expected={"relevant_ids": ["d1", "d2"]}) == 0.5


@pytest.mark.parametrize("name", ["context_precision", "context_precision_share"])
def test_context_that_nobody_judged_is_undetermined(name: str) -> None:
    for changes in (
        {"retrieval": None},
        {"retrieval": []},
        {"retrieval": found(True, None)},
        {"retrieval": found(True, True, ranks=[1, 1])},
        {"retrieval": [{"id": "a", "relevant": True, "rank": 1}, {"id": "b", "relevant": True}]},
        {"expected": {"relevant_ids": []}},
        {"expected": {"relevant_ids": "d1"}},
    ):
        assert isinstance(taken(name, **changes), Undetermined), changes
    for changes in (
        {},
        {"expected": {"relevant_ids": []}},
        {"expected": {"relevant_ids": [1]}},
        {"expected": {"relevant_ids": ["a"]}, "retrieval": None},
    ):
        assert isinstance(taken("context_recall", **changes), Undetermined), changes


# --- citations


@pytest.mark.req("W-060")
def test_citations_must_be_there_and_must_resolve() -> None:
    claims = [
        {"text": "a", "citations": ["d1", "d1", " "]},
        {"text": "b", "citations": ["d1", "d9"]},
        {"text": "c", "citations": ["  "]},
    ]
    assert taken("citation_presence", claims=claims, retrieval=PASSAGES) == {
        "passed": 2,
        "total": 3,
    }
    assert taken("citation_resolution", claims=claims, retrieval=PASSAGES) == {
        "passed": 2,
        "total": 3,
    }
    for retrieval in (
        [],
        [{"id": "d1"}],
        [{"id": "d1", "text": " "}],
        [{"id": "d1", "text": "a"}, {"id": "d1", "text": "b"}],
    ):
        assert taken("citation_presence", claims=claims, retrieval=retrieval) == {
            "passed": 0,
            "total": 3,
        }
        assert taken("citation_resolution", claims=claims, retrieval=retrieval) == {
            "passed": 0,
            "total": 3,
        }
    assert isinstance(taken("citation_presence", claims=claims, retrieval=None), Undetermined)


@pytest.mark.parametrize("forged", ["D1", "d1 ", "d\u0661", "ｄ1", "d1\u200b"])
def test_an_id_that_only_looks_like_a_retrieved_one_does_not_resolve(forged: str) -> None:
    claim = {"text": "The bridge opened in 1932.", "citations": [forged]}
    assert taken("citation_resolution", claims=[claim], retrieval=PASSAGES) == {
        "passed": 0,
        "total": 1,
    }
    assert taken("lexical_support", claims=[claim], retrieval=PASSAGES) == 0


def test_one_id_with_two_texts_supports_nothing() -> None:
    twice = [*PASSAGES, {"id": "d1", "text": "The bridge opened in 1999."}]
    claim = {"text": "The bridge opened in 1999.", "citations": ["d1"]}
    assert isinstance(taken("lexical_support", claims=[claim], retrieval=twice), Undetermined)
    assert isinstance(
        taken("quotes_grounded", claims=[{**claim, "text": '"in 1999"'}], retrieval=twice),
        Undetermined,
    )


@pytest.mark.parametrize(
    "name",
    [
        "citation_presence",
        "citation_resolution",
        "quotes_grounded",
        "lexical_support",
        "severity_weighted_support",
    ],
)
@pytest.mark.parametrize("claims", [None, []])
def test_without_claims_nothing_is_grounded_and_nothing_is_zero(name: str, claims: Any) -> None:
    assert isinstance(taken(name, claims=claims), Undetermined)


def test_without_passages_or_their_text_support_is_undetermined() -> None:
    claim = {"text": 'It says "so".', "citations": ["d1"]}
    for name in ("quotes_grounded", "lexical_support"):
        assert isinstance(taken(name, claims=[claim], retrieval=None), Undetermined)
        assert isinstance(taken(name, claims=[claim], retrieval=[{"id": "d1"}]), Undetermined)
    assert isinstance(taken("citation_resolution", claims=[claim], retrieval=None), Undetermined)
    assert isinstance(taken("citation_resolution", claims=[{"text": "a"}]), Undetermined)
    assert isinstance(
        taken(
            "quotes_grounded",
            claims=[{"text": "It's the '90s", "citations": ["d1"]}],
            retrieval=PASSAGES,
        ),
        Undetermined,
    )


# --- quotations


@pytest.mark.parametrize(
    ("text", "cites", "stands"),
    [
        ('It is "1149 Metres long".', "d1", True),
        ("It is „1,149 metres  long“.", "d1", True),
        ('It "carries eight lanes."', "d1", True),
        ('"The bridge opened ... and carries eight lanes"', "d1", True),
        ('"carries eight lanes [...] The bridge opened"', "d1", False),
        ('It "carries nine lanes".', "d1", False),
        ('It "carries eight lane".', "d1", False),
        ('"tickets are sold on board"', "d1", False),
        ("«Tickets are sold on board»", "d2", True),
        ('"carries eight lanes"', "d9", False),
    ],
)
def test_a_quotation_must_stand_word_for_word_in_a_cited_passage(
    text: str, cites: str, stands: bool
) -> None:
    assert taken(
        "quotes_grounded", claims=[{"text": text, "citations": [cites]}], retrieval=PASSAGES
    ) == {"passed": int(stands), "total": 1}


@given(
    st.lists(
        st.sampled_from(["gate", "opens", "at", "seven", "7", "1,000", "é", "e\u0301", "ＡＢ"]),
        min_size=1,
        max_size=12,
    ),
    st.data(),
)
def test_every_run_of_words_of_a_passage_is_found_in_it(words: list[str], data: Any) -> None:
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    assert lexical.occurs(
        "  ".join(words[start:end]).upper(), lexical.read_passage(" ".join(words))
    )


# --- words


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("The bridge opened in 1932.", ""),
        ("THE BRIDGE — opened, in 1932!", ""),
        ("The bridge is 1149 metres long.", ""),
        ("The bridge opened in 1933.", "no cited passage has the number 1933"),
        ("The bridge is 1.149 metres long.", "no cited passage has the number 1.149"),
        ("The bridge is -1149 metres long.", "no cited passage has the number -1149"),
        ("The bridge never opened in 1932.", "it denies what the nearest sentence says"),
        (
            "The bridge was painted by volunteers from Bergen.",
            "the cited passages contain 1 of its 4 words",
        ),
        ("…", "it contains no word to look for"),
    ],
)
def test_support_by_words_numbers_and_denials(text: str, fault: str) -> None:
    assert (
        lexical.support(
            text, [lexical.read_passage(str(PASSAGES[0]["text"]))], threshold=Ratio(3, 5)
        ).fault
        == fault
    )


def test_a_denial_in_the_passage_must_be_in_the_claim() -> None:
    passage = lexical.read_passage(str(PASSAGES[1]["text"]))
    assert (
        lexical.support(
            "The ferry runs at night; ferry run.", [passage], threshold=Ratio(1, 2)
        ).fault
        == "the nearest sentence denies what it says"
    )
    assert lexical.support(
        "The ferry doesn't run at night.", [passage], threshold=Ratio(1, 2)
    ).is_supported


def test_only_cited_passages_support_a_claim() -> None:
    claims = [
        {"text": "The bridge opened in 1932.", "citations": ["d1"]},
        {"text": "The bridge opened in 1932.", "citations": ["d2"]},
        {"text": "The bridge opened in 1932."},
    ]
    assert taken("lexical_support", claims=claims, retrieval=PASSAGES) == 0.333333333


def test_the_threshold_is_a_parameter() -> None:
    claims = [{"text": "The bridge opened quietly yesterday.", "citations": ["d1"]}]
    assert taken("lexical_support", {"threshold": 0.5}, claims=claims, retrieval=PASSAGES) == 1
    assert taken("lexical_support", {"threshold": 0.51}, claims=claims, retrieval=PASSAGES) == 0


SENTENCES = st.lists(
    st.sampled_from(["gate", "bridge", "opens", "seven", "12", "3.5", "not", "never", "the"]),
    min_size=1,
    max_size=8,
).map(" ".join)


@given(SENTENCES)
def test_a_sentence_supports_itself_unless_it_says_nothing(text: str) -> None:
    found_ = lexical.support(text, [lexical.read_passage(text)], threshold=Ratio(1, 1))
    assert found_.is_supported or found_.fault == "it contains no word to look for"


@given(SENTENCES, SENTENCES, st.integers(10_000, 99_999))
def test_a_number_that_no_passage_has_is_never_supported(
    claim: str, passage: str, number: int
) -> None:
    found_ = lexical.support(
        f"{claim} {number}", [lexical.read_passage(f"{claim} {passage}")], threshold=Ratio(0, 1)
    )
    assert found_.fault == f"no cited passage has the number {number}"


@given(SENTENCES)
def test_adding_a_denial_to_a_plain_claim_takes_its_support_away(text: str) -> None:
    if not lexical.negates(text) and (lexical.words(text) or lexical.numbers(text)):
        assert not lexical.support(
            f"not {text}", [lexical.read_passage(text)], threshold=Ratio(1, 1)
        ).is_supported


def test_texts_compare_the_same_however_their_signs_are_composed() -> None:
    assert lexical.tokens("Cafe\u0301 ＡＢ １２ isn’t") == lexical.tokens("CAFÉ ab 12 ISN'T")
    assert lexical.numbers("10⁵") != lexical.numbers("105")
    assert lexical.numbers("٣") == {"3"}
    assert lexical.tokens("東京は") == ["東", "京", "は"]


def test_a_long_answer_over_long_passages_is_read_in_time() -> None:
    passages = [
        {
            "id": f"d{index}",
            "text": "The gate opens at seven. " * repeats(100, 400) + f"Number {index}.",
        }
        for index in range(20)
    ]
    claims = [
        {"text": f'The gate opens "at seven" {index % 20}.', "citations": [f"d{index % 20}"]}
        for index in range(repeats(20, 500))
    ]
    assert taken("lexical_support", claims=claims, retrieval=passages) == 1
    assert taken("quotes_grounded", claims=claims, retrieval=passages) == {
        "passed": len(claims),
        "total": len(claims),
    }
    many = repeats(20_000, 100_000)
    hostile = [
        {
            "text": '"' * (many + 1) + "„" * many + "«" * many + "'" * many + "1," * many,
            "citations": ["d1"],
        }
    ]
    assert taken("lexical_support", claims=hostile, retrieval=passages) == 0


# --- severity


@pytest.mark.parametrize(
    "unjudged",
    [
        {"text": "e", "supported": False},
        {"text": "f"},
        {"text": "g", "citations": ["d9"], "supported": True},
    ],
)
def test_severity_counts_unsupported_claims_only(unjudged: Any) -> None:
    claims = [
        {"text": "a", "citations": ["d1"], "supported": True, "severity": "critical"},
        {"text": "b", "supported": False, "severity": "low"},
        {"text": "c", "supported": False, "severity": "high"},
        {"text": "d", "citations": ["d1"], "supported": True},
    ]
    name = "severity_weighted_support"
    assert taken(name, claims=claims, retrieval=PASSAGES) == 1 - (1 + 0.25) / 4
    refused = taken(name, claims=[*claims, unjudged], retrieval=PASSAGES)
    assert refused.reason.startswith("1 of 5 claims")


@pytest.mark.req("W-060")
def test_a_graver_unsupported_claim_costs_more_and_an_unjudged_one_is_undetermined() -> None:
    def scored(severity: str | None, *, supported: bool | None = False) -> Any:
        claims = [{"text": text, "citations": ["d1"], "supported": True} for text in "ab"]
        claims[1] |= {"supported": supported, **({"severity": severity} if severity else {})}
        return taken("severity_weighted_support", claims=claims, retrieval=PASSAGES)

    assert [scored(severity) for severity in ("none", "low", "medium", "high", "critical")] == [
        1,
        0.875,
        0.75,
        0.5,
        0.5,
    ]
    assert scored("critical", supported=True) == 1
    assert isinstance(scored(None), Undetermined)
    assert isinstance(scored("low", supported=None), Undetermined)


def test_every_measure_of_grounding_has_a_whole_sheet_that_says_what_it_cannot_see() -> None:
    assert len(MEASURES) == len(GROUNDING) + len(VERDICTS)
    for measure in MEASURES.values():
        sheet = measure.sheet()
        assert all(
            sheet[field]
            for field in (
                "title",
                "unit",
                "direction",
                "formula",
                "evidence",
                "absence",
                "range",
                "citation",
                "limits",
            )
        ), measure.id
    assert all(
        word in MEASURES["lexical_support"].limits
        for word in ("paraphrase", "denial", "entailment")
    )
