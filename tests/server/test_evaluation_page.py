"""The list of evaluations and the page of one: what they show, filter, sort and refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from typing import Any

import pytest

from assay.families.judges.labelling import label_draft
from assay.families.judges.records import Override
from assay.records.evaluation import EvaluationTotals
from assay.records.samples import (
    SampleQuery,
    SampleRow,
    SampleRun,
    count_samples,
    page_of,
    sample_grade,
)
from assay.records.summary import ValueInterval
from assay.services.evaluations import find_evaluation
from assay.services.stored_sides import baseline_draft
from assay.views.evaluation_page import evaluation_figures, samples_region
from assay.views.sample_table import MAX_CRITERIA, SampleLinks, criterion_columns, sample_table
from serving import Api, runs, serving
from test_labels import BEN, label

HTML = {"Accept": "text/html"}
NONE = ValueInterval(value=None, low=None, high=None, level=0.95, method="none")
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with two versions of a workflow, repeats, and another workflow."""
    with serving(f"sqlite:///{tmp_path_factory.mktemp('pages')}/ledger.db") as made:
        assert "assay import results.json" in show(made, "/evaluations")
        evaluate(made, "one", version(1), labels=["nightly"])
        evaluate(made, "two", broken(), labels=["release <b>"])
        other = version(1, 3, workflow="other")
        again = [{**one, "run_id": f"{one['run_id']}-again"} for one in other]
        again[0]["status"] = "failed"
        evaluate(made, "repeated", other + again)
        yield made


def version(number: int, n: int = 6, *, workflow: str = "w") -> list[dict[str, Any]]:
    """Runs of a version of a workflow; the ids are its own."""
    made = runs(n, family="rag")
    for one in made:
        one["run_id"] = f"{workflow}-{number}-{one['run_id']}"
        one["workflow"] = {**one["workflow"], "id": workflow, "version": str(number)}
    return made


