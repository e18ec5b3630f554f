"""YAML that others wrote.

It is read through its events: the core schema only (`yes` and `012` are texts), no tags, every key
with its line. Anchors are refused, except in what a program wrote: some write a value that occurs
twice as an alias.
"""

from __future__ import annotations

import os
import re
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from msgspec import structs

from assay.errors import Fault, InputError
from assay.files.inputs import open_input
from assay.files.json_files import Document, Path, show_path

MAX_YAML = 1024 * 1024
MAX_WRITTEN_YAML = 16 * 1024 * 1024
"""Bytes of YAML that a program wrote."""
MAX_YAML_DEPTH = 40
MAX_ALIASED = 2_000_000
"""Values that all aliases of a document may stand for."""

_INT = r"[-+]?(?:0|[1-9][0-9]*)"
_FLOAT = r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_WORDS: dict[str, Any] = {
    "null": None,
    "Null": None,
    "NULL": None,
    "~": None,
    "": None,
    "true": True,
    "True": True,
    "false": False,
    "False": False,
}


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if re.fullmatch(_INT, text) and len(text) < 1000:
        return int(text)
    if re.fullmatch(_FLOAT, text) and len(text) < 1000:
        return _decimal(text)
    return text


_EXACTLY = Context(prec=1000)


def _decimal(text: str) -> Decimal | str:
    """A decimal without trailing zeros, so that 0.60 is written as 0.6 from here on. One that is
    out of range stays as it is, and is refused where it is used.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if abs(number.adjusted()) > 300:
        return number
    whole = int(number)
    return Decimal(whole) if number == whole else number.normalize(_EXACTLY)


def is_yaml_name(name: str) -> bool:
    """Whether a name is that of a YAML file, or of a part of one (`assay.yaml#judges.main`)."""
    return name.partition("#")[0].endswith((".yaml", ".yml"))


def read_yaml(path: str) -> Document:
    """The YAML document of a file, or the part of it that `FILE#KEY` or `FILE#KEY.NAME` names."""
    file, _, key = path.partition("#") if is_yaml_name(path) else (path, "", "")
    with open_input(file) as stream:
        return document_part(parse_yaml(stream.read(MAX_YAML + 1), file), key)


def read_entry(path: str, name_key: str) -> Document:
    """Like `read_yaml`, for an entry whose name is its `name_key`. An entry that is part of a file
    takes its name from its key there; without one, it is named after the project or folder.
    """
    document = read_yaml(path)
    file, _, key = path.partition("#")
    if not key or not isinstance(document.tree, dict):
        return document
    name = key.partition(".")[2]
    if not name:
        project = read_yaml(file).tree.get("project")
        folder = os.path.basename(os.path.dirname(os.path.abspath(file)))
        name = project if isinstance(project, str) else folder
    return structs.replace(document, tree={name_key: name, **document.tree})


def document_part(document: Document, key: str) -> Document:
    """What a document has under `KEY` or `KEY.NAME`, with its lines; all of it without a key."""
    if not key:
        return document
    path = tuple(part for part in key.split(".", 1) if part)
    tree = document.tree
    for part in path:
        if not isinstance(tree, dict) or part not in tree:
            raise InputError("FIL-006", f"there is no {key!r} in this file.", where=document.file)
        tree = tree[part]
    lines = {
        place[len(path) :]: line
        for place, line in (document.lines or {}).items()
        if place[: len(path)] == path
    }
    return structs.replace(document, tree=tree, lines=lines)


def read_written_yaml(path: str) -> Any:
    """The tree of a YAML file that a program wrote: it may be larger than what people write, and
    have aliases. Line numbers are not kept.
    """
    with open_input(path) as stream:
        data = stream.read(MAX_WRITTEN_YAML + 1)
    if len(data) > MAX_WRITTEN_YAML:
        raise InputError(
            "FIL-004",
            f"is larger than {MAX_WRITTEN_YAML // 1024**2} MiB.",
            where=path,
            fix="Let the tool write JSON, which is read piece by piece.",
        )
    return _parsed(data, _AliasBuilder(path)).tree


def parse_yaml(data: bytes, file: str) -> Document:
    """A YAML document with the line of each of its parts, or an error with every fault found."""
    if len(data) > MAX_YAML:
        raise InputError("FIL-004", f"is larger than {MAX_YAML // 1024} KiB.", where=file)
    return _parsed(data, _YamlBuilder(file))


def _parsed(data: bytes, builder: _YamlBuilder) -> Document:
    import yaml  # a third of the cost of starting up, and not every command reads YAML

    file = builder.file
    try:
        for event in yaml.parse(
            data.decode("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        ):
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        where = f"line {mark.line + 1}: " if mark else ""
        at = data.splitlines()[mark.line : mark.line + 1] if mark else []  # none at the very end
        tabs = any(line.lstrip(b" ").startswith(b"\t") for line in at)
        fix = "Indent with spaces instead of the tab." if tabs else ""
        raise InputError("FIL-002", f"{where}not YAML: {problem}.", where=file, fix=fix) from None
    except UnicodeDecodeError:
        raise InputError("FIL-002", "is not UTF-8 text.", where=file) from None
    return builder.document()


_NO_KEY = object()


class _Open:
    """A mapping or list that is being filled."""

    __slots__ = ("key", "path", "value")

    def __init__(self, value: Any, path: Path) -> None:
        self.value = value
        self.path = path
        self.key: Any = _NO_KEY


class _YamlBuilder:
    """Builds a tree from YAML events, without recursion, and notes the line of everything."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self.lines: dict[Path, int] = {}
        self.root: list[Any] = []
        self.stack: list[_Open] = []
        self.documents = 0

    def document(self) -> Document:
        if self.faults:
            raise InputError(
                self.faults[0].code, self.faults[0].message, where=self.file, faults=self.faults
            )
        if not self.root:
            raise InputError("FIL-005", "the file is empty.", where=self.file)
        return Document(self.root[0], self.file, None, self.lines)

    def take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        kind = type(event).__name__
        if kind == "ScalarEvent":
            if event.tag is not None and event.tag != "!":
                self._fault(f"the tag {event.tag} is not allowed.", line)
            if event.anchor is not None:
                self._fault("tags and anchors are not allowed.", line, fix="Write the value out.")
            self._put(_scalar(event.value) if event.implicit[0] else event.value, line)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            if event.tag is not None or event.anchor is not None:
                self._fault("tags and anchors are not allowed.", line, fix="Write the value out.")
            self._open({} if kind == "MappingStartEvent" else [], line)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self.stack.pop()
        elif kind == "AliasEvent":
            raise InputError(
                "FIL-002",
                f"line {line}: aliases are not allowed.",
                where=self.file,
                fix="Write the value out.",
            )
        elif kind == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                raise InputError(
                    "FIL-002",
                    f"line {line}: a second document begins; a file has one.",
                    where=self.file,
                )

    def _fault(
        self, message: str, line: int, *, code: str = "FIL-002", path: Path = (), fix: str = ""
    ) -> None:
        self.faults.append(
            Fault(message, code=code, file=self.file, line=line, path=show_path(path), fix=fix)
        )

    def _open(self, value: Any, line: int) -> None:
        if len(self.stack) >= MAX_YAML_DEPTH:
            raise InputError(
                "FIL-004", f"nests more than {MAX_YAML_DEPTH} deep at line {line}.", where=self.file
            )
        path: Path = ()
        if self.stack:
            top = self.stack[-1]
            if isinstance(top.value, dict) and top.key is _NO_KEY:
                raise InputError(
                    "FIL-002", f"line {line}: a key must be a plain word.", where=self.file
                )
            path = (
                (*top.path, len(top.value))
                if isinstance(top.value, list)
                else (*top.path, str(top.key))
            )
        self._put(value, line)
        self.stack.append(_Open(value, path))

    def _put(self, value: Any, line: int) -> None:
        if not self.stack:
            self.lines[()] = line
            self.root.append(value)
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            self.lines[(*top.path, len(top.value))] = line
            top.value.append(value)
        elif top.key is _NO_KEY:
            if not isinstance(value, str):
                value = str(value).lower() if isinstance(value, bool) else str(value)
            if value in top.value:
                self._fault(
                    f"the key '{value}' appears twice.",
                    line,
                    code="FIL-003",
                    path=top.path,
                    fix="Keep one.",
                )
            top.key = value
            self.lines.setdefault((*top.path, value), line)
        else:
            top.value[top.key] = value
            top.key = _NO_KEY


