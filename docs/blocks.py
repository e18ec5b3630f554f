"""Run the code blocks of the documentation, and write what they print onto the pages.

    python docs/blocks.py                      # every page
    python docs/blocks.py docs/how-to/run.md   # these pages

A page runs from top to bottom in an empty folder, as a reader would follow it. `cd`, exported
variables and Python names last until the end of the page. `tests/docs/test_blocks.py` does the same and
fails where a page shows something else than what is printed today.

How to write a page:

- ```` ```console ```` shows commands with their output. A line that begins with `$ ` is typed; a
  backslash at its end continues it. Leave the rest to this tool. A command that fails ends with a
  line such as `(exit 1)`. To shorten an output, replace lines of it by a line `...`; they may then
  be anything, the exit code may not.
- ```` ```sh ```` is typed as a whole, must succeed, and shows no output.
- ```` ```python ```` is run; if it prints something, the ```` ```text ```` block after it shows it.
- `title="NAME"` after the language makes any block a file: ```` ```yaml title="assay.yaml" ````. It
  is written, not run. A second block with that title replaces the file.
- ```` ```json ````, ```` ```jsonl ````, ```` ```yaml ```` and ```` ```toml ```` must parse. A document with a `schema` must be valid, and
  a profile, policy, rubric or `assay.yaml` must load. With a title they are files too.
- Nothing is prepared out of sight: a page makes every file that it reads. git has an author, pip
  builds without the package index, and `PORT` is a free port, for pages that start something at
  `${PORT:-8321}`.
- `<!-- not run: REASON -->` right before a block leaves it out, because it needs something that a
  test can't have: a key, a cluster, the package index. Python and JSON must still parse.

- `<!-- varies: REASON -->` right before a ```` ```console ```` block keeps the output that it shows, of
  something that chance decides, as long as each command still exits with the same code and prints
  lines that begin with the same words. Fill it in once, and shorten it by hand.

Every block needs a language. `VARYING` lists what may differ from one run to the next: a page keeps
the value it has.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ("docs/reference/", "CHANGELOG.md")
"""Pages without blocks to run: `docs/generate.py` writes the reference from the code."""
VARYING = (
    (re.compile(r"The head is \S+"), "The head is ..."),
    (re.compile(r"duckdb \d+\.\d+\.\d+"), "duckdb ..."),
    (re.compile(r"raw [\d.]+ is (\S+) by lower_is_better"), r"raw ... is \1 by lower_is_better"),
    (re.compile(r"\b20\d{6}T\d{6}Z\b"), "TIME"),
    (re.compile(r"\b20\d\d-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?"), "DATE"),
)
"""What differs between machines and days: the head of the ledger, versions, and times."""
ITEM = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<language>\w*)(?P<info>[^\n`]*)\n(?P<body>.*?)"
    r"^(?P=indent)(?P=fence) *$\n?|<!-- not run:(?P<reason>.*?)-->\n?"
    r"|<!-- varies:(?P<varies>.*?)-->\n?",
    re.DOTALL | re.MULTILINE,
)
TITLE = re.compile(r'\btitle="([^"]+)"')
SIMPLE = re.compile(r"[\w\s./:,@%+=#'\"^-]*")
"""Commands without anything that only a shell understands."""
EXIT = re.compile(r"\(exit \d+\)\n\Z")
SETTINGS = {
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "PIP_NO_BUILD_ISOLATION": "0",  # so pip reads it: build with what is installed
    "PIP_NO_DEPS": "1",
}
BEFORE = r"""
trap 'pwd -P > STATE; env -0 >> STATE' EXIT
pip() { case "$*" in "install assaykit"*) ;; *) command pip "$@" ;; esac; }
"""
"""What a script begins with: it leaves its folder and variables. Assay is installed already."""
PLAIN = ("json", "jsonl", "yaml", "toml", "csv")


class Printed(NamedTuple):
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Both streams."""
        return self.err + self.out


class Skipped(NamedTuple):
    """A block that is not run."""

    line: int
    reason: str


class PageError(Exception):
    """A page that can't be run, with the line where."""


def pages() -> list[str]:
    """Every page whose blocks are run, by its path from the root."""
    paths = (
        str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    )
    return sorted(path for path in paths if not path.startswith(GENERATED))


def skipped(text: str) -> list[Skipped]:
    """The blocks of a page that are not run."""
    return [
        Skipped(_line(text, item), " ".join(item["reason"].split()))
        for item in ITEM.finditer(text)
        if item["reason"] is not None
    ]


def same(shown: str, printed: str) -> bool:
    """Whether a shown output is what was printed, but for what varies and what `...` leaves out."""
    lines = (
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line + "\n")
        for line in plain(shown).splitlines()
    )
    return re.fullmatch("".join(lines), plain(printed)) is not None


