"""The published JSON Schemas of tool-schema files, the demo's tools, and the scope of the
requirements.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from assay.canon import digest
from assay.cli.demo import EXAMPLES
from assay.families.tools import demo
from assay.families.tools.ecma import document_bytes
from assay.families.tools.entry import all_schemas
from assay.library.families import FAMILIES
from assay.library.lock import RecordedSystem, lock_of
from assay.registry import home_value
from checkout import ROOT
from commands import in_folder

SCHEMAS = all_schemas()

JUDGE = (
    'import json,sys; text = sys.stdin.read(); print(json.dumps([{"score": 4.5 if "parameter" in'
    ' text else 4, "reasoning": "clear"}]))'
)

JUDGE_COMMAND = f"{sys.executable} -IS judge.py"


def _valid(name: str, document: Any) -> bool:
    return bool(
        jsonschema_rs.Draft202012Validator(
            SCHEMAS[name], offline=True, validate_formats=True
        ).is_valid(document)
    )


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The documents of the protocol for one bundled schema, made by the real commands."""
    tmp_path = tmp_path_factory.mktemp("graded")
    assay = in_folder(tmp_path)
    (tmp_path / "judge.py").write_text(JUDGE)
    source = Path(EXAMPLES) / "tools" / "harbours.mjs"
    work = tmp_path / "proofs" / "grade-work" / "tidewatch_harbours"
    assert assay("tools", "grade", source, "--emit-prompts").code == 0
    assert assay("tools", "score", work / "prompts.json", "--judge", JUDGE_COMMAND).code == 0
    done = assay("tools", "grade", source, "--consume-scores", work / "scores.json", "--json")
    assert done.code == 0, done.err
    (report,) = (tmp_path / "proofs" / "grade-reports").iterdir()
    return {
        name: json.loads(path.read_text())
        for name, path in (
            ("prompts", work / "prompts.json"),
            ("scores", work / "scores.json"),
            ("grade-report", report),
        )
    }


@pytest.mark.req("F-124", "F-126", "F-129")
def test_what_the_commands_write_is_what_the_published_schemas_describe(
    graded: dict[str, Any],
) -> None:
    for name, document in graded.items():
        assert _valid(name, document), name


@pytest.mark.parametrize("name", ["prompts", "scores", "grade-report"])
def test_a_document_that_lacks_any_required_key_is_refused_by_its_schema(
    graded: dict[str, Any], name: str
) -> None:
    for key in SCHEMAS[name]["required"]:
        assert not _valid(
            name, {other: value for other, value in graded[name].items() if other != key}
        ), key
    assert not _valid(name, {**graded[name], "scoringProtocol": "v2"})


def test_scores_beyond_the_scale_or_of_one_dimension_are_refused_by_the_schema(
    graded: dict[str, Any],
) -> None:
    first, second = graded["scores"]["scores"]
    for listed in (
        [first],
        [first, first],
        [first, second, second],
        [first, {**second, "score": 5.01}],
        [first, {**second, "score": "4"}],
        [],
    ):
        assert not _valid("scores", {**graded["scores"], "scores": listed})


@pytest.mark.parametrize("name", ["grade-report", "grading-entry-extended"])
def test_schema_of_prints_them(assay: Any, name: str) -> None:
    assert assay("schema-of", name).json() == SCHEMAS[name]


def test_the_demo_grades_tools_good_vetoed_and_unsound() -> None:
    reports = [json.loads(document_bytes(report)) for report in demo.graded_tools()]
    assert [(report["schemaId"], report["grade"], report["rawGrade"]) for report in reports] == [
        ("tidewatch/harbours", "B", "A"),
        ("tidewatch/alarms", "REJECTED", "B"),
        ("ferry-desk/tools", "F", "D"),
    ]
    assert all(_valid("grade-report", report) for report in reports)
    assert "OPENAI_API_KEY: 'openai' is OpenAI (openai.com); tidewatch.example is not" in str(
        reports[1]["checks"]
    )