class _AliasBuilder(_YamlBuilder):
    """A builder that allows aliases, as long as their expansion is finite and not too large."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.anchors: dict[str, Any] = {}
        self.sizes: dict[int, int] = {}
        self.aliased = 0

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        anchor = getattr(event, "anchor", None)
        if kind == "AliasEvent":
            self._alias(str(anchor), event.start_mark.line + 1)
            return
        if anchor is not None:
            event.anchor = None
        super().take(event)
        self.lines.clear()
        if anchor is not None and kind in ("MappingStartEvent", "SequenceStartEvent"):
            self.anchors[anchor] = self.stack[-1].value
        elif anchor is not None:
            self.anchors[anchor] = _scalar(event.value) if event.implicit[0] else event.value

    def _alias(self, anchor: str, line: int) -> None:
        value = self.anchors.get(anchor)
        if anchor not in self.anchors or any(value is node.value for node in self.stack):
            raise InputError(
                "FIL-002", f"line {line}: the alias {anchor!r} stands for nothing.", where=self.file
            )
        self.aliased += self._size(value)
        if self.aliased > MAX_ALIASED:
            raise InputError(
                "FIL-004",
                f"line {line}: aliases stand for more than {MAX_ALIASED:,} values.",
                where=self.file,
            )
        self._put(value, line)

    def _size(self, value: Any) -> int:
        """How many values this is, written out."""
        if not isinstance(value, dict | list):
            return 1
        known = self.sizes.get(id(value))
        if known is None:
            parts = value.values() if isinstance(value, dict) else value
            known = self.sizes[id(value)] = 1 + sum(self._size(part) for part in parts)
        return known


def locate(source: bytes) -> dict[str, int]:
    """The line of each part of a JSON text, by its path as people write it; empty if the text is
    too large or can't be read as YAML.
    """
    try:
        lines = parse_yaml(source, "").lines or {}
    except InputError:
        return {}
    return {show_path(path): line for path, line in lines.items()}
