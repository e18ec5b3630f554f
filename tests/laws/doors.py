"""The doors to a release decision, each asked the same question: what it answers, in one form."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import assay
from assay.cli.frame import load_command
from assay.cli.release_settings import release_settings
from assay.errors import AssayError
from assay.mcp.project import ServedProject
from assay.mcp.tools import decide_release
from assay.release.decision import EXITS
from commands import in_folder, run_here
from serving import Api, serving

LEDGER = ".assay/ledger.db"
OF_FOLDER, OF_LEDGER = "folder:", "ledger:"
"""How a question names a stored baseline. What has an extension is a file, the rest evaluations."""


class Question(NamedTuple):
    """What is asked of every door."""

    candidate: str
    baseline: str
    options: Mapping[str, Any] = {}
    """By the names of `assay.gate`."""

    @property
    def names(self) -> tuple[str, str]:
        """Both sides."""
        return self.candidate, self.baseline


class Answer(NamedTuple):
    """A decision, or the code of its refusal, and what the command exits with."""

    code: str = ""
    outcome: str = ""
    reason: str = ""
    rules: tuple[tuple[str, bool | None, bool], ...] = ()
    notes: tuple[str, ...] = ()
    regraded: tuple[str, ...] = ()
    exit: int | None = None

    @property
    def short(self) -> str:
        """The outcome or the code."""
        return self.outcome or self.code


class Door(NamedTuple):
    """A way to ask, in a folder and of the server on its ledger."""

    can_ask: Callable[[Question], bool]
    ask: Callable[[Path, Api, Question], Answer]


def answer(tree: Mapping[str, Any]) -> Answer:
    """A decision as an answer."""
    return Answer(
        "",
        tree["outcome"],
        tree["reason"],
        tuple((rule["id"], rule["holds"], rule["violated"]) for rule in tree["rules"]),
        tuple(tree.get("notes") or ()),
        tuple(tree.get("regraded") or ()),
        EXITS[tree["outcome"]],
    )


def refusal(error: AssayError) -> Answer:
    """An error as an answer."""
    return Answer(error.code, exit=int(error.exit_code))


def is_file(name: str) -> bool:
    """Whether a reference is a file."""
    return "." in name


def is_tool(name: str) -> bool:
    """Whether it is a file of another tool."""
    return name.endswith((".csv", ".eval")) or name.startswith("tool-")


def by_command(folder: Path, api: Api, question: Question) -> Answer:
    """`assay gate --json`."""
    words: list[str] = []
    for name, value in question.options.items():
        option = {"policy": "grading-policy", "slices": "slice", "plan": "with-plan"}.get(
            name, name.replace("_", "-")
        )
        for text in value if isinstance(value, tuple) else (value,):
            words += [f"--{option}", str(text)]
    stored = question.baseline.startswith(OF_LEDGER)
    found = in_folder(folder, run_here)(
        "gate",
        question.candidate,
        "--baseline",
        question.baseline.removeprefix(OF_FOLDER).removeprefix(OF_LEDGER),
        *words,
        *(["--store"] if stored else ["--no-store"]),
        "--json",
    )
    if not found.out:
        code = re.search(r'"code": "([A-Z]+-\d+)"', found.err)
        assert code, found.err
        return Answer(code[1], exit=found.code)
    made = answer(found.json())
    assert made.exit == found.code
    return made


def can_python(question: Question) -> bool:
    return not (
        any(map(is_tool, question.names))
        or question.baseline.startswith(OF_LEDGER)
        or {"min_pass_rate", "min_overlap"} & question.options.keys()
    )


def by_python(folder: Path, api: Api, question: Question) -> Answer:
    """`assay.gate`, which doesn't import, and looks for baselines in the folder."""
    with contextlib.chdir(folder):
        try:
            decided = assay.gate(
                question.candidate,
                question.baseline.removeprefix(OF_FOLDER),
                **dict(question.options),
            )
        except AssayError as error:
            return refusal(error)
    return answer(decided.decision.tree())


def can_load(question: Question) -> bool:
    return can_python(question) and not any(
        is_file(name) or ":" in name or name.startswith("latest") for name in question.names
    )