@pytest.mark.req("F-006", "F-007", "F-013", "F-033")
def test_the_systems_of_tool_schemas_have_versions_and_fingerprints_of_their_own() -> None:
    now = {
        system.name: RecordedSystem(system.version, digest(home_value(system.behaviour)()))
        for system in FAMILIES["flowmcp"].systems
    }
    assert now == lock_of().systems["flowmcp"]
    assert {name: system.version for name, system in now.items()} == {
        "scoring": "scoringSystem/1.0.0",
        "grading": "gradingSystem/1.0.0",
    }


def test_every_requirement_of_tool_schemas_is_proven_or_named_as_not_ours(shared: Path) -> None:
    """Statements without the tags [REF], [MAY] and [PROP]: a marked test, or a line with the reason
    in the scope page.
    """
    text = (shared / "spec" / "requirements.md").read_text()
    asked = {
        number
        for number, rest in re.findall(r"^- (F-\d{3}) (.*)$", text, re.MULTILINE)
        if not re.match(r"\[(REF|MAY|PROP)", rest)
    }
    proven = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for marks in re.findall(r"mark\.req\(([^)]*)\)", path.read_text()):
            proven |= set(re.findall(r"F-\d{3}", marks))
    scope = (ROOT / "docs" / "not-ours.md").read_text()
    named = set(re.findall(r"^\| (F-\d{3}) ", scope, re.MULTILINE))
    assert asked - proven - named == set()
    assert named <= asked | {f"F-{number:03d}" for number in range(1, 162)}


def _schema(**main: Any) -> Any:
    from assay.families.tools.source import ToolSchema

    return ToolSchema(
        "flowmcp", "/s/a.mjs", "air", "a", {"root": "https://api.air.example", **main}, "{}", b""
    )


@pytest.mark.req("F-151")
@pytest.mark.parametrize(
    ("link", "outcome"),
    [
        ("https://www.air.example/terms", "clean"),
        ("https://air.example/terms", "clean"),
        ("https://terms.example/air", "not attached"),
        ("no-tos-found", "not attached"),
        (None, "not attached"),
        ("https://127.0.0.1/terms", "not attached"),
    ],
)
def test_terms_are_attached_only_from_the_registrable_domain_of_the_api(
    link: str | None, outcome: str
) -> None:
    from datetime import UTC, datetime

    from assay.families.tools.checks import ModuleLists, check_terms, run_checks, veto_of

    schema = _schema(termsOfService=link) if link else _schema()
    assert check_terms(schema).outcome == outcome
    assert (
        veto_of(run_checks(schema, lists=ModuleLists({})), now=datetime(2026, 1, 1, tzinfo=UTC))
        is None
    )  # they cost points, they reject nothing


@pytest.mark.req("F-155")
def test_a_technical_reviewer_alone_never_stands_for_a_persona() -> None:
    from assay.errors import InputError
    from assay.families.tools.answers import TECHNICAL_PERSONAS, check_answer
    from assay.families.tools.names import BASE_PERSONAS

    answer = {
        "score": 4,
        "determinism": "non-deterministic",
        "selectionContext": {"groupId": "g", "personaIds": list(TECHNICAL_PERSONAS)},
    }
    with pytest.raises(InputError) as refused:
        check_answer(answer)
    assert refused.value.code == "GRD-005"
    check_answer(
        {
            **answer,
            "selectionContext": {
                "groupId": "g",
                "personaIds": [*TECHNICAL_PERSONAS, BASE_PERSONAS[0]],
            },
        }
    )


@pytest.mark.req("F-160")
def test_an_exported_proof_of_a_newer_specification_is_read_as_an_index(
    assay: Any, tmp_path: Path
) -> None:
    proof = {
        "proofVersion": 1,
        "namespace": "air",
        "updatedAt": "x",
        "status": "operational",
        "description": {"status": "stable"},
        "skills": {},
    }
    (tmp_path / "grade.json").write_text(json.dumps(proof))
    assert assay("tools", "validate", "grade.json").code == 0
    (tmp_path / "grade.json").write_text(json.dumps({**proof, "status": "graded"}))
    done = assay("tools", "validate", "grade.json")
    assert done.code == 1
    assert "IDX-007" in done.out


