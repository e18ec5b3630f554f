"""Retrieval metrics: equal to trec_eval and pytrec_eval, whichever way they are computed; files
that lie are refused.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assay.errors import InputError, UsageError
from assay.files.json_files import Document
from assay.files.trec_files import read_qrels, read_run
from assay.library.shelf import Shelf
from assay.records.reading import read_run as read_evidence
from assay.scoring.metrics import retrieval
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.metrics.passages import RETRIEVAL
from assay.scoring.metrics.retrieval import DEFAULT_METRICS, METRIC_NAMES, evaluate, metric, ranking
from assay.services.grading import Grader
from documents import run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EXACTLY = 0.0
FOUR_DECIMALS = 1e-4
MANY = [
    "map",
    "recip_rank",
    "P_1",
    "P_5",
    "recall_3",
    "success_1",
    "ndcg",
    "ndcg_cut_1",
    "ndcg_cut_5",
    "Rprec",
    "map_cut_3",
    "num_ret",
    "num_rel",
    "num_rel_ret",
]


def far_off(
    found: retrieval.RetrievalResult, expected: Mapping[str, Mapping[str, float]], tolerance: float
) -> list[Any]:
    """Every value that is not the expected one, and how many were compared."""
    wrong = []
    for query, values in expected.items():
        ours = found.mean if query == "all" else found.queries[query]
        wrong += [
            (query, name, ours[name], value)
            for name, value in values.items()
            if abs(ours[name] - value) > tolerance
        ]
    return wrong


# --- against the tools of the field


@pytest.mark.req("W-020")
@pytest.mark.parametrize(
    ("key", "file", "level"),
    [
        ("trec_eval_4dp", "run", 1),
        ("trec_eval_l2_4dp", "run", 2),
        ("ties_trec_eval_4dp", "run_ties", 1),
    ],
)
def test_every_metric_is_trec_evals_to_its_four_decimals(
    shared: Path, key: str, file: str, level: int
) -> None:
    home = shared / "data" / "trec_eval"
    expected = json.loads((home / "expected.json").read_text())[key]
    found = evaluate(
        read_qrels(str(home / "rag24/qrels.txt")),
        read_run(str(home / f"rag24/{file}.txt")),
        list(expected["all"]),
        relevance_level=level,
    )
    assert len(expected["all"]) == 32
    assert far_off(found, expected, FOUR_DECIMALS) == []


@pytest.mark.parametrize(
    ("key", "file", "level"),
    [
        ("pytrec_eval_full", "run", 1),
        ("pytrec_eval_full_l2", "run", 2),
        ("ties_pytrec_eval_full", "run_ties", 1),
    ],
)
def test_every_value_is_pytrec_evals_to_the_last_digit(
    shared: Path, key: str, file: str, level: int
) -> None:
    home = shared / "data" / "trec_eval"
    expected = json.loads((home / "expected.json").read_text())[key]
    names = list(next(iter(expected["per_query"].values())))
    found = evaluate(
        read_qrels(str(home / "rag24/qrels.txt")),
        read_run(str(home / f"rag24/{file}.txt")),
        names,
        relevance_level=level,
    )
    assert far_off(found, expected["per_query"], EXACTLY) == []
    assert far_off(found, {"all": expected["mean"]}, 1e-9) == []


def test_the_official_test_of_trec_eval_comes_out_right(shared: Path) -> None:
    home = shared / "data" / "trec_eval"
    expected: dict[str, dict[str, float]] = {}
    for line in (home / "official/out.test.aq").read_text().splitlines():
        name, query, value = line.split()
        try:
            metric(name)
        except UsageError:
            continue
        expected.setdefault(query, {})[name] = float(value)
    assert len(expected["all"]) >= 50
    found = evaluate(
        read_qrels(str(home / "official/qrels.test")),
        read_run(str(home / "official/results.test")),
        list(expected["all"]),
    )
    assert far_off(found, expected, FOUR_DECIMALS) == []
    full = json.loads((home / "expected.json").read_text())["official_full_precision"]
    assert (
        far_off(
            evaluate(
                read_qrels(str(home / "official/qrels.test")),
                read_run(str(home / "official/results.test")),
                list(full["mean"]),
            ),
            full["per_query"],
            0,
        )
        == []
    )


def test_exponential_gain_is_ranx_burges(shared: Path) -> None:
    home = shared / "data" / "trec_eval"
    expected = json.loads((home / "expected.json").read_text())["ranx_0.3.21_mean"]
    found = evaluate(
        read_qrels(str(home / "rag24/qrels.txt")),
        read_run(str(home / "rag24/run.txt")),
        ["ndcg_exp_cut_10", "ndcg_exp_cut_5"],
    ).mean
    assert found["ndcg_exp_cut_10"] == pytest.approx(expected["ndcg_burges@10"], abs=1e-9)
    assert found["ndcg_exp_cut_5"] == pytest.approx(expected["ndcg_burges@5"], abs=1e-9)


def test_a_missing_query_counts_0_only_when_asked(shared: Path) -> None:
    home = shared / "data" / "trec_eval"
    qrels, scores = read_qrels(str(home / "rag24/qrels.txt")), read_run(str(home / "rag24/run.txt"))
    left = dict(list(scores.items())[:-4])
    partial, complete = (
        evaluate(qrels, left, ["map", "num_rel"]),
        evaluate(qrels, left, ["map", "num_rel"], complete=True),
    )
    assert len(partial.queries) == 12
    assert partial.missing == complete.missing == tuple(sorted(scores.keys() - left.keys()))
    assert complete.mean["map"] * 16 == pytest.approx(partial.mean["map"] * 12)
    assert complete.mean["num_rel"] == 1950
    assert all(complete.queries[query]["map"] == 0 for query in complete.missing)


GRADES = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(-2, 3), min_size=1, max_size=10)
SCORED = st.dictionaries(
    st.sampled_from("cdefghijklm"), st.sampled_from([0.0, 0.5, 1.0, 1.5, -2.0, 3.25]), max_size=11
)


@given(
    st.dictionaries(st.sampled_from("pqrs"), GRADES, min_size=1),
    st.dictionaries(st.sampled_from("qrst"), SCORED, min_size=1),
    st.integers(1, 2),
)
def test_any_judgements_and_any_run_give_pytrec_evals_digits(
    qrels: dict[str, dict[str, int]], scores: dict[str, dict[str, float]], level: int
) -> None:
    peer = pytest.importorskip("pytrec_eval", reason="pip install pytrec-eval-terrier")
    assume(any(grade >= level for judged in qrels.values() for grade in judged.values()))
    names = {
        "map",
        "recip_rank",
        "ndcg",
        "Rprec",
        "bpref",
        "set_P",
        "set_recall",
        "set_F",
        "num_rel",
        "num_ret",
        "num_rel_ret",
    }
    cut = {"P.1,5", "recall.3", "success.1,5", "ndcg_cut.1,5", "map_cut.3"}
    # a query with no grade of 0 or more makes pytrec_eval read memory that is not its own
    qrels = {query: judged for query, judged in qrels.items() if max(judged.values()) >= level}
    expected = peer.RelevanceEvaluator(qrels, names | cut, relevance_level=level).evaluate(
        {query: found for query, found in scores.items() if found}
    )
    found = evaluate(
        qrels,
        scores,
        [
            *names,
            "P_1",
            "P_5",
            "recall_3",
            "success_1",
            "success_5",
            "ndcg_cut_1",
            "ndcg_cut_5",
            "map_cut_3",
        ],
        relevance_level=level,
    )
    assert {query: values for query, values in found.queries.items() if scores[query]} == expected


# --- laws


@given(GRADES, SCORED, st.randoms(use_true_random=False))
def test_no_order_of_the_input_changes_anything(
    judged: dict[str, int], scores: dict[str, float], draw: random.Random
) -> None:
    def shuffled(given: dict[str, Any]) -> dict[str, Any]:
        return dict(draw.sample(list(given.items()), len(given)))

    first = evaluate(
        {"q": judged, "r": judged}, {"q": scores, "r": scores}, [*MANY, "bpref", "judged_5"]
    )
    second = evaluate(
        {"r": shuffled(judged), "q": shuffled(judged)},
        {"r": shuffled(scores), "q": shuffled(scores)},
        [*MANY, "bpref", "judged_5"],
    )
    assert first == second


@given(GRADES, SCORED)
def test_every_share_lies_between_0_and_1_and_recall_rises_with_the_cutoff(
    judged: dict[str, int], scores: dict[str, float]
) -> None:
    cuts = [f"recall_{k}" for k in (1, 2, 5, 10)]
    values = evaluate(
        {"q": judged},
        {"q": scores},
        [
            *cuts,
            "map",
            "ndcg",
            "ndcg_exp",
            "ndcg_cut_3",
            "recip_rank",
            "bpref",
            "set_F",
            "judged",
            "P_5",
            "Rprec",
        ],
    ).queries["q"]
    assert all(0 <= value <= 1 + 1e-12 for value in values.values())
    assert [values[name] for name in cuts] == sorted(values[name] for name in cuts)


@given(GRADES, SCORED)
def test_the_ideal_order_has_ndcg_1_and_moving_a_relevant_document_up_never_hurts(
    judged: dict[str, int], scores: dict[str, float]
) -> None:
    assume(max(judged.values()) > 0)
    ideal = {document: float(grade) for document, grade in judged.items()}
    assert evaluate({"q": judged}, {"q": ideal}, ["ndcg"]).mean["ndcg"] == pytest.approx(1)
    relevant = [document for document in scores if judged.get(document, 0) > 0]
    if relevant:
        names = ["map", "recip_rank", "ndcg", "P_5", "recall_5"]
        better = {**scores, relevant[0]: 99.0}
        before, after = (
            evaluate({"q": judged}, {"q": scores}, names).mean,
            evaluate({"q": judged}, {"q": better}, names).mean,
        )
        if judged[relevant[0]] == max(judged.values()):
            assert after["ndcg"] >= before["ndcg"] - 1e-12
        assert all(after[name] >= before[name] - 1e-12 for name in names if name != "ndcg")


@given(
    st.dictionaries(
        st.text(min_size=1).filter(lambda text: text.isprintable()),
        st.sampled_from([0.0, 1.0]),
        min_size=1,
    )
)
def test_ties_go_by_the_bytes_of_the_id_from_high_to_low(scores: dict[str, float]) -> None:
    order = ranking(scores)
    assert order == sorted(scores, key=lambda name: (scores[name], name.encode()), reverse=True)


# --- attacks


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_finite_number_is_refused(score: float) -> None:
    with pytest.raises(InputError, match="not a finite number") as refused:
        evaluate({"q": {"a": 1}}, {"q": {"a": 1.0, "b": score}})
    assert refused.value.code == "SCO-031"


def test_scores_whose_sum_overflows_are_still_numbers() -> None:
    assert evaluate({"q": {"a": 1}}, {"q": {"a": 1.7e308, "b": 1.6e308}}, ["recip_rank"]).mean == {
        "recip_rank": 1.0
    }


def test_many_tied_documents_take_no_time() -> None:
    scores = {f"d{index}": 1.0 for index in range(50_000)}
    evaluate(
        {"q": {f"d{index}": 1 for index in range(0, 50_000, 20)}}, {"q": scores}, ["map", "bpref"]
    )


@pytest.mark.parametrize(
    "name",
    ["ndgc_cut_10", "P_0", "P_", "P_10_", "ndcg_cut", "map_10", "P_99999999", "", "P_१", "recall"],
)
def test_an_unknown_metric_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}}, [name])
    assert refused.value.code == "SCO-030"


def test_every_metric_name_is_computed() -> None:
    names = [name.replace("_K", "_3") for name in METRIC_NAMES]
    assert set(evaluate({"q": {"a": 1, "b": 2}}, {"q": {"a": 1.0, "c": 0.5}}, names).mean) == set(
        names
    )
    assert set(DEFAULT_METRICS) <= {name.replace("_K", "_10") for name in METRIC_NAMES} | {
        "recall_100"
    }


def test_nothing_to_average_is_nothing_and_not_0() -> None:
    found = evaluate({"q": {"a": 1}}, {"r": {"a": 1.0}}, ["map"])
    assert (found.mean, found.queries, found.missing, found.unjudged) == ({}, {}, ("q",), ("r",))


# --- files


def written(folder: Path, text: str | bytes) -> str:
    path = folder / "file.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def faults_of(path: str, read: Any = read_run) -> list[tuple[int | None, str]]:
    with pytest.raises(InputError) as refused:
        read(path)
    return [(fault.line, fault.message) for fault in refused.value.faults]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tabs_blanks_comments_and_a_missing_last_end_are_read_as_trec_eval_reads_them(
    tmp_path: Path, end: str
) -> None:
    lines = [
        "# a comment",
        "q1\tQ0\td1 7  2.5 tag",
        "",
        "  q1 Q0 d2 7 1e-3 tag and more",
        "   # another",
        "q2 Q0 d1 7 -4 tag",
    ]
    assert read_run(written(tmp_path, end.join(lines))) == {
        "q1": {"d1": 2.5, "d2": 0.001},
        "q2": {"d1": -4.0},
    }
    assert read_qrels(
        written(tmp_path, end.join(["q1 0 d1 +1", "q1 0 d1 1", "", "q1\t0\td2\t-1"]))
    ) == {"q1": {"d1": 1, "d2": -1}}


def test_queries_may_come_interleaved(tmp_path: Path) -> None:
    assert read_run(written(tmp_path, "q Q0 a 1 3 t\nr Q0 a 1 2 t\nq Q0 b 1 1 t\n")) == {
        "q": {"a": 3.0, "b": 1.0},
        "r": {"a": 2.0},
    }


@pytest.mark.parametrize(
    "score", ["nan", "NaN", "inf", "-Infinity", "1_0", "0x10", "1,5", "--1", "1e999", "one"]
)
def test_a_written_score_that_is_no_finite_number_is_refused_with_its_line(
    tmp_path: Path, score: str
) -> None:
    assert faults_of(written(tmp_path, f"q Q0 a 1 3 t\nq Q0 b 2 {score} t\n")) == [
        (2, f"the score '{score}' is not a finite number.")
    ]


@pytest.mark.parametrize("grade", ["1.0", "x", "1_0", "9" * 40, "9" * 5000, "", "0x1"])
def test_a_grade_that_is_no_whole_number_is_refused(tmp_path: Path, grade: str) -> None:
    assert [
        line for line, _ in faults_of(written(tmp_path, f"q 0 a 1\nq 0 b {grade}\n"), read_qrels)
    ] == [2]


def test_the_same_document_twice_is_refused_in_a_run_and_in_contradicting_judgements(
    tmp_path: Path,
) -> None:
    assert faults_of(written(tmp_path, "q Q0 a 1 3 t\nr Q0 a 1 3 t\nq Q0 a 2 3 t\n")) == [
        (3, "query 'q': the document 'a' is listed twice.")
    ]
    assert faults_of(written(tmp_path, "q 0 a 1\nq 0 a 0\n"), read_qrels) == [
        (2, "query 'q': the document 'a' is judged twice, 1 and 0.")
    ]
    far = (
        "".join(f"q Q0 d{index} 1 {index} t\n" for index in range(30_000)) + "q Q0 d3 1 1 t\n"
    )  # in another block of the file
    assert faults_of(written(tmp_path, far)) == [
        (30_001, "query 'q': the document 'd3' is listed twice.")
    ]


def test_all_faults_come_at_once_and_only_so_many_are_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read_run(written(tmp_path, "q Q0 a 1 3 t\n" + "broken line\n" * 500))
    assert len(refused.value.faults) == 20
    assert refused.value.fault_count == 500
    assert str(refused.value).splitlines()[-1] == "  ... and 480 more"


def test_judgements_given_as_a_run_are_refused_and_so_is_an_empty_file(tmp_path: Path) -> None:
    assert "a result has 6" in faults_of(written(tmp_path, "q 0 a 1\n"))[0][1]
    assert "more than 4 fields" in faults_of(written(tmp_path, "q Q0 a 1 3 t\n"), read_qrels)[0][1]
    with pytest.raises(InputError) as refused:
        read_run(written(tmp_path, "# nothing\n\n"))
    assert refused.value.code == "FIL-005"


def test_binary_junk_and_a_line_of_10_mb_are_refused_quickly(tmp_path: Path) -> None:
    assert faults_of(written(tmp_path, random.Random(3).randbytes(200_000)))
    assert "longer than" in faults_of(written(tmp_path, "q Q0 a 1 3 t\n" + "x" * 10_000_000))[0][1]
    assert faults_of(written(tmp_path, "q Q0 \udcff 1 3 t\n".encode("utf-8", "surrogateescape")))[
        0
    ][1].endswith("is not UTF-8 text.")


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as stream:
        stream.write(data)
        stream.flush()
        for read in (read_run, read_qrels):
            with contextlib.suppress(InputError):
                assert read(stream.name)


# --- the passages of one run

MEASURES = {measure.id: measure for measure in RETRIEVAL}


def take(name: str, retrieved: Any, *, expected: Any = None, **params: Any) -> Any:
    evidence = read_evidence(Document(run("rag", retrieval=retrieved, expected=expected), "test"))
    return MEASURES[name].take(evidence, {**MEASURES[name].params, **params})


def passages(*relevant: bool | None, first: int = 1) -> list[dict[str, Any]]:
    return [
        {"id": f"d{index}", "rank": first + index, "relevant": found}
        for index, found in enumerate(relevant)
    ]


def test_the_measures_of_a_run_are_trec_evals() -> None:
    listed = passages(False, True, False, True)
    everything = {"relevant_ids": ["d1", "d3", "d9"]}
    assert take("retrieval_precision", listed, k=2) == {"passed": 1, "total": 2}
    assert take("retrieval_precision", listed) == {"passed": 2, "total": 10}
    assert take("retrieval_success", listed, k=1) == 0
    assert take("reciprocal_rank", listed) == 0.5
    assert take("reciprocal_rank", passages(False, True, first=0)) == 0.5
    assert take("retrieval_recall", listed, expected=everything) == {"passed": 2, "total": 3}
    scores = {"q": {passage["id"]: -float(passage["rank"]) for passage in listed}}
    peer = evaluate(
        {"q": dict.fromkeys(everything["relevant_ids"], 1)}, scores, ["map", "ndcg_cut_10"]
    ).mean
    assert take("retrieval_map", listed, expected=everything) == peer["map"]
    assert take("retrieval_ndcg", listed, expected=everything) == peer["ndcg_cut_10"]
    assert take("retrieval_coverage", passages(True, None)) == {"passed": 1, "total": 2}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("name", "metric_name"),
    [
        ("ndcg", "ndcg_cut_10"),
        ("average_precision", "map"),
        ("recall", "recall_100"),
    ],
)
def test_the_profile_on_the_shelf_measures_what_trec_eval_measures(
    seed: int, name: str, metric_name: str
) -> None:
    chance = random.Random(seed)
    documents = [f"d{n}" for n in range(40)]
    scores = {name: chance.randrange(9) / 3 for name in chance.sample(documents, 25)}
    judged = {name: chance.choice((0, 1, 1)) for name in chance.sample(documents[:-1], 8)}
    peer = evaluate({"q": judged}, {"q": scores}, ["ndcg_cut_10", "map", "recall_100"]).mean
    evidence = run(
        "rag",
        workflow={"id": "w", "version": "1", "profile": "retrieval"},
        retrieval=[
            {"id": name, "rank": rank, "relevant": judged.get(name, 0) > 0}
            for rank, name in enumerate(ranking(scores), 1)
        ],
        expected={"relevant_ids": [name for name, grade in judged.items() if grade]},
    )
    norms = {
        item.name: item.norm
        for item in Grader(Shelf()).grade(Document(evidence, "test")).grade.criteria
    }
    assert float(norms[name]) == pytest.approx(peer[metric_name], abs=1e-9)


@pytest.mark.parametrize("name", list(MEASURES))
def test_what_is_not_there_is_undetermined_with_a_reason(name: str) -> None:
    found = take(name, None)
    assert isinstance(found, Undetermined)
    assert "retrieval" in found.reason or "relevant" in found.reason


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ([{"id": "a", "relevant": True}], "no rank"),
        (
            [{"id": "a", "rank": 1, "relevant": True}, {"id": "a", "rank": 2, "relevant": True}],
            "twice",
        ),
        (
            [{"id": "a", "rank": 1, "relevant": True}, {"id": "b", "rank": 1, "relevant": True}],
            "without a gap",
        ),
        (
            [{"id": "a", "rank": 1, "relevant": True}, {"id": "b", "rank": 3, "relevant": True}],
            "without a gap",
        ),
        ([{"id": "a", "rank": 5, "relevant": True}], "without a gap"),
        (passages(None, True), "nobody judged"),
    ],
)
@pytest.mark.parametrize("name", ["retrieval_precision", "reciprocal_rank"])
def test_a_list_that_cannot_be_ranked_or_is_not_judged_is_undetermined(
    name: str, listed: Any, reason: str
) -> None:
    found = take(name, listed)
    assert isinstance(found, Undetermined)
    assert reason in found.reason


def test_what_was_missed_is_not_guessed() -> None:
    for expected in (None, {"answer": "x"}, {"relevant_ids": []}, {"relevant_ids": "d1"}):
        assert isinstance(take("retrieval_recall", passages(True), expected=expected), Undetermined)
    assert (
        take("reciprocal_rank", passages(True, None)) == 1
    )  # what stands behind the first relevant passage does not matter


@pytest.mark.parametrize("measure", RETRIEVAL)
def test_every_sheet_is_full(measure: Any) -> None:
    sheet = measure.sheet()
    assert all(
        sheet[key]
        for key in (
            "id",
            "version",
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
    )