def by_python_on_outcomes(folder: Path, api: Api, question: Question) -> Answer:
    """`assay.gate` on evaluations that were loaded before."""
    with contextlib.chdir(folder):
        try:
            candidate, baseline = map(assay.load, question.names)
            decided = assay.gate(candidate, baseline, **dict(question.options))
        except AssayError as error:
            return refusal(error)
    return answer(decided.decision.tree())


def can_http(question: Question) -> bool:
    """A server reads no file that a request names."""
    known = {"release_policy", "policy", "profile", "rubric", "quarantine", "slices", "plan"}
    names = [str(question.options.get(name, "")) for name in ("profile", "release_policy")]
    return not (
        question.options.keys() - known - {"fresh", "fresh_baseline"}
        or any(is_tool(name) or name.startswith(OF_FOLDER) for name in question.names)
        or any(map(is_file, names))
    )


def by_http(folder: Path, api: Api, question: Question) -> Answer:
    """`POST /api/v1/decisions`, with the content of files."""
    fields = {"release_policy": "policy", "policy": "grading_policy"}
    body: dict[str, Any] = {
        "candidate": _sent(folder, question.candidate),
        "baseline": _sent(folder, question.baseline),
    }
    for name, value in question.options.items():
        if name in ("fresh", "fresh_baseline"):
            value = _sent(folder, value)
        elif name == "plan":
            value = json.loads((folder / value).read_text())
        body[fields.get(name, name)] = list(value) if isinstance(value, tuple) else value
    found = api.post("/decisions", body)
    tree = found.json()
    return answer(tree["decision"]) if found.status_code == 201 else Answer(tree["code"])


def _sent(folder: Path, name: str) -> Any:
    if not is_file(name):
        if name.startswith(OF_LEDGER):
            return {"baseline": name.removeprefix(OF_LEDGER)}
        return {"evaluation": name}
    text = (folder / name).read_text()
    return (
        [json.loads(line) for line in text.splitlines()] if ".jsonl" in name else [json.loads(text)]
    )


def can_page(question: Question) -> bool:
    return not question.options and not any(
        is_file(name) or name.startswith((OF_FOLDER, "latest")) for name in question.names
    )


def by_page(folder: Path, api: Api, question: Question) -> Answer:
    """The compare page, whose button stores the decision that it shows."""
    baseline = question.baseline.replace(OF_LEDGER, "baseline:")
    shown = api.client.get(
        "/compare",
        params={"of": [baseline, question.candidate]},
        headers={"Accept": "text/html"},
    ).text
    if code := re.search(r"Error ([A-Z]+-\d+)\.", shown):
        return Answer(code[1])
    sent = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', shown))
    if stored := re.search(r'href="/decisions/(sha256:[0-9a-f]+)"', shown):
        digest = stored[1]
    else:
        made = api.client.post(
            "/compare",
            data=sent,
            headers={"Accept": "text/html", "Origin": "http://127.0.0.1"},
            follow_redirects=False,
        )
        assert made.status_code == 303, made.text[-500:]
        digest = made.headers["location"].rpartition("/")[2]
    return answer(api.get(f"/decisions/{digest}").json()["record"])


def can_mcp(question: Question) -> bool:
    return not question.options and not question.baseline.startswith(OF_LEDGER)


def by_mcp(folder: Path, api: Api, question: Question) -> Answer:
    """`decide_release`, which takes two names and no options."""
    with contextlib.chdir(folder):
        try:
            found = decide_release(
                ServedProject(str(folder.resolve())),
                {
                    "candidate": question.candidate,
                    "baseline": question.baseline.removeprefix(OF_FOLDER),
                },
            )
        except AssayError as error:
            return refusal(error)
    made = answer(found.document)
    assert found.document["exit_code_of_assay_gate"] == made.exit
    return made


DOORS: dict[str, Door] = {
    "python": Door(can_python, by_python),
    "outcomes": Door(can_load, by_python_on_outcomes),
    "http": Door(can_http, by_http),
    "page": Door(can_page, by_page),
    "mcp": Door(can_mcp, by_mcp),
}
"""Every door besides the command line, which they are compared with."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Api]:
    """A server on the ledger of a folder, with the rules of its assay.yaml."""
    with contextlib.chdir(folder):
        settings = release_settings(load_command("view").parse("view", []))
    with serving(f"sqlite:///{folder}/{LEDGER}", release=settings) as api:
        yield api
