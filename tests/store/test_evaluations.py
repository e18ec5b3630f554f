"""Evaluations: totals from graded runs, stored whole or not at all, found by name."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from assay.api.comparing import gate
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.families.batch.batching import plan_batch
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.project.ledger import ledger_folder, url_of
from assay.records.evaluation import Evaluation, VersionedName
from assay.services.evaluation_checks import verify_ledger
from assay.services.evaluations import (
    check_name,
    find_evaluation,
    list_evaluations,
    no_other_version,
    stored_grades,
    stored_runs,
)
from assay.services.grading import Graded, Grader
from assay.services.storing import EvaluationBuilder, drafts_of, identified, settled
from assay.store.drafts import Draft, Link, body_of, draft
from assay.store.ledger import Ledger, open_ledger
from assay.store.verify import verify
from commands import Running, run_here
from documents import run
from examples import CAMPAIGN
from once import once
from postgres import ledger_url, postgres_url
from serving import runs, serving

__all__ = ["ledger_url", "postgres_url"]

NOW = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)


def graded(*documents: dict[str, Any]) -> list[Graded]:
    grader = Grader(Shelf())
    return [grader.grade(settled(Document(document, "x"))) for document in documents]


def builder(document: dict[str, Any], name: str = "nightly", **settings: Any) -> EvaluationBuilder:
    workflow, dataset = document["workflow"], document["dataset"]
    return EvaluationBuilder(
        name=name,
        workflow=VersionedName(id=workflow["id"], version=workflow["version"]),
        dataset=VersionedName(id=dataset["id"], version=dataset["version"]),
        settings=settings,
        started=NOW,
    )


def made(documents: list[dict[str, Any]], name: str = "nightly", **settings: Any) -> Evaluation:
    built = builder(documents[0], name, **settings)
    for one in graded(*documents):
        built.add(one)
    return built.finish(NOW)


def evaluation_draft(evaluation: Evaluation) -> Draft:
    links = [Link("evaluates", run.grade or run.digest) for run in evaluation.runs]
    return draft(evaluation, kind="evaluation", links=links)


def keep(ledger: Ledger, documents: list[dict[str, Any]], name: str = "nightly") -> Evaluation:
    ledger.put_many([each for one in graded(*documents) for each in drafts_of(one)])
    evaluation = made(documents, name)
    ledger.put_many([evaluation_draft(evaluation)])
    return evaluation


def test_an_evaluation_is_found_by_latest_by_name_and_by_id(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        first = keep(ledger, runs(3), "nightly")
        second = keep(ledger, runs(4), "weekly")
        third = keep(ledger, runs(5), "nightly")

        def found(reference: str) -> str | None:
            stored = find_evaluation(ledger, reference, project="default")
            return None if stored is None else stored.evaluation.id

        assert found("latest") == found("latest~0") == found("nightly") == third.id
        assert found("latest~1") == found("weekly") == found(second.id) == second.id
        assert found("latest~2") == found("nightly~1") == first.id
        for absent in ("latest~3", "weekly~1", "night", "ev-000000000000", "a/b", "latest~x"):
            assert found(absent) is None
        listed = [one.evaluation for one in list_evaluations(ledger, project="default")]
        assert listed == [third, second, first], "what is read is what was stored"
        stored = find_evaluation(ledger, "weekly", project="default")
        assert stored is not None
        kept = [item.tree()["run_id"] for item in stored_runs(ledger, stored, project="default")]
        assert kept == [each["run_id"] for each in runs(4)]
        assert all(
            item.tree()["passed"] for item in stored_grades(ledger, stored, project="default")
        )
        assert verify(ledger).clean


def test_errored_runs_count_and_do_not_pass() -> None:
    documents = [*runs(1), *(dict(one, status="error") for one in runs(100)[1:])]
    totals = made(documents).totals
    assert (totals.n, totals.passed) == (100, 1)
    assert (totals.pass_rate.value, totals.gate_failures["overall_status_success"]) == (0.01, 99)


def test_a_run_that_could_not_be_graded_counts_against_the_evaluation() -> None:
    documents = runs(4)
    built = builder(documents[0])
    for one in graded(*documents[:3]):
        built.add(one)
    built.add_stored(body_of(documents[3]), None)
    totals = built.finish(NOW).totals
    assert (totals.n, totals.passed, totals.ungraded) == (4, 3, 1)
    assert (totals.pass_rate.value, totals.score.value) == (0.75, 75.0)
    assert (totals.score.low, totals.score.high) == (0, 100), "no score is beyond its scale"
    alone = builder(documents[0])
    alone.add_stored(body_of(documents[0]), None)
    totals = alone.finish(NOW).totals
    assert (totals.n, totals.passed, totals.pass_rate.value, totals.score.value) == (
        1,
        0,
        None,
        None,
    )
    assert totals.pass_rate.reason == "no run was graded"


def test_an_evaluation_is_of_one_version_and_has_runs() -> None:
    built = builder(runs(1)[0])
    other = run(workflow={"id": "other", "version": "2", "family": "rag"})
    with pytest.raises(InputError, match="other@2"):
        built.add(graded(other)[0])
    with pytest.raises(NotEnoughEvidence, match="has no runs"):
        built.finish(NOW)


def test_the_id_follows_from_the_content() -> None:
    one = made(runs(3), profile=None, limit=0.10)
    assert one == made(runs(3), profile=None, limit=0.1)
    assert one.id == identified(one).id
    others = [made(runs(2)), made(runs(3), "other"), made(runs(3), profile="rag")]
    assert len({one.id, *(other.id for other in others)}) == 4


@pytest.mark.parametrize(
    "name",
    [
        "",
        "latest",
        "latest~1",
        "a/b",
        "runs.jsonl",
        "-",
        ".hidden",
        "ev-0123456789ab",
        "ü",
        "a" * 101,
    ],
)
def test_names_that_could_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="can't be named"):
        check_name(name)


def test_a_builders_draft_is_the_record_byte_for_byte_and_in_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = runs(5)
    documents[0]["run_id"] = 'one "runs":[] \\ \U0001f600'
    ones = graded(*documents)
    built = builder(documents[0], note={"runs": []})
    for number, one in enumerate(ones):
        if number == 2:
            built.add_stored(body_of(one.run), None)
        else:
            built.add(one)
    whole, (brief, made_draft) = built.finish(NOW), built.drafted(NOW)
    plain = evaluation_draft(whole)
    assert made_draft._replace(evaluates=b"", links=plain.links) == plain
    assert whole.id == brief.id == identified(whole).id
    assert brief.runs == []
    heads = []
    for name, drafted, large in (
        ("a", plain, 10**9),
        ("b", made_draft, 10**9),
        ("c", made_draft, 9),
    ):
        monkeypatch.setattr("assay.store.writing.LARGE", large)
        with open_ledger(f"sqlite:///{tmp_path}/{name}.db", clock=lambda: NOW) as ledger:
            with pytest.raises(InputError, match="which is not in this project"):
                ledger.put_many([drafted])
            ledger.put_many([each for one in ones for each in drafts_of(one)])
            assert [ledger.put_many([drafted])[0].new for _ in range(2)] == [True, False]
            heads.append(ledger.head())
            assert not verify(ledger).flaws
            found = ledger.get(drafted.name)
            assert found is not None
            assert found.body == plain.body
            assert len(ledger.links_of(drafted.name, relation="evaluates")) == 5
    assert len(set(heads)) == 1


# --- the ledger checks them


def forged(evaluation: Evaluation, **changes: Any) -> Evaluation:
    """An evaluation that says something else, with an id that fits."""
    return identified(structs.replace(evaluation, **changes))


def faults(ledger: Ledger, evaluation: Evaluation) -> list[str]:
    ledger.put_many([evaluation_draft(evaluation)])
    report = verify_ledger(ledger)
    return [flaw.what for flaw in report.flaws]


def test_totals_that_do_not_follow_from_the_grades_are_found(ledger_url: str) -> None:
    documents = [*runs(2), *(dict(one, status="error") for one in runs(5)[2:])]
    with open_ledger(ledger_url) as ledger:
        honest = keep(ledger, documents)
        assert verify_ledger(ledger).clean
        better = made(runs(5)).totals
        assert honest.totals.passed == 2
        assert better.passed == 5
        (what,) = faults(ledger, forged(honest, totals=better))
        assert what == "the totals of the evaluation don't match the grades it names."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"configuration": "sha256:" + "0" * 64}, "the configuration"),
        ({"workflow": VersionedName(id="w", version="9")}, "belongs to the workflow w@1"),
    ],
)
def test_an_evaluation_that_contradicts_itself_or_its_runs_is_found(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        honest = keep(ledger, runs(3))
        assert any(words in what for what in faults(ledger, forged(honest, **changes)))


def test_a_run_with_the_grade_of_another_is_found(tmp_path: Path) -> None:
    bad = dict(runs(2)[1], status="error")
    with open_ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        honest = keep(ledger, [runs(1)[0], bad])
        good, failed = honest.runs
        swapped = [good, structs.replace(failed, grade=good.grade)]
        twice = [good, structs.replace(failed, run_id=good.run_id, digest=good.digest)]
        for listed, words in ((swapped, "grade of another"), (twice, "a run twice")):
            found = faults(ledger, forged(honest, name=words[:5], runs=listed))
            assert any(words in what for what in found), found


def test_forgetting_a_run_leaves_the_ledger_clean(tmp_path: Path) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        evaluation = keep(ledger, runs(3))
        ledger.forget(evaluation.runs[0].digest, author="me", reason="privacy")
        assert verify_ledger(ledger).clean
        stored = find_evaluation(ledger, "latest", project="default")
        assert stored is not None
        with pytest.raises(NotEnoughEvidence, match="was forgotten"):
            list(stored_runs(ledger, stored, project="default"))


# --- the commands


def write(path: Path, documents: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(one, default=float) + "\n" for one in documents))


@pytest.fixture(scope="session")
def imported() -> Path:
    """A folder with two stored evaluations: `base` passes, `cand` has runs that fail. Made once, to
    be copied.
    """
    worse = [
        dict(
            one,
            workflow=dict(one["workflow"], version="2"),
            status="error" if index % 15 == 0 else "success",
        )
        for index, one in enumerate(runs(60))
    ]

    def make(folder: Path) -> None:
        for name, file, given in (("base", "a.jsonl", runs(60)), ("cand", "b.jsonl", worse)):
            write(folder / file, given)
            words = ["import", file, "--name", name]
            done = run_here(words, cwd=folder, env={})
            assert done.code == 0, done.err

    return once("two evaluations", make)


@pytest.fixture
def two(assay: Any, imported: Path, tmp_path: Path) -> Any:
    """The command in a copy of that folder."""
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)
    return assay


def test_imported_runs_become_an_evaluation_that_verbs_take_by_name(
    two: Any, tmp_path: Path
) -> None:
    assert (tmp_path / ".assay" / ".gitignore").read_text().splitlines()[1] == "*"
    listed = two("evals", "--json").json()
    assert [(one["name"], one["totals"]["passed"]) for one in listed["evaluations"]] == [
        ("cand", 56),
        ("base", 60),
    ]
    shown = two("evals")
    assert "93.3% [84.1% to 97.4% (95%)]" in shown.out
    decided = two("gate", "latest", "--baseline", "latest~1", "--json")
    assert (decided.code, decided.json()["outcome"]) == (1, "hold"), decided.err
    assert "latest is cand: w@2 on d@1" in decided.err
    assert two("gate", "a.jsonl", "--baseline", "base", "--json").json()["outcome"] == "promote"
    itself = two("gate", "base", "--baseline", "base")
    assert (itself.code, "would be compared with itself" in itself.err) == (3, True)
    assert two("grade", "base").code == 0
    assert two("grade", "cand").code == 1
    assert two("report", "summary", "cand", "--json").json()["n"] == 60
    assert two("report", "rank", "latest", "--json").json()["order"][0]["rank"] == 1
    assert two("baseline", "set", "prod", "base").code == 0
    assert two("gate", "cand", "--baseline", "prod").code == 1
    assert two("ledger", "verify").code == 0
    assert two("ledger", "replay", "latest", "--json").json()["same"] is True


def test_a_decision_on_evaluations_and_a_baseline_made_of_one_are_in_their_ledger(
    two: Any, tmp_path: Path
) -> None:
    def stored(kind: str) -> int:
        with open_ledger(f"sqlite:///{tmp_path}/.assay/ledger.db", read_only=True) as ledger:
            return ledger.count(kind).n

    gate = ("gate", "cand", "--baseline", "prod")
    assert two("baseline", "set", "prod", "cand", "--no-store").code == 0
    assert two("baseline", "set", "prod", "b.jsonl").code == 0
    assert two(*gate, "--no-store").code == 0
    assert two("gate", "b.jsonl", "--baseline", "prod").code == 0
    assert "stored" not in two("gate", "--plan", "cand", "--baseline", "prod").err
    assert (stored("baseline"), stored("decision")) == (0, 0)
    assert "stored in .assay/ledger.db" in two("baseline", "set", "prod", "base").err
    assert two(*gate).code == 1
    assert two(*gate).code == 1
    assert (stored("baseline"), stored("decision")) == (1, 1)
    assert two("ledger", "verify").code == 0
    (tmp_path / ".assay" / "baselines" / "prod@3.json").unlink()  # as on another branch
    (tmp_path / ".assay" / "baselines" / "prod@3.jsonl").unlink()
    shutil.copy(
        tmp_path / ".assay" / "baselines" / "prod@2.json", tmp_path / ".assay/baselines/prod.json"
    )
    older = two(*gate)
    assert (older.code, "in the ledger" in older.err) == (0, False), older.err


def test_folders_with_the_names_of_evaluations_are_not_decided_on(two: Any, tmp_path: Path) -> None:
    """A commit could add them: batches of both sides, which replace what was evaluated."""
    plan = plan_batch(Shelf(), profile="dag-review@1")
    best = {"likert_1_5": 5, "zero_one": 1, "lower_is_better": 0}
    scores = {item.name: best[item.formula] for item in plan.criteria}
    row = scores | dict.fromkeys(plan.gates, True)
    write(tmp_path / "rows.jsonl", [row | {"run": f"r-{n}"} for n in range(60)])
    for name in ("cand", "base"):
        made = two("batch", "rows.jsonl", "-o", name, "--profile", "dag-review@1")
        assert made.code == 0, made.err
    assert two("gate", "./cand", "--baseline", "./base").code == 0
    decided = two("gate", "cand", "--baseline", "base", "--json")
    assert (decided.code, decided.json()["outcome"]) == (1, "hold"), decided.err
    assert two("report", "summary", "cand", "--json").json()["n"] == 60


def test_a_rejected_candidate_is_not_its_own_baseline_the_second_time(
    two: Any, tmp_path: Path
) -> None:
    assert two("import", "b.jsonl", "--name", "again").code == 0
    write(
        tmp_path / "other.jsonl",
        [dict(one, workflow=dict(one["workflow"], id="x")) for one in runs(3)],
    )
    assert two("import", "other.jsonl", "--name", "other").code == 0
    for candidate, baseline in (
        ("again", "latest~1"),
        ("again", "latest"),
        ("cand", "latest~1"),
        ("b.jsonl", "latest~1"),
    ):
        done = two("gate", candidate, "--baseline", baseline)
        assert (done.code, f"{baseline} is base: w@1 on d@1" in done.err) == (1, True), done.err
    assert two("gate", "base", "--baseline", "latest").err.startswith("assay: latest is again")
    named = two("gate", "again", "--baseline", "cand")
    assert (named.code, "would be compared with itself" in named.err) == (3, True), named.err
    with pytest.raises(NotEnoughEvidence, match="of another version"):
        gate(str(tmp_path / "b.jsonl"), "latest~5", store=str(tmp_path / ".assay/ledger.db"))
    found = gate("again", "latest~1", store=str(tmp_path / ".assay/ledger.db"))
    assert found.outcome == "hold"


def test_a_baseline_of_another_version_is_asked_for_where_there_is_none(
    assay: Any, tmp_path: Path
) -> None:
    write(tmp_path / "a.jsonl", runs(3))
    assert assay("import", "a.jsonl", "--name", "one").code == 0
    alone = assay("gate", "latest", "--baseline", "latest~1")
    assert (alone.code, "has 1 evaluation" in alone.err) == (4, True), alone.err
    assert assay("import", "a.jsonl", "--name", "two").code == 0
    refused = assay("gate", "latest", "--baseline", "latest~1")
    assert refused.code == 4
    assert "every stored evaluation of w has the candidate's version, w@1" in refused.err
    assert "an evaluation that `assay evals` lists, or a file" in refused.err
    assert "import each with `--workflow w@VERSION`" in refused.err
    with open_ledger(f"sqlite:///{tmp_path}/.assay/ledger.db") as ledger:
        judged = [VersionedName(id="my bot", version="1")]
        spaced = no_other_version(ledger, "latest", project="default", judged=judged)
    assert "`--workflow 'my bot'@VERSION`" in str(spaced)
    for words in (("gate", "a.jsonl"), ("gate", "latest")):
        hinted = assay(*words)
        assert (hinted.code, "no other version of this workflow" in hinted.err) == (2, True)
    newest = assay("gate", "a.jsonl", "--baseline", "latest")
    assert (newest.code, "every stored evaluation of w has the candidate's" in newest.err) == (
        4,
        True,
    )
    write(
        tmp_path / "b.jsonl", [{**one, "workflow": {"id": "w", "version": "2"}} for one in runs(3)]
    )
    hint = assay("gate", "b.jsonl").err
    assert "`assay gate b.jsonl --baseline latest`" in hint
    assert assay("gate", "b.jsonl", "--baseline", "latest").code != 2


def test_latest_is_never_silently_of_another_workflow(two: Any, tmp_path: Path) -> None:
    (tmp_path / "assay.yaml").write_text(
        "workflow: {workflow: mine, version: 1, family: rag, inputs: [q], outputs: [answer],"
        " adapter: {kind: python, target: 'bot:answer'}}\n"
    )
    refused = two("explain", "latest")
    assert (refused.code, refused.out) == (4, "")
    assert "the workflow of assay.yaml, mine, has no evaluations" in refused.err
    assert "cand, base" in refused.err
    assert two("explain", "cand").code == 1


def test_an_evaluation_that_is_too_old_is_no_baseline(two: Any) -> None:
    for baseline in ("base", "latest~1"):
        old = two("gate", "cand", "--baseline", baseline, "--now", "2031-01-01T00:00:00Z")
        assert (old.code, "days old" in old.err) == (4, True), old.err
        assert "the baseline base is" in old.err
    made = two("baseline", "set", "prod", "base", "--now", "2031-01-01T00:00:00Z", "--json")
    started = two("evals", "--json").json()["evaluations"][1]["started"]
    assert made.json()["made_at"][:19] == started[:19], "a new name makes it no younger"
    assert two("gate", "cand", "--baseline", "prod", "--now", "2031-01-01T00:00:00Z").code == 4


def test_an_evaluation_is_explained_with_its_worst_runs(two: Any) -> None:
    whole = two("explain", "cand")
    assert whole.code == 1
    assert "56 of 60 runs passed" in whole.out
    assert "overall_status_success  4     60" in whole.out
    command = next(line for line in whole.out.splitlines() if "explain cand --run" in line)
    again = two(*command.partition("#")[0].split()[1:])
    assert (again.code, "Gate overall_status_success failed" in again.out) == (1, True)
    assert two("explain", "cand", "--run", "s-15").out.startswith("r-15: F")
    assert two("explain", "r-3").code == 0, "a stored run by its id"
    missing = two("explain", "cand", "--run", "r-99")
    assert (missing.code, "no run is named 'r-99'" in missing.err) == (2, True)
    missing = two("explain", "cand", "--run", "nothing like it")
    assert "no run is named 'nothing like it'. The first run is 'r-0'." in missing.err
    results = two("explain", "cand", "--json").json()["results"]
    assert len(results) == 60
    other = two("explain", "cand", "--run", "r-1", "--profile", "rag")
    assert "rag@" in other.out, "another profile grades again"


def test_our_own_grades_are_taken_where_runs_are(two: Any, tmp_path: Path) -> None:
    assert two("grade", "b.jsonl", "-o", "grades.json").code == 1
    assert "56 passed, 4 failed" in two("grade", "grades.json").out
    assert (
        "Gate overall_status_success failed: the run ended with status 'error'."
        in two("explain", "grades.json", "--run", "r-15").out
    )
    same = [two("report", "summary", name, "--json").json() for name in ("grades.json", "b.jsonl")]
    assert same[0]["pass_rate"] == same[1]["pass_rate"]
    refused = two("grade", "grades.json", "--store")
    assert (refused.code, "came without its run" in refused.err) == (3, True)
    lying = json.loads((tmp_path / "grades.json").read_text())
    lying["results"][0].update(grade="A", passed=True)
    (tmp_path / "lying.json").write_text(json.dumps(lying))
    for verb in (("grade",), ("explain",), ("report", "summary")):
        assert two(*verb, "lying.json").code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("explain", "candy"), 2, "Did you mean 'cand'?"),
        (("explain", "a"), 2, "It has cand, base. To read a file of that name, write ./a."),
        (("explain", "latest~2"), 4, "has 2 evaluations"),
        (("gate", "latest", "--baseline", "latest~2"), 4, "there is no latest~2"),
        (("gate", "latest", "--baseline", "bas"), 4, "Did you mean 'base'?"),
        (("explain", "latest", "--project", "other"), 4, "has no evaluations"),
        (("explain", "latest", "--db", "none.db"), 4, "there is no ledger at none.db"),
        (("import", "a.jsonl", "--name", "latest"), 2, "can't be named 'latest'"),
        (("import", "a.jsonl", "--name", "x/y"), 2, "can't be named 'x/y'"),
        (("ledger", "replay", "nobody"), 3, "no evaluation and no graded run is named 'nobody'"),
        (("evals", "--limit", "0"), 2, "must be at least 1"),
    ],
)
def test_a_name_that_means_nothing_says_what_there_is(
    two: Any, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = two(*arguments)
    assert (done.code, words in done.err, done.out) == (code, True, ""), done.err


def test_two_evaluations_of_one_name_are_told_apart(two: Any) -> None:
    assert two("import", "b.jsonl", "--name", "base").code == 0
    newest = two("report", "summary", "base", "--json")
    assert (newest.json()["coverage"]["errored"], "base is ev-" in newest.err) == (4, True)
    older = two("report", "summary", "base~1", "--json")
    assert older.json()["coverage"]["errored"] == 0
    ids = [one["id"] for one in two("evals", "--json").json()["evaluations"]]
    assert two("report", "summary", ids[2], "--json").json() == older.json()


def test_two_imports_within_one_second_have_two_names(two: Any) -> None:
    made = [two("import", "b.jsonl", "--json").json()["evaluations"][0] for _ in range(4)]
    assert len({evaluation["name"] for evaluation in made}) == 4


def test_a_name_of_two_things_is_refused(two: Any) -> None:
    assert two("baseline", "set", "base", "a.jsonl").code == 0
    done = two("gate", "cand", "--baseline", "base")
    assert (done.code, "a stored baseline" in done.err, "the evaluation ev-" in done.err) == (
        2,
        True,
        True,
    )
    assert two("import", "a.jsonl", "--name", "r-3").code == 0
    done = two("explain", "r-3")
    assert (done.code, "the run sha256:" in done.err) == (2, True), done.err


def test_an_empty_ledger_is_listed_as_empty(assay: Any, tmp_path: Path) -> None:
    none = assay("evals")
    assert (none.code, "there is no ledger. `assay run` and" in none.err) == (3, True)
    open_ledger(f"sqlite:///{tmp_path}/.assay/ledger.db").close()
    done = assay("evals")
    assert (done.code, done.out, "there are no evaluations" in done.err) == (0, "", True)
    assert assay("evals", "--json").json() == {"evaluations": [], "total": 0}
    assert assay("explain", "latest").code == 4


def test_nothing_is_stored_where_that_is_not_wanted_or_can_not_be(
    assay: Any, tmp_path: Path
) -> None:
    write(tmp_path / "a.jsonl", runs(2))
    done = assay("import", "a.jsonl", "-o", "b.jsonl", "--no-store")
    assert (done.code, (tmp_path / ".assay").exists()) == (0, False)
    (tmp_path / ".assay").write_text("a file where the folder would be")
    done = assay("import", "a.jsonl", "-o", "b.jsonl")
    assert (done.code, done.err.count("\n")) == (0, 2), done.err
    assert "nothing is stored in a ledger" in done.err
    asked = assay("import", "a.jsonl", "-o", "b.jsonl", "--store", ".assay/ledger.db")
    assert (asked.code, "cannot be written" in asked.err) == (2, True), asked.err


def test_runs_without_a_profile_are_stored_ungraded_and_say_why(assay: Any, tmp_path: Path) -> None:
    write(
        tmp_path / "a.jsonl", [dict(one, workflow={"id": "w", "version": "1"}) for one in runs(3)]
    )
    done = assay("import", "a.jsonl", "-o", "b.jsonl", "--name", "raw")
    assert (done.code, "raw: w@1 on d@1, not graded" in done.out) == (0, True), done.err
    assert "not graded: 3, the run's workflow names no family. Add workflow.family, or choose" in (
        done.out
    )
    totals = assay("evals", "--json").json()["evaluations"][0]["totals"]
    assert (totals["n"], totals["ungraded"], totals["passed"]) == (3, 3, 0)
    assert totals["pass_rate"]["value"] is None
    assert "not graded" in assay("evals").out
    assert assay("explain", "raw").code == 4
    assert assay("ledger", "verify").code == 0
    assert assay("ledger", "replay", "raw").code == 0
    given = assay("import", "a.jsonl", "-o", "c.jsonl", "--name", "now", "--profile", "code-repair")
    assert "now: w@1 on d@1, 3 of 3 runs passed" in given.out
    assert assay("grade", "now").code == 0, (
        "graded by the profile that the evaluation was graded by"
    )
    mixed = assay("gate", "now", "--baseline", "raw")
    assert (mixed.code, "choose a profile with --profile" in mixed.err) == (3, True), mixed.err


def test_runs_of_several_versions_become_several_evaluations(assay: Any, tmp_path: Path) -> None:
    other = [
        dict(one, run_id=f"o-{one['run_id']}", workflow=dict(one["workflow"], version="2"))
        for one in runs(2)
    ]
    write(tmp_path / "a.jsonl", [*runs(3), *other])
    made = assay("import", "a.jsonl", "--json", "--name", "mix").json()["evaluations"]
    assert [(one["name"], one["totals"]["n"]) for one in made] == [("mix", 3), ("mix-2", 2)]


def test_the_ledger_is_found_upwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    monkeypatch.delenv("ASSAY_DB", raising=False)
    assert ledger_folder() == ".assay"
    (tmp_path / "assay.yaml").touch()
    assert ledger_folder() == os.path.join("..", "..", ".assay")
    (tmp_path / "a" / ".assay").mkdir()
    assert url_of("") == "sqlite:///../.assay/ledger.db"
    monkeypatch.setenv("ASSAY_DB", "postgresql://host/name")
    assert url_of("") == "postgresql://host/name"
    assert url_of("x.db") == "x.db"


KILLED = """
import os, signal, sys
from assay.services import storing
from assay.cli.main import run
from assay.store.ledger import Ledger
storing.BATCH = 3
left = int(sys.argv[1])
put = Ledger.put_many
def put_or_die(self, *given, **more):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return put(self, *given, **more)
Ledger.put_many = put_or_die
sys.exit(run(["import", "a.jsonl", "--name", "half"]))
"""


@pytest.mark.parametrize("parts", [2, 3] if CAMPAIGN else [3])
def test_a_kill_while_it_stores_leaves_all_of_the_evaluation_or_none(
    assay: Any, tmp_path: Path, parts: int
) -> None:
    write(tmp_path / "a.jsonl", runs(10))  # eleven groups of records in four transactions
    done = Running(parts, code=KILLED, cwd=tmp_path)
    done.communicate()
    assert done.returncode == -signal.SIGKILL
    report = assay("ledger", "verify", "--json").json()
    assert (report["clean"], report["records"]) == (True, 9 * parts)
    assert assay("evals", "--json").json()["total"] == 0
    assert assay("import", "a.jsonl", "--name", "half").code == 0
    assert assay("ledger", "verify", "--json").json()["records"] == 31
    assert assay("evals", "--json").json()["total"] == 1


# --- the API


def test_the_api_makes_lists_and_shows_evaluations(tmp_path: Path) -> None:
    with serving(f"{tmp_path}/l.db") as api:
        posted = api.post("/evaluations", {"name": "one", "runs": runs(4), "labels": ["ci"]})
        assert posted.status_code == 201, posted.text
        made = posted.json()["evaluation"]
        assert (made["totals"]["n"], made["totals"]["passed"]) == (4, 4)
        failed = dict(runs(1)[0], run_id="bad", status="error")
        api.post("/runs", failed)
        digest = api.get("/runs/bad").json()["digest"]
        second = api.post("/evaluations", {"name": "two", "runs": {"digests": [digest]}})
        assert second.json()["evaluation"]["totals"]["passed"] == 0
        listed = api.get("/evaluations").json()
        assert [one["record"]["name"] for one in listed["items"]] == ["two", "one"]
        assert "runs" not in listed["items"][0]["record"]
        page = api.get("/evaluations?limit=1").json()
        assert page["items"] == listed["items"][:1]
        assert (
            api.get(f"/evaluations?limit=1&after={page['next']}").json()["items"]
            == (listed["items"][1:])
        )
        assert api.get("/evaluations?label=ci").json()["items"] == listed["items"][1:]
        assert api.get("/evaluations?workflow=other").json()["items"] == []
        assert len(api.get("/evaluations?workflow=w&dataset=d").json()["items"]) == 2
        for name in ("one", made["id"], "latest~1", posted.json()["digest"]):
            assert api.get(f"/evaluations/{name}").json()["record"] == made
        first = api.get("/evaluations/one/runs?limit=3").json()
        assert ([one["run_id"] for one in first["items"]], first["next"]) == (
            ["r-0", "r-1", "r-2"],
            "3",
        )
        rest = api.get("/evaluations/one/runs?after=3").json()
        assert (rest["items"][0]["grade"], rest["next"]) == ("A", None)
        decided = api.post(
            "/decisions",
            {"candidate": {"evaluation": "latest"}, "baseline": {"evaluation": "one"}},
        )
        assert decided.json()["decision"]["outcome"] == "not_enough_evidence"
        newest = api.get("/evaluations/latest").json()["record"]["id"]
        itself = api.post(
            "/decisions",
            {"candidate": {"evaluation": "latest"}, "baseline": {"evaluation": newest}},
        )
        assert "nothing was evaluated since" in itself.json()["detail"]
        assert verify_ledger(api.services.ledger).clean


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"totals": {"passed": 99}}, "totals"),
        ({"name": "latest"}, "can't be named"),
        ({"runs": []}, "made of runs"),
        ({"runs": [{"schema": "assay.run/1"}]}, "workflow"),
        ({"runs": [*runs(1), *runs(1)]}, "two runs have the id"),
        (
            {"runs": [runs(1)[0], dict(runs(2)[1], workflow={"id": "w", "version": "2"})]},
            "one version of a workflow",
        ),
        ({"runs": {"evaluation": "nope"}}, "no evaluation"),
    ],
)
def test_the_api_refuses_what_is_no_evaluation(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with serving(f"{tmp_path}/l.db") as api:
        done = api.post("/evaluations", {"name": "x", "runs": runs(2), **changes})
        assert done.status_code in (400, 404, 422), done.text
        assert words in done.text
        assert api.get("/evaluations").json()["items"] == []
        assert api.get("/evaluations/x").status_code == 404


# --- graded by something else than when it was stored


def test_a_decision_says_that_an_evaluation_was_graded_otherwise_when_it_was_stored(
    two: Any, tmp_path: Path
) -> None:
    same = two("gate", "cand", "--baseline", "base")
    assert "graded by   code-repair@1\n" in same.out
    assert "when it was stored" not in same.err + same.out
    other = ("gate", "cand", "--baseline", "base", "--profile", "rag@1")
    done = two(*other, "-o", "d.json", "-o", "d.md", "-o", "d.html", "--store")
    said = (
        "evaluation cand was graded by code-repair@1 when it was stored; this decision grades both"
        " sides by rag@1."
    )
    assert f"warning: {said}" in done.err, done.err
    assert said.replace("cand", "base", 1) in done.err
    decision = json.loads((tmp_path / "d.json").read_text())
    assert decision["regraded"] == [said, said.replace("cand", "base", 1)]
    assert two("baseline", "set", "production", "base").code == 0
    named = two("gate", "cand", "--baseline", "production", "--profile", "rag@1", "--json").json()
    assert named["regraded"][1].startswith(
        "baseline production@1 was graded by profile code-repair@1"
    )
    with chdir(tmp_path):
        for baseline, command in (("base", decision), ("production", named)):
            assert gate("cand", baseline, profile="rag@1").decision.regraded == command["regraded"]
    assert "- graded by: `rag@1`" in (tmp_path / "d.md").read_text()
    for page in ("d.md", "d.html"):
        assert said[1:] in (tmp_path / page).read_text()
    with open_ledger(f"sqlite:///{tmp_path}/.assay/ledger.db", read_only=True) as ledger:
        digest = ledger.find("decision", newest_first=True, limit=1).items[0].digest
    assert two("ledger", "replay", digest, "--json").json()["same"] is True


@pytest.mark.parametrize(
    "verb", [("grade", "cand"), ("report", "summary", "cand"), ("explain", "cand")]
)
def test_a_verb_that_grades_again_warns_where_that_is_by_something_else(
    two: Any, verb: tuple[str, ...]
) -> None:
    assert "when it was stored" not in two(*verb).err
    warned = two(*verb, "--profile", "rag@1").err
    words = "graded by code-repair@1 when it was stored; this command grades it by rag@1."
    assert f"warning: evaluation cand was {words}" in warned


def test_a_sample_is_named_alone_or_with_its_dataset(two: Any, tmp_path: Path) -> None:
    gate = ("gate", "cand", "--baseline", "base", "--json")
    full = two(*gate).json()["confirmation"]["suspects"][0]["sample"]
    short = full.removeprefix("d/")
    assert full != short
    for name in (full, short):
        left = two(*gate, "--quarantine", name, *(("-o", "d.html") if name is short else ()))
        assert left.json()["missing"]["quarantined"] == [full], left.err
        assert two("explain", "cand", "--run", name).code == 1
        assert two("explain", "b.jsonl", "--run", name).code == 1
    absent = two(*gate, "--quarantine", f"{short}x")
    assert absent.code == 2
    assert f"Did you mean '{short}'?" in absent.err
    for runs_ in ("cand", "b.jsonl"):
        assert "Did you mean" in two("explain", runs_, "--run", f"{full}x").err


def test_a_decision_without_a_candidate_says_what_to_write(two: Any, tmp_path: Path) -> None:
    two("baseline", "set", "prod", "base")
    (tmp_path / "assay.yaml").write_text("baseline: prod\n")
    done = two("gate")
    assert done.code == 2
    assert "needs a candidate to compare with prod. Run `assay gate latest`" in done.err
    assert two("gate", "latest").code == 1
    assert two("baseline", "set", "turned", "cand").code == 0
    for baseline in ("cand", "turned"):  # the candidate's own run was killed
        itself = two("gate", "latest", "--baseline", baseline)
        assert (itself.code, "nothing was evaluated since" in itself.err) == (4, True), itself.err
    with pytest.raises(NotEnoughEvidence, match="nothing was evaluated since"):
        gate("latest", "cand", store=str(tmp_path / ".assay/ledger.db"))
    (tmp_path / "assay.yaml").unlink()
    assert "`assay gate latest --baseline prod`" in two("gate", "--baseline", "prod").err
    assert "`assay gate cand --baseline prod`" in two("gate", "cand").err
