"""Markdown from plain values: tables, code blocks, texts that are safe in a table cell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

NOTE = "<!-- Made by docs/generate.py; do not edit. -->"


def page(title: str, *parts: str) -> str:
    """A whole page."""
    return "\n\n".join([f"# {title}", NOTE, *(part.strip("\n") for part in parts if part)]) + "\n"


def cell(text: Any) -> str:
    """A text inside a table cell: one line, no pipe, no markup that we did not write."""
    one_line = " ".join(str(text).split())
    parts = re.split(r"(`[^`]*`)", one_line)
    shown = [
        part
        if part.startswith("`")
        else re.sub(r"(?<!\*)\*(?!\*)", r"\\*", part).replace("<", "&lt;")
        for part in parts
    ]
    return "".join(shown).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; empty where there are no rows."""
    lines = [f"| {' | '.join(cell(value) for value in row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines])


def code(value: Any) -> str:
    """A value as inline code; nothing for nothing."""
    return f"`{value}`" if value not in ("", None) else ""


def block(text: str, language: str = "") -> str:
    """A fenced code block."""
    return f"```{language}\n{text.rstrip()}\n```"


def compact(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


def json_block(value: Any) -> str:
    """JSON over several lines; lists and objects that fit into one line stay on it."""
    return block(_laid_out(value, 0), "json")


def _laid_out(value: Any, indent: int, width: int = 76) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= width or not isinstance(value, dict | list) or not value:
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        inner = [
            f"{pad}{json.dumps(key)}: {_laid_out(item, indent + 2)}" for key, item in value.items()
        ]
        return "{\n" + ",\n".join(inner) + "\n" + " " * indent + "}"
    inner = [f"{pad}{_laid_out(item, indent + 2)}" for item in value]
    return "[\n" + ",\n".join(inner) + "\n" + " " * indent + "]"


def brief(value: Any, depth: int = 0, *, keys: int = 5) -> Any:
    """An answer at a glance: below its first level, objects and lists show where they begin."""
    if isinstance(value, dict):
        kept = list(value.items())[: None if depth == 0 else keys]
        shown = {key: brief(item, depth + 1) for key, item in kept}
        left = len(value) - len(kept)
        return {**shown, "...": f"{left} more {'key' if left == 1 else 'keys'}"} if left else shown
    if isinstance(value, list):
        rest = [f"... {len(value) - 1} more"] if len(value) > 1 else []
        return [*(brief(item, depth + 1) for item in value[:1]), *rest]
    return (
        value[:80].rpartition(" ")[0] + " ..."
        if isinstance(value, str) and len(value) > 80
        else value
    )


def shortened(value: Any, *, items: int = 2, text: int = 160) -> Any:
    """An example without its bulk: of a long list the first items, of a long text its beginning."""
    if isinstance(value, dict):
        return {key: shortened(item, items=items, text=text) for key, item in value.items()}
    if isinstance(value, list):
        kept = [shortened(item, items=items, text=text) for item in value[:items]]
        return [*kept, f"... {len(value) - items} more"] if len(value) > items else kept
    if isinstance(value, str) and len(value) > text:
        return value[:text] + " ..."
    return value
