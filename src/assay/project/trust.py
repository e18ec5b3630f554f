"""What an `assay.yaml` may not set unless the user trusts it, because somebody else may have
written it: addresses of other machines, names of environment variables, places and code outside its
folder.

Which option may be set at all is declared with the option, in `cli`. Here are the rules for a value
of each kind, and for the workflows, datasets and judges that the file describes or names. Code
inside the folder needs no trust: `assay run` runs it, which is what one asks it for.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from assay.canon import digest
from assay.errors import AssayError, Fault, raise_faults
from assay.files.json_files import Path, show_path
from assay.files.trust import is_inside, is_remembered, remember
from assay.files.yaml_files import is_yaml_name, read_yaml
from assay.project.config import KINDS, Config, Kind
from assay.registry import is_path

_LOOPBACK = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/[\w./~-]*)?")
"""An address on this machine, written so that no two parsers differ about it."""
_DIALECTS = ("openai", "anthropic")
"""The kinds of judges that send to `base_url` alone, with the key of `key_env` alone."""


def needs_trust(config: Config, key: Path, why: str) -> Fault:
    """The refusal of a setting, which `refuse_untrusted` raises."""
    lines = (config.line(*key[:end]) for end in range(len(key), 0, -1))
    return Fault(
        f"{why}.",
        code="CFG-002",
        file=config.path,
        line=next((line for line in lines if line is not None), None),
        path=show_path(key),
    )


def refuse_untrusted(config: Config, faults: Iterable[Fault]) -> None:
    """Raise these faults unless the user trusts the file."""
    unique = sorted(
        {fault.text(): fault for fault in faults}.values(), key=lambda fault: fault.line or 0
    )
    if unique and not config.trust and not is_remembered(config.path, _content(config)):
        unique[0].fix = (
            "This file isn't trusted. Read it; if you trust it, run `assay trust"
            f" {shlex.quote(config.path)}`, or repeat the command with --trust."
        )
        raise_faults(unique, where=config.path)


def trust(config: Config) -> str:
    """Remember that the user trusts this file as it is, with the files that it names. Gives the
    settings file.
    """
    return remember(config.path, _content(config))


def rules(config: Config, kind: Literal["profile", "policy", "rubric"]) -> str | None:
    """The profile, policy or rubric of a file; refused if it is elsewhere and the file isn't
    trusted.
    """
    name = config.rules(kind)
    if name is not None and (why := reason(config, "name", name)):
        refuse_untrusted(config, [needs_trust(config, (kind,), why)])
    return name


def _content(config: Config) -> str:
    """The digest of a file and of the workflows, datasets and judges that it names."""
    references = {
        str(reference)
        for kind in KINDS
        for reference in (*config.named(kind).values(), config.chosen(kind))
    }
    files = sorted({reference.partition("#")[0] for reference in references} - {config.path})
    return digest([config.tree, {file: _tree(file) for file in files if is_yaml_name(file)}])


def _tree(reference: str) -> Any:
    """The content of a YAML file or a part of one; None if it can't be read, which its reader
    reports.
    """
    try:
        return read_yaml(reference).tree
    except AssayError:
        return None


def reason(config: Config, kind: str, value: str) -> str:
    """Why a value of an option needs trust; empty if it needs none. Paths go from the working
    folder.
    """
    if kind == "address":
        return "" if _LOOPBACK.fullmatch(value) else f"{value!r} is on another machine"
    if kind == "ledger":
        scheme, separator, value = value.partition(":///")
        if scheme != "sqlite" or not separator or "?" in value:
            return "it connects to a database server"
    elif kind != "path" and not (kind == "name" and is_path(value)):
        return ""
    if value == "-" or all(
        is_inside(path, config.folder) for path in (value, value.partition("#")[0])
    ):
        return ""
    return f"{value!r} is outside its folder"


def part_faults(config: Config, kind: Kind, reference: str) -> Iterator[Fault]:
    """What needs trust in a workflow, a dataset or a judge that the file describes or names."""
    key = _key_of(config, kind, reference)
    if why := reason(config, "path", reference):
        yield needs_trust(config, key, why)
    elif isinstance(tree := _tree(reference) if is_yaml_name(reference) else None, dict):
        file = reference.partition("#")[0]
        folder = os.path.dirname(os.path.realpath(file) if kind == "workflow" else file)
        for place, why in _PARTS[kind](config, tree, folder):
            yield needs_trust(config, (*key, *place), why)


def scorer_faults(config: Config) -> Iterator[Fault]:
    """What needs trust in the scorers and gates of a file."""
    for kind in ("scorers", "gates"):
        for index, scorer in enumerate(getattr(config.spec, kind)):
            if why := reason(config, "path", _module_file(scorer.target, config.folder)):
                yield needs_trust(config, (kind, index, "target"), why)


def _key_of(config: Config, kind: Kind, reference: str) -> Path:
    """The key that describes or names a part."""
    named = config.named(kind).items()
    return next(((f"{kind}s", name) for name, found in named if found == reference), (kind,))


def _judge(config: Config, tree: Mapping[str, Any], _: str) -> Iterator[tuple[Path, str]]:
    if tree.get("key_env"):
        yield ("key_env",), "it sends the value of an environment variable"
    if tree.get("api", _DIALECTS[0]) not in _DIALECTS:
        yield ("api",), "it finds an address and a key itself"
    elif why := reason(config, "address", str(tree.get("base_url", ""))):
        yield ("base_url",), why
    if tree.get("proxy_from_environment"):
        yield ("proxy_from_environment",), "it sends what the environment has for a proxy"


def _dataset(config: Config, tree: Mapping[str, Any], folder: str) -> Iterator[tuple[Path, str]]:
    if isinstance(file := tree.get("file"), str):
        yield from _if(("file",), reason(config, "path", os.path.join(folder, file)))
    table = tree.get("table")
    if isinstance(table, dict) and isinstance(url := table.get("url"), str):
        yield from _if(("table", "url"), reason(config, "ledger", url))


def _if(key: Path, why: str) -> Iterator[tuple[Path, str]]:
    if why:
        yield key, why


def _workflow(config: Config, tree: Mapping[str, Any], folder: str) -> Iterator[tuple[Path, str]]:
    for key, path in _code_of(tree, folder):
        yield from _if(key, reason(config, "path", path))
    for key, adapter in _adapters(tree):
        if isinstance(url := adapter.get("url"), str):
            yield from _if((*key, "url"), reason(config, "address", url))
        if adapter.get("headers_from_env"):
            yield (*key, "headers_from_env"), "it sends values of environment variables"


_PARTS = {"workflow": _workflow, "dataset": _dataset, "judge": _judge}


def _code_of(tree: Mapping[str, Any], folder: str) -> Iterator[tuple[Path, str]]:
    """Every file or folder with code that a workflow names."""
    for key, adapter in _adapters(tree):
        if isinstance(target := adapter.get("target"), str):
            yield (*key, "target"), _module_file(target, folder)
        for word in _listed(adapter.get("command")):
            if isinstance(word, str) and "/" in word:
                yield (*key, "command"), os.path.join(folder, word)
    for index, scorer in enumerate(_listed(tree.get("scorers"))):
        if isinstance(scorer, dict) and isinstance(target := scorer.get("target"), str):
            yield ("scorers", index, "target"), _module_file(target, folder)
    repository = tree.get("repository")
    if isinstance(repository, dict):
        for name in ("path", "readable"):
            for path in _listed(repository.get(name)):
                if isinstance(path, str):
                    yield ("repository", name), os.path.join(folder, path)


def _adapters(tree: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every adapter of a workflow, and its key."""
    adapters: list[tuple[Path, Any]] = [(("adapter",), tree.get("adapter"))]
    for kind in ("steps", "agents"):
        parts = tree.get(kind)
        pairs: Any = (
            parts.items()
            if isinstance(parts, dict)
            else enumerate(parts)
            if isinstance(parts, list)
            else ()
        )
        adapters += [
            ((kind, name, "adapter"), part.get("adapter"))
            for name, part in pairs
            if isinstance(part, dict)
        ]
    yield from ((key, adapter) for key, adapter in adapters if isinstance(adapter, dict))


def _listed(value: Any) -> list[Any]:
    """The value as a list: nothing has checked the file's shape yet."""
    return value if isinstance(value, list) else [value]


def _module_file(target: str, folder: str) -> str:
    """The file of `module:name`, or the configuration's folder for an installed module."""
    parts = target.partition(":")[0].split(".")
    for path in (os.path.join(folder, *parts) + ".py", os.path.join(folder, parts[0])):
        if os.path.exists(path):
            return path
    return folder
