"""The files that `assay init` writes: assay.yaml with comments, three samples, a CI job."""

from __future__ import annotations

import json
import os
import re

from assay.cli.init_search import Gradable
from assay.installing import install_command

SCHEMA_FILE = ".assay/config.schema.json"
BRIDGE = "assay_adapter"
CI_FILE = ".github/workflows/assay.yml"
IGNORE_FILE = ".gitignore"
IGNORED = "assay-runs/\n.assay/*\n!.assay/baselines/\n!.assay/config.schema.json\n__pycache__/\n"
"""What commands write and Git should ignore: a stored baseline is committed, the ledger isn't."""
_HEAD = f"""\
# yaml-language-server: $schema={SCHEMA_FILE}
# Everything `assay` needs to know about this project. The command line wins over this file.
# `assay config run` shows each value and where it comes from; `assay schema-of config` every key.
project: {{project}}

"""
_WORKFLOW = """\
workflow:
  version: 1                 # raise it when the workflow changes
  inputs: [{input}]         # all that the workflow gets to see of a sample
  outputs: [answer]
  output_schema: {{type: object, required: [answer], properties: {{answer: {{type: string}}}}}}
  adapter:                   # {why}
{adapter}

dataset: samples.jsonl       # edit it: `expected` is never shown to the workflow

# How a run is graded: here, by whether the answer contains what is expected. For more, name a
# profile: rag-measured (passages and citations), tool-use-measured (calls and handoffs);
# `assay library list profiles` shows them all.
profile:
  profile: {project}-answers
  version: 1
  title: Answers that contain what is expected
  family: {project}
  gates: []                  # besides the five that every profile has
  criteria:
    - id: correctness
      label: The answer contains what is expected
      weight: 0.9
      role: correctness
      layer: 1
      formula: ratio
      measure: contains_expected      # as whole words, whatever their case
      measure_params: {{steps: [nfc, casefold, collapse_whitespace], match: word}}
    - id: efficiency
      label: Latency
      weight: 0.1
      layer: 3
      formula: lower_is_better
      params: {{slo_good: 8000, slo_bad: 30000}}
      measure: latency

# limits: {{timeout_s: 60, retries: 1, concurrency: 8}}
# baseline: production       # what `assay gate` compares with; `assay baseline set production ...`
"""
_TOOLS = """\
# The tools of an MCP server: {why}.
commands:
  tools check: {{mcp: {command}}}    # min-score: 80 would fail on tools that are hard to read
  tools grade: {{mcp: {command}}}
"""
_BRIDGE = '''"""How Assay calls {function}(): the inputs of a sample come in, the outputs go out.

`record` is where a workflow reports what it does, so that it can be graded: record.retrieved(id,
text), record.claim(text, citations=[id]), record.tool(name, arguments), record.handoff(a, b).
"""

from {module} import {function}


{async_}def run(inputs, record):
    result = {await_}{function}(inputs["{input}"]{record})
    return result if isinstance(result, dict) else {{"answer": result}}
'''
_CI = """\
name: assay
on: [push, pull_request]

jobs:
  assay:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {{python-version: "3.11"}}
      - run: {install}
      - run: {command}       # the exit code is the gate: only 0 opens it
"""


def slug(folder: str) -> str:
    """A folder's name as the name of a project."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", os.path.basename(os.path.abspath(folder))).strip("-")
    return name.lower()[:60] or "project"


def files_for(subject: Gradable | None, project: str) -> dict[str, str]:
    """The files for what was found, by their paths."""
    head = _HEAD.format(project=project)
    if subject is not None and subject.kind == "mcp":
        config = head + _TOOLS.format(why=subject.why, command=json.dumps(subject.target))
        return {
            "assay.yaml": config,
            CI_FILE: _CI.format(install=install_command("mcp"), command="assay tools check"),
        }
    found = subject or _missing()
    made: dict[str, str] = {}
    adapter = {
        "langgraph": f"kind: langgraph\ntarget: {found.target}\n"
        "input: {messages: question}              # which key of the state gets which input\n"
        "output: {answer: messages.-1.content}    # where in the final state the answer is",
        "agent_framework": f"kind: agent_framework\ntarget: {found.target}\noutput: answer",
        "http": f"kind: http\nurl: {found.target}   # edit it; it is posted"
        ' {"inputs": {"question": ...}}\n# headers_from_env: {Authorization: BOT_KEY}',
        "python": f"kind: python\ntarget: {found.target}",
    }[found.kind]
    if found.kind == "python" and found.input != "inputs" and subject is not None:
        module, _, function = found.target.partition(":")
        made[f"{BRIDGE}.py"] = _BRIDGE.format(
            module=module,
            function=function,
            input=found.input,
            record=", record" if found.takes_record else "",
            async_="async " if found.is_async else "",
            await_="await " if found.is_async else "",
        )
        adapter = f"kind: python\ntarget: {BRIDGE}:run    # calls {found.target}"
    name = "question" if found.input == "inputs" else found.input
    text = "".join(f"    {line}\n" for line in adapter.splitlines()).rstrip("\n")
    config = head + _WORKFLOW.format(input=name, why=found.why, adapter=text, project=project)
    samples = [
        {
            "id": f"s-{number}",
            name: f"Edit me: question {number} that a user asks.",
            "expected": {"answer": "Edit me: words that the answer must contain."},
        }
        for number in (1, 2, 3)
    ]
    extra = {"langgraph": "langgraph", "agent_framework": "agent-framework", "http": "run"}
    install = install_command(*filter(None, [extra.get(found.kind)]))
    return {
        "assay.yaml": config,
        **made,
        "samples.jsonl": "".join(f"{json.dumps(sample)}\n" for sample in samples),
        CI_FILE: _CI.format(install=install, command="assay run --step-summary"),
    }


def _missing() -> Gradable:
    """The placeholder that is written if nothing was found."""
    return Gradable("python", "bot.py", 1, "bot:answer", "edit it: answer(inputs) in bot.py")
