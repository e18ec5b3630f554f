"""One call of a tool of `assay mcp`, from its arguments to its answer.

The answer includes the notes that a verb would print. An error becomes an answer too: what is
wrong, where, and what to do. A traceback never leaves the process.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from contextlib import redirect_stderr
from typing import Any, NamedTuple

import jsonschema_rs

from assay.canon import plain
from assay.cli.mcp_bounds import BoundedAnswer, shown_text
from assay.cli.mcp_project import ServedProject
from assay.cli.mcp_tools import AgentTool
from assay.errors import AssayError, FaultList, UsageError, count

MOST_TEXT = 24_000
"""Characters of the text of an answer."""
FAULTS = 20
_LONG = 200


class CallAnswer(NamedTuple):
    """What a client gets for a call."""

    document: dict[str, Any]
    text: str
    is_error: bool = False


def answer_call(
    project: ServedProject, tool: AgentTool, arguments: Mapping[str, Any]
) -> CallAnswer:
    """Check the arguments of a call and answer it, within the limits of an answer."""
    stderr = io.StringIO()
    try:
        _check(tool, arguments)
        with redirect_stderr(stderr):
            made = tool.answer(project, arguments)
    except AssayError as error:
        return _refused(error)
    except RecursionError:
        return _refused(AssayError("FIL-004", "the input is nested too deeply."))
    except Exception as error:
        fault = AssayError(
            "ERR-001",
            f"internal error: {type(error).__name__}: {error}.",
            where=tool.name,
            fix="Report it together with the call.",
        )
        return _refused(fault)
    lines = [line.strip().removeprefix("assay: ") for line in stderr.getvalue().splitlines()]
    notes = list(dict.fromkeys(filter(None, lines)))
    bounded = BoundedAnswer(text=made.most)
    document = bounded.tree(plain(made.document))
    document["notes"] = BoundedAnswer().tree([*notes, *document.get("notes", ())])
    document["truncated"] = bounded.cuts
    if bounded.more_cuts:
        document["truncated_elsewhere"] = bounded.more_cuts
    return CallAnswer(document, _cut("\n".join([*map(shown_text, notes), made.text])))


def _check(tool: AgentTool, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that the tool's schema does not allow, with every fault of them."""
    faults = FaultList(tool.name, code="MCP-001", limit=FAULTS)
    for error in jsonschema_rs.Draft202012Validator(tool.input_schema).iter_errors(dict(arguments)):
        path = ".".join(map(str, error.instance_path))
        message = error.message
        if len(message) > _LONG:  # the value first, and what is wrong with it at the end
            message = f"{message[:40]}…{message[-100:]}"
        faults.add(f"{shown_text(message)}.", path=path)
    if faults.count:
        first = faults.error()
        takes = ", ".join(tool.properties)
        raise UsageError(
            "MCP-001",
            "; ".join(fault.text().rstrip(".") for fault in first.faults) + ".",
            where=tool.name,
            fix=f"It takes {takes}.",
        )


_SHELL = re.compile(r"`assay |(?<![\w-])--[a-z]")


def without_commands(text: str) -> str:
    """A text without the sentences that name a command or an option of a shell: an agent has the
    tools but no shell.

    >>> without_commands("Name a run. `assay evals list` shows them.")
    'Name a run.'
    """
    return " ".join(
        sentence for sentence in re.split(r"(?<=[.!?]) ", text) if not _SHELL.search(sentence)
    )


def _refused(error: AssayError) -> CallAnswer:
    error.fix = without_commands(error.fix)
    error.message = without_commands(error.message) or error.message
    for fault in getattr(error, "faults", ()):
        fault.fix = without_commands(fault.fix)
    document = BoundedAnswer(items=FAULTS).tree(plain(error.as_dict()))
    return CallAnswer(document, _cut(f"{error} [{error.code}]"), is_error=True)


def _cut(text: str) -> str:
    shown = shown_text(text, most=MOST_TEXT)
    left = len(text) - MOST_TEXT
    return shown if left <= 0 else f"{shown}\n{count(left, 'more character')} left out."
