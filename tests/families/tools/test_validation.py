"""The rules of a FlowMCP schema: each bites where it should, and a sound schema breaks none."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.families.tools import validation
from assay.families.tools.records import SchemaFinding
from assay.families.tools.source import Module, NotData, ToolSchema

META = {
    "isReadOnly": True,
    "isConcurrencySafe": True,
    "isDestructive": False,
    "searchHint": "tides",
    "aliases": ["ebb"],
    "alwaysLoad": False,
}
SOUND: dict[str, Any] = {
    "namespace": "tides",
    "name": "TideTables",
    "description": "High and low water for harbours of the North Sea.",
    "version": "4.0.0",
    "root": "https://api.tides.example",
    "docs": ["https://tides.example/docs"],
    "termsOfService": "https://tides.example/terms",
    "tags": ["water"],
    "requiredServerParams": ["TIDES_KEY"],
    "headers": {"Authorization": "Bearer {{TIDES_KEY}}"},
    "sharedLists": [{"ref": "harbours", "version": "1.0.0"}],
    "tools": {
        "getTide": {
            "method": "GET",
            "path": "/v1/{{harbour}}/tide",
            "description": "Returns the times of high and low water of one harbour on one day.",
            "parameters": [
                {
                    "position": {"key": "harbour", "value": "{{USER_PARAM}}", "location": "insert"},
                    "z": {"primitive": "enum({{harbours:code}})", "options": []},
                },
                {
                    "position": {"key": "day", "value": "{{USER_PARAM}}", "location": "query"},
                    "z": {"primitive": "number()", "options": ["min(1)", "max(366)"]},
                },
                {
                    "position": {"key": "unit", "value": "m", "location": "query"},
                    "z": {"primitive": "string()", "options": []},
                },
            ],
            "output": {
                "mimeType": "application/json",
                "schema": {"type": "object", "properties": {"high": {"type": "string"}}},
            },
            "tests": [
                {"_description": "the first day", "harbour": "HH", "day": 1},
                {"_description": "a leap day", "harbour": "HH", "day": 60},
                {"_description": "another harbour", "harbour": "WHV", "day": 2},
            ],
            "meta": META,
        },
    },
    "resources": {
        "about": {
            "source": "markdown",
            "origin": "inline",
            "name": "about.md",
            "description": "What the tables cover.",
        }
    },
}


def schema(main: dict[str, Any], **more: Any) -> ToolSchema:
    given = {"path": "/schemas/tides/TideTables.mjs", "source": b"", "handlers": (), **more}
    return ToolSchema(
        "flowmcp",
        given.pop("path"),
        "tides",
        "TideTables",
        main,
        "{}",
        given.pop("source"),
        **given,
    )


def check(
    change: Callable[[dict[str, Any]], object] = lambda main: None, **more: Any
) -> list[SchemaFinding]:
    main = deepcopy(SOUND)
    change(main)
    return validation.validate(schema(main, **more))


def tool(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda main: change(main["tools"]["getTide"])


def parameter(
    number: int, change: Callable[[dict[str, Any]], object]
) -> Callable[[dict[str, Any]], object]:
    return lambda main: change(main["tools"]["getTide"]["parameters"][number])


def put(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda node: node.__setitem__(key, value)


def drop(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda node: node.pop(key)


def position(number: int, key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return parameter(number, lambda node: node["position"].__setitem__(key, value))


def z(number: int, key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return parameter(number, lambda node: node["z"].__setitem__(key, value))


def output(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return tool(lambda node: node["output"].__setitem__(key, value))


def case(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return tool(lambda node: node["tests"][0].__setitem__(key, value))


def meta(key: str) -> Callable[[dict[str, Any]], object]:
    return tool(lambda node: node["meta"].__setitem__(key, 1))


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        inner = {"type": "object", "properties": {"x": inner}}
    return inner


KEY = "q9w8e7r6t5y4u3i2o1p0"

BREAKS: dict[str, list[tuple[Callable[[dict[str, Any]], object], dict[str, Any]]]] = {
    "not-data": [
        (lambda main: None, {"not_data": (NotData("tools.getTide.handler", "a function"),)})
    ],
    "module-imported": [
        (lambda main: None, {"modules": (Module("left-pad", None, "import", 1, True),)})
    ],
    "namespace-missing": [
        (drop("namespace"), {}),
        (put("namespace", 5), {}),
        (put("namespace", " "), {}),
    ],
    "namespace-pattern": [
        (put("namespace", bad), {}) for bad in ("Tides", "web_3", "3tides", "tides\n", "tïdes")
    ],
    "namespace-folder": [(lambda main: None, {"path": "/x/providers/other/TideTables.mjs"})],
    "name-missing": [(drop("name"), {})],
    "description-missing": [(drop("description"), {}), (put("description", []), {})],
    "version-missing": [(drop("version"), {})],
    "version-pattern": [
        (put("version", bad), {})
        for bad in ("4", "5.0.0", "4.0", "v4.0.0", "4.0.0-beta", "4.0.0\n", "4.٣.0")
    ],
    "version-superseded": [(put("version", "3.1.0"), {})],
    "root-missing": [(drop("root"), {}), (put("root", ""), {}), (put("root", 1), {})],
    "root-empty": [(put("root", ""), {"handlers": ("getTide",)})],
    "root-pattern": [
        (put("root", "http://api.tides.example"), {}),
        (put("root", "https://api.tides.example/"), {}),
    ],
    "tools-missing": [
        (lambda main: (main.pop("tools"), main.pop("resources")), {}),
        (put("tools", []), {}),
    ],
    "tools-and-routes": [(lambda main: main.__setitem__("routes", {}), {})],
    "routes-deprecated": [(lambda main: main.__setitem__("routes", main.pop("tools")), {})],
    "skills-in-schema": [(put("skills", {}), {})],
    "field-unknown": [(put("auther", "me"), {})],
    "field-type": (
        [
            (put(key, 5), {})
            for key in (
                "docs",
                "tags",
                "requiredServerParams",
                "requiredLibraries",
                "headers",
                "sharedLists",
            )
        ]
        + [(put("sharedLists", ["x"]), {})]
    ),
    "docs-missing": [(drop("docs"), {}), (put("docs", []), {})],
    "terms-missing": [(drop("termsOfService"), {}), (put("termsOfService", "see website"), {})],
    "source-neutral": [
        (put(key, "1"), {})
        for key in ("schemaHash", "aboutHash", "selectionHash", "schemaVersion", "selectionVersion")
    ],
    "secret-in-source": [
        (put("headers", {"X-Api-Key": KEY}), {}),
        (put("headers", {"Authorization": f"Bearer {KEY}"}), {}),
        (put("root", f"https://me:{KEY}@api.tides.example"), {}),
        (tool(put("path", f"/v1/{{{{harbour}}}}?api_key={KEY}")), {}),
        (parameter(2, put("position", {"key": "apikey", "value": KEY, "location": "query"})), {}),
        (put("description", f"Uses ghp_{'a1' * 18} to log in."), {}),
    ],
    "list-ref-missing": [(put("sharedLists", [{"version": "1.0.0"}]), {})],
    "list-version-missing": [(put("sharedLists", [{"ref": "harbours"}]), {})],
    "server-param-undeclared": [
        (put("requiredServerParams", []), {}),
        (put("root", "https://{{HOST}}.tides.example"), {}),
        (tool(put("path", "/v1/{{harbour}}?k={{OTHER_KEY}}")), {}),
        (position(2, "value", "{{SERVER_PARAM:OTHER_KEY}}"), {}),
        (position(1, "value", "{{DAY}}"), {}),
        (tool(put("headers", {"X-Other": "{{OTHER_KEY}}"})), {}),
    ],
    "server-param-unused": [(put("requiredServerParams", ["TIDES_KEY", "SPARE_KEY"]), {})],
    "tool-limit": [
        (
            lambda main: main["tools"].update(
                {f"getTide{n}": main["tools"]["getTide"] for n in range(8)}
            ),
            {},
        )
    ],
    "tool-name-pattern": [
        (lambda main, name=bad: main["tools"].update({name: main["tools"].pop("getTide")}), {})
        for bad in ("GetTide", "get_tide", "get-tide", "1get")
    ],
    "tool-type": [(lambda main: main["tools"].update(getTide=5), {})],
    "method-unknown": [
        (tool(drop("method")), {}),
        (tool(put("method", "PATCH")), {}),
        (tool(put("method", "get")), {}),
    ],
    "path-missing": [
        (tool(drop("path")), {}),
        (tool(put("path", "")), {}),
        (tool(put("path", 3)), {}),
    ],
    "path-start": [(tool(put("path", "v1/{{harbour}}")), {})],
    "tool-description-missing": [
        (tool(drop("description")), {}),
        (tool(put("description", " ")), {}),
    ],
    "parameters-missing": [(tool(drop("parameters")), {}), (tool(put("parameters", {})), {})],
    "output-missing": [(tool(drop("output")), {})],
    "handler-unknown": [(lambda main: None, {"handlers": ("getTied",)})],
    "meta-missing": [(tool(drop("meta")), {}), (tool(put("meta", "yes")), {})],
    "meta-read-only": [(meta("isReadOnly"), {})],
    "meta-concurrency": [(meta("isConcurrencySafe"), {})],
    "meta-destructive": [(meta("isDestructive"), {})],
    "meta-search-hint": [(meta("searchHint"), {})],
    "meta-aliases": [
        (meta("aliases"), {}),
        (tool(lambda node: node["meta"].update(aliases=[1])), {}),
    ],
    "meta-always-load": [(meta("alwaysLoad"), {})],
    "position-missing": [
        (parameter(1, drop("position")), {}),
        (tool(put("parameters", ["x"])), {}),
    ],
    "z-missing": [(parameter(1, drop("z")), {})],
    "key-missing": [(position(1, "key", None), {}), (position(1, "key", ""), {})],
    "value-missing": [(position(1, "value", 5), {})],
    "location-unknown": [
        (position(1, "location", "header"), {}),
        (position(1, "location", None), {}),
    ],
    "primitive-missing": [(z(1, "primitive", None), {})],
    "primitive-unknown": [(z(1, "primitive", "integer()"), {}), (z(1, "primitive", "number"), {})],
    "options-type": [(z(1, "options", "min(1)"), {}), (z(1, "options", [1]), {})],
    "option-unknown": [
        (z(1, "options", ["regex(^a$)"]), {}),
        (z(1, "options", ["values(a,b)"]), {}),
    ],
    "enum-empty": [(z(1, "primitive", "enum()"), {}), (z(1, "primitive", "enum( , )"), {})],
    "list-outside-enum": [(z(1, "primitive", "string({{harbours:code}})"), {})],
    "list-undeclared": [
        (z(0, "primitive", "enum({{islands:code}})"), {}),
        (drop("sharedLists"), {}),
    ],
    "insert-without-placeholder": [(tool(put("path", "/v1/tide")), {})],
    "placeholder-without-insert": [
        (tool(put("path", "/v1/{{harbour}}/{{year}}")), {}),
        (tool(put("path", "/v1/{{harbour}}/:year")), {}),
    ],
    "placeholder-form": [(tool(put("path", "/v1/:harbour/tide")), {})],
    "body-without-body": [(position(1, "location", "body"), {})],
    "parameter-left-to-handler": [
        (tool(put("path", "/v1/tide")), {"handlers": ("getTide",)}),
        (position(1, "location", "body"), {"handlers": ("getTide",)}),
        (tool(put("path", "/v1/{{harbour}}/{{year}}")), {"handlers": ("getTide",)}),
    ],
    "parameter-twice": [
        (position(1, "key", "harbour"), {}),
        (tool(lambda node: node["parameters"].append(deepcopy(node["parameters"][1]))), {}),
    ],
    "query-key-twice": [
        (tool(lambda node: node["parameters"].append(deepcopy(node["parameters"][2]))), {})
    ],
    "output-type": [(tool(put("output", [])), {})],
    "mime-type-unknown": [(output("mimeType", "text/html"), {}), (output("mimeType", None), {})],
    "output-schema-missing": [
        (tool(lambda node: node["output"].pop("schema")), {}),
        (output("schema", {"type": "thing"}), {}),
        (output("schema", {}), {}),
    ],
    "output-type-mismatch": [
        (output("schema", {"type": "string"}), {}),
        (tool(put("output", {"mimeType": "image/png", "schema": {"type": "string"}})), {}),
    ],
    "output-depth": [(output("schema", nested(5)), {})],
    "properties-misplaced": [(output("schema", {"type": "array", "properties": {}}), {})],
    "items-misplaced": [
        (
            output(
                "schema", {"type": "object", "properties": {"a": {"type": "string", "items": {}}}}
            ),
            {},
        )
    ],
    "tests-few": [
        (tool(lambda node: node["tests"].pop()), {}),
        (tool(drop("tests")), {}),
        (tool(put("tests", "none")), {}),
    ],
    "test-type": [(tool(lambda node: node["tests"].append("x")), {})],
    "test-description-missing": [
        (tool(lambda node: node["tests"][0].pop("_description")), {}),
        (case("_description", 5), {}),
    ],
    "test-value-missing": [(tool(lambda node: node["tests"][0].pop("day")), {})],
    "test-value-refused": [
        (case("day", value), {}) for value in ("1", 0, 367, True, None, [1], Decimal("366.5"))
    ],
    "test-key-unknown": [(case("week", 1), {}), (case("unit", "ft"), {})],
    "test-repeated": [
        (tool(lambda node: node["tests"].append({**node["tests"][0], "_description": "again"})), {})
    ],
    "resources-type": [(put("resources", []), {}), (put("resources", {"x": 1}), {})],
    "resource-limit": [
        (
            lambda main: main["resources"].update(
                dict.fromkeys(("b", "c"), main["resources"]["about"])
            ),
            {},
        )
    ],
    "resource-description-missing": [
        (lambda main: main["resources"]["about"].pop("description"), {})
    ],
    "about-form": [
        (lambda main: main["resources"]["about"].update(source="sqlite"), {}),
        (lambda main: main["resources"]["about"].update(origin="global"), {}),
    ],
}


@pytest.mark.req("F-139")
def test_a_sound_schema_breaks_no_rule() -> None:
    assert check() == []


def test_every_rule_has_a_case_that_breaks_it() -> None:
    assert set(BREAKS) == set(validation.RULES)


@pytest.mark.req("F-140")
@pytest.mark.parametrize(
    ("rule", "number"),
    [(rule, number) for rule, cases in BREAKS.items() for number in range(len(cases))],
)
def test_a_broken_rule_is_found_with_its_level_a_place_and_a_remedy(rule: str, number: int) -> None:
    change, more = BREAKS[rule][number]
    findings = [finding for finding in check(change, **more) if finding.rule == rule]
    assert findings
    for finding in findings:
        assert finding.level == validation.RULES[rule].level
        assert finding.message.endswith(".")
        assert finding.fix.endswith((".", ").", "…"))
        assert KEY not in finding.text()


@pytest.mark.req("F-139")
def test_only_an_error_fails_a_validation() -> None:
    warned = check(
        lambda main: (
            main.pop("docs"),
            main.pop("termsOfService"),
            main["tools"]["getTide"].pop("meta"),
        )
    )
    assert warned
    assert {finding.level for finding in warned} == {"warning"}
    assert "error" in {finding.level for finding in check(drop("root"))}


@pytest.mark.req("F-141")
def test_fewer_than_three_tests_warn_under_the_number_of_the_specification() -> None:
    rule = validation.RULES["tests-few"]
    assert (rule.level, rule.spec) == ("warning", "TST001")
    main = deepcopy(SOUND)
    main["tools"]["getTide"]["tests"] = [{"_description": "one"}, "no test"]
    assert "tests-few" in {finding.rule for finding in validation.validate(schema(main))}
    assert "tests-few" not in {finding.rule for finding in validation.validate(schema(SOUND))}


@pytest.mark.req("F-093")
def test_a_version_inside_an_answer_is_no_version_of_the_source() -> None:
    answer = {"type": "object", "properties": {"schemaVersion": {"type": "string"}}}
    assert check(output("schema", answer)) == []


@pytest.mark.req("F-156")
@pytest.mark.parametrize("rule", ["secret-in-source"])
def test_a_secret_is_reported_and_never_repeated(rule: str) -> None:
    for change, more in BREAKS[rule]:
        findings = check(change, **more)
        assert [finding.rule for finding in findings if finding.rule == rule]
        for finding in findings:
            assert KEY not in repr(finding)
            assert "ghp_" not in repr(finding)


@pytest.mark.req("F-156")
@pytest.mark.parametrize(
    "value",
    [
        "demo-key-1234567890",
        "YOUR_API_KEY_12345",
        "jobboerse-jobsuche",
        "Bearer {{TIDES_KEY}}",
        "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
        "short1",
    ],
)
def test_a_placeholder_or_a_public_word_is_no_secret(value: str) -> None:
    assert [
        finding
        for finding in check(put("headers", {"X-Api-Key": value}))
        if finding.rule == "secret-in-source"
    ] == []


def test_all_faults_are_found_at_once_the_gravest_first() -> None:
    findings = check(
        lambda main: (
            main.pop("root"),
            main.pop("docs"),
            main["tools"]["getTide"].pop("method"),
            main["tools"]["getTide"].update(path="/v1/:harbour"),
        )
    )
    levels = [finding.level for finding in findings]
    assert {"root-missing", "docs-missing", "method-unknown", "placeholder-form"} <= {
        finding.rule for finding in findings
    }
    assert levels == sorted(levels, key=validation.LEVELS.index)


def test_a_meta_block_of_the_schema_holds_for_its_tools() -> None:
    assert check(lambda main: main.update(meta=main["tools"]["getTide"].pop("meta"))) == []


def test_old_and_new_placeholders_both_fill_a_path() -> None:
    assert [
        finding.rule for finding in check(tool(put("path", "/v1/:harbour.json?k={{TIDES_KEY}}")))
    ] == ["placeholder-form"]
    assert check(tool(put("path", "/v1/jobs:batch/{{harbour}}"))) == []


def test_a_schema_of_resources_only_needs_neither_root_nor_tools() -> None:
    assert (
        check(
            lambda main: (
                main.pop("root"),
                main.pop("tools"),
                main.pop("headers"),
                main.update(requiredServerParams=[]),
            )
        )
        == []
    )


def test_a_finding_names_the_line_of_its_tool() -> None:
    source = (
        b"export const main = {\n    namespace: 'Tides',\n    tools: {\n        getTide: {\n       "
        b"     method: 'PATCH' } } }\n"
    )
    main = deepcopy(SOUND)
    main["namespace"] = "Tides"
    main["tools"]["getTide"]["method"] = "PATCH"
    lines = {
        finding.rule: finding.line for finding in validation.validate(schema(main, source=source))
    }
    assert lines["namespace-pattern"] == 2
    assert lines["method-unknown"] == 4


def test_the_tools_of_an_mcp_server_are_not_held_to_the_rules_of_flowmcp() -> None:
    assert validation.validate(schema({})._replace(kind="mcp")) == []


def test_every_rule_says_what_holds_and_what_to_do() -> None:
    for rule_id, rule in validation.RULES.items():
        assert rule.id == rule_id
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule_id)
        assert rule.level in validation.LEVELS
        assert rule.holds.endswith(".")
        assert rule.fix.endswith((".", "…"))
        assert rule.spec is None or re.fullmatch(r"(VAL|TST|SEC|RES)\d{3}", rule.spec)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [*SOUND, *SOUND["tools"]["getTide"], "position", "z", "key", "value", "x"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(JSON)
def test_no_data_makes_the_validation_fall_over(data: Any) -> None:
    for main in (
        data if isinstance(data, dict) else {},
        {**SOUND, "tools": data},
        {**SOUND, "tools": {"getTide": data}},
        {**SOUND, "headers": data, "sharedLists": data},
    ):
        first = validation.validate(schema(main))
        assert first == validation.validate(schema(deepcopy(main)))
        assert all(finding.text() for finding in first)


@given(st.sampled_from(sorted(SOUND["tools"]["getTide"])), JSON)
def test_no_field_of_a_tool_makes_the_validation_fall_over(field: str, data: Any) -> None:
    main = deepcopy(SOUND)
    main["tools"]["getTide"][field] = data
    validation.validate(schema(main))


def test_a_tree_of_any_depth_is_validated() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(3_000):
        deep = {"type": "object", "properties": {"x": deep}}
    assert "output-depth" in {finding.rule for finding in check(output("schema", deep))}