def alike(shown: str, printed: str) -> bool:
    """Whether each shown line begins with a word that begins a printed line; words with digits may
    differ.
    """
    firsts = {line.split()[0] for line in printed.splitlines() if line.strip()}
    return all(
        first in firsts
        for line in shown.splitlines()
        if line.strip() and not re.search(r"\d", first := line.split()[0]) and first != "..."
    )


def plain(text: str) -> str:
    """A text without what varies."""
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return text


def run_assay(words: list[str], folder: Path, env: Mapping[str, str]) -> Printed:
    """The command in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words],
        cwd=folder,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return Printed(done.returncode, done.stdout, done.stderr)


class Reader:
    """Somebody who follows a page in a folder: where they are, and what they have set."""

    def __init__(self, folder: Path) -> None:
        self._home = self._at = folder
        tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._env = {**SETTINGS, "PATH": tools, "PORT": _free_port()}
        self._names: dict[str, object] = {"__name__": "__main__"}
        self._shells: list[int] = []
        self._varies = False

    def follow(self, text: str) -> str:
        """A page after its blocks were run, with what they print now."""
        parts: list[str] = []
        done = 0
        reason = ""
        for item in ITEM.finditer(text):
            if item.start() < done:  # the output of a Python block
                continue
            between = text[done : item.start()]
            parts.append(between)
            done = item.end()
            try:
                if item["reason"] is not None:
                    reason = item["reason"].strip()
                    if not reason:
                        raise PageError("`not run` needs a reason")
                    parts.append(item[0])
                    continue
                if item["varies"] is not None:
                    if not item["varies"].strip():
                        raise PageError("`varies` needs a reason")
                    parts.append(item[0])
                    self._varies = True
                    continue
                if (reason or self._varies) and between.strip():
                    raise PageError("`not run` and `varies` must be right before a block")
                if reason:
                    _parse(item["language"], textwrap.dedent(item["body"]))
                    parts.append(item[0])
                else:
                    after = ITEM.match(text, _skip(text, done))
                    output = after if after and after["language"] == "text" else None
                    parts.append(self._block(item, output, _line(text, item)))
                    if item["language"] == "python" and output and not TITLE.search(item["info"]):
                        done = output.end()
            except (PageError, SyntaxError, ValueError) as error:
                raise PageError(f"line {_line(text, item)}: {error}") from error
            reason, self._varies = "", False
        return "".join(parts) + text[done:]

    def _block(self, item: re.Match[str], output: re.Match[str] | None, line: int) -> str:
        """A block after it was run."""
        language, body = item["language"], textwrap.dedent(item["body"])
        if title := TITLE.search(item["info"]):
            path = self._at / title[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
            _parse(language, body)
            return item[0]
        if language == "console":
            return _fenced(item, self._console(body))
        if language == "sh":
            self._script(body)
            return item[0]
        if language == "python":
            was = textwrap.dedent(output["body"]) if output else ""
            printed = _ended(self._python(body, line))
            if not printed:
                return item[0]
            return f"{item[0]}\n{_fenced(item, was if same(was, printed) else printed, 'text')}"
        if language not in PLAIN:
            raise PageError(
                f"a block with the language '{language}' can't be run or checked; docs/blocks.py"
                " lists the languages"
            )
        _parse(language, body)
        return item[0]

    def _console(self, body: str) -> str:
        shown = []
        for command, was in _commands(body):
            words = _words(command)
            if words[0] == "assay" and SIMPLE.fullmatch(command):
                done = run_assay(words[1:], self._at, self._env)
            else:
                done = self._shell(command)
            ended = f"(exit {done.code})\n" if done.code else ""
            text = _ended("\n".join(line.rstrip() for line in done.text.strip("\n").split("\n")))
            output = text + ended
            fits = same(was, output) or (self._varies and bool(was) and alike(was, output))
            kept = was if EXIT.findall(was) == EXIT.findall(output) and fits else output
            shown.append(f"$ {command}\n{kept}")
        return "".join(shown)

    def _script(self, code: str) -> None:
        done = self._shell(f"set -euo pipefail\n{textwrap.dedent(code)}")
        if done.code:
            raise PageError(f"exit {done.code}\n{done.text}")

    def _shell(self, code: str) -> Printed:
        """Run a script; what it starts in the background goes on until the page ends."""
        with tempfile.TemporaryDirectory() as scratch, open(f"{scratch}/printed", "w+b") as printed:
            shell = subprocess.Popen(
                ["bash", "-c", BEFORE.replace("STATE", f"{scratch}/state") + code],
                cwd=self._at,
                env={**os.environ, **self._env},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._shells.append(shell.pid)
            exit_code = shell.wait(timeout=300)
            printed.seek(0)
            text = printed.read().decode("utf-8", "replace")
            self._at, changed = self._state(Path(scratch, "state"))
        self._env.update(changed)
        return Printed(exit_code, text, "")

    def _state(self, path: Path) -> tuple[Path, dict[str, str]]:
        """Where a shell is, and the variables that it has changed."""
        folder, _, variables = path.read_text(encoding="utf-8").partition("\n")
        before = {**os.environ, **self._env}
        pairs = (variable.partition("=") for variable in variables.split("\0") if variable)
        return Path(folder), {
            name: value
            for name, _, value in pairs
            if before.get(name) != value and name not in ("_", "PWD", "OLDPWD", "SHLVL")
        }

    def _python(self, code: str, line: int) -> str:
        printed = io.StringIO()
        compiled = compile("\n" * line + code, "page", "exec")
        sys.path.insert(0, str(self._at))
        try:
            with chdir(self._at), patch.dict(os.environ, self._env), redirect_stdout(printed):
                exec(compiled, self._names)
        finally:
            sys.path.remove(str(self._at))
        return printed.getvalue()

    def leave(self) -> None:
        """End what still runs, and forget modules of the folder."""
        for group in self._shells:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{self._home}{os.sep}"):
                del sys.modules[name]


@contextmanager
def reading(folder: Path) -> Iterator[Reader]:
    """Somebody who follows one page."""
    reader = Reader(folder.resolve())
    try:
        yield reader
    finally:
        reader.leave()


def _free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def _commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the output it has."""
    command, output = "", ""
    for line in body.splitlines():
        if command.endswith("\\") and not output:
            command += f"\n{line}"
        elif line.startswith("$ "):
            if command:
                yield command, output
            command, output = line.removeprefix("$ "), ""
        elif command:
            output += f"{line}\n"
        else:
            raise PageError("a console block begins with a command: `$ assay ...`")
    if command:
        yield command, output


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True) or [""]
    except ValueError:
        return [""]  # the shell reports what is wrong