def evaluate(api: Api, name: str, documents: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    answer = api.post("/evaluations", {"name": name, "runs": documents, **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def show(api: Api, path: str, *, status: int = 200) -> str:
    answer = api.client.get(path, headers=HTML, follow_redirects=False)
    assert answer.status_code == status, (path, answer.status_code, answer.text[:2000])
    return answer.text


def html_of(parts: Sequence[Any]) -> str:
    """Blocks as a page draws them."""
    return "".join(part.__html__() for part in parts)


def text(page: str) -> str:
    """What a reader sees."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def samples(page: str) -> list[str]:
    """The samples of the table, in its order."""
    table = page.partition("<caption>Samples</caption>")[2]
    return re.findall(r'role="rowheader"><a href="/runs/[^"]+">([^<]+)</a>', table)


def chip(page: str, name: str) -> str:
    """Where a chip leads."""
    found = re.search(rf'href="([^"]+)" id="[^"]+" class="chip"[^>]*>{re.escape(name)}\s*<', page)
    assert found, (name, re.findall(r'class="chip".*', page))
    return unescape(found[1])


def broken() -> list[dict[str, Any]]:
    """A second version: one answer is hostile, one run broke off, one gate fails."""
    made = version(2)
    made[1]["inputs"] = {"question": f"Où? {SCRIPT}"}
    made[2].update(status="error", metadata={"error": "provider answered 429"})
    made[2].pop("outputs")
    made[3]["output_schema"] = {"type": "object", "required": ["missing"]}
    made[4]["expected"] = {"answer": "ten o'clock"}
    return made


def test_the_page_shows_what_was_asked_answered_and_scored_with_the_worst_first(api: Api) -> None:
    page = show(api, "/evaluations/two")
    seen = text(page)
    assert "✗ 2 of 6 samples failed" in seen
    assert "66.7% 30.0% to 90.3% (95%)" in seen
    assert "w@2 on d@1" in seen
    assert samples(page)[:2] == ["s-2", "s-3"]
    assert len(samples(page)) == 6
    assert "no answer; status error: provider answered 429" in seen
    assert "ten o'clock" in seen
    assert "because" in seen
    assert SCRIPT not in page
    assert SCRIPT in seen
    assert "the run ended with status error" in seen
    assert "an earlier evaluation, one (w@1)" in seen
    assert "3 worse, 0 better" in seen
    assert "passed before" in seen
    assert "-10.00" in seen
    assert "no score" in seen
    assert 'class="meter' in page


def test_every_filter_is_a_link_that_leaves_what_it_counts(api: Api) -> None:
    page = show(api, "/evaluations/two")
    chips = re.findall(
        r'href="([^"]+)" id="[^"]+" class="chip"[^>]*>[^<]*<span class="count">([\d,]+)', page
    )
    assert len(chips) >= 6
    for href, n in chips:
        assert len(samples(show(api, unescape(href)))) == int(n), href
    reasons = re.findall(r'<a href="(/evaluations/[^"]+why=[^"]+)">', page)
    assert reasons
    for href in reasons:
        assert samples(show(api, unescape(href)))
    failed = show(api, chip(page, "Failed"))
    assert samples(failed) == ["s-2", "s-3"]
    assert 'aria-current="true"' in failed
    assert samples(show(api, chip(failed, "Gate required_outputs_present"))) == ["s-2"]
    assert len(samples(show(api, chip(failed, "Failed")))) == 6, "a second click takes it back"
    assert samples(show(api, chip(failed, "Passed")))[0] not in ("s-2", "s-3")
    # The page of a sample is told the view, so that the next sample is the next one here.
    assert "in=two&amp;show=failed" in failed


def test_search_and_sorting_are_addresses(api: Api) -> None:
    found = show(api, "/evaluations/two?q=OU%CC%80")
    assert samples(found) == ["s-1"]
    assert "<mark>Où</mark>" in found
    by_name = show(api, "/evaluations/two?sort=-sample")
    assert samples(by_name) == [f"s-{n}" for n in (5, 4, 3, 2, 1, 0)]
    assert 'aria-sort="descending"' in by_name
    assert samples(show(api, "/evaluations/two?sort=expected"))[-1] == "s-4"
    for odd in ("q=%00", "page=99", "page=x", "sort=nothing", "show=x&show=failed", "why=%F0%28"):
        assert show(api, f"/evaluations/two?{odd}")
    nothing = text(show(api, "/evaluations/two?q=nowhere"))
    assert "No sample matches these filters." in nothing
    show(api, "/evaluations/two?criteria=0", status=422)


def test_repeats_are_one_row_with_their_spread(api: Api) -> None:
    page = show(api, "/evaluations/repeated")
    assert samples(page) == ["s-0", "s-1", "s-2"]
    seen = text(page)
    assert "1 of 2 repeats passed" in seen
    assert "Pass rate of 6 runs" in seen
    assert samples(show(api, chip(page, "Flaky"))) == ["s-0"]


@pytest.mark.parametrize(
    "name",
    [
        "latest~9",
        "one~3",
        "none",
        "%3Cb%3E",
        "x" * 500,
        "sha256:" + "0" * 64,
    ],
)
def test_latest_becomes_an_address_that_lasts(api: Api, name: Any) -> None:
    answer = api.client.get("/evaluations/latest?show=failed", headers=HTML, follow_redirects=False)
    assert answer.status_code == 303
    assert re.fullmatch(r"/evaluations/ev-[0-9a-f]{12}\?show=failed", answer.headers["location"])
    assert "There is no evaluation" in text(show(api, f"/evaluations/{name}", status=404))


def test_another_project_does_not_see_it(api: Api) -> None:
    headers = {**HTML, **api.token("other")}
    for name in ("one", "latest"):
        assert api.client.get(f"/evaluations/{name}", headers=headers).status_code == 404
    listed = api.client.get("/evaluations", headers=headers).text
    assert "No evaluation is stored in this project yet" in listed


def test_runs_that_were_forgotten_or_not_graded_are_shown_as_such(api: Api) -> None:
    made = evaluate(api, "gone", version(7, 2, workflow="gone"))["evaluation"]
    api.services.ledger.forget(made["runs"][0]["digest"], author="me", reason="privacy")
    page = show(api, "/evaluations/gone")
    assert samples(page) == ["s-0", "s-1"]
    assert text(page).count("forgotten") == 3
    assert samples(show(api, "/evaluations/gone?q=why")) == ["s-1"]


def test_samples_that_the_baseline_has_and_this_one_lacks_are_said_next_to_the_verdict(
    api: Api,
) -> None:
    whole = evaluate(api, "whole", version(1, workflow="lossy"))["evaluation"]
    part = evaluate(api, "part", version(2, workflow="lossy")[2:])["evaluation"]
    page = show(api, "/evaluations/part")
    seen = text(page)
    assert "? All 4 samples passed, 2 missing" in seen
    assert "2 samples of the baseline are missing here." in seen
    assert "0 worse, 0 better, 2 missing here" in seen
    ways = f"/compare?of={whole['id']}&of={part['id']}&show=missing"
    assert ways in unescape(page)
    listed = text(show(api, ways))
    assert "Missing in the candidate 2" in listed
    assert "missing: counts as lost" in listed
    ledger = api.services.ledger
    digests = [run["digest"] for run in whole["runs"][1:]]
    record = {"schema": "assay.baseline/1", "name": "lossy", "evidence_digests": digests}
    ledger.put_many([baseline_draft(record)])
    page = show(api, "/evaluations/part")
    assert "1 sample of the baseline is missing here." in text(page)
    assert f"/compare?of=baseline%3Alossy&of={part['id']}&show=missing" in unescape(page)


def test_forgetting_makes_nothing_better_and_is_counted_once(api: Api) -> None:
    first = evaluate(api, "known", version(1, workflow="fading"))["evaluation"]["runs"]
    made = version(2, workflow="fading")
    made[0]["status"] = "failed"
    second = evaluate(api, "fading", made)["evaluation"]["runs"]

    def forget(*digests: str) -> None:
        for one in digests:
            api.services.ledger.forget(one, author="me", reason="privacy")

    forget(second[0]["grade"], second[1]["grade"])
    seen = text(show(api, "/evaluations/fading"))
    assert "✗ 2 of 6 samples failed" in seen
    assert ": 2 worse, 0 better (" in seen
    assert "2 grades were forgotten. Each counts as failed" in seen
    forget(first[2]["grade"])
    seen = text(show(api, "/evaluations/fading"))
    assert ": 2 worse, 0 better (" in seen, "the baseline's grade is gone"
    assert "baseline grade forgotten" in seen
    forget(second[1]["digest"], second[3]["digest"], second[3]["grade"])
    seen = text(show(api, "/compare?of=known&of=fading"))
    assert "Samples 1 to 6 of 6" in seen, "once each"
    assert seen.count("not in it") == 2
    assert "no sample is counted as better or worse" in seen
    forget(first[4]["digest"], first[4]["grade"])
    seen = text(show(api, "/compare?of=known&of=fading"))
    assert "Samples 1 to 6 of 6" in seen
    assert seen.count("not in it") == 3
    assert "2 samples of the baseline are missing" in text(show(api, "/evaluations/fading"))


def test_an_evaluation_without_a_graded_run_is_not_passed() -> None:
    totals = EvaluationTotals(
        n=2, passed=0, pass_rate=NONE, score=NONE, gate_failures={}, missing={}, ungraded=2
    )
    rows = [SampleRow(name, "", "", "", (SampleRun(name),)) for name in ("a", "b")]
    figures = str(html_of(evaluation_figures(totals, count_samples(rows), None, "")))
    assert "Not graded" in figures
    assert "2 runs could not be graded" in figures
    assert "Pass rate" not in figures


def test_many_criteria_are_shown_a_few_at_a_time() -> None:
    criteria = [
        {"name": f"c-{n:03d}", "weight": 1 + (n == 150), "norm": n / 200} for n in range(200)
    ]
    grade = sample_grade({"passed": True, "weighted_score": 90, "criteria": criteria})
    texts = ("ה" * 9000, "e\u0301" * 5000, "x" * 5_000_000)
    rows = [SampleRow(f"s-{n}", *texts, (SampleRun(f"r-{n}", grade=grade),)) for n in range(50)]
    columns = criterion_columns(rows)
    assert [one.name for one in columns[:3]] == ["c-150", "c-000", "c-001"]
    query = SampleQuery()
    region = samples_region(
        page_of(rows, 1),
        query,
        count_samples(rows),
        SampleLinks("wide", 2),
        columns,
        None,
        can_compare=False,
    )
    page = html_of([region])
    assert "Criteria 7 to 12 of 200" in page
    assert page.count('class="criterion"') == 51 * MAX_CRITERIA
    assert 'dir="auto"' in page
    assert len(page.encode()) < 200_000


def test_a_decision_on_some_of_the_runs_is_not_that_of_the_evaluation(api: Api) -> None:
    before, after = (version(number, 80, workflow="partly") for number in (1, 2))
    after[-20:] = [{**run, "status": "failed"} for run in after[-20:]]
    evaluate(api, "partly", after)
    some = {"candidate": after[:-20], "baseline": before[:-20]}
    assert api.post("/decisions", some).json()["decision"]["outcome"] == "promote"
    assert "promote" not in text(show(api, "/evaluations/partly"))
    whole = {"candidate": {"evaluation": "partly"}, "baseline": before}
    assert api.post("/decisions", whole).json()["decision"]["outcome"] == "reject"
    api.post("/decisions", {**some, "baseline": before[1:-20], "candidate": after[1:-20]})
    assert "✗ reject" in text(show(api, "/evaluations/partly"))


def test_a_named_baseline_is_said_to_be_what_it_is(api: Api) -> None:
    first = evaluate(api, "first", version(1, workflow="named"))["evaluation"]
    evaluate(api, "middle", version(2, workflow="named"))
    evaluate(api, "last", version(3, workflow="named"))
    digests = [one["digest"] for one in first["runs"]]
    record = {"schema": "assay.baseline/1", "name": "production", "evidence_digests": digests}
    api.services.ledger.put_many([baseline_draft(record)])
    page = show(api, "/evaluations/last")
    assert "Compared with the baseline production, first (named@1) : 0 worse" in text(page)
    assert f"/compare?of={first['id']}&amp;of=" in page
    assert "no baseline is stored" in text(show(api, "/evaluations/first"))


def test_the_list_filters_by_workflow_dataset_and_label(api: Api) -> None:
    def names(query: str) -> list[str]:
        page = show(api, f"/evaluations{query}")
        return re.findall(r'rowheader"><a href="/evaluations/ev-[0-9a-f]{12}">([^<]+)', page)

    assert names("")[-3:] == ["repeated", "two", "one"]
    assert names("?workflow=w") == ["two", "one"]
    assert names("?label=nightly") == ["one"]
    assert names("?workflow=other&label=nightly") == []
    assert names("?dataset=d&workflow=other") == ["repeated"]
    page = show(api, "/evaluations")
    assert "release &lt;b&gt;" in page
    assert "66.7% 30.0% to 90.3%" in text(page)


def test_labels_and_overrides_are_counted_on_one_line_only_where_there_are_any(api: Api) -> None:
    assert "People's verdicts" not in text(show(api, "/evaluations/one"))
    ledger = api.services.ledger
    stored = find_evaluation(ledger, "one", project="default")
    assert stored is not None
    override = Override(verdict="fail", reason="read it")
    for made in (label(stored), label(stored, rater=BEN), label(stored, 1, override=override)):
        ledger.put_many([label_draft(made)], project="default")
    page = show(api, "/evaluations/one")
    said = "People's verdicts: 2 labels on 1 run by 2 raters; overrides on 1 run (0 pass, 1 fail)"
    assert said in re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", page)))
    assert 'href="/label">2 labels</a>' in page
    assert f'href="/runs/{stored.evaluation.runs[1].digest}?in={stored.evaluation.id}"' in page


def test_reasons_break_at_underscores_and_long_heads_scroll() -> None:
    kinds = []
    for name in ("recall", "electroencephalographically"):
        grade = sample_grade(
            {
                "weighted_score": 0,
                "passed": False,
                "hard_gate_failures": ["a_b"],
                "criteria": [{"name": f"{name} {n}", "norm": 0} for n in range(MAX_CRITERIA)],
            }
        )
        row = SampleRow("s", "", "", "", (SampleRun("s", "d", grade),))
        page = page_of([row], 1)
        table = sample_table(
            page, SampleQuery(), SampleLinks("e"), criterion_columns([row]), None, absent_as=""
        )
        assert "gate a_<wbr>b does not pass" in table.__html__()
        kinds.append(table.kind)
    assert kinds == ["stack sheet samples", "stack sheet samples scrolls"]
