"""The reference names everything that the code has: each test walks a registry."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from jsonschema_rs import Draft202012Validator

import assay
from assay.cli.frame import load_command
from assay.cli.parsing import CONFIGURATION, EVERYWHERE
from assay.cli.verbs import GROUPS, VERBS
from assay.errors.codes import CODES as CODES
from assay.errors.codes import SYSTEMS
from assay.families.tools.entry import all_schemas
from assay.families.tools.legibility import ALL_RULES
from assay.formulas import FORMULAS
from assay.formulas.formula import EXAMPLES as FORMULA_EXAMPLES
from assay.library.shelf import KINDS, Shelf
from assay.project.config import ConfigFile
from assay.records.descriptions import field_descriptions, struct_kinds
from assay.records.evidence import Run
from assay.records.typed import convert
from assay.scoring.gates import EXAMPLES as GATE_EXAMPLES
from assay.scoring.gates import GATES, evaluate
from assay.scoring.metrics import MEASURES
from assay.services.documents import document_kinds
from assay.views import otel_export as telemetry
from assay.views.events import MEANINGS, SCHEMA
from checkout import ROOT
from documents import run

REFERENCE = ROOT / "docs" / "reference"


@cache
def page(name: str) -> str:
    return (REFERENCE / name).read_text()


def headings(name: str) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", page(name), re.MULTILINE))


@pytest.mark.parametrize(("group", "verbs"), list(GROUPS.items()))
def test_every_command_and_every_option_is_described(group: Any, verbs: Any) -> None:
    name = f"commands/{group.replace(' ', '-')}.md"
    shared = {"help", *(argument.dest for argument in (*EVERYWHERE, *CONFIGURATION))}
    for verb, spec in verbs.items():
        for command in [f"{verb} {action}" for action in spec.actions] or [verb]:
            assert f"assay {command}" in headings(name)
            assert f"[`assay {command}`]" in page("commands.md")
            for action in load_command(command).parser(command)._actions:
                assert action.help, f"{command} {action.dest} has no help"
                shown = page("commands.md" if action.dest in shared else name)
                for option in action.option_strings:
                    assert re.search(rf"`{re.escape(option)}[` ]", shown), (command, option)


@pytest.mark.parametrize(("name", "code"), list(CODES.items()))
def test_every_error_code_has_a_cause_and_a_fix(name: Any, code: Any) -> None:
    assert code.cause.endswith("."), name
    assert code.fix.endswith("."), name
    assert name.split("-")[0] in SYSTEMS, name
    assert f"| `{name}` |" in page("errors.md"), name


def test_the_fix_of_an_error_code_names_only_commands_that_there_are() -> None:
    every = {
        option
        for verb, spec in VERBS.items()
        for name in ([f"{verb} {action}" for action in spec.actions] or [verb])
        for action in load_command(name).parser(name)._actions
        for option in action.option_strings
    } | {"--debug"}
    for code, (_, fix) in CODES.items():
        for text in re.findall(r"`([^`]+)`", fix):
            words = shlex.split(text)
            if words[0] == "assay" and words[1:]:
                assert words[1] == "VERB" or words[1] in VERBS, (code, text)
                if len(words) > 2 and words[1] in VERBS and VERBS[words[1]].actions:
                    assert words[2].startswith("-") or words[2] in VERBS[words[1]].actions, text
            for word in words:
                assert not word.startswith("--") or word in every, (code, text)


def test_every_document_has_a_page_and_every_field_of_ours_a_meaning() -> None:
    for name, kind in document_kinds().items():
        text = page("config.md" if name == "config" else f"documents/{name}.md")
        assert f"assay schema-of {name}" in text
        for shown in re.findall(r"`(assay [a-z][^`]*)`", kind.used):
            assert shlex.split(shown)[1] in VERBS, (name, shown)
        if kind.record is None:
            continue
        for part in struct_kinds(kind.record).values():
            fields = {one.encode_name for one in msgspec.structs.fields(part)}
            assert fields == set(field_descriptions(part)), part
            for field in fields:
                assert re.search(rf"^\| `{re.escape(field)}` \|", text, re.MULTILINE), (name, field)
    for name in ("grades", "summary"):
        fields = document_kinds()[name].schema["properties"]
        assert all(field["description"] for field in fields.values())


def test_the_example_of_every_document_keeps_its_schema(generators: Any) -> None:
    """Those that take longest to make are compared with their page in `test_docs`."""
    made = generators("document_examples")
    assert set(made.EXAMPLES) == set(document_kinds())
    quick = set(document_kinds()) - {"evaluation", "label-set", "label", "batch", *all_schemas()}
    for name in sorted(quick):
        example = made.example_of(name)
        tree = yaml.safe_load(example.text) if example.is_yaml else json.loads(example.text)
        schema = document_kinds()[name].schema
        faults = Draft202012Validator(schema, offline=True).iter_errors(tree)
        assert [fault.message for fault in faults] == [], name
    shown = yaml.safe_load(made.example_of("config").text)
    assert set(shown) == set(ConfigFile.__struct_encode_fields__)


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "reference" / "documents").glob("*.md")))
def test_every_field_of_a_document_has_a_meaning(path: Any) -> None:
    rows = [line for line in path.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert not [row for row in rows if row.endswith("|  |")], path.name


@pytest.fixture
def generators(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules that make the reference."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return lambda name: import_module(f"generators.{name}")


def test_every_route_of_the_server_is_described_with_its_scope(
    generators: Any, tmp_path: Path
) -> None:
    made = generators("http_api")
    found = list(made.routes(made.make_app(str(tmp_path))))
    assert len(found) > 60
    for section in page("http.md").split("\n### ")[1:]:
        assert "\ncurl " in section or "this ledger has none" in section, section.splitlines()[0]
    for route in found:
        assert route.shown in headings("http.md")
        assert route.operation.get("summary") or inspect.getdoc(route.endpoint), route.key
    for path, methods in made.make_app(str(tmp_path)).openapi()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in headings("http.md")


def test_every_formula_gate_and_measure_has_a_sheet_with_an_example() -> None:
    for registry, examples in ((FORMULAS, FORMULA_EXAMPLES), (GATES, GATE_EXAMPLES)):
        assert set(registry) == set(examples)
        assert set(registry) <= headings("sheets.md")
        assert all(registry[name].sheet()["example"] for name in registry)
    assert set(MEASURES) <= headings("sheets.md")
    assert all(f"| `{name}` |" in page("tool-rules.md") for name in ALL_RULES)


def test_the_example_of_a_gate_passes_and_fails_it() -> None:
    for name, example in GATE_EXAMPLES.items():
        gate, found = GATES[name], []
        for evidence in example:
            bare = {key: run("rag")[key] for key in ("schema", "run_id", "workflow", "dataset")}
            seen = convert({"status": "success", **bare, **evidence}, Run)
            found.append(evaluate(gate, seen, gate.params, seen.gates.get(name)).passed)
        assert found == [True, False], name


@pytest.mark.parametrize("kind", KINDS)
def test_everything_on_the_shelf_is_described(kind: Any) -> None:
    shelf = Shelf()
    assert {entry.id for entry in shelf.entries(kind)} <= headings(f"{kind}.md")


def test_every_number_of_a_release_policy_is_shown_with_what_it_costs(generators: Any) -> None:
    shelf, costs = Shelf(), generators("release_costs")
    names = [entry.id for entry in shelf.entries("policies") if entry.name.startswith("re")]
    assert {"release@1", "regression@1", "release-strict@1"} <= {*names}
    for name in names:
        text = page("policies.md").partition(f"## {name}\n")[2].partition("\n## ")[0]
        rows = dict(re.findall(r"^\| `([a-z._]+)` \| ([\d.]+) \| .+ \| .+ \|$", text, re.M))
        written = dict(_numbers(yaml.safe_load(shelf.read(shelf.find("policies", name).path))))
        assert written.items() <= {path: float(value) for path, value in rows.items()}.items(), name
        for row in costs.section(shelf.policy_of("release", name)):
            assert row in text, name
    release = page("policies.md").partition("## release@1\n")[2]
    assert "| `gate_margin` | 0.05 |" in release
    assert "| 46 pairs if no gate is flaky |" in release


def _numbers(tree: dict[str, Any], before: str = "") -> Any:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{before}{name}.")
        elif isinstance(value, int | float) and name != "version":
            yield before + name, float(value)


def test_every_event_and_every_attribute_is_described() -> None:
    kinds = {form["properties"]["event"]["const"] for form in SCHEMA["oneOf"]}
    assert kinds == set(MEANINGS)
    assert kinds <= headings("events.md")
    from assay.api.grading import grade, score
    from assay.services.payload import payload

    made = payload(grade(score(run("rag"))))
    sent = [*telemetry.events(made), telemetry.refusal("r-1", "SCO-011", "malformed")]
    names = {name for attributes in sent for name in attributes}
    assert names <= set(telemetry.ATTRIBUTES)
    assert all(f"| `{name}` |" in page("events.md") for name in telemetry.ATTRIBUTES)


def test_every_public_name_is_described_with_an_example_that_runs() -> None:
    records = {"Run", "Scorecard", "Verdict"}  # their example is a document
    for name in assay.__all__:
        assert f"assay.{name}" in headings("python.md")
        text = inspect.getdoc(getattr(assay, name)) or ""
        assert name in records or ">>> " in text, f"assay.{name} has no example"
