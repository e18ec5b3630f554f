"""One decision at every door: the same two sides, rules and guards give the same outcome, the same
verdict of each rule, the same reason and the same code, however it is asked.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from checkout import ROOT
from commands import in_folder, run_here
from documents import run, scorecard
from doors import DOORS, OF_FOLDER, OF_LEDGER, Answer, Question, by_command, served
from once import once
from serving import Api
from test_exam_gate import put as put_exam
from test_exam_gate import result as exam_result

N = 52
TODAY = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
TURNS = 20
"""Fresh runs of each side; more than any suspect needs."""
PEERS = ROOT / "tests/importers/fixtures"
RED = {"fail_to_pass": {"passed": 1, "total": 2}, "pass_to_pass": {"passed": 100, "total": 100}}
UNSAFE = {"no_sandbox_violation": {"passed": False, "reason": "it wrote outside"}}
OWN_PROFILE = """profile: ours
version: 1
title: Ours
family: code-repair
scoring_system: 1.0.0
gates: [{id: tests_fail_to_pass_all_green}, {id: no_sandbox_violation}]
criteria: [{id: judge_quality, label: Quality, weight: 1, layer: 2, formula: likert_1_5}]
"""
OWN_RELEASE = """policy: ours-release
version: 1
title: Ours
family: release
min_pairs: 10
scores: {level: 0.95, power: 0.8, interval: student, margin: 8}
gate_margin: 0.1
severe: {gates: [no_sandbox_violation], roles: [safety]}
baseline: {max_age_days: 30}
"""
DETERMINISTIC = OWN_RELEASE.replace("ours-release", "deterministic") + "deterministic: true\n"
APPROVED = OWN_RELEASE.replace("ours-release", "approved") + "approvers: [sam]\n"


def quality(raw: int) -> dict[str, Any]:
    return {"judge_quality": {"raw": raw}, "patch_similarity": {"raw": raw * 0.18}}


def runs(version: int, n: int = N, *, days: float = 0, bad: Any = (), **more: Any) -> list[Any]:
    """Runs of a version that pass, but for what `bad` makes of some samples: a field and its value
    by their number.
    """
    moment = (TODAY - timedelta(days=days)).isoformat().replace("+00:00", "Z")
    made = []
    for index in range(n):
        made.append(
            run(
                run_id=f"faq-{version}-{index}",
                workflow={"id": "faq", "version": str(version), "family": "code-repair"},
                dataset={"id": "tickets", "version": "1", "sample_id": f"s-{index:02}"},
                **{
                    "inputs": {"question": f"Why {index}?"},
                    "scores": quality(5 - index % 2),
                    "tags": ["night" if index % 3 else "day"],
                    "group": f"topic-{index // 3}",
                    "started_at": moment,
                    "finished_at": moment,
                    **more,
                    **dict(bad).get(index, {}),
                },
            )
        )
    return made


def again(version: int, places: tuple[int, ...], **more: Any) -> list[Any]:
    """Fresh runs of some samples."""
    made = runs(version)
    return [
        {
            **made[place],
            "run_id": f"again-{version}-{place}-{turn}",
            "attempt": turn,
            "attempts": TURNS,
            **more,
        }
        for place in places
        for turn in range(1, TURNS + 1)
    ]


def failing(*places: int, **how: Any) -> dict[int, Any]:
    return {place: how or {"tests": RED} for place in places}


def cards(*low: int) -> list[Any]:
    return [
        scorecard(
            {"norm": 0.4 if index in low else 0.9},
            run_id=f"c-{index}",
            sample_id=f"s-{index:02}",
            pass_threshold=70,
        )
        for index in range(N)
    ]


RUNS: dict[str, list[Any]] = {
    "base": runs(1),
    "same": runs(2),
    "one": runs(2, bad=failing(0)),
    "many": runs(2, bad=failing(*range(0, N, 2))),
    "severe": runs(2, bad=failing(3, gates=UNSAFE)),
    "all-severe": runs(2, bad=failing(*range(0, N, 3), gates=UNSAFE)),
    "worse": runs(2, scores=quality(2)),
    "few": runs(2, 6),
    "missing": runs(2)[2:],
    "elsewhere": [{**one, "dataset": {**one["dataset"], "id": "mails"}} for one in runs(2)],
    "newer-data": [
        {
            **one,
            "dataset": {**one["dataset"], "version": "2"},
            "inputs": {"question": "Other?"} if place < 2 else one["inputs"],
        }
        for place, one in enumerate(runs(2))
    ],
    "ancient": runs(0, days=200),
    "month": runs(0, days=45),
    "repeated": [
        {**one, "run_id": f"{one['run_id']}-{turn}", "attempt": turn, "attempts": 2}
        for one in runs(1)
        for turn in (1, 2)
    ],
    "laxer": runs(2, required_outputs=[]),
    "mixed": [*runs(2)[:26], *runs(3)[26:]],
}
FRESH = {
    "fresh-red": again(2, (0,), tests=RED),
    "fresh-green": again(2, (0,)),
    "fresh-base": again(1, (0,)),
    "fresh-base-red": again(1, (0,), tests=RED),
    "fresh-other": again(7, (0,)),
    "fresh-strangers": [
        {**one, "dataset": {**one["dataset"], "sample_id": "nobody"}} for one in again(2, (0,))
    ],
}
CSV = {
    "csv-base": [1.0] * N,
    "csv-same": [1.0] * N,
    "csv-worse": [0.2] * 26 + [1.0] * 26,
    "csv-scale": [5.0] * N,
}


def put(folder: Path, name: str, documents: list[Any]) -> None:
    text = "".join(json.dumps(one) + "\n" for one in documents)
    (folder / f"{name}.jsonl").write_text(text)


def make(folder: Path) -> None:
    """A project with files, evaluations and baselines of every kind."""
    here = in_folder(folder, run_here)

    def done(*words: object) -> None:
        found = here(*words)
        assert found.code == 0, (words, found.err)

    for name, text in (
        ("ours", OWN_PROFILE),
        ("ours-release", OWN_RELEASE),
        ("deterministic", DETERMINISTIC),
        ("approved", APPROVED),
    ):
        (folder / f"{name}.yaml").write_text(text)
    for name, documents in (*RUNS.items(), *FRESH.items()):
        put(folder, name, documents)
    for name, documents in (("cards", cards()), ("cards-low", cards(*range(12)))):
        put(folder, name, documents)
    for name in ("base", "same", "one"):
        graded = here("grade", f"{name}.jsonl", "--json")
        (folder / f"{name}.grades.json").write_text(graded.out)
    for name, scores in CSV.items():
        rows = [f"s-{place},a{place},{score}" for place, score in enumerate(scores)]
        (folder / f"{name}.csv").write_text("\n".join(["id,answer,score", *rows, ""]))
    done("gate", "--plan", "--baseline", "base.jsonl", "-o", "plan.json")
    for name in RUNS:  # the last is `latest`
        done("import", f"{name}.jsonl", "--name", name)
    for name in ("csv-base", "csv-same", "csv-worse"):
        done("import", f"{name}.csv", "--name", name)
    done("import", PEERS / "promptfoo/capitals.json", "--name", "promptfoo")
    done("import", PEERS / "inspect_ai/plain.json", "--name", "inspect")
    rules = ("--profile", "code-repair-measured")
    done("import", "base.jsonl", "--name", "measured-base", *rules)
    done("import", "same.jsonl", "--name", "measured", *rules)
    done("import", "same.jsonl", "--name", "judged", "--policy", "workflow-judged")
    done("import", "fresh-red.jsonl", "--name", "fresh-red")
    done("import", "fresh-base.jsonl", "--name", "fresh-base")
    done("import", "base.jsonl", "--name", "last-but-one")
    done("import", "same.jsonl", "--name", "last")
    for name, source, *words in (
        ("production", "base.jsonl"),
        ("ancient", "ancient.jsonl"),
        ("month", "month.jsonl"),
        ("measured", "base.jsonl", *rules),
        ("judged", "base.jsonl", "--grading-policy", "workflow-judged"),
        ("csv", "csv-base.csv"),
    ):
        done("baseline", "set", f"in-{name}", source, *words)
        done("baseline", "set", f"kept-{name}", source, *words, "--store", "--dir", "elsewhere")
    put_exam(folder, "exam.json", exam_result([11] * 5))
    done("baseline", "set", "in-exam", "exam.json")


YAML = {
    "": "",
    "tolerant": "release: {tolerance: 60}\n",
    "strict": "release: {min_pass_rate: 0.99}\n",
    "overlapping": "release: {min_overlap: 0.5}\n",
    "pull-requests": "release: {policy: regression@1}\n",
    "own-release": "release: {policy: ours-release.yaml}\n",
    "deterministic": "release: {policy: deterministic.yaml}\n",
    "judged": "policy: workflow-judged\n",
    "measured": "profile: code-repair-measured\n",
    "own-profile": "profile: ours.yaml\n",
    "rubric": "profile: code-repair\nrubric: code-repair@1\n",
    "quarantined": "commands: {gate: {quarantine: [s-00]}}\n",
    "sliced": "commands: {gate: {slice: [tag]}}\n",
    "with-baseline": "baseline: base\n",
}
"""What is in assay.yaml."""


class Situation(NamedTuple):
    """A question in a project, and the answer that every door gives."""

    expected: str
    """The outcome, or the code of the refusal."""
    candidate: str
    baseline: str
    options: dict[str, Any] = {}
    yaml: str = ""

    @property
    def question(self) -> Question:
        """What is asked."""
        return Question(self.candidate, self.baseline, self.options)


KEPT, STORED = OF_LEDGER, OF_FOLDER
SITUATIONS: dict[str, Situation] = {
    # the same runs in every form
    "two files": Situation("promote", "same.jsonl", "base.jsonl"),
    "two evaluations": Situation("promote", "same", "base"),
    "a file against an evaluation": Situation("promote", "same.jsonl", "base"),
    "an evaluation against a file": Situation("promote", "same", "base.jsonl"),
    "a file against a stored baseline": Situation(
        "promote", "same.jsonl", f"{STORED}in-production"
    ),
    "a stored baseline": Situation("promote", "same", f"{STORED}in-production"),
    "a baseline of the ledger": Situation("promote", "same", f"{KEPT}kept-production"),
    "a file against one of the ledger": Situation(
        "promote", "same.jsonl", f"{KEPT}kept-production"
    ),
    "scorecards": Situation("promote", "cards.jsonl", "cards.jsonl"),
    "low scorecards": Situation("reject", "cards-low.jsonl", "cards.jsonl"),
    "scorecards against runs": Situation("REL-002", "cards.jsonl", "base.jsonl"),
    "two documents of grades": Situation("promote", "same.grades.json", "base.grades.json"),
    "grades against runs": Situation("not_enough_evidence", "same.grades.json", "base.jsonl"),
    "runs against grades": Situation("promote", "same.jsonl", "base.grades.json"),
    "failing grades": Situation("hold", "one.grades.json", "base.grades.json"),
    # what the runs show
    "one newly fails": Situation("hold", "one", "base"),
    "one newly fails, in files": Situation("hold", "one.jsonl", "base.jsonl"),
    "one newly fails against the ledger": Situation("hold", "one", f"{KEPT}kept-production"),
    "many newly fail": Situation("reject", "many", "base"),
    "one severe failure": Situation("hold", "severe", "base"),
    "many severe failures": Situation("reject", "all-severe", "base"),
    "lower scores": Situation("reject", "worse", "base"),
    "few samples": Situation("not_enough_evidence", "few", "base"),
    "missing samples": Situation("hold", "missing", "base"),
    "repeats of the baseline": Situation("hold", "one", "repeated"),
    "a laxer contract": Situation("promote", "laxer", "base"),
    "two versions in one candidate": Situation("promote", "mixed.jsonl", "base.jsonl"),
    "another dataset": Situation("not_enough_evidence", "elsewhere", "base"),
    "a newer version of the dataset": Situation("hold", "newer-data", "base"),
    # itself, and names
    "itself by name": Situation("REL-002", "base", "base"),
    "latest": Situation("promote", "latest", "base"),
    "latest against the one before": Situation("promote", "latest", "latest~1"),
    # age
    "an old evaluation": Situation("REL-005", "same", "ancient"),
    "an old stored baseline": Situation("REL-005", "same", f"{STORED}in-ancient"),
    "an old baseline of the ledger": Situation("REL-005", "same", f"{KEPT}kept-ancient"),
    "an old file": Situation("promote", "same.jsonl", "ancient.jsonl"),
    "not too old": Situation("promote", "same", "month"),
    "too old for the project": Situation("REL-005", "same", "month", yaml="own-release"),
    "a stored baseline too old for the project": Situation(
        "REL-005", "same", f"{STORED}in-month", yaml="own-release"
    ),
    "one of the ledger too old for the project": Situation(
        "REL-005", "same", f"{KEPT}kept-month", yaml="own-release"
    ),
    # what grades both sides
    "evaluations graded by one profile": Situation("promote", "measured", "measured-base"),
    "evaluations graded by two profiles": Situation("promote", "same", "measured-base"),
    "a candidate with its own profile": Situation("promote", "measured", "base"),
    "a candidate with its own policy": Situation("promote", "judged", "base"),
    "its own policy against a file": Situation("REL-002", "judged", "base.jsonl"),
    "its own profile against a file": Situation("REL-002", "measured", "base.jsonl"),
    "a file against a measured evaluation": Situation("promote", "same.jsonl", "measured-base"),
    "a baseline of other rules": Situation("REL-002", "same", f"{STORED}in-measured"),
    "a ledger's baseline of other rules": Situation("REL-002", "same", f"{KEPT}kept-measured"),
    "a baseline of another policy": Situation("REL-002", "same", f"{STORED}in-judged"),
    "a ledger's baseline of another policy": Situation("REL-002", "same", f"{KEPT}kept-judged"),
    "a named profile": Situation("promote", "same", "base", {"profile": "code-repair-measured"}),
    "a named profile for two": Situation(
        "promote", "same", "measured-base", {"profile": "code-repair"}
    ),
    "a named profile for a stored baseline": Situation(
        "promote", "same.jsonl", f"{STORED}in-measured", {"profile": "code-repair"}
    ),
    "a named profile for the ledger's": Situation(
        "promote", "same", f"{KEPT}kept-measured", {"profile": "code-repair"}
    ),
    "a named grading policy": Situation(
        "hold", "one.jsonl", "base.jsonl", {"policy": "workflow-judged"}
    ),
    "a named rubric": Situation(
        "promote", "same", "base", {"profile": "code-repair", "rubric": "code-repair@1"}
    ),
    "an unknown profile": Situation("LIB-001", "same", "base", {"profile": "nobody"}),
    "a profile in assay.yaml": Situation("promote", "same", "base", yaml="measured"),
    "that profile, in files": Situation("promote", "same.jsonl", "base.jsonl", yaml="measured"),
    "that profile and a baseline of others": Situation(
        "REL-002", "same", f"{KEPT}kept-production", yaml="measured"
    ),
    "that profile and its baseline": Situation(
        "promote", "same", f"{KEPT}kept-measured", yaml="measured"
    ),
    "that profile and its stored baseline": Situation(
        "promote", "same", f"{STORED}in-measured", yaml="measured"
    ),
    "its own profile under assay.yaml": Situation(
        "promote", "same.jsonl", "base.jsonl", yaml="own-profile"
    ),
    "a policy in assay.yaml": Situation("promote", "same", "base", yaml="judged"),
    "a rubric in assay.yaml": Situation("promote", "same", "base", yaml="rubric"),
    # the release policy, and what it is asked
    "a wide tolerance": Situation("hold", "one", "base", {"tolerance": 60}),
    "a negative tolerance": Situation("CLI-001", "one", "base", {"tolerance": -1}),
    "a tolerance in assay.yaml": Situation("hold", "one", "base", yaml="tolerant"),
    "a minimum pass rate in assay.yaml": Situation("reject", "one", "base", yaml="strict"),
    "a named release policy": Situation(
        "promote", "one", "base", {"release_policy": "regression@1"}
    ),
    "a release policy in assay.yaml": Situation("promote", "one", "base", yaml="pull-requests"),
    "a deterministic policy": Situation("reject", "one", "base", yaml="deterministic"),
    "a deterministic policy in files": Situation(
        "reject", "one.jsonl", "base.jsonl", yaml="deterministic"
    ),
    "a release policy of its own": Situation(
        "hold", "one.jsonl", "base.jsonl", {"release_policy": "ours-release.yaml"}
    ),
    "an unknown release policy": Situation("LIB-001", "one", "base", {"release_policy": "nobody"}),
    "a quarantine": Situation("promote", "one", "base", {"quarantine": ("s-00",)}),
    "a quarantine in assay.yaml": Situation("promote", "one", "base", yaml="quarantined"),
    "a quarantine of nobody": Situation("CLI-001", "one", "base", {"quarantine": ("nobody",)}),
    "slices": Situation("hold", "one", "base", {"slices": ("tag", "group")}),
    "slices in assay.yaml": Situation("reject", "many", "base", yaml="sliced"),
    "an overlap in assay.yaml": Situation("promote", "newer-data", "base", yaml="overlapping"),
    "a plan": Situation("promote", "same", "base", {"plan": "plan.json"}),
    "a plan and missing samples": Situation("hold", "missing", "base", {"plan": "plan.json"}),
    # fresh runs
    "confirmed": Situation(
        "reject",
        "one",
        "base",
        {"fresh": "fresh-red.jsonl", "fresh_baseline": "fresh-base.jsonl"},
    ),
    "confirmed by evaluations": Situation(
        "reject", "one", "base", {"fresh": "fresh-red", "fresh_baseline": "fresh-base"}
    ),
    "cleared": Situation("promote", "one", "base", {"fresh": "fresh-green.jsonl"}, "own-release"),
    "the baseline fails too": Situation(
        "promote",
        "one",
        "base",
        {"fresh": "fresh-red.jsonl", "fresh_baseline": "fresh-base-red.jsonl"},
        "own-release",
    ),
    "fresh runs of another version": Situation(
        "REL-002", "one", "base", {"fresh": "fresh-other.jsonl"}
    ),
    "fresh runs of strangers": Situation(
        "REL-002", "one", "base", {"fresh": "fresh-strangers.jsonl"}
    ),
    "stale runs": Situation("REL-002", "one", "base", {"fresh": "one.jsonl"}),
    # results of other tools
    "two tables": Situation("promote", "csv-same.csv", "csv-base.csv"),
    "two imported tables": Situation("promote", "csv-same", "csv-base"),
    "a worse table": Situation("reject", "csv-worse", "csv-base"),
    "a worse table against a stored baseline": Situation("reject", "csv-worse", f"{STORED}in-csv"),
    "a worse table against the ledger's": Situation("reject", "csv-worse", f"{KEPT}kept-csv"),
    "a table of another scale": Situation("REL-002", "csv-scale.csv", "csv-base"),
    "two tools": Situation("REL-002", "promptfoo", "inspect"),
    "runs against a table": Situation("REL-002", "same", "csv-base"),
    "a table against runs": Situation("REL-002", "csv-same", "base"),
    # refused
    "an exam as a baseline": Situation("REL-002", "same", f"{STORED}in-exam"),
    "a baseline in assay.yaml": Situation("promote", "same", "base", yaml="with-baseline"),
}


class Project(NamedTuple):
    """A folder, and a server on its ledger."""

    folder: Path
    api: Api


class Projects:
    """The project, once for each assay.yaml; and what the command says there."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._made: dict[str, Project] = {}
        self._said: dict[str, Answer] = {}

    def project(self, yaml: str) -> Project:
        if yaml not in self._made:
            folder = self._folder / (yaml or "bare")
            shutil.copytree(once("one-decision", make), folder)
            if yaml:
                (folder / "assay.yaml").write_text(YAML[yaml])
            self._made[yaml] = Project(folder, self._stack.enter_context(served(folder)))
        return self._made[yaml]

    def command(self, name: str) -> Answer:
        if name not in self._said:
            situation = SITUATIONS[name]
            self._said[name] = by_command(*self.project(situation.yaml), situation.question)
        return self._said[name]


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Projects]:
    with ExitStack() as stack:
        yield Projects(tmp_path_factory.mktemp("doors"), stack)


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_command_decides(projects: Projects, name: str) -> None:
    found = projects.command(name)
    assert found.short == SITUATIONS[name].expected, found


ASKED = [
    pytest.param(name, door, id=f"{name}, by {door}")
    for name, situation in SITUATIONS.items()
    for door, (can_ask, _) in DOORS.items()
    if can_ask(situation.question)
]


@pytest.mark.parametrize(("name", "door"), ASKED)
def test_every_door_answers_as_the_command(projects: Projects, name: str, door: str) -> None:
    situation = SITUATIONS[name]
    found = DOORS[door].ask(*projects.project(situation.yaml), situation.question)
    wanted = projects.command(name)
    assert found._replace(exit=found.exit or wanted.exit) == wanted
