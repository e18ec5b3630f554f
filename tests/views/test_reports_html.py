"""The HTML page: what stands on it, what cannot get onto it, and that nothing on it was made up."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from decimal import Decimal
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.canon import number_text
from assay.files.json_files import Document, parse_json
from assay.library.shelf import Shelf
from assay.records.samples import SampleRun, fold_samples
from assay.services.grading import Grader
from assay.views import report as page_module
from assay.views.charts import grades, steps
from assay.views.pieces import link, points, shown
from assay.views.render import clean, environment, macro
from assay.views.report import render as rendered
from assay.views.sample_table import MARKUP, Layout, SampleTable, in_parts, sample_line

VOID = {"meta", "br", "img", "link", "input", "hr", "wbr", "base"}
CSS = Path(page_module.__file__).parent / "templates" / "pages.css"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</title></style></main><script>alert(1)</script>",
    "<!-- <![CDATA[ &lt;b&gt; &#60;",
)

STEPS = [
    {
        "name": "plan",
        "agent": "planner",
        "status": "success",
        "duration_ms": 120,
        "retries": 0,
        "model": "m-1",
        "tier": "large",
        "tokens": 812,
        "cost_usd": 0.004,
        "scores": {"judge_quality": {"raw": 4}},
    },
    {
        "name": "edit",
        "agent": "coder",
        "status": "failed",
        "duration_ms": 5120.5,
        "retries": 2,
        "model": "m-2",
        "tokens": 4100,
        "cost_usd": 0.027,
    },
    {"name": "lint", "agent": "coder", "status": "skipped", "critical": False},
]
REPAIR = {
    "schema": "assay.run/1",
    "run_id": "fix-17",
    "status": "success",
    "workflow": {
        "id": "fix-issue",
        "version": "3",
        "family": "code-repair",
        "profile": "code-repair@1",
    },
    "dataset": {"id": "swe-mini", "version": "1", "sample_id": "django-1"},
    "outputs": {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"},
    "expected": {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"},
    "required_outputs": ["patch"],
    "steps": STEPS[:1],
    "tests": {
        "fail_to_pass": {"passed": 3, "total": 3},
        "pass_to_pass": {"passed": 98, "total": 100},
    },
    "patch_applies": True,
    "scores": {"judge_quality": {"raw": 4, "n": 2}},
    "gates": {"no_sandbox_violation": {"passed": True, "reason": "quiet"}},
    "latency_ms": 8120,
    "cost_usd": 0.031,
    "tokens": 5120,
    "retries": 1,
    "judge": {"model": "judge-1", "version": "2"},
    "output_schema": {"type": "object"},
    "inputs": {"issue": "x"},
    "required_inputs": ["issue"],
    "tags": ["nightly"],
    "group": "topic-3",
}
BROKEN = {
    **REPAIR,
    "run_id": "fix-18",
    "steps": STEPS,
    "tests": {
        "fail_to_pass": {"passed": 1, "total": 3},
        "pass_to_pass": {"passed": 40, "total": 100},
    },
}
EMPTY = {
    "schema": "assay.run/1",
    "run_id": "faq-1",
    "status": "success",
    "workflow": {"id": "faq", "version": "1", "family": "rag", "profile": "rag@1"},
    "dataset": {"id": "d", "version": "1", "sample_id": "s"},
}
CARD = {
    "schema": "assay.scorecard/1",
    "run_id": "by-hand",
    "hard_gates": {"schema_contract_valid": True},
    "pass_threshold": 65,
    "criteria": [
        {
            "name": "correctness",
            "raw_score": 3,
            "formula_id": "likert_1_5",
            "weight": 3,
            "role": "correctness",
        },
        {
            "name": "tone",
            "raw_score": {"wins": 8, "losses": 1, "ties": 3},
            "formula_id": "pairwise",
            "weight": 1,
        },
        {
            "name": "safety",
            "raw_score": 0.95,
            "formula_id": "zero_one",
            "weight": 2,
            "role": "safety",
            "critical_floor": {"raw": 0.9},
            "layer": 2,
        },
    ],
}
FAULT = {
    "file": "runs.jsonl",
    "line": 14,
    "code": "FIL-002",
    "path": "",
    "message": "not JSON at column 3.",
}


def render(results: Any, **options: Any) -> str:
    """The page without pictures, which cost time and cut long names; `rendered` is the whole."""
    return rendered(results, **{"pictures": 0, **options})


def grade(*documents: dict[str, Any]) -> list[dict[str, Any]]:
    grader = Grader(Shelf())
    return [
        grader.grade(Document(parse_json(json.dumps(document).encode()), "test")).payload()
        for document in documents
    ]


@pytest.fixture(scope="module")
def results() -> list[dict[str, Any]]:
    return grade(REPAIR, BROKEN, EMPTY, CARD)


def through_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.Encoder(decimal_format="number").encode(value))


class Page(HTMLParser):
    """A parsed page: its elements in order, their attributes and the text a reader sees. Fails on a
    tag that is not closed in turn; rows and cells may leave their end to the next, as in HTML.
    """

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        assert len(dict(attributes)) == len(attributes), f"{name} has an attribute twice"
        self.elements.append((name, dict(attributes)))
        self._end_cells(name)
        if name not in VOID:
            self.open.append(name)

    def _end_cells(self, name: str) -> None:
        ended = {"tr": ("td", "th", "tr"), "td": ("td", "th"), "th": ("td", "th")}
        for inner in ended.get(name, ()):
            if self.open[-1:] == [inner]:
                self.open.pop()

    def handle_endtag(self, name: str) -> None:
        assert self.open, f"</{name}> closes nothing"
        if name == "tbody":
            self._end_cells("tr")
        assert self.open.pop() == name

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data: str) -> None:
        if data.strip() and not {"style", "script"} & set(self.open):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(name, tuple(attributes)) for name, attributes in self.elements]

    def values(self, attribute: str) -> list[str]:
        return [
            attributes[attribute] or ""
            for _, attributes in self.elements
            if attribute in attributes
        ]


KEYED = ("hard_gates", "digests", "params", "scores", "layers")


def poisoned(value: Any, poison: str, *, keyed: bool = False) -> Any:
    """The same result with every string in it replaced, and every key that a document chooses."""
    if isinstance(value, str):
        return poison
    if isinstance(value, list):
        return [poisoned(item, poison) for item in value]
    if isinstance(value, dict):
        return {
            (f"{poison}{index}" if keyed else key): poisoned(item, poison, keyed=key in KEYED)
            for index, (key, item) in enumerate(value.items())
        }
    return value


# --- hostile text


@pytest.mark.parametrize("poison", HOSTILE)
def test_no_string_of_a_result_changes_the_structure_of_the_page(
    results: list[dict[str, Any]], poison: str
) -> None:
    plain = through_json(results)
    harmless = Page(
        render(
            poisoned(plain, "harmless"),
            title="harmless",
            subtitle="harmless",
            faults=[poisoned(FAULT, "harmless")],
        )
    )
    hostile = Page(
        render(
            poisoned(plain, poison), title=poison, subtitle=poison, faults=[poisoned(FAULT, poison)]
        )
    )
    assert hostile.shape == harmless.shape
    assert {name for name, _ in hostile.elements}.isdisjoint(
        {"img", "iframe", "object", "link", "base", "form"}
    )
    assert [name for name, _ in hostile.elements].count("script") == 1, "our own"
    # a long cell of a table is cut, and a poison in it with it
    assert sum(text.count(poison) for text in hostile.texts) >= 0.9 * sum(
        text.count("harmless") for text in harmless.texts
    )


@pytest.mark.parametrize("poison", HOSTILE)
def test_a_hostile_run_is_shown_as_the_text_it_is(poison: str) -> None:
    step = {
        **STEPS[1],
        "name": f"step {poison}",
        "agent": f"agent {poison}",
        "model": f"model {poison}",
        "tier": f"tier {poison}",
    }
    run = {
        **REPAIR,
        "run_id": f"run {poison}",
        "group": f"group {poison}",
        "tags": [f"tag {poison}"],
        "steps": [step],
        "workflow": {**REPAIR["workflow"], "id": f"workflow {poison}"},
        "dataset": {"id": f"dataset {poison}", "version": "1", "sample_id": f"sample {poison}"},
        "gates": {"no_sandbox_violation": {"passed": False, "reason": f"reason {poison}"}},
        "judge": {"model": f"judge {poison}"},
    }
    run |= {
        "inputs": {"question": f"question {poison}"},
        "outputs": {"patch": f"answer {poison}"},
        "expected": {"answer": f"expected {poison}"},
        "tool_calls": [{"name": f"tool {poison}", "arguments": {"q": f"argument {poison}"}}],
        "retrieval": [{"id": f"passage {poison}", "text": f"said {poison}"}],
        "claims": [{"text": f"claim {poison}", "citations": [f"cited {poison}"]}],
    }
    read = Grader(Shelf()).grade(Document(parse_json(json.dumps(run).encode()), "test"))
    page = Page(render([read.payload()], title="t", runs=[read.run]))
    for word in (
        *("question", "answer", "expected", "tool", "passage", "said", "claim", "cited"),
        "step",
        "agent",
        "model",
        "tier",
        "run",
        "group",
        "tag",
        "workflow",
        "dataset",
        "sample",
        "reason",
        "judge",
    ):
        assert any(f"{word} {poison}" in text for text in page.texts), word
    assert not [
        name
        for _, attributes in page.elements
        for name in attributes
        if name.startswith("on") or name == "style"
    ]
    assert page.values("href") == ["#s-1"]


def test_signs_that_no_reader_sees_are_shown_as_replaced() -> None:
    run = {**grade(CARD)[0], "run_id": "a\u202eb\x00cd\x1b[31m"}
    page = render([run], title="\u2066t")
    assert "a\ufffdb\ufffdcd\ufffd[31m" in page
    page.encode("utf-8")
    hidden = "\xad\u061c\u180e\u200b\u2060\u2064\u206f\u3164\ufeff\uffa0\U000e0041"
    assert [clean(f"r{sign}1") for sign in hidden] == ["r\ufffd1"] * len(hidden)
    needed = "👩\u200d🚀 می\u200cخواهم שלום\u200f! ❤\ufe0f 🏴\U000e0067\U000e0062\U000e007f"
    assert clean(needed) == needed


def test_only_what_a_macro_made_goes_unescaped() -> None:
    made = link("<i>", 'x"')
    assert str(environment().from_string("{{ x }}").render(x=made)) == (
        '<a href="x&#34;">&lt;i&gt;</a>'
    )
    assert environment().from_string("{{ x }}").render(x=f"{made}!") == "&lt;i&gt;!"


# --- a page that stands alone


def test_the_page_is_well_formed_and_asks_for_nothing(results: list[dict[str, Any]]) -> None:
    source = render(results, title="Nightly", faults=[FAULT])
    page = Page(source)
    assert not re.search(
        r"https?:|//[a-z]|@import|url\(|<link|expression\(|<script[^>]", source, re.IGNORECASE
    )
    assert source.startswith('<!doctype html>\n<html lang="en">')
    policy = [
        attributes["content"]
        for name, attributes in page.elements
        if name == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policy) == 1
    assert str(policy[0]).startswith("default-src 'none'; img-src data:; style-src")
    (script,) = re.findall("<script>(.*?)</script>", source, re.DOTALL)
    own = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{own}';" in str(policy[0]), "no other script can run"
    assert source.index("Content-Security-Policy") < source.index("<style")


def test_every_link_leads_to_one_place_on_the_page(results: list[dict[str, Any]]) -> None:
    runs = [{**results[index % len(results)], "run_id": f"r-{index % 7}"} for index in range(500)]
    page = Page(render(runs, title="many"))
    ids = page.values("id")
    assert len(set(ids)) == len(ids)
    assert {href[1:] for href in page.values("href")} <= set(ids)
    assert "The worst comes first." in page.text


def test_headings_and_tables_can_be_walked_without_seeing_them(
    results: list[dict[str, Any]],
) -> None:
    page = Page(render(results, title="Nightly", faults=[FAULT]))
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(
        attributes.get("scope") in ("col", "row")
        for name, attributes in page.elements
        if name == "th"
    )
    assert all(
        attributes.get("alt") and str(attributes.get("src")).startswith("data:image/svg+xml;")
        for name, attributes in page.elements
        if name == "img"
    )


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ink_can_be_read_on_its_ground(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", CSS.read_text("utf-8"), re.DOTALL)
    colours = dict(
        re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[0] if scheme == "light" else blocks[1])
    )
    pairs = [
        (ink, ground)
        for ink in ("ink", "quiet", "link", "good", "bad", "open")
        for ground in ("ground", "raised")
    ]
    for ink, ground in pairs:
        low, high = sorted((_luminance(colours[ink]), _luminance(colours[ground])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)


# --- what stands on it


def test_the_head_counts_runs_and_names_both_systems_and_the_policy(
    results: list[dict[str, Any]],
) -> None:
    text = Page(render(results, title="Nightly", subtitle="main branch", faults=[FAULT])).text
    assert text.startswith(
        "Nightly Nightly main branch ✗ Not passed. 3 of 4 runs did not pass and 1 input could not be"
        " read. Most common reasons: gate "
    )
    assert (
        "passed 1 not passed 3 could not be read 1 Grades under workflow@1 1 × A workflow@1" in text
    )
    assert (
        "Scoring system scoringSystem/1.0.0 Grading system gradingSystem/1.0.0 Policy workflow@1"
        in text
    )
    assert "runs.jsonl 14 not JSON at column 3." in text


def test_two_versions_on_one_page_are_both_named(results: list[dict[str, Any]]) -> None:
    older = {**results[0], "gradingSystem": "gradingSystem/0.9.0"}
    assert (
        "Grading system gradingSystem/1.0.0, gradingSystem/0.9.0"
        in Page(render([*results, older], title="t")).text
    )


def rows_of(source: str) -> list[list[str]]:
    """The rows of the table of samples, each as the texts of its cells."""
    body = "".join(re.findall(r'<table class="samples">.*?<tbody>(.*?)</tbody>', source, re.DOTALL))
    return [
        [re.sub("<.*?>", "", cell).strip() for cell in re.split("<t[dh][^>]*>", row)[1:]]
        for row in body.split("<tr")[1:]
    ]


def test_the_worst_sample_comes_first_and_repeats_are_one_row(
    results: list[dict[str, Any]],
) -> None:
    rows = rows_of(render(results, title="t"))
    assert [row[0] for row in rows] == ["s", "by-hand", "django-1 ×2"], "flaky is not passed"
    assert [row[1] for row in rows] == ["faq@1", "none, a bare scorecard", "fix-issue@3"]
    scores = [float(row[2].split()[1]) for row in rows]
    assert scores == sorted(scores)
    assert (
        "1 of 2 repeats passed; this is the worst, fix-18." in Page(render(results, title="t")).text
    )


def test_many_samples_are_laid_out_part_by_part(results: list[dict[str, Any]]) -> None:
    line = sample_line(
        fold_samples([(SampleRun("r"), None)])[0], Layout((), 60), place=0, n=1, workflow=""
    )
    assert [len(part) for part in in_parts([line] * 500)] == [500]
    parts = in_parts([line] * 601)
    assert [len(part) for part in parts] == [*[100] * 6, 1]
    drawn = str(macro("sampletable")(SampleTable(parts, (), True, False, 601)))
    assert "<caption>Samples 101 to 200 of 601</caption>" in drawn
    assert "<caption>Samples 601 to 601 of 601</caption>" in drawn
    assert len(drawn) / 601 < MARKUP + 60
    # The direction of each text comes from the style sheet: `dir=auto` is slow in long tables.
    assert "dir=" not in drawn
    assert ".samples th { unicode-bidi: plaintext" in rendered(results, title="t")


def test_a_huge_sample_and_two_hundred_criteria_leave_the_page_small() -> None:
    run = {
        **EMPTY,
        "inputs": {"question": "متى تغادر العبّارة؟" + "\u0301" * 50},
        "outputs": {"answer": "<&" * 250_000},
        "expected": {"answer": "\u202eعشرة"},
        "tool_calls": [{"name": "t" * 9_000, "arguments": {"q": "x" * 9_000}}] * 300,
        "retrieval": [{"id": f"p{index}", "text": "y" * 9_000} for index in range(300)],
    }
    read = Grader(Shelf()).grade(Document(parse_json(json.dumps(run).encode()), "test"))
    card = {**CARD, "run_id": "many"}
    card["criteria"] = [{**CARD["criteria"][0], "name": f"c{index}"} for index in range(200)]
    source = render([read.payload(), *grade(card)], title="t", runs=[read.run, None])
    page = Page(source)
    assert len(source) < 300_000
    assert "متى تغادر العبّارة؟" in page.text
    assert "(500,000 characters)" in page.text
    assert page.text.count("The first 8 of 300.") == 2
    assert "criteria that lost the most points." in page.text
    assert "\u202e" not in source


def test_nothing_graded_does_not_look_like_success() -> None:
    text = Page(render([], title="t", faults=[FAULT])).text
    assert "No run was graded, so none passed. passed 0 not passed 0 could not be read 1" in text


def test_a_result_without_a_verdict_counts_as_not_passed(results: list[dict[str, Any]]) -> None:
    unsaid = {key: value for key, value in results[0].items() if key != "passed"}
    assert "passed 0 not passed 2" in Page(render([unsaid, {}], title="t")).text


def test_the_evidence_says_the_verdict_in_a_sentence(results: list[dict[str, Any]]) -> None:
    for result in results:
        text = Page(render([result], title="t")).text
        assert f"Why {result['explanation'][0]}" in text
        head = f"{result['grade']} {result['policy']} {result.get('sample_id') or result['run_id']}"
        assert f"{head} {points(result['weighted_score'])} " in text


def test_a_gate_that_does_not_pass_says_its_verdict_and_its_reason(
    results: list[dict[str, Any]],
) -> None:
    signs = {"fail": "✗ fail", "undetermined": "? undetermined"}
    for result in results:
        text = Page(render([result], title="t")).text
        closed = {
            name: gate for name, gate in result["hard_gates"].items() if gate["status"] in signs
        }
        assert ("Gates that did not pass" in text) == bool(closed)
        for name, gate in list(closed.items())[:8]:
            reason = gate["reason"].partition("`")[0].rstrip()  # then comes a name, as code
            assert f"{name} {signs[gate['status']]} {reason}" in text


def test_a_criterion_brings_what_the_explanation_says_it_brings(
    results: list[dict[str, Any]],
) -> None:
    for result in results:
        text = Page(render([result], title="t")).text
        said = re.findall(
            r"(\S+) contributes (\S+) of (\S+) points", " ".join(result["explanation"])
        )
        assert len(said) == sum(item["weight"] > 0 for item in result["criteria"])
        for name, got, best in said:
            lost = float(best) - float(got) > 0
            assert bool(re.search(rf"{name} {got} of {best} ", text)) == lost, name


def test_a_missed_floor_is_said_with_its_value_and_origin(results: list[dict[str, Any]]) -> None:
    text = Page(render(results[-1:], title="t")).text
    assert "✗ missed 0.7 (raw 3.8), required by its role" in text
    assert "✓ met 0.9 (raw 0.9), the criterion's own" in text


@pytest.mark.req("W-073")
def test_steps_and_agents_show_status_duration_retries_model_tier_tokens_and_cost(
    results: list[dict[str, Any]],
) -> None:
    text = Page(render([results[1]], title="t")).text
    assert (
        "plan planner ✓ success yes m-1 large 120 0 812 0.004 judge_quality: raw 4, norm 0.75, n 1"
        in text
    )
    assert "edit coder ✗ failed yes m-2 not reported 5120.5 2 4100 0.027 none" in text
    assert "lint coder – skipped no not reported not reported not reported" in text
    assert "coder 2 0 1 1 0 not reported by 1 of its steps" in text


def test_the_smallest_moves_are_shown_and_their_absence_too(results: list[dict[str, Any]]) -> None:
    for result in results:
        text = Page(render([result], title="t")).text
        opened = ", once every gate passes" if result["hard_gate_failures"] else ""
        for word in ("gain", "loss"):
            move = result["placement"][f"smallest_{word}"]
            said = (
                f"{move['criterion']} from {number_text(move['norm'])} to"
                if move
                else "No single criterion"
            )
            verb = "gain" if word == "gain" else "lose"
            assert f"To {verb} a letter{opened} {said}" in text


def test_a_missing_value_is_said_in_words() -> None:
    text = Page(render(grade(EMPTY), title="t")).text
    assert "none, counts as 0: the run has no score 'response_relevance'" in text
    assert "Latency, ms not reported" in text
    assert "Group none Tags none" in text
    assert "Rubric none" in text
    assert "None" not in text
    assert "null" not in text
    bare = Page(render([{}], title="t")).text
    assert "No reason given." in bare
    assert "The file has the grade of this run, but not the run itself." in bare


def _numbers(value: Any) -> set[str]:
    """Every number of a result, in each spelling a page may use; a number inside a text counts as
    it stands there.
    """
    if isinstance(value, bool) or value is None:
        return set()
    if isinstance(value, str):
        return set(re.findall(r"\d+(?:\.\d+)?", value))
    if isinstance(value, int | float | Decimal):
        return {number_text(value), points(value)}
    if isinstance(value, dict):
        return set().union(*(_numbers(key) | _numbers(item) for key, item in value.items()))
    return set().union(*map(_numbers, value))


def test_every_number_on_the_page_stands_in_the_result(results: list[dict[str, Any]]) -> None:
    for result in through_json(results):
        counted = {
            "0",
            "1",
            "2",
            "3",
            str(len(result["hard_gate_failures"]) - 3),
            *(str(int(100 * item["norm"])) for item in result["criteria"]),
        }  # runs, layers, gates beyond the third, and bars
        for chart in (grades.contributions(result), grades.floors(result), steps.timeline(result)):
            counted |= _numbers([chart.sentence, *map(list, chart.rows)])
        seen = set(re.findall(r"\d+(?:\.\d+)?", Page(render([result], title="t")).text))
        assert seen - _numbers(result) - counted == set()
        assert points(result["weighted_score"]) in seen


def test_the_same_results_give_the_same_bytes_also_after_a_journey_through_json(
    results: list[dict[str, Any]],
) -> None:
    source = render(results, title="t", faults=[FAULT])
    assert source == render(grade(REPAIR, BROKEN, EMPTY, CARD), title="t", faults=(FAULT,))
    assert source == render(through_json(results), title="t", faults=[FAULT])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.1 + 0.2, "0.30000000000000004"),
        (Decimal("0.60"), "0.6"),
        (0, "0"),
        (False, "no"),
        (float("nan"), "not a finite number"),
        (10**400, "not a finite number"),
    ],
)
def test_a_number_has_one_spelling_and_what_is_none_says_so(value: object, said: str) -> None:
    assert shown(value) == said
