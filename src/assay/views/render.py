"""HTML by Jinja2: one environment, autoescaping, and the templates in `templates/`.

Text of a document is hostile. A template escapes whatever it prints; only what a macro made goes
through as it is. Characters that no reader sees are replaced in the finished page, so that no run
poses as another by them. Nothing outside this module knows Jinja2.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from assay.views.times import ago

TEMPLATES = Path(__file__).parent / "templates"
_MACRO = re.compile(r"\{%-? macro (\w+)\(")
_NOW: ContextVar[datetime | None] = ContextVar("now", default=None)
# Controls, half a surrogate pair, the marks that make text run backwards, and what has no width;
# but neither joiners, which emoji and Persian need, nor the direction marks of Hebrew and Arabic.
# Tags are seen in the flag of a region only.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
    "(?<![\U0001f3f4\U000e0020-\U000e007f][\U000e0020-\U000e007f])"
)


@cache
def environment() -> Environment:
    """The one environment of every page and report."""
    made = Environment(
        autoescape=True,
        loader=FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals["ago"] = lambda time: ago(time, _NOW.get())
    made.filters["coded"] = _coded
    return made


def _coded(text: str) -> str:
    """A sentence of ours with names between backticks as code; a piece is drawn as it is."""
    parts = text.split("`") if type(text) is str else []
    if len(parts) < 3 or len(parts) % 2 == 0:  # a lone backtick is a character like any other
        return text
    code = macro("code")
    return Markup("").join(code(part, "") if at % 2 else part for at, part in enumerate(parts))


@cache
def _homes() -> dict[str, str]:
    """The template of every macro: each subject has a file, and no two macros share a name."""
    homes: dict[str, str] = {}
    for path in sorted(TEMPLATES.glob("*.html")):
        for name in _MACRO.findall(path.read_text("utf-8")):
            assert name not in homes, f"{path.name} and {homes[name]} both have {name}"
            homes[name] = path.name
    return homes


@cache
def macro(name: str) -> Callable[..., Markup]:
    """The macro that draws a piece or a block, by its kind."""
    made: Callable[..., Markup] = getattr(environment().get_template(_homes()[name]).module, name)
    return made


def html(template: str, *, now: datetime | None = None, **values: Any) -> str:
    """A whole page by its template. With `now`, times read as "3 min ago" and have the moment in
    their title; without it, in a file that somebody keeps, they are the moment itself.
    """
    token = _NOW.set(now)
    try:
        return clean(environment().get_template(template).render(values))
    finally:
        _NOW.reset(token)


def clean(text: str) -> str:
    r"""Text without the characters that no reader sees.

    >>> clean("a\u202eb\u200b\n")
    'a\ufffdb\ufffd\n'
    """
    return _UNSEEN.sub("\ufffd", text)


@cache
def stylesheet(*names: str) -> Markup:
    """Our style sheets as text, for a self-contained page."""
    return Markup("".join((TEMPLATES / name).read_text("utf-8") for name in names))  # noqa: S704 - files of ours


@cache
def _script(name: str) -> tuple[Markup, str]:
    """A script of ours as text, and the digest by which a content policy lets it run."""
    text = (TEMPLATES / name).read_text("utf-8")
    own = b64encode(sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{own}"  # noqa: S704 - a file of ours


def report(title: str, *parts: Any, heading: str = "", styles: str = "", script: str = "") -> str:
    """A self-contained page: it loads nothing, and runs no script except `script`."""
    text, digest = _script(script) if script else (Markup(), "")
    return html(
        "report.html",
        title=title,
        heading=heading,
        parts=parts,
        style=stylesheet("pages.css", "standalone.css") + Markup(styles),  # noqa: S704 - ours
        script=text,
        digest=digest,
    )
