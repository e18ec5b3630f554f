"""The legibility score: what costs what, what can't be outweighed, and how it is shown."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

from assay.families.tools import legibility_score as score
from assay.families.tools import views as view
from assay.families.tools.checks import VetoCheck
from assay.families.tools.legibility import ALL_RULES, assess
from assay.families.tools.reading import schema_of
from assay.families.tools.records import SchemaFinding, SchemaLegibility
from assay.families.tools.source import ToolSchema
from assay.families.tools.veto import CLEAN, UNDETERMINED, VETO
from test_legibility import SEARCH, mcp
from test_tools_protocol import Run, put
from test_tools_protocol import schema as flowmcp

LETTER = re.compile(r"\b(grade|Grade) [A-F]\b")


def named(name: str, **changes: Any) -> dict[str, Any]:
    return {**deepcopy(SEARCH), "name": name, **changes}


def finding(rule: str, path: str = "tools.search_books") -> SchemaFinding:
    known = ALL_RULES[rule]
    return SchemaFinding(rule, known.level, path, "is wrong.", known.fix)


def scored(
    schema: ToolSchema, findings: list[SchemaFinding] | None = None, *checks: VetoCheck
) -> SchemaLegibility:
    return score.score_schema(schema, assess(schema) if findings is None else findings, checks)


def document(main: dict[str, Any]) -> ToolSchema:
    return schema_of("providers/beewatch/scales.json", json.dumps(main).encode())


# --- what costs what


def test_tools_without_a_finding_score_100_and_every_finding_costs_its_price() -> None:
    server = mcp(SEARCH)
    assert scored(server)[2:4] == (100, 100)
    for rule, known in ALL_RULES.items():
        one = scored(server, [finding(rule)])
        assert one.tools[0].score == 100 - score.rule_cost(rule), rule
        assert one.score == min(one.tools[0].score, one.cap), rule
        whole = scored(server, [finding(rule, "description")])
        assert (whole.tools[0].score, whole.score) == (100, 100 - score.rule_cost(rule)), rule
        if known.level == "error":
            assert max(one.score, whole.score) <= score.ERROR_CAP, rule


def test_one_rule_takes_at_most_its_share_and_an_error_any_number() -> None:
    server = mcp(SEARCH)
    assert scored(server, [finding("parameter-undocumented")] * 50).tools[0].score == 60
    assert scored(server, [finding("description-absent")] * 2).tools[0].score == 0


def test_more_findings_never_mean_a_higher_score() -> None:
    server, random = mcp(SEARCH, named("borrow_book")), Random(7)
    paths = ("tools.search_books.description", "tools.borrow_book", "description", "")
    for _ in range(50):
        findings: list[SchemaFinding] = []
        before = 100
        for _ in range(12):
            findings.append(finding(random.choice(list(ALL_RULES)), random.choice(paths)))
            now = scored(server, findings)
            assert 0 <= now.score <= before
            assert all(type(tool.score) is int for tool in now.tools)
            before = now.score


def test_a_good_crowd_never_outweighs_an_error_or_a_veto() -> None:
    crowd = [named(f"look_{number}") for number in range(200)]
    server = mcp(*crowd, named("broken", description=""))
    found = scored(server)
    assert found.mean == 99
    assert (found.score, found.cap) == (score.ERROR_CAP, score.ERROR_CAP)
    assert found.lowest is not None
    assert found.lowest.name == "broken"
    checks = [VetoCheck("malicious-module", outcome, "", {}) for outcome in (CLEAN, UNDETERMINED)]
    assert scored(mcp(SEARCH), None, *checks).score == 100
    vetoed = scored(mcp(SEARCH), None, *checks, VetoCheck("malicious-module", VETO, "", {}))
    assert (vetoed.score, vetoed.cap_reason) == (0, "a veto (malicious-module) makes it 0")
    both = score.report_of([scored(mcp(SEARCH)), vetoed])
    assert both.score == 0, "a folder with a rejected schema in it does not shine"


def test_nothing_scores_100_because_it_is_empty() -> None:
    empty = scored(mcp())
    assert (empty.score, empty.tools, empty.lowest) == (0, (), None)
    assert "no tools" in empty.cap_reason
    resources = flowmcp()
    resources["tools"] = {}
    resources["resources"] = {"about": {"source": "markdown", "origin": "inline", "content": "x"}}
    assert scored(document(resources)).score == 0
    assert score.report_of([]).score == 0
    assert score.report_of([], minimum=1).below() == ["nothing was scored"]
    assert score.report_of([scored(mcp(SEARCH))], ["x.json"]).score == 50


def test_a_tool_that_cannot_be_assessed_scores_0_and_says_why() -> None:
    main = flowmcp()
    main["tools"]["broken"] = "not an object"
    found = scored(document(main))
    broken = next(tool for tool in found.tools if tool.name == "broken")
    assert (broken.score, broken.unassessed) == (0, "it is not an object")
    assert found.score <= score.ERROR_CAP
    assert "not assessed: it is not an object" in "\n".join(view.legibility_lines(found))


def test_a_dot_in_a_name_shifts_no_cost_to_another_tool() -> None:
    server = mcp(named("a", description=""), named("a.description"))
    scores = {tool.name: tool.score for tool in scored(server).tools}
    assert scores["a"] <= score.ERROR_CAP


def test_a_flowmcp_schema_and_a_server_are_scored_on_one_scale() -> None:
    found = scored(document(flowmcp()))
    assert 0 < found.score < 100
    assert {cost.rule for tool in found.tools for cost in tool.costs} <= set(ALL_RULES)
    assert found.tokens == sum(tool.tokens for tool in found.tools) > 0


# --- how it is shown

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> [x](javascript:alert(1)) \u202e|`@all`"


def test_hostile_names_and_descriptions_stay_text_in_every_form() -> None:
    server = mcp(named(HOSTILE, description=HOSTILE), named("ok"))
    report = score.report_of([scored(server)], [HOSTILE], minimum=90)
    page = view.page(report, score.scale())
    assert "<script" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    table = view.markdown(report)
    assert re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", table).count("<") == 0
    assert "\u202e" not in table
    badge = ElementTree.fromstring(view.badge(report))
    assert {part.tag.rpartition("}")[2] for part in badge.iter()} <= {
        "svg",
        "title",
        "rect",
        "g",
        "text",
    }


def test_every_form_shows_the_number_and_that_it_is_no_grade() -> None:
    report = score.report_of([scored(mcp(SEARCH, named("borrow_book", description="")))])
    page, table = view.page(report, score.scale()), view.markdown(report)
    for text in (page, table):
        assert "not a grade" in text
        assert "Describe what it returns, for what input" in text, "the fix"
        assert not LETTER.search(text)
        assert "borrow_book" in text
    assert "at most 40" in page, "the page explains how the score is calculated"
    assert b"40/100" in view.badge(report)
    assert view.legibility_lines(report.schemas[0])[0].startswith("legibility 40/100")


def test_a_server_of_many_tools_is_scored_and_its_page_stays_small() -> None:
    server = mcp(*({"name": f"look_{number}", "inputSchema": {}} for number in range(1200)))
    findings = [finding("description-vague", f"tools.look_{number}") for number in range(1200)]
    report = score.report_of([scored(server, findings)], minimum=99)
    page, table = view.page(report, score.scale()), view.markdown(report)
    assert len(report.schemas[0].tools) == 1200
    assert len(page) < 2_000_000
    assert len(table) < 20_000
    assert "… and 200 more tools" in page
    assert "more tools" in table
    many = score.report_of(
        [scored(mcp(SEARCH), findings[:50])._replace(subject=f"s{n}") for n in range(120)]
    )
    crowded = view.page(many, score.scale())
    assert len(crowded) < 2_000_000
    assert "… and 20 more schemas" in crowded


# --- the command


def test_the_command_scores_prints_and_writes_every_form(assay: Run, tmp_path: Path) -> None:
    answer = {"serverInfo": {"name": "Library", "version": "1"}, "instructions": "Search first."}
    put(
        tmp_path / "s.json",
        {**answer, "tools": [SEARCH, named("list_books", description="Lists.")]},
    )
    files = [f"out.{kind}" for kind in ("html", "md", "svg", "json", "sarif")]
    outputs = [part for file in files for part in ("-o", file)]
    done = assay("tools", "check", "s.json", "--min-score", "80", *outputs)
    assert done.code == 1
    text = done.out
    assert "legibility 87/100 (2 tools; mean 87; lowest 75)" in text
    assert "75  list_books: description-vague −25" in text
    assert "below --min-score 80: library/tools list_books 75\n" in text
    assert "Legibility is not a grade" in text
    assert done.err.endswith("".join(f"wrote {file}\n" for file in files))
    assert all((tmp_path / file).stat().st_size for file in files)
    bare = {"type": "object", "properties": {name: {"type": "string"} for name in "abc"}}
    put(tmp_path / "p.json", {**answer, "tools": [{**SEARCH, "inputSchema": bare}]})
    found = assay("tools", "check", "p.json")
    assert found.out.count("[parameter-undocumented]") == 1
    assert ".a: 'a' has no description. Describe" in found.out
    assert "Also: b, c. [parameter-undocumented]" in found.out
    assert assay("tools", "check", "s.json", "--min-score", "75").code == 0
    found = assay("tools", "check", "s.json", "--min-score", "76", "--json").json()
    assert found["passed"] is False
    assert found["legibility"] == {
        "score": 87,
        "minimum": 76,
        "below": ["library/tools list_books 75"],
        "system": "legibility/1",
    }
    own = found["files"][0]["legibility"]
    assert [(tool["name"], tool["score"]) for tool in own["tools"]] == [
        ("search_books", 100),
        ("list_books", 75),
    ]
    assert own["tools"][1]["costs"] == [
        {"rule": "description-vague", "level": "warning", "findings": 1, "points": 25}
    ]
    assert {"file", "schemaId", "kind", "findings", "checks", "handlers"} <= found["files"][
        0
    ].keys()
    written = json.loads((tmp_path / "out.json").read_bytes())
    assert written["legibility"]["schemas"][0]["score"] == 87
    assert written["findings"][0]["rule"] == "description-vague"


def test_a_file_that_cannot_be_read_is_no_pass_at_any_minimum(assay: Run, tmp_path: Path) -> None:
    put(tmp_path / "all/s.json", {"serverInfo": {"name": "L"}, "tools": [SEARCH]})
    put(tmp_path / "all/t.json", {"tools": [{"name": ""}]})
    done = assay("tools", "check", "all", "--min-score", "1", "-o", "x.md")
    assert done.code == 3
    assert "1 unread as 0" in done.out
    assert "could not be read" in (tmp_path / "x.md").read_text(encoding="utf-8")


def test_what_has_no_score_is_not_asked_for_one(assay: Run, tmp_path: Path) -> None:
    put(tmp_path / "index.json", {"indexVersion": 2})
    for arguments in (
        ("--rules", "--min-score", "5"),
        ("--rules", "-o", "x.svg"),
        ("index.json", "--min-score", "5"),
        ("index.json", "-o", "x.html"),
        ("index.json", "--min-score", "0"),
        ("index.json", "--min-score", "101"),
    ):
        assert assay("tools", "check", *arguments).code == 2, arguments
    assert not list(tmp_path.glob("x.*"))