@pytest.mark.req("F-161")
def test_bands_caps_and_triggers_are_those_of_the_first_grading_system() -> None:
    from assay.families.tools.veto import TRIGGERS
    from assay.library.shelf import Shelf

    policy = Shelf().policy_of("flowmcp", "flowmcp@1")
    assert [(band.grade, float(band.min)) for band in policy.bands] == [
        ("A", 4.5),
        ("B", 3.5),
        ("C", 2.5),
        ("D", 1.5),
        ("F", 1),
    ]
    assert policy.tier_caps == {"autonomous": "B", "group-bound": "A"}
    assert TRIGGERS == (
        "malicious-module",
        "api-key-domain-mismatch",
        "illegal-content",
        "ai-security-veto",
    )


@pytest.mark.req("F-157")
def test_what_is_out_of_scope_is_answered_with_its_own_reason_and_is_no_node() -> None:
    from assay.families.tools.answers import NA_REASONS, check_na
    from assay.families.tools.names import AREAS

    for reason in ("out-of-scope-resource", "out-of-scope-prompt", "out-of-scope-procedure"):
        assert reason in NA_REASONS
        check_na("n/a", reason)
    assert not [name for name in AREAS if "prompt" in name or "procedure" in name]


@pytest.mark.req("F-147")
def test_a_folder_of_schemas_is_read_without_opening_an_env_file(
    assay: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "air"
    folder.mkdir()
    (folder / "a.json").write_text(
        json.dumps({"namespace": "air", "description": "d", "tools": {}})
    )
    (folder / ".envoy.json").write_bytes((folder / "a.json").read_bytes())
    (folder / ".env").write_text("AIR_API_KEY=s3cr3t-value\n")
    (folder / ".env.json").write_text('{"tools": {}}')
    (folder / "linked.json").symlink_to(".env")
    for path in folder.iterdir():
        os.utime(path, (0, 2_000_000_000))  # so that reading it leaves a later time of access
    done = assay("tools", "validate", folder, "--json")
    assert [Path(item["path"]).name for item in done.json()["skipped"]] == [
        ".env.json",
        "linked.json",
    ]
    assert [item["schemaId"] for item in done.json()["files"]] == ["air/a"]
    assert "s3cr3t" not in done.out + done.err
    accessed = {path.name for path in folder.iterdir() if path.stat().st_atime}
    assert accessed <= {"a.json", ".envoy.json"}
    if not accessed:
        pytest.skip("this file system doesn't record access times")


@pytest.mark.req("F-128")
def test_a_judge_is_asked_anew_each_time_with_nothing_but_its_prompt(
    assay: Any, tmp_path: Path
) -> None:
    counter = tmp_path / "asked.log"
    (tmp_path / "judge.py").write_text(
        f"import json,os,sys\nopen({str(counter)!r}, 'a').write(json.dumps([sys.stdin.read(),"
        " sys.argv[1:], os.listdir('.')]) + '\\n')\nprint(json.dumps({'score': 3}))\n"
    )
    source = Path(EXAMPLES) / "tools" / "harbours.mjs"
    assert assay("tools", "grade", source, "--emit-prompts").code == 0
    prompts = tmp_path / "proofs" / "grade-work" / "tidewatch_harbours" / "prompts.json"
    for _ in range(2):
        assert assay("tools", "score", prompts, "--judge", JUDGE_COMMAND).code == 0
    document = json.loads(prompts.read_text())
    seen = [json.loads(line) for line in counter.read_text().splitlines()]
    assert seen == 2 * [
        [f"{document['scoringInstructions']}\n\n{prompt['prompt']}\n", [], []]
        for prompt in document["prompts"]
    ]