def _fenced(item: re.Match[str], body: str, language: str | None = None) -> str:
    head = f"{language}" if language else f"{item['language']}{item['info']}"
    block = f"{item['fence']}{head}\n{body}{item['fence']}\n"
    return textwrap.indent(block, item["indent"])


def _ended(text: str) -> str:
    return f"{text.rstrip()}\n" if text.strip() else ""


def _skip(text: str, at: int) -> int:
    """Where the next line with a text begins."""
    blank = re.compile(r"(?: *\n)*").match(text, at)
    return blank.end() if blank else at


def _line(text: str, item: re.Match[str]) -> int:
    return text.count("\n", 0, item.start()) + 1


def _parse(language: str, body: str) -> None:
    """Check a block that can be checked without running it."""
    if language == "python":
        ast.parse(body)
    elif language == "toml":
        tomllib.loads(body)
    elif language == "jsonl":
        for line in body.splitlines():
            _validate(json.loads(line))
    elif language == "json":
        _validate(json.loads(body))
    elif language == "yaml":
        _load_yaml(body)


def _validate(document: Any) -> None:
    """A document that names its schema follows it."""
    import jsonschema_rs

    tag = document.get("schema") if isinstance(document, dict) else None
    if named := re.fullmatch(r"assay\.([a-z-]+)/\d+", str(tag)):
        name = {"exam": "exam-result"}.get(named[1], named[1])
        schema = run_assay(["schema-of", name], ROOT, SETTINGS).text
        jsonschema_rs.validate(json.loads(schema), document)


def _load_yaml(body: str) -> None:
    """YAML parses, and a profile, policy, rubric or configuration loads."""
    import yaml

    from assay.project.config import ConfigFile
    from assay.records.schemas import schema_faults

    trees = list(yaml.safe_load_all(body))
    keys = set(trees[0]) if trees and isinstance(trees[0], dict) else set()
    if "project" in keys:
        faults = [f"{one.path}: {one.message}" for one in schema_faults(ConfigFile, trees[0])]
    elif {"criteria", "version"} <= keys or {"policy", "bands"} <= keys:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "block.yaml").write_text(body, encoding="utf-8")
            done = run_assay(["library", "check", "block.yaml"], Path(folder), SETTINGS)
        faults = [done.text] if done.code else []
    else:
        faults = []
    if faults:
        raise PageError("\n".join(faults))


def main() -> None:
    """Write the pages that are named, or all; list what is not run."""
    for name in sys.argv[1:] or pages():
        page = Path(name) if sys.argv[1:] else ROOT / name
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, reading(Path(folder)) as reader:
            made = reader.follow(text)
        if made != text:
            page.write_text(made, encoding="utf-8")
            print(f"wrote {name}")
        for block in skipped(text):
            print(f"{name}:{block.line} is not run: {block.reason}")


if __name__ == "__main__":
    main()
