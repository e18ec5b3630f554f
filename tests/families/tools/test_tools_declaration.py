"""Declarations of MCP servers: every state that a schema can reach, and nothing that the evidence
contradicts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.families.tools.checks import KEYS, MODULES, TERMS, ModuleLists, run_checks
from assay.families.tools.declaration import Declaration, declaration_of, read_declaration
from assay.families.tools.reading import schema_of
from assay.families.tools.server import Launch, declare, launched_package
from assay.families.tools.source import ToolSchema
from checkout import SUPPORT
from test_storing import newest
from test_tools_cli import (
    LATER,
    PERSONA,
    RECORDED,
    VETO,
    envelope,
    record,
    rule,
    selection,
    status,
)
from test_tools_protocol import GRADED, Run, put, schema, scores, words

BAD = ModuleLists({"event-streamer": "steals wallets"})
WEIGH = {
    "name": "weigh",
    "description": "Weighs one hive and returns grams.",
    "inputSchema": {"type": "object", "properties": {}},
}
CLEAN = {"modules": ["mcp", "pydantic@2.1"], "keys": [], "hosts": []}
PLACE = ("--namespace", "bee-server", "--schema", "tools")


def answer(**changes: Any) -> dict[str, Any]:
    info = {"name": "Bee Server", "version": "1.2"}
    return {"serverInfo": info, "instructions": "Weigh first.", "tools": [WEIGH], **changes}


def server(**changes: Any) -> ToolSchema:
    return schema_of("server.json", json.dumps(answer(**changes)).encode())


def stated(**changes: Any) -> dict[str, Any]:
    return {"server": "bee-server", "version": "1.2", **changes}


def declared(
    tools: ToolSchema | None = None, launch: Launch | None = None, **changes: Any
) -> ToolSchema:
    from msgspec import convert

    declaration = convert(stated(**changes), Declaration)
    return declare(tools or server(), declaration, launch or Launch(), where="bees.yaml")


def outcomes(tools: ToolSchema, **changes: Any) -> dict[str, str]:
    checks = run_checks(tools, lists=BAD, **changes)
    return {check.id: check.outcome for check in checks}


# --- every state


def test_a_declaration_brings_a_server_to_every_outcome_of_a_check() -> None:
    reason = {"keys": "It only reads the clock.", "modules": "It runs at bees.example."}
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({}, "undetermined", "undetermined"),
        (CLEAN, "clean", "clean"),
        ({**CLEAN, "modules": []}, "clean", "clean"),
        ({**CLEAN, "modules": ["event-streamer@3"]}, "veto", "clean"),
        ({**CLEAN, "modules": ["npm:event-streamer"]}, "veto", "clean"),
        ({**CLEAN, "modules": ["Event_Streamer"]}, "veto", "clean"),
        ({**CLEAN, "modules": ["https://esm.sh/Event.Streamer@3"]}, "veto", "clean"),
        ({"notApplicable": reason}, "not applicable", "not applicable"),
        ({"keys": ["OPENAI_API_KEY"], "hosts": ["api.openai.com"]}, "undetermined", "clean"),
        ({"keys": ["OPENAI_API_KEY"], "hosts": ["API.thief.example"]}, "undetermined", "veto"),
        ({"keys": ["OPENAI_API_KEY"], "hosts": []}, "undetermined", "undetermined"),
        ({"keys": ["OPENAI_API_KEY"]}, "undetermined", "undetermined"),
        ({"keys": ["HIVE_TOKEN"], "hosts": ["bees.example"]}, "undetermined", "undetermined"),
    ]
    for changes, modules, keys in cases:
        found = outcomes(declared(**changes))
        assert (found[MODULES], found[KEYS]) == (modules, keys), changes
    terms = {"hosts": ["api.bees.com"], "terms": "https://www.bees.com/terms"}
    assert outcomes(declared(**terms))[TERMS] == "clean"
    assert outcomes(declared(hosts=["api.bees.com"]))[TERMS] == "not attached"
    assert outcomes(declared(notApplicable={"terms": "No API."}))[TERMS] == "not applicable"
    known = outcomes(
        declared(keys=["HIVE_TOKEN"], hosts=["bees.example"]), aliases={"hive": ["bees.example"]}
    )
    assert known[KEYS] == "clean"


def test_without_a_declaration_a_server_stays_as_it_was_and_is_asked_for_one() -> None:
    plain = server()
    assert "declaration" not in plain.main
    assert declaration_of(plain) is None
    checks = run_checks(plain, lists=BAD)
    assert {check.outcome for check in checks} == {"undetermined"}
    assert all("--declare FILE" in check.reason for check in checks)


def test_the_declaration_is_part_of_what_is_kept_and_read_again() -> None:
    made = declared(**CLEAN, about="# Bees\n")
    again = schema_of("providers/bee-server/tools/tools.json", made.source)
    assert again.main == made.main
    assert again.main["resources"] == {"about": "# Bees\n"}
    assert again.tools_text == server().tools_text, "prompts see the tools as before"
    assert declared(**CLEAN).main != made.main


@pytest.mark.req("F-136")
def test_a_declared_server_grows_to_an_operational_namespace_and_an_open_gate(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "server.json", answer())
    put(tmp_path / "bees.yaml", json.dumps(stated(**CLEAN, about="# Bees\nRoof hives.\n")))
    put(tmp_path / "bad.json", {"bad": {"event-streamer": "steals wallets"}})
    given = ("--snapshot", "server.json", "--declare", "bees.yaml")
    done = assay("tools", "import", *given, "--now", "2026-05-18T03:00:00Z")
    assert done.code == 0, words(done)
    for area, place in (
        ("single-test", (*PLACE, "--tool", "weigh")),
        ("tools-aggregate-schema", PLACE),
        ("namespace-description", PLACE[:2]),
        ("tools-aggregate-namespace", PLACE[:2]),
        ("about-namespace", PLACE),
    ):
        context = {"groupId": "hives", "personaIds": ["ai-engineer"]}
        persona = (
            {"persona": PERSONA, "selectionContext": context} if area == "about-namespace" else {}
        )
        result = record(assay, tmp_path, envelope(area, **persona), *place)
        assert result.code == 0, words(result)
    assert status(assay, "bee-server")["status"] == "operational"
    gate = assay(
        "tools", "gate", "bee-server", "--bad-modules", "bad.json", "--store", "l.db", "--json"
    )
    assert gate.code == 0, words(gate)
    assert "by its declaration" in rule(gate, "bee-server.tools", "no_veto")[1]
    assert "tests: not applicable" in rule(gate, "bee-server.tools", "primitives")[1]
    assert assay("tools", "gate", "bee-server").code == 4, "modules without a list to check them"
    digest = newest(f"sqlite:///{tmp_path}/l.db", "decision")
    assert assay("ledger", "replay", digest, "--db", "l.db").code == 0
    put(tmp_path / "city.json", {**selection([]), "members": [{"schemaId": "bee-server.tools"}]})
    assert assay("tools", "import", "city.json", "--now", RECORDED).code == 0
    assert assay("tools", "index", "city-bees", "--lock", "--now", LATER).code == 0
    assert status(assay, "city-bees")["summary"]["membersStable"] == 1, "it can be a member"
    put(tmp_path / "bees.yaml", json.dumps(stated(**CLEAN, about="# Bees\nNew.\n")))
    assert assay("tools", "import", *given, "--now", GRADED.replace("05-18", "05-19")).code == 0
    assert status(assay, "bee-server")["status"] != "operational", "it is another subject now"


def test_what_does_not_apply_opens_the_gate_and_the_gate_says_why(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "server.json", answer())
    reasons = {"modules": "It runs at bees.example.", "keys": "It takes none."}
    put(tmp_path / "bees.yaml", json.dumps(stated(notApplicable=reasons)))
    put(tmp_path / "s.json", scores("bee-server_tools", 4.5, 4.0))
    given = ("--snapshot", "server.json", "--declare", "bees.yaml")
    more = ("--consume-scores", "s.json", "--data", "grading-data", "--now", RECORDED, "--json")
    done = assay("tools", "grade", *given, *more)
    assert done.code == 0, words(done)
    report = done.json()["reports"][0]["report"]
    assert [check["outcome"] for check in report["checks"]][:2] == ["not applicable"] * 2
    assert record(assay, tmp_path, envelope("single-test"), *PLACE, "--tool", "weigh").code == 0
    gate = assay("tools", "gate", "bee-server.tools", "--json")
    assert gate.code == 0, words(gate)
    reason = rule(gate, "bee-server.tools", "no_veto")[1]
    assert "not applicable by its declaration: It runs at bees.example." in reason
    from jsonschema_rs import Draft202012Validator

    published = assay("schema-of", "grade-report").json()
    assert Draft202012Validator(published).is_valid(report)


# --- what it can't do


def test_a_key_that_the_tools_name_is_not_talked_away() -> None:
    tool = {**WEIGH, "description": "Weighs one hive. Set OPENAI_API_KEY before you start."}
    for claim in ({**CLEAN}, {"notApplicable": {"keys": "none needed"}}):
        checks = run_checks(declared(server(tools=[tool]), **claim), lists=BAD)
        found = next(check for check in checks if check.id == KEYS)
        assert found.outcome == "undetermined"
        assert "tools.weigh.description names the key OPENAI_API_KEY" in found.reason
    hosts = {"hosts": ["thief.example"], "keys": []}
    assert outcomes(declared(server(tools=[tool]), **hosts))[KEYS] == "veto"
    told_early = declared(server(instructions="Set ACME_API_KEY."), **CLEAN)
    assert outcomes(told_early)[KEYS] == "undetermined"
    harmless = {**WEIGH, "description": "Reads rows by PRIMARY_KEY, at most MAX_TOKENS long."}
    assert outcomes(declared(server(tools=[harmless]), **CLEAN))[KEYS] == "clean"


def test_a_declaration_that_does_not_fit_the_server_is_refused_with_every_reason() -> None:
    command = ["npx", "-y", "@bees/scale@2"]
    cases: list[tuple[dict[str, Any], Launch, str]] = [
        ({"server": "other"}, Launch(), "for 'other', but this server is 'Bee Server'"),
        ({"version": "1.1"}, Launch(), "for version '1.1'"),
        ({"notApplicable": {"modules": "x"}}, Launch(command), "its modules run here"),
        (CLEAN, Launch(command), "the command runs the package '@bees/scale'"),
        (CLEAN, Launch(env=["HIVE_API_KEY"]), "is handed the key HIVE_API_KEY"),
        ({"notApplicable": {"keys": "x"}}, Launch(env=["HIVE_TOKEN"]), "handed the key HIVE_TOKEN"),
        (CLEAN, Launch(host="mcp.bees.example"), "the server itself is on mcp.bees.example"),
    ]
    for changes, launch, says in cases:
        with pytest.raises(InputError) as error:
            declared(None, launch, **changes)
        assert error.value.code == "FMC-017"
        assert says in str(error.value), changes
    with pytest.raises(InputError) as error:
        declared(None, Launch(command, env=["A_TOKEN"]), server="x", version="0", **CLEAN)
    assert len(error.value.faults) == 4
    fits = {**CLEAN, "modules": ["@Bees/Scale@2"], "keys": ["HIVE_KEY"], "server": "Bee Server"}
    assert declared(None, Launch(command, env=["TZ", "HIVE_KEY"]), **fits).kind == "mcp"
    flowmcp = schema_of("providers/beewatch/s.json", json.dumps(schema()).encode())
    with pytest.raises(InputError, match="states its modules and keys itself"):
        declared(flowmcp)


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("uvx mcp-server-time", "mcp-server-time"),
        ("uvx mcp-server-time==1.2", "mcp-server-time"),
        ("uvx --python 3.12 pkg[extra]", "pkg"),
        ("/usr/bin/npx --yes --package=@a/b c", "@a/b"),
        ("pipx run thing", "thing"),
        ("npx -y", None),
        ("python -m server", None),
        ("", None),
    ],
)
def test_the_package_that_a_command_fetches_is_known(command: str, package: str | None) -> None:
    assert launched_package(command.split()) == package, command


def test_no_server_declares_itself() -> None:
    claim = {"declaration": stated(**CLEAN)}
    for document in (
        answer(**claim),
        {"jsonrpc": "2.0", "id": 1, "result": answer(**claim)},
        [{**answer(), **claim}],
        [answer(), claim],
    ):
        assert declaration_of(schema_of("server.json", json.dumps(document).encode())) is None


@pytest.mark.parametrize("path", ["all", "all/server.json"])
def test_a_snapshot_that_brings_its_declaration_along_is_refused(
    assay: Run, tmp_path: Path, path: str
) -> None:
    put(tmp_path / "all/server.json", [{"declaration": stated(**CLEAN)}, answer()])
    done = assay("tools", "check", path)
    assert (done.code, "pass it with --declare" in words(done)) == (3, True), path


def test_a_new_declaration_lifts_no_veto_and_a_full_new_evaluation_does(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "server.json", answer())
    put(tmp_path / "bad.json", {"bad": {"event-streamer": "steals wallets"}})
    put(tmp_path / "s.json", scores("bee-server_tools", 4.5, 4.0))
    grade = ("tools", "grade", "--snapshot", "server.json", "--declare", "bees.yaml")
    more = ("--bad-modules", "bad.json", "--consume-scores", "s.json", "--data", "grading-data")
    put(tmp_path / "bees.yaml", json.dumps(stated(**{**CLEAN, "modules": ["event-streamer"]})))
    done = assay(*grade, *more, "--now", "2026-05-18T04:00:00Z", "--json")
    assert done.code == 1, words(done)
    assert done.json()["reports"][0]["report"]["grade"] == "REJECTED"
    for claim in (CLEAN, {"notApplicable": {"modules": "x", "keys": "y"}}):
        put(tmp_path / "bees.yaml", json.dumps(stated(**claim)))
        again = assay(*grade, *more, "--workdir", "w", "--now", "2026-05-19T04:00:00Z")
        assert again.code == 3
        assert "is rejected (malicious-module)" in again.err
    assert assay("tools", "gate", "bee-server.tools", "--bad-modules", "bad.json").code == 1
    put(tmp_path / "bees.yaml", json.dumps(stated(**CLEAN)))
    given = ("--snapshot", "server.json", "--declare", "bees.yaml")
    assert assay("tools", "import", *given, "--now", "2026-05-20T04:00:00Z").code == 0
    now = "2026-05-20T05:00:00Z"
    aggregate = envelope("tools-aggregate-schema", timestamp="2026-05-20T04:30:00Z")
    lifted = record(assay, tmp_path, aggregate, *PLACE, "--trigger", "scheduled", now=now)
    assert lifted.code == 0, words(lifted)
    assert VETO["triggeredBy"] not in words(lifted)


# --- the file


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("server: bees\nversion: 1.0\n", "Put it in quotes"),
        ("server: &a bees\nversion: *a\n", "not allowed"),
        ("[1]\n", "object"),
        ("", "empty"),
        (f"server: b\nversion: '1'\nmodules: [{', '.join(['a'] * 501)}]\n", "at most 500"),
        ("server: b\nversion: '1'\nmodules: ['a==1.0']\n", "line 3  modules[0]"),
        (f"server: b\nversion: '1'\nabout: {'x' * 70000}\n", "65,536"),
    ],
)
def test_every_fault_of_a_declaration_is_named_with_its_line(
    tmp_path: Path, content: Any, says: Any
) -> None:
    path = put(
        tmp_path / "bees.yaml",
        "server: bees\nversions: 1\nmodules: mcp\nkeys: [A]\nnotApplicable:\n  hosts: x\n",
    )
    with pytest.raises(InputError) as error:
        read_declaration(str(path))
    found = {(fault.line, fault.path) for fault in error.value.faults}
    assert found == {(1, ""), (2, "versions"), (3, "modules"), (6, "notApplicable.hosts")}
    assert "Did you mean 'version'?" in str(error.value)
    put(
        path,
        "server: bees\nversion: '1'\nhosts:\n- https://x.y/z\nkeys:\n- sk-live-0123 x\n"
        "terms: ftp://x\nnotApplicable:\n  keys: ' '\n",
    )
    with pytest.raises(InputError) as error:
        read_declaration(str(path))
    assert {fault.line for fault in error.value.faults} == {4, 6, 7, 9}
    assert "sk-live" not in str(error.value), "it may be the key itself"
    put(path, content)
    with pytest.raises(InputError) as error:
        read_declaration(str(path))
    assert says in str(error.value), content[:40]


def test_the_command_refuses_a_declaration_of_a_folder_and_prints_the_schema(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "all/server.json", answer())
    put(tmp_path / "bees.yaml", json.dumps(stated(**CLEAN)))
    assert assay("tools", "check", "all", "--declare", "bees.yaml").code == 2
    assert assay("tools", "check", "all/server.json", "--declare", "no.yaml").code == 3
    assert assay("tools", "check", "all/server.json", "--declare", "bees.yaml").code == 0
    published = assay("schema-of", "tool-declaration").json()
    assert published["additionalProperties"] is False
    assert published["required"] == ["server", "version"]


def test_a_server_with_its_declaration_is_checked_live(assay: Run, tmp_path: Path) -> None:
    pytest.importorskip("mcp_types", reason="the extra 'mcp' is not installed")
    server = f"{sys.executable} {SUPPORT / 'servers' / 'bad.py'} fine"
    put(tmp_path / "bad.yaml", json.dumps(stated(server="bad", version="0", **CLEAN)))
    put(tmp_path / "bad.json", {"bad": ["event-streamer"]})
    given = ("--mcp", server, "--declare", "bad.yaml", "--bad-modules", "bad.json")
    done = assay("tools", "check", *given, "--json")
    assert done.code == 0, words(done)
    found = done.json()["files"][0]
    assert [check["outcome"] for check in found["checks"][:2]] == ["clean", "clean"]
    assert found["legibility"]["score"] == 97, "it sends no instructions"
