"""Version strings mean behaviour: two results under different rules never carry the same one,
wherever a result is written.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec import structs

import assay as package
from assay.errors import ShelfError
from assay.families.exams.marking import Marking
from assay.families.exams.policy import ExamRules
from assay.families.tools.entry import EXTENDED_FORM, EntrySubject, is_extended, schema_valid
from assay.families.tools.policy import SchemaRules
from assay.families.tools.records import GradingEntry
from assay.families.tools.tree import Tree
from assay.files.json_files import Document
from assay.library import lints
from assay.library.lock import BUILTIN
from assay.library.shelf import Shelf
from assay.release.policy import make_release_rules
from assay.services.grading import Grader
from assay.views import events
from documents import run, scorecard
from sides import cards, drawn, write
from tool_records import build_entry

EXAMS = Path(package.__file__).parent / "cli" / "examples" / "exams"
NOW = datetime(2026, 11, 15, 10, tzinfo=UTC)
CARD = scorecard({"norm": 0.9}, hard_gates={"looks_right": True})
FIRST = ("scoringSystem/1.0.0", "gradingSystem/1.0.0")


def own(folder: Path, kind: str, shipped: str, name: str, **changes: Any) -> str:
    """A file of one's own, made from a shipped one: a path to give by hand."""
    tree = yaml.safe_load((Path(BUILTIN) / kind / f"{shipped}.yaml").read_text())
    key = "rubric_id" if "rubric_id" in tree else "profile" if kind == "profiles" else "policy"
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**tree, key: name, **changes}, sort_keys=False))
    return str(path)


def systems(document: dict[str, Any]) -> tuple[str, str]:
    return document["scoringSystem"], document["gradingSystem"]


def marked(system: str, digest: str) -> str:
    return f"{system}+{digest.removeprefix('sha256:')[:12]}"


# --- what a policy and a profile state


def _document(tree: dict[str, Any]) -> Document:
    return Document(tree, "x")


