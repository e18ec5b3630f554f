"""Phrases that our documents, messages and docstrings avoid, each with what to write instead.

    python tests/docs/prose.py src/assay/cli docs/how-to      # every hit, with its place

`tests/docs/test_prose.py` runs the same rules over the repository.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple


class Phrase(NamedTuple):
    """A pattern to avoid, an example of it, and the advice."""

    pattern: re.Pattern[str]
    example: str
    advice: str


def _phrase(pattern: str, example: str, advice: str) -> Phrase:
    return Phrase(re.compile(pattern, re.MULTILINE), example, advice)


PHRASES = (
    _phrase(
        r"(?<![Tt]here )\b(?:is|are|was|were) no "
        r"(?!more\b|worse\b|different\b|one\b|need\b|way\b|limit\b|doubt\b"
        r"|(?:bett|low|high|few|small|larg|bigg|old|new|long|short|fast|slow|strong|weak|hard)er\b"
        r")[\w.`']+",
        "A dataset is no .xlsx.",
        "say what the thing is, or 'is not a ...'",
    ),
    _phrase(
        r"\b(?:has|have|had) not (?:the|a|an|any|its|their|one|enough|every)\b",
        "This token has not the scope.",
        "'lacks', 'doesn't have'",
    ),
    _phrase(
        r"\b(?:is|are) none (?:that|this|of|the)\b",
        "The extension is none this verb writes.",
        "name what is supported",
    ),
    _phrase(r"\b[Oo]f no use\b", "It is of no use.", "'useless', 'doesn't help'"),
    _phrase(
        r"\bof (?:its|their|his) own\b", "It has a page of its own.", "'its own page', 'separate'"
    ),
    _phrase(r"\b[Ww]hoever\b", "Whoever reads it.", "'anyone who', 'readers'"),
    _phrase(r"\bas it were\b", "A gate, as it were.", "leave it out"),
    _phrase(
        r"\b[Ss]tands?\b(?! for\b| in for\b| out\b|-)|\bstood\b",
        "The reason stands next to it.",
        "'is', 'appears', 'applies'",
    ),
    _phrase(
        r"\b(?:[Tt]ells|told|telling)\b(?!\|)(?! \S+ (?:\S+ ){0,3}(?:apart|from|to)\b| apart\b| from\b)",
        "It tells the score.",
        "'reports', 'shows', 'explains'; 'tell A from B' is fine",
    ),
    _phrase(r"\b[Mm]end(?:s|ed|ing)?\b", "Mend the failures.", "'fix', 'repair'"),
    _phrase(r"\b[Bb]eside\b", "Two processes beside it.", "'next to', 'besides', 'alongside'"),
    _phrase(r"\b(?:[Ll]eaves?|left) (?:\S+ )?away\b", "Leave `--now` away.", "'omit'"),
    _phrase(r"\bat the least\b", "One change at the least.", "'at least'"),
    _phrase(r"\bborne\b", "Claims are borne out.", "'supported'"),
    _phrase(
        r"\b(?:anew|thereof|therein|wherein|whereof|thereby|herein|henceforth|lest|albeit|naught)\b",
        "It is made anew.",
        "'again', 'new', or a plain word",
    ),
    _phrase(r"\bfaults? of ours\b", "That is a fault of ours.", "'internal error'"),
    _phrase(r"\bsuch (?:a )?ones?\b", "There is no such one.", "repeat the noun"),
    _phrase(r"\b[Tt]h(?:at|ose) which\b", "Those which fail.", "'what', 'those that'"),
    _phrase(
        r"\bholds? (?:no|several|more than|a NUL)\b",
        "The folder holds no schema.",
        "'contains', 'has'; a rule or a gate holds",
    ),
    _phrase(r"\bnot done after\b", "It was not done after 5 s.", "'did not finish within'"),
    _phrase(r"\blast words\b", "Its last words were x.", "'its last output was'"),
    _phrase(
        r"\b(?:JSON|nobody) can(?:not|'t) say\b|\bcan(?:not|'t) be said\b",
        "JSON cannot say NaN.",
        "'can't express', 'can't be estimated', 'is unknown'",
    ),
    _phrase(r"\bfor ever\b", "It waits for ever.", "'forever'"),
    _phrase(r"\b[Ll]et(?:s|ting)? (?:\w+ ){0,2}go\b", "Let a client go.", "'drop', 'release'"),
    _phrase(
        r"(?<=[.] )What (?!is\b|are\b|was\b|does\b|do\b|did\b|if\b|this\b|happens\b)"
        r"[^.?,:;\n]{3,60} (?:is|are|does|cannot|can't|has|counts|stays|goes|comes|gets|fails)\b"
        r"(?! (?:made|read|given|for|of|in|on|to|by|and|with)\b)[^?\n]*?\.",
        "No key. What cannot be understood is not answered.",
        "say who does what",
    ),
)


def _any(edge: bool) -> str:
    patterns = (phrase.pattern.pattern for phrase in PHRASES)
    return "|".join(one.removeprefix(EDGE) for one in patterns if one.startswith(EDGE) is edge)


EDGE = r"\b"
ANY = re.compile(rf"{EDGE}(?:{_any(True)})|{_any(False)}", re.MULTILINE)
"""Every phrase at once, which takes a third of the time; most files have none."""

TOKEN = re.compile(
    r"(?P<comment>\#[^\n]*)|(?P<quotes>\"\"\"|\"|')(?P<string>(?:\\[\s\S]|(?!(?P=quotes))[^\\])*)(?P=quotes)"
)
"""A comment or a string of Python. Parsing every module would take ten times as long."""

_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


class Hit(NamedTuple):
    """A phrase at a place."""

    place: str
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.place}: …{self.text}… ({self.advice})"


def hits(path: Path) -> Iterator[Hit]:
    """Every phrase to avoid in a Markdown page, a template, or the strings and comments of a
    module.
    """
    texts = list(_texts(path))
    whole = "\n".join(text for _, text in texts)  # one search for each phrase; none crosses a line
    starts = list(accumulate((len(text) + 1 for _, text in texts), initial=0))
    for phrase in PHRASES if ANY.search(whole) else ():
        for match in phrase.pattern.finditer(whole):
            place = bisect(starts, match.start()) - 1
            line, text = texts[place]
            first, last = (end - starts[place] for end in match.span())
            around = text[max(0, first - 30) : last + 30]
            yield Hit(f"{path}:{line}", " ".join(around.split()), phrase.advice)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text()
    if path.suffix != ".py":
        blocks = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
        plain = blocks.sub(lambda block: "\n" * block[0].count("\n") or "`x`", text)
        yield from enumerate(plain.splitlines(), 1)
        return
    start, end, joined = 0, -1, ""
    for found in TOKEN.finditer(text):
        if end < 0 or found["comment"] or text[end : found.start()].strip(" \nf"):
            if " " in joined:
                yield text.count("\n", 0, start) + 1, " ".join(joined.split())
            start, joined = found.start(), ""
        joined += found["comment"] or _PLACEHOLDER.sub("{}", found["string"]).replace("\\n", " ")
        end = -1 if found["comment"] else found.end()
    yield text.count("\n", 0, start) + 1, " ".join(joined.split())


def files(root: Path) -> Iterator[Path]:
    """The files with prose under a folder, or the file itself."""
    for path in [root] if root.is_file() else sorted(root.rglob("*")):
        if path.suffix in (".py", ".md", ".j2", ".html") and not {"vendor", "__pycache__"} & set(
            path.parts
        ):
            yield path


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for file in files(Path(name)):
            for hit in hits(file):
                print(hit)
