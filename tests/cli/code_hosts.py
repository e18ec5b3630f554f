"""Programs in the place of `gh` and `glab`: they note how they are called, and answer as told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

_PROGRAM = """#!{python}
import json, os, sys
words = sys.argv[1:]
files = [word.removeprefix("body=@") for word in words if word.startswith("body=@")]
files += [after for word, after in zip(words, words[1:]) if word == "--body-file"]
call = {{
    "words": words,
    "stdin": sys.stdin.read(),
    "body": "".join(open(path, encoding="utf-8").read() for path in files),
    "env": {{name: os.environ.get(name) for name in {names}}},
}}
with open({calls!r}, "a") as stream:
    stream.write(json.dumps(call) + "\\n")
for wanted, text, code in json.load(open({answers!r})):
    if all(word in words for word in wanted):
        print(text)
        sys.exit(code)
"""
_NAMES = ("GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GH_HOST", "GITLAB_TOKEN")


class Call(NamedTuple):
    """One call of the program."""

    words: list[str]
    stdin: str
    body: str
    """The text of the file that it was told to post."""
    env: dict[str, str | None]


class CodeHost:
    """The program of a code host, in a folder of PATH."""

    def __init__(self, folder: Path, name: str) -> None:
        self._calls = folder / f"{name}.calls"
        self._answers = folder / f"{name}.answers"
        self.answer()
        program = folder / name
        program.write_text(
            _PROGRAM.format(
                python=sys.executable,
                names=_NAMES,
                calls=str(self._calls),
                answers=str(self._answers),
            )
        )
        program.chmod(0o755)

    def answer(self, *answers: tuple[tuple[str, ...], str, int]) -> None:
        """Words of a call, and what the program prints and exits with where it has them all."""
        self._answers.write_text(json.dumps(answers))

    @property
    def calls(self) -> list[Call]:
        """What it was called with since it was last asked."""
        if not self._calls.exists():
            return []
        noted: list[dict[str, Any]] = [
            json.loads(line) for line in self._calls.read_text().splitlines()
        ]
        self._calls.unlink()
        return [Call(**call) for call in noted]
