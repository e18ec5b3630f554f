"""`assay init`: an assay.yaml, samples and a CI job for a folder; or a complete example project.

It asks nothing and overwrites nothing. It reads the code in the folder (see `init_search`) and
never runs it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from assay.canon import pretty
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg
from assay.errors import UsageError, printable
from assay.files.atomic import refuse_links_out, write_file
from assay.files.tables import table_columns
from assay.files.upwards import CONFIG_FILE
from assay.installing import install_command
from assay.project.config import ConfigFile, read_config
from assay.project.trust import trust
from assay.records.descriptions import described_schema

MAX_FILES, MAX_DEPTH, MAX_BYTES = 3000, 5, 512 * 1024
MAX_RESULTS, MAX_LINE = 200, 64 * 1024
IS_EXPECTED = re.compile(r"(?i)(expected|gold)([_.-].|$)")
"""The name of a column that says what is expected."""
_SKIPPED = {"node_modules", "venv", "env", "site-packages", "build", "dist", "target", "tests"}


_SKIPPED |= {"assay-runs"}  # what `assay run` wrote


_RESULTS = (".json", ".jsonl", ".eval", ".xml", ".csv")
_INPUTS = (
    "question",
    "query",
    "prompt",
    "message",
    "inputs",
    "task",
    "text",
    "user_input",
    "input",
)
_VERBS = (
    "answer",
    "ask",
    "respond",
    "reply",
    "chat",
    "run",
    "invoke",
    "generate",
    "handle",
    "solve",
)


class Gradable(NamedTuple):
    """Something in the folder that can be graded."""

    kind: str
    """langgraph, agent_framework, python, http or mcp."""
    file: str
    line: int
    target: str
    """`module:name`, a URL, or the command of a server."""
    why: str
    input: str = "question"
    is_async: bool = False
    takes_record: bool = False
    """Whether a function's second parameter is the recorder."""


class ResultFile(NamedTuple):
    """A file that `assay import` reads."""

    file: str
    importer: str
    title: str


class DataFile(NamedTuple):
    """A file with samples: one of its columns says what is expected."""

    file: str
    columns: list[str]


class FolderSearch(NamedTuple):
    """Everything that was found, best first, and what could not be read."""

    subjects: list[Gradable]
    results: list[ResultFile]
    data: list[DataFile]
    tables: list[str]
    """Other tables, which may have samples under other names."""
    unread: list[str]


ORDER = ("langgraph", "agent_framework", "mcp", "http", "python")


def search(folder: str) -> FolderSearch:
    """Look at a folder."""
    subjects: list[Gradable] = []
    results: list[ResultFile] = []
    data: list[DataFile] = []
    tables: list[str] = []
    unread: list[str] = []
    for path in _files(folder):
        name = os.path.relpath(path, folder)
        if name.endswith(".py") and not os.path.basename(name).startswith(("test_", "conftest")):
            tree = _tree(path)
            if tree is None:
                unread.append(name)
            else:
                subjects += _subjects(tree, name)
        elif os.path.basename(name) in ("mcp.json", ".mcp.json"):
            subjects += _servers(path, name)
        elif name.endswith(_RESULTS) and len(results) < MAX_RESULTS:
            results += (known := list(_results(path, name)))
            columns = [] if known else _columns(path)
            if any(map(IS_EXPECTED.match, columns)):
                data.append(DataFile(name, columns))
            elif len(columns) > 1:
                tables.append(name)
    subjects.sort(
        key=lambda subject: (ORDER.index(subject.kind), _rank(subject), subject.file, subject.line)
    )
    return FolderSearch(subjects, results, data, tables, unread)


def _rank(subject: Gradable) -> int:
    """Functions named like a bot's come first."""
    name = subject.target.rpartition(":")[2]
    return next((at for at, verb in enumerate(_VERBS) if name.startswith(verb)), len(_VERBS))


