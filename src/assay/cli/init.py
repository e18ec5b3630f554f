"""`assay init`: an assay.yaml, samples and a CI job for a folder; or a complete example project.

It asks nothing and overwrites nothing. It reads the code in the folder (see `init_search`) and
never runs it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

from assay.canon import pretty
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg
from assay.cli.init_search import FolderSearch, Gradable, search
from assay.errors import UsageError, printable
from assay.files.atomic import refuse_links_out, write_file
from assay.files.upwards import CONFIG_FILE
from assay.installing import install_command
from assay.project.config import ConfigFile, read_config
from assay.project.trust import trust
from assay.records.descriptions import described_schema

PROJECTS = os.path.join(os.path.dirname(__file__), "examples", "projects")
_RUN = ("assay run", "assay run next", "assay gate latest --baseline latest~1")
_GRADE = (
    "assay tools grade --emit-prompts",
    "assay tools score proofs/grade-work",
    "assay tools grade --consume-scores proofs/grade-work",
)
EXAMPLES: dict[str, tuple[str, ...]] = {
    "rag": _RUN,
    "noisy": (
        "assay run --repeat 5 --name current",
        "assay run same --repeat 2 --name same",
        "assay gate same --baseline current --confirm",
        "assay run next --repeat 2 --name next",
        "assay gate next --baseline current --confirm",
    ),
    "agent": _RUN,
    "code-repair": (*_RUN[:2], f"{_RUN[2]} --confirm"),
    "mcp": _GRADE,
    "exam": ("assay exam grade exam.yaml", "assay exam gate result.json"),
}
"""The example projects, and the commands that come next."""


def run(options: Options) -> int:
    """Run the verb."""
    folder = options.dir
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError("FIL-008", "is not a folder.", where=folder)
    document = _example(options.example, folder) if options.example else _project(folder)
    return opt.give(options, document, map(printable, _lines(document)))


def _example(name: str, folder: str) -> dict[str, Any]:
    """Write an example project, all of it or nothing."""
    source = os.path.join(PROJECTS, name)
    files: dict[str, bytes] = {}
    for place, folders, names in os.walk(source):
        folders[:] = sorted(folder for folder in folders if folder != "__pycache__")
        for one in sorted(names):
            path = os.path.join(place, one)
            with open(path, "rb") as stream:
                files[os.path.relpath(path, source)] = stream.read()
    taken = [path for path in files if os.path.lexists(os.path.join(folder, path))]
    if taken:
        raise UsageError(
            "FIL-008",
            f"there is already {', '.join(taken[:5])}, and an example replaces no file.",
            where=folder,
            fix=f"Name a new folder: assay init --example {name} {name}-example",
        )
    if not os.path.lexists(os.path.join(folder, IGNORE_FILE)):
        files[IGNORE_FILE] = IGNORED.encode()
    _write(folder, files)
    return {
        "schema": "assay.init/1",
        "folder": folder,
        "found": [],
        "wrote": sorted(files),
        "left": [],
        "next": [*_enter(folder), *EXAMPLES[name]],
    }


def _project(folder: str) -> dict[str, Any]:
    """Write what is missing for the folder's own project."""
    folder_search = search(folder)
    subject = folder_search.subjects[0] if folder_search.subjects else None
    data = _data(folder_search, subject, folder)
    results = _only_results(folder_search, folder)
    project = slug(folder)
    texts = result_files(results[0], project) if results else files_for(subject, project, data)
    files = {path: text.encode() for path, text in texts.items()}
    files[SCHEMA_FILE] = pretty(described_schema(ConfigFile))
    files[IGNORE_FILE] = IGNORED.encode()
    left = [path for path in files if os.path.lexists(os.path.join(folder, path))]
    new = {path: data for path, data in files.items() if path not in left}
    _write(folder, new)
    return {
        "schema": "assay.init/1",
        "folder": folder,
        **_found(folder_search, subject),
        "dataset": data,
        "wrote": list(new),
        "left": left,
        "next": [*_enter(folder), *_next(subject, results)],
    }