def graded(tree: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return Grader(Shelf(), **choice).grade(_document(tree)).payload()


@pytest.mark.parametrize(
    "changes",
    [
        {"pass_threshold": 75},
        {"bands": [{"grade": "A", "min": 91}, {"grade": "F", "min": 0}], "floor_cap": "F"},
        {"role_floors": {"correctness": 0.6}},
        {"shrinkage": {"prior": 0.5, "k": 30}},
        {"title": "nothing but another name"},
    ],
    ids=["threshold", "bands", "floors", "shrinkage", "name"],
)
def test_an_unpublished_policy_carries_its_digest_in_the_grading_system(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    found = graded(CARD, policy=own(tmp_path, "policies", "workflow@1", "ours", **changes))
    assert found["gradingSystem"] == marked("gradingSystem/1.0.0", found["digests"]["policy"])
    assert found["scoringSystem"] == "scoringSystem/1.0.0"


def test_two_results_under_two_policies_never_share_a_string(tmp_path: Path) -> None:
    names = [
        "workflow",
        "workflow-judged",
        *(
            own(tmp_path, "policies", "workflow@1", f"p{limit}", pass_threshold=limit)
            for limit in (50, 60, 70)
        ),
    ]
    assert len({graded(CARD, policy=name)["gradingSystem"] for name in names}) == len(names)


def test_a_policy_states_the_version_of_its_system(tmp_path: Path) -> None:
    stated = graded(
        CARD, policy=own(tmp_path, "policies", "workflow@1", "ours", grading_system="3.2.1")
    )["gradingSystem"]
    assert stated.startswith("gradingSystem/3.2.1+")
    with pytest.raises(ShelfError, match=r"grading_system"):
        graded(CARD, policy=own(tmp_path, "policies", "workflow@1", "wrong", grading_system="1.0"))


def test_a_file_that_states_no_version_means_the_first(tmp_path: Path) -> None:
    path = Path(own(tmp_path, "policies", "workflow@1", "ours"))
    path.write_text(
        "".join(
            line
            for line in path.read_text().splitlines(keepends=True)
            if "grading_system" not in line
        )
    )
    assert graded(CARD, policy=str(path))["gradingSystem"].startswith("gradingSystem/1.0.0+")


def test_a_copy_of_a_published_file_is_the_published_one(tmp_path: Path) -> None:
    copy = tmp_path / "workflow@1.yaml"
    copy.write_bytes((Path(BUILTIN) / "policies" / "workflow@1.yaml").read_bytes())
    assert systems(graded(CARD, policy=str(copy))) == FIRST


def test_an_unpublished_profile_or_rubric_carries_its_digest_in_the_scoring_system(
    tmp_path: Path,
) -> None:
    shipped = graded(run("dag-review"))
    assert systems(shipped) == FIRST
    other = graded(run("dag-review"), profile=own(tmp_path, "profiles", "dag-review@1", "ours"))
    assert other["scoringSystem"] == marked("scoringSystem/1.0.0", other["digests"]["profile"])
    strict = own(tmp_path, "rubrics", "dag-review@1", "strict")
    over = graded(run("dag-review"), rubric=strict)
    assert over["scoringSystem"].startswith("scoringSystem/1.0.0+")
    assert over["scoringSystem"] != other["scoringSystem"]
    assert shipped["gradingSystem"] == other["gradingSystem"] == over["gradingSystem"]


def test_a_scorecard_that_is_held_to_a_profile_carries_the_profiles_system(tmp_path: Path) -> None:
    ours = own(tmp_path, "profiles", "dag-review@1", "ours")
    card = msgspec.to_builtins(
        Grader(Shelf()).grade(_document(run("dag-review"))).grade.scorecard,
        builtin_types=(Decimal,),
    )
    assert (
        graded({**card, "profile": None}, profile=ours)["scoringSystem"]
        == graded(run("dag-review"), profile=ours)["scoringSystem"]
    )


def test_why_a_profile_was_selected_does_not_depend_on_the_order_of_the_documents() -> None:
    made = run("dag-review")
    made["workflow"] = {"id": "w", "version": "1", "profile": "dag-review@1"}
    card = {**CARD, "profile": {"id": "dag-review@1", "why": "chosen by hand"}}
    whys = []
    for trees in ((made, card), (card, made)):
        grader = Grader(Shelf())
        graded = [grader.grade(_document(tree)).grade.scorecard.profile for tree in trees]
        whys.append({profile.why for profile in graded if profile is not None})
    assert whys == [{"named by the run's workflow", "named by the scorecard"}] * 2


def test_a_system_version_of_thousands_of_digits_is_compared_like_any_other() -> None:
    system = f"scoringSystem/{'9' * 5000}.0.0"
    card = {**CARD, "scoringSystem": system}
    assert graded(card, profile="dag-review@1")["scoringSystem"] == system


def test_published_files_of_a_family_with_different_rules_state_different_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert lints.clashes(Shelf()) == []
    load = Shelf.load

    def planted(self: Shelf, kind: str, name: str) -> Any:
        found = load(self, kind, name)
        return (
            structs.replace(found, grading_system="1.0.0") if name == "workflow-judged@1" else found
        )

    monkeypatch.setattr(Shelf, "load", planted)
    (fault,) = lints.clashes(Shelf())
    assert (fault.code, fault.file) == ("LIB-003", "policies/workflow@1")


def test_code_that_is_newer_than_a_published_policy_makes_it_a_system_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assay.grading.policy.GRADING_SYSTEM", "gradingSystem/2.0.0")
    assert graded(CARD)["gradingSystem"].startswith("gradingSystem/2.0.0+")


# --- decisions


def test_each_release_policy_and_each_grading_policy_gives_a_decision_a_string_of_its_own(
    assay: Any, tmp_path: Path
) -> None:
    write(tmp_path / "new.jsonl", cards(drawn(40)))
    write(tmp_path / "old.jsonl", cards(drawn(40)))
    release = own(tmp_path, "policies", "release@1", "loose", min_pairs=5)
    grading = own(tmp_path, "policies", "workflow@1", "ours", pass_threshold=60)
    found = {}
    for name, choice in {
        "default": (),
        "strict": ("--release-policy", "release-strict"),
        "loose": ("--release-policy", release),
        "ours": ("--grading-policy", grading),
        "both": ("--release-policy", release, "--grading-policy", grading),
    }.items():
        found[name] = assay(
            "gate", "new.jsonl", "--baseline", "old.jsonl", "--json", *choice
        ).json()
    assert systems(found["default"]) == FIRST
    assert len({one["gradingSystem"] for one in found.values()}) == len(found)
    for name in ("strict", "loose"):
        assert found[name]["gradingSystem"] == marked(
            "gradingSystem/1.0.0", found[name]["digests"]["policy"]
        )
    assert found["both"]["gradingSystem"] == marked(
        found["ours"]["gradingSystem"], found["loose"]["digests"]["policy"]
    )


def test_no_release_policy_that_differs_from_the_default_keeps_its_string() -> None:
    policy = Shelf().policy_of("release", "release")
    rules = make_release_rules(policy)
    assert rules.grading_system("gradingSystem/1.0.0") == "gradingSystem/1.0.0"
    for changes in (
        {"min_pairs": 31},
        {"new_failures": 1},
        {"severe": structs.replace(policy.severe, gates=[])},
    ):
        assert "+" in make_release_rules(structs.replace(policy, **changes)).grading_system(
            "gradingSystem/1.0.0"
        )


# --- exams


def test_every_exam_result_carries_what_its_policy_and_rubric_state(
    assay: Any, tmp_path: Path
) -> None:
    policy = own(tmp_path, "policies", "exam@1", "easy", hard_gate=0.5)
    rubric = own(tmp_path, "rubrics", "tutor@1", "short", match="exact")
    files = (EXAMS / "regression.yaml", "--answers", EXAMS / "regression-answers.jsonl")
    plain = assay("exam", "grade", *files, "--json").json()
    assert systems(plain) == FIRST
    assert (
        assay(
            "exam",
            "grade",
            *files,
            "--json",
            "--policy",
            policy,
            "--rubric",
            rubric,
            "-o",
            "result.json",
            "-o",
            "result.xml",
        ).code
        == 0
    )
    found = json.loads((tmp_path / "result.json").read_text())
    expected = (
        marked("scoringSystem/1.0.0", found["digests"]["rubric"]),
        marked("gradingSystem/1.0.0", found["digests"]["policy"]),
    )
    assert systems(found) == expected
    junit = {
        one.get("name"): one.get("value")
        for one in ElementTree.parse(tmp_path / "result.xml").getroot().iter("property")
    }
    assert systems(junit) == expected
    choice = ("--policy", policy, "--rubric", rubric)
    assert systems(assay("exam", "break", *files, "--json", *choice).json()) == expected
    schedule = assay(
        "exam",
        "export-sm2",
        "result.json",
        "--date",
        "2026-05-18",
        "--json",
        "-o",
        "s.csv",
        *choice,
    ).json()
    assert systems(schedule) == expected
    assert (tmp_path / "s.csv").read_text().splitlines()[1].endswith(",".join(expected))
    again = assay(
        "exam",
        "recalibrate",
        "--history",
        "result.json",
        "--rubric",
        "tutor@1",
        "--library",
        tmp_path,
        "--json",
    )
    assert (
        again.code != 0
    )  # the rubric marks otherwise, so nothing is weighed again under a string that is not its own


def test_a_result_that_is_weighed_again_carries_the_new_rubrics_system(
    assay: Any, tmp_path: Path
) -> None:
    assay(
        "exam",
        "grade",
        EXAMS / "regression.yaml",
        "--answers",
        EXAMS / "regression-answers.jsonl",
        "-o",
        "result.json",
    )
    axes = yaml.safe_load((Path(BUILTIN) / "rubrics" / "tutor@1.yaml").read_text())["axes"]
    axes["correctness"]["weight"], axes["spanish_gloss"]["weight"] = 0.55, 0.30
    rubric = own(tmp_path, "rubrics", "tutor@1", "gloss", axes=axes)
    assert (
        assay(
            "exam", "recalibrate", "--history", "result.json", "--rubric", rubric, "--write", "new"
        ).code
        == 0
    )
    made = json.loads((tmp_path / "new" / "result.json").read_text())
    assert made["scoringSystem"] == marked("scoringSystem/1.0.0", made["digests"]["rubric"])


def test_exam_rules_and_markings_that_differ_never_share_a_string() -> None:
    policy, rubric = Shelf().policy_of("exam", "exam@1"), Shelf().rubric_of("exam", "tutor")
    assert (Marking(rubric).scoring_system, ExamRules(policy).grading_system) == FIRST
    assert "+" in ExamRules(structs.replace(policy, max_drop=0.1)).grading_system
    assert "+" in Marking(structs.replace(rubric, match="exact")).scoring_system


# --- tool schemas

POLICY = Shelf().policy_of("flowmcp", "flowmcp")
RULES = SchemaRules(POLICY)
LOOSE = SchemaRules(
    structs.replace(
        POLICY,
        policy="loose",
        bands=[structs.replace(band, min=band.min / 2) for band in POLICY.bands],
    )
)
ANSWER = {
    "questionId": "Q-api-availability",
    "score": "pass",
    "weight": 1,
    "determinism": "deterministic",
    "graderIdentity": {"kind": "script", "name": "probe", "version": "1"},
    "timestamp": "2026-11-15T10:00:00Z",
}
JUDGED = {
    **ANSWER,
    "questionId": "Q-descriptionClarity",
    "score": 4,
    "determinism": "non-deterministic",
    "graderIdentity": {"kind": "llm", "name": "judge", "version": "1"},
    "llmModel": "m-1",
    "selectionContext": {"groupId": "g", "personaIds": ["neutral"]},
}


def entry_under(rules: SchemaRules) -> dict[str, Any]:
    subject = EntrySubject("alpha.getPrice", "single-test", "0123abcd", "flowmcp/4.0.0")
    return build_entry(subject, [ANSWER, JUDGED], rules, now=NOW, harness="claude-code").entry


def test_an_entry_under_an_unpublished_policy_is_of_the_extended_form_and_says_so() -> None:
    plain, loose = entry_under(RULES), entry_under(LOOSE)
    assert (is_extended(plain), systems(plain)) == (False, FIRST)
    assert loose["form"] == EXTENDED_FORM
    assert loose["gradingSystem"] == marked("gradingSystem/1.0.0", LOOSE.digest)
    assert schema_valid(loose)
    assert not schema_valid({key: value for key, value in loose.items() if key != "form"})


def test_letters_of_one_policy_do_not_count_in_a_tree_of_another(tmp_path: Path) -> None:
    names = {"namespace": "alpha", "schema": "prices", "tool": "getPrice"}
    loose = Tree(str(tmp_path), LOOSE)
    with loose.locked("providers", "alpha"):
        entry = msgspec.convert(entry_under(LOOSE), GradingEntry)
        loose.write_entry(entry, names, now=NOW)
    assert loose.node("single-test", names).status not in ("pending", "blocked")
    found = Tree(str(tmp_path), RULES).node("single-test", names)
    assert (found.status, "grading-system-bump" in str(found.reason)) == ("pending", True)


def test_reports_and_findings_of_tool_schemas_carry_both_systems(
    assay: Any, tmp_path: Path
) -> None:
    policy = own(tmp_path, "policies", "flowmcp@1", "loose", production_from="D")
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "tide.mjs").write_text(
        "export const main = { namespace: 'alpha', name: 'tide', version: '4.0.0' };\n"
    )
    said = assay(
        "tools", "validate", "alpha", "--policy", policy, "--json", "-o", "f.sarif", "-o", "f.json"
    ).json()
    sarif = json.loads((tmp_path / "f.sarif").read_text())["runs"][0]["properties"]
    assert systems(said) == systems(sarif) == systems(json.loads((tmp_path / "f.json").read_text()))
    assert said["gradingSystem"].startswith("gradingSystem/1.0.0+")
    assert systems(assay("tools", "validate", "alpha", "--json").json()) == FIRST


# --- everywhere else


def test_every_output_of_grade_carries_the_policys_system(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "cards.jsonl", cards([80.0, 90.0]))
    policy = own(tmp_path, "policies", "workflow@1", "ours", pass_threshold=60)
    outputs = [
        part for name in ("g.json", "g.jsonl", "g.xml", "g.md", "g.html") for part in ("-o", name)
    ]
    found = assay("grade", "cards.jsonl", "--policy", policy, "--json", *outputs).json()
    system = marked("gradingSystem/1.0.0", found["results"][0]["digests"]["policy"])
    assert (
        {one["gradingSystem"] for one in found["results"]}
        == {found["counts"]["gradingSystem"]}
        == {system}
    )
    for name in ("g.json", "g.jsonl", "g.xml", "g.md", "g.html"):
        text = (tmp_path / name).read_text()
        assert system in text
        assert "gradingSystem/1.0.0" not in text.replace(system, "")
    for verb in ("rank", "summary"):
        assert (
            assay("report", verb, "cards.jsonl", "--policy", policy, "--json").json()[
                "gradingSystem"
            ]
            == system
        )
    stored = assay(
        "baseline", "set", "production", "cards.jsonl", "--grading-policy", policy, "--json"
    ).json()
    assert stored["gradingSystem"] == system


def test_the_events_of_an_evaluation_carry_its_systems(tmp_path: Path) -> None:
    policy = own(tmp_path, "policies", "workflow@1", "ours", pass_threshold=60)
    grader = Grader(Shelf(), policy=policy)
    made = grader.grade(_document(run("dag-review")))
    sent = [
        json.loads(frame.split(b"data: ")[1])
        for frame in events.replay(made.run, made.payload(), "sha256:" + 64 * "0")
    ]
    for one in sent:
        if one["event"].startswith("evaluation"):
            assert one["gradingSystem"] == grader.rules.grading_system


def test_measures_calibrations_and_cards_carry_both_systems(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "attempts.jsonl").write_text('{"task_id": "a", "n": 5, "c": 2}\n')
    assert systems(assay("measure", "pass-at-k", "attempts.jsonl", "--json").json()) == FIRST
    (tmp_path / "labels.jsonl").write_text(
        "".join(
            json.dumps({"id": str(n), "human": n % 2, "judge": n % 2}) + "\n" for n in range(60)
        )
    )
    assert (
        systems(
            assay(
                "judge", "calibrate", "--labels", "labels.jsonl", "--json", "-o", "calibration.json"
            ).json()
        )
        == FIRST
    )
    card = assay(
        "judge", "card", "--model", "m-1", "--calibration", "calibration.json", "--json"
    ).json()
    assert systems(card) == FIRST
    assert card["admission"]["gradingSystem"] == "gradingSystem/1.1.0"