def _files(folder: str) -> Iterator[str]:
    """The files of a folder, nearest first, without links, hidden folders and other people's
    packages.
    """
    level, seen = [folder], 0
    for _ in range(MAX_DEPTH):
        below: list[str] = []
        for place in level:
            try:
                entries = sorted(os.scandir(place), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                if entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    hidden = entry.name.startswith((".", "__")) or entry.name in _SKIPPED
                    if not hidden and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                        below.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    seen += 1
                    if seen > MAX_FILES:
                        return
                    yield entry.path
        level = below


def _tree(path: str) -> ast.Module | None:
    try:
        if os.path.getsize(path) > MAX_BYTES:
            return None
        with open(path, "rb") as stream:
            return ast.parse(stream.read(MAX_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _results(path: str, name: str) -> Iterator[ResultFile]:
    from assay.importers.head import HEAD, Head
    from assay.importers.known import fitting

    try:
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
    except OSError:
        return
    for importer in fitting(Head(path, head))[:1]:
        yield ResultFile(name, importer.name, importer.title)


def _columns(path: str) -> list[str]:
    """The columns of a table, or the keys in the first line of a JSON Lines file."""
    try:
        with open(path, "rb") as stream:
            line = stream.readline(MAX_LINE)
        if path.endswith(".csv"):
            return table_columns(line, path)
        row = json.loads(line)
        return list(row) if isinstance(row, dict) else []
    except (OSError, ValueError, RecursionError):
        return []


def _servers(path: str, name: str) -> Iterator[Gradable]:
    """The servers of an MCP client's settings."""
    try:
        with open(path, "rb") as stream:
            servers = json.loads(stream.read(MAX_BYTES)).get("mcpServers")
        for server in servers.values():
            words = [str(server["command"]), *map(str, server.get("args", ()))]
            command = " ".join(f'"{word}"' if " " in word else word for word in words)
            yield Gradable("mcp", name, 1, command, f"an MCP server in {name}")
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return


def _subjects(tree: ast.Module, file: str) -> Iterator[Gradable]:
    imported = {name.split(".")[0] for name in _imports(tree)}
    module = file.removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")
    named = [
        (name, node)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for name in _names(node)
    ]
    for name, node in named:
        made = _made_by(node.value)
        if "langgraph" in imported and made in ("compile", "create_react_agent"):
            why = f"{file}:{node.lineno} compiles a LangGraph graph"
            yield Gradable("langgraph", file, node.lineno, f"{module}:{name}", why)
        elif "agent_framework" in imported and made in ("build", "ChatAgent", "Agent", "as_agent"):
            why = f"{file}:{node.lineno} builds an Agent Framework workflow"
            yield Gradable("agent_framework", file, node.lineno, f"{module}:{name}", why)
        elif made in ("FastMCP", "MCPServer") and imported & {"mcp", "fastmcp"}:
            why = f"{file}:{node.lineno} makes an MCP server"
            yield Gradable("mcp", file, node.lineno, f"python3 {file}", why)
        elif made in ("FastAPI", "Flask") and imported & {"fastapi", "flask"}:
            yield _endpoint(tree, file, node.lineno, name, made)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function(function, file, module, imported)


def _function(
    function: ast.FunctionDef | ast.AsyncFunctionDef, file: str, module: str, imported: set[str]
) -> Iterator[Gradable]:
    """A function that builds a graph, or one that takes a question."""
    if function.name.startswith("_"):
        return
    arguments = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    required = len(arguments) - len(function.args.defaults)
    place = f"{file}:{function.lineno}"
    target = f"{module}:{function.name}"
    is_async = isinstance(function, ast.AsyncFunctionDef)
    returned = {
        _made_by(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value is not None
    }
    for kind, what, makers in (
        ("langgraph", "a LangGraph graph", {"compile", "create_react_agent"}),
        ("agent_framework", "an Agent Framework workflow", {"build", "ChatAgent", "Agent"}),
    ):
        if kind in imported and returned & makers and required == 0:
            yield Gradable(kind, file, function.lineno, target, f"{place} returns {what}")
            return
    if not arguments or function.decorator_list:
        return
    first, takes_record = arguments[0], arguments[1:2] == ["record"]
    if required > 1 + takes_record:
        return
    if first in _INPUTS and any(isinstance(node, ast.Return) for node in ast.walk(function)):
        taken = f"{first}, record" if takes_record else first
        why = f"{place} has a function {function.name}({taken})"
        yield Gradable("python", file, function.lineno, target, why, first, is_async, takes_record)


def _endpoint(tree: ast.Module, file: str, line: int, app: str, made: str) -> Gradable:
    """The first route of an app that takes a POST."""
    route = next((path for path in _routes(tree, app)), "/")
    port = 8000 if made == "FastAPI" else 5000
    why = f"{file}:{line} is a {made} app" + (f" with POST {route}" if route != "/" else "")
    return Gradable("http", file, line, f"http://127.0.0.1:{port}{route}", why)


def _routes(tree: ast.Module, app: str) -> Iterator[str]:
    for function in tree.body:
        for call in getattr(function, "decorator_list", ()):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            owner, path = call.func.value, call.args[0] if call.args else None
            if not (isinstance(owner, ast.Name) and owner.id == app):
                continue
            if not (isinstance(path, ast.Constant) and isinstance(path.value, str)):
                continue
            posts = any(
                isinstance(node, ast.Constant) and node.value == "POST"
                for keyword in call.keywords
                for node in ast.walk(keyword.value)
            )
            if call.func.attr == "post" or (call.func.attr == "route" and posts):
                yield path.value


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _names(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _made_by(value: ast.expr | None) -> str:
    """The name of what is called last: `compile` in `StateGraph(S).add(...).compile()`."""
    if not isinstance(value, ast.Call):
        return ""
    function = value.func
    return (
        function.attr
        if isinstance(function, ast.Attribute)
        else function.id
        if isinstance(function, ast.Name)
        else ""
    )


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
_BASELINE = "baseline: production         # what `assay gate FILE` compares with\n"
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
    return {"assay.yaml": _HEAD.format(project=project) + _BASELINE, CI_FILE: job}


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