def _only_results(found: FolderSearch, folder: str) -> list[str]:
    """Another tool's results in a folder without workflow and samples; by plain names, because they
    become part of a CI job.
    """
    own = os.path.lexists(os.path.join(folder, SAMPLES))
    files = [] if found.subjects or found.data or own else found.results
    return [shlex.quote(file.file) for file in files if re.fullmatch(r"[\w. /-]+", file.file)]


def _data(folder_search: FolderSearch, subject: Gradable | None, folder: str) -> str | None:
    """The file with samples for the workflow, if the folder has one; not the one `init` writes."""
    if os.path.lexists(os.path.join(folder, SAMPLES)):
        return None
    name = _input(subject or _missing())
    return next((data.file for data in folder_search.data if name in data.columns), None)


def _found(folder_search: FolderSearch, subject: Gradable | None) -> dict[str, Any]:
    return {
        "found": [subject._asdict() for subject in folder_search.subjects],
        "chosen": None if subject is None else subject.target,
        "results": [result._asdict() for result in folder_search.results],
        "tables": [*(data.file for data in folder_search.data), *folder_search.tables],
        "unread": folder_search.unread,
    }


def _next(subject: Gradable | None, results: list[str]) -> list[str]:
    if results:
        return [f"assay import {results[0]}", "assay baseline set production latest"]
    return ["assay tools check" if subject is not None and subject.kind == "mcp" else "assay run"]


def _enter(folder: str) -> list[str]:
    return [] if os.path.abspath(folder) == os.getcwd() else [f"cd {folder}"]


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    refuse_links_out(os.path.join(folder, CONFIG_FILE))
    for path, data in files.items():
        write_file(os.path.join(folder, path), data, root=folder)
    if CONFIG_FILE in files:
        config = read_config(os.path.join(folder, CONFIG_FILE))
        if config.spec.commands:  # they start a program, and the user asked for this file
            try:
                trust(config)
            except UsageError as error:
                opt.note(f"run `assay trust {config.path}` later: {error}")


