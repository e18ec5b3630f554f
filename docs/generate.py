"""Writes docs/reference/ from the code, so that it cannot say anything else. `make docs` runs it; a
test holds the files against it.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from assay.cli.main import run
from assay.cli.options import ENVIRONMENT
from assay.cli.verbs import VERBS
from assay.errors.codes import CODES
from assay.formulas import FORMULAS
from assay.records.evidence import Run
from assay.records.schemas import json_schema
from assay.records.scorecard import Scorecard
from assay.scoring.gates import GATES
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.examples import EXAMPLES
from assay.tools.legibility_score import rule_cost
from assay.tools.validation import ALL_RULES
from assay.views.schemas import SCHEMAS

REFERENCE = Path(__file__).resolve().parent / "reference"
NOTE = "<!-- Made by docs/generate.py; do not edit. -->\n"


def _type(schema: Any, definitions: dict[str, Any]) -> str:
    if not isinstance(schema, dict) or not schema:
        return "any"
    if "$ref" in schema:
        return (
            f"[{schema['$ref'].rsplit('/', 1)[-1]}](#{schema['$ref'].rsplit('/', 1)[-1].lower()})"
        )
    if "enum" in schema:
        return " · ".join(f"`{'null' if value is None else value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(option, definitions) for option in schema["anyOf"]))
    kind = schema.get("type", "any")
    kinds = kind if isinstance(kind, list) else [kind]
    if kinds == ["array"]:
        return (
            f"list of {_type(schema.get('items', schema.get('prefixItems', [{}])[0]), definitions)}"
        )
    if kinds == ["object"] and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'], definitions)}"
    return " or ".join(kinds)


def _fields(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    rows = ["| field | type | required |", "|---|---|---|"]
    for name, field in schema.get("properties", {}).items():
        rows.append(
            f"| `{name}` | {_type(field, definitions)} |"
            f" {'yes' if name in schema.get('required', ()) else ''} |"
        )
    return "\n".join(rows)


def record_page(title: str, intro: str, *kinds: type) -> str:
    """A page with the fields of records and of what they are made of."""
    parts = [f"# {title}\n\n{NOTE}\n{intro}"]
    seen: set[str] = set()
    for kind in kinds:
        schema = json_schema(kind)
        definitions = schema.get("$defs", {})
        for name, one in {kind.__name__: schema, **definitions}.items():
            if name not in seen:
                seen.add(name)
                parts.append(
                    f"## {name}\n\n{' '.join(one.get('description', '').split())}\n\n"
                    + _fields(one, definitions)
                )
    return "\n\n".join(parts) + "\n"


def results_page() -> str:
    """A page with the fields of what leaves."""
    grade = SCHEMAS["grades"]["properties"]["results"]["items"]
    criterion = grade["properties"]["criteria"]["items"]
    return (
        f"# Results\n\n{NOTE}\n`assay grade` writes `assay.grades/1`: `results`, `faults` and"
        " `counts`. `assay schema-of grades` prints its JSON Schema.\n\n## A"
        f" grade\n\n{_fields(grade, {})}\n\n## A criterion in it\n\n{_fields(criterion, {})}\n\n##"
        " The summary block\n\n`assay report summary --json`; `assay schema-of summary` prints its"
        f" JSON Schema.\n\n{_fields(SCHEMAS['summary'], {})}\n"
    )


def sheets_page() -> str:
    """A page with the sheets of formulas, gates and measures."""
    parts = [f"# Formulas, gates and measures\n\n{NOTE}"]
    parts.append("## Formulas\n\n| id | takes | formula | clamps |\n|---|---|---|---|")
    parts[-1] += "".join(
        f"\n| `{f.id}` | {f.raw} | `{f.text}` | {'yes' if f.clamps else 'no'} |"
        for f in (FORMULAS[name] for name in FORMULAS)
    )
    parts.append("## Gates\n\n| id | what | group | kind | looks at |\n|---|---|---|---|---|")
    for gate in (GATES[name] for name in GATES):
        parts[-1] += (
            f"\n| `{gate.id}` | {gate.title} | {gate.group} | {gate.sheet()['kind']} |"
            f" {gate.evidence} |"
        )
    parts.append(
        "## Measures\n\n| id | what | unit | direction | formula | looks at"
        " |\n|---|---|---|---|---|---|"
    )
    for measure in (MEASURES[name] for name in MEASURES):
        parts[-1] += (
            f"\n| `{measure.id}` | {measure.title} | {measure.unit} | {measure.direction} |"
            f" `{measure.formula}` | {measure.evidence} |"
        )
    parts.append(
        "## An example of each measure\n\nEvidence of a run, and the raw score read off it; the"
        " parameters are the default ones but for those shown. A test runs each.\n\n| id | evidence"
        " | parameters | raw score |\n|---|---|---|---|"
    )
    for name in MEASURES:
        example = EXAMPLES[name]
        parts[-1] += (
            f"\n| `{name}` | `{_json(example.evidence)}` |"
            f" {f'`{_json(example.params)}`' if example.params else ''} |"
            f" `{_json(example.value)}` |"
        )
    return "\n\n".join(parts) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def errors_page() -> str:
    """A page with every error code."""
    rows = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in sorted(CODES.items()))
    intro = (
        "Every error has a code that belongs to one system: `SCO-` scoring, `GRD-` grading, `FIL-`"
        " files, `LIB-` the shelf, `CLI-` the command line, `CNF-` conformance, `API-` the Python"
        " interface, `ERR-` an internal error; of tool schemas `FMC-` reading and the grading tree,"
        " `PRO-` the file protocol, and `NA-`, `VET-`, `PRT-`, `IDX-`, `PRE-`, `LCK-`, `SEL-`,"
        " `HSH-` as their specification names them; `EXM-` exams, `SBX-` the sandbox. With `--json`"
        ' an error is `{"error": {"code", "message", "where", "fix"}}` on standard error.'
    )
    return f"# Errors\n\n{NOTE}\n{intro}\n\n| code | meaning |\n|---|---|\n{rows}\n"


def tool_rules_page() -> str:
    """A page with every rule that a tool schema is held against."""
    intro = (
        "What `assay tools check` and the reports of `assay tools grade` hold a schema"
        " against. Only an error fails a validation. Points are what one finding takes off the"
        " [legibility score](../how-to/grade-tool-schemas.md#the-legibility-score). A rule with an"
        " id in the last column has the meaning of that rule of the public FlowMCP specification;"
        " the others are ours."
    )
    rows = "".join(
        f"\n| `{rule.id}` | {rule.level} | {rule_cost(rule.id)} | {rule.holds} | {rule.fix} |"
        f" {rule.spec or ''} |"
        for rule in ALL_RULES.values()
    )
    return (
        f"# Rules for tool schemas\n\n{NOTE}\n{intro}\n\n| rule | level | points | what holds |"
        f" fix | FlowMCP |\n|---|---|---:|---|---|---|{rows}\n"
    )


def cli_page() -> str:
    """A page with the help of every verb."""
    parts = [f"# Commands\n\n{NOTE}"]
    for verb in ("", *VERBS):
        text = io.StringIO()
        with redirect_stdout(text), suppress(SystemExit):
            run([*([verb] if verb else []), "--help"])
        parts.append(f"## assay {verb}".rstrip() + f"\n\n```\n{text.getvalue().rstrip()}\n```")
    actions = [(name, action) for name, verb in VERBS.items() for action in verb.actions]
    for verb, action in actions:
        text = io.StringIO()
        with redirect_stdout(text), suppress(SystemExit):
            run([verb, action, "--help"])
        parts.append(f"## assay {verb} {action}\n\n```\n{text.getvalue().rstrip()}\n```")
    rows = "\n".join(f"| `{name}` | {what} |" for name, what in ENVIRONMENT.items())
    parts.append(f"## Environment variables\n\n| variable | effect |\n|---|---|\n{rows}")
    return "\n\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    return {
        "evidence.md": record_page(
            "Evidence and scorecards",
            "What comes in. Unknown keys are errors; `metadata` is free. An absent list says that"
            " nobody looked, an empty one that there were none. `assay schema-of run` and `assay"
            " schema-of scorecard` print the JSON Schemas.",
            Run,
            Scorecard,
        ),
        "results.md": results_page(),
        "sheets.md": sheets_page(),
        "errors.md": errors_page(),
        "commands.md": cli_page(),
        "tool-rules.md": tool_rules_page(),
    }


if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text)
    sys.stdout.write(f"wrote {len(pages())} pages to {REFERENCE}\n")