def _lines(document: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    subjects = document["found"]
    if "chosen" in document:
        used = "  <- used in assay.yaml" if "assay.yaml" in document["wrote"] else ""
        for number, subject in enumerate(subjects[:5]):
            lines.append(f"found   {subject['why']} ({subject['kind']}){'' if number else used}")
        if len(subjects) > 5:
            lines.append(f"        and {len(subjects) - 5} more")
        if not subjects and document["next"][-1] == "assay run":
            lines.append("found   nothing that looks like a workflow: edit `adapter` in assay.yaml")
        lines += [f"found   {one['file']}: {one['title']}" for one in document["results"][:5]]
        if document["dataset"] and used:
            lines.append(f"found   {document['dataset']}: samples{used}")
        if names := ", ".join(document["unread"][:3]):
            lines.append(f"skipped {names}: too large, or not Python that can be parsed")
    lines += [f"wrote   {path}" for path in document["wrote"]]
    lines += [f"kept    {path}, which already exists" for path in document["left"]]
    if SAMPLES in document["wrote"] and "chosen" in document:
        lines.append(f"edit    {SAMPLES}: what to ask, and what a right answer contains")
        lines.append(
            "        (three samples are a start; `assay gate` needs at least 46 to promote)"
        )
        if tables := ", ".join(document["tables"][:3]):
            lines.append(f"or use  {tables}: say which column is which at `dataset` in assay.yaml")
    if subjects and subjects[0]["kind"] == "http" and "assay.yaml" in document["wrote"]:
        lines.append(f"start   your endpoint: assay run posts to {subjects[0]['target']}")
    return [*lines, *(f"next    {command}" for command in document["next"])]


SCHEMA_FILE = ".assay/config.schema.json"
SAMPLES = "samples.jsonl"
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

dataset: {dataset}       # {edit}what is expected is never shown to the workflow
# dataset: {{file: FILE.csv, inputs: {{{input}: COLUMN}}, expected: {{answer: COLUMN}}}}

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
      measure: contains_expected      # as whole words and numbers, in any case
      measure_params: {{steps: [nfc, casefold, collapse_whitespace], match: word}}
    - id: efficiency
      label: Latency
      weight: 0.1
      layer: 3
      formula: lower_is_better
      params: {{slo_good: 8000, slo_bad: 30000}}
      measure: latency

baseline: production         # what `assay gate` compares with, once you have stored it:
                             # `assay run --repeat 5`, then `assay baseline set production latest`.
                             # Repeats show how far two runs of the same version differ.
# release: {{policy: regression@1}}    # promote unless shown to be worse; the default, release@1,
                                     # promotes what is shown not to be worse
# limits: {{timeout_s: 60, retries: 1, concurrency: 8}}
"""
_RESULTS = "baseline: production         # what `assay gate FILE` compares with\n"
_TOOLS = """\
# The tools of an MCP server: {why}.
commands:
  tools check: {{mcp: {command}, min_score: 80}}    # of 100, for each tool
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
    env:
      # assay.yaml may name judges, keys and databases: trusted, but never in a fork's pull request
      TRUST: >-
        ${{{{ (github.event_name == 'push' || github.event.pull_request.head.repo.full_name
        == github.repository) && '--trust' || '' }}}}
    steps:
      - uses: actions/checkout@v4{history}
      - uses: actions/setup-python@v5
        with: {{python-version: "3.11"}}
      - run: {install}    # add what your code needs, such as -r requirements.txt
"""
_HISTORY = "\n        with: {fetch-depth: 0}     # to run the version of the baseline again"
_CI_TOOLS = (
    "      - run: assay tools check $TRUST    # the exit code is the gate: only 0 opens it\n"
)
_CI_GATE = """\
      - name: Gate                 # only exit code 0 passes
        env:
          TARGET: "${{ github.base_ref || github.event.repository.default_branch }}"
          # A change may be merged unless it is shown to be worse (regression@1): that takes few
          # runs. What you release, the main branch and tags, must be shown not to be worse
          # (release@1): that takes more, and `assay gate --plan` prints how many.
          POLICY: >-
            ${{ (github.ref_type == 'tag' || github.ref_name ==
            github.event.repository.default_branch) && 'release@1' || 'regression@1' }}
        run: |
          rm -rf .assay            # the baseline comes from the target branch
          git fetch --quiet origin "$TARGET"
"""
_CI_RUN = f"""{_CI_GATE}\
          if [ -z "$(git ls-tree FETCH_HEAD .assay/baselines/production.json)" ]; then
            assay run $TRUST --step-summary    # no stored baseline yet: all must pass
          else
            git checkout --quiet FETCH_HEAD -- .assay/baselines
            assay run $TRUST --name candidate || test $? -eq 1    # the gate decides
            # what seems to fail newly runs again, on both versions: it may be noise
            commit=$(git log -1 --format=%H FETCH_HEAD -- .assay/baselines/production.json)
            assay gate candidate $TRUST --baseline production --release-policy "$POLICY" \\
              --confirm --baseline-commit "$commit" --step-summary
          fi
"""

_CI_RESULTS = f"""\
      - run: exit 1                # edit it: run your evaluation, which writes RESULTS
{_CI_GATE}\
          git checkout --quiet FETCH_HEAD -- .assay/baselines    # commit them there first
          assay gate RESULTS $TRUST --baseline production --release-policy "$POLICY" --step-summary
"""


def slug(folder: str) -> str:
    """A folder's name as the name of a project."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", os.path.basename(os.path.abspath(folder))).strip("-")
    return name.lower()[:60] or "project"


def _input(subject: Gradable) -> str:
    """The name of the input that a workflow takes."""
    return "question" if subject.input == "inputs" else subject.input


def files_for(subject: Gradable | None, project: str, data: str | None = None) -> dict[str, str]:
    """The files for what was found, by their paths; samples only if there is no `data`."""
    head = _HEAD.format(project=project)
    if subject is not None and subject.kind == "mcp":
        config = head + _TOOLS.format(why=subject.why, command=json.dumps(subject.target))
        return {
            "assay.yaml": config,
            CI_FILE: _CI.format(install=install_command("mcp"), history="") + _CI_TOOLS,
        }
    gradable = subject or _missing()
    made: dict[str, str] = {}
    adapter = {
        "langgraph": f"kind: langgraph\ntarget: {gradable.target}\n"
        "input: {messages: question}              # which key of the state gets which input\n"
        "output: {answer: messages.-1.content}    # where in the final state the answer is",
        "agent_framework": f"kind: agent_framework\ntarget: {gradable.target}\noutput: answer",
        "http": f"kind: http\nurl: {gradable.target}   # edit it; it is posted"
        ' {"inputs": {"question": ...}}\n# headers_from_env: {Authorization: BOT_KEY}',
        "python": f"kind: python\ntarget: {gradable.target}",
    }[gradable.kind]
    if gradable.kind == "python" and gradable.input != "inputs" and subject is not None:
        module, _, function = gradable.target.partition(":")
        made[f"{BRIDGE}.py"] = _BRIDGE.format(
            module=module,
            function=function,
            input=gradable.input,
            record=", record" if gradable.takes_record else "",
            async_="async " if gradable.is_async else "",
            await_="await " if gradable.is_async else "",
        )
        adapter = f"kind: python\ntarget: {BRIDGE}:run    # calls {gradable.target}"
    name = _input(gradable)
    text = "".join(f"    {line}\n" for line in adapter.splitlines()).rstrip("\n")
    config = head + _WORKFLOW.format(
        input=name,
        why=gradable.why,
        adapter=text,
        project=project,
        dataset=SAMPLES if data is None else json.dumps(data, ensure_ascii=False),
        edit="edit it; " if data is None else "",
    )
    samples = [
        {
            "id": f"s-{number}",
            name: f"Edit me: question {number} that a user asks.",
            "expected": {"answer": "Edit me: words that the answer must contain."},
        }
        for number in (1, 2, 3)
    ]
    extra = {"langgraph": "langgraph", "agent_framework": "agent-framework", "http": "run"}
    install = install_command(*filter(None, [extra.get(gradable.kind)]))
    return {
        "assay.yaml": config,
        **made,
        **({} if data else {SAMPLES: "".join(f"{json.dumps(sample)}\n" for sample in samples)}),
        CI_FILE: _CI.format(install=install, history=_HISTORY) + _CI_RUN,
    }


def result_files(results: str, project: str) -> dict[str, str]:
    """The files for a folder with another tool's results."""
    job = _CI.format(install=install_command(), history="") + _CI_RESULTS.replace(
        "RESULTS", results
    )
    return {"assay.yaml": _HEAD.format(project=project) + _RESULTS, CI_FILE: job}


def _missing() -> Gradable:
    """The placeholder that is written if nothing was found."""
    return Gradable("python", "bot.py", 1, "bot:answer", "edit it: answer(inputs) in bot.py")


COMMANDS = {
    "init": Command(
        run,
        "Set up a project: write an assay.yaml with comments, three samples to edit if it finds"
        " none, and a CI job. Nothing is executed, and no file is overwritten."
        " With --example: a complete small project that needs no key.",
        "assay init --example rag bot",
        (
            arg(
                "dir", nargs="?", metavar="DIR", default=".", help="the folder (default: this one)"
            ),
            arg(
                "--example",
                choices=tuple(EXAMPLES),
                help="write this example project instead",
            ),
        ),
        configured=False,
    ),
}
