"""`assay library`, `assay versions` and `assay schema-of`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg, flag
from assay.errors import ExitCode, Fault, InputError, ShelfError, UsageError, printable
from assay.files.inputs import open_input
from assay.files.yaml_files import is_yaml_name, read_yaml
from assay.library import fingerprint
from assay.library.lints import clashes, lint, sourceless
from assay.library.lock import BUILTIN
from assay.library.shelf import KINDS, Shelf, changed, load_file, publish
from assay.plugins.points import InstalledPlugin, installed
from assay.registry import Registry, home_value, near_miss

_REGISTRIES = {
    "formulas": "assay.formulas:FORMULAS",
    "gates": "assay.scoring.gates:GATES",
    "measures": "assay.scoring.metrics:MEASURES",
    "importers": "assay.importers.known:KNOWN",
    "exporters": "assay.views.exporters:EXPORTERS",
    "judges": "assay.judging.apis:JUDGE_APIS",
    "adapters": "assay.running.adapters:ADAPTERS",
    "families": "assay.plugins.loading:ALL_FAMILIES",
}
"""Where each kind is that plugins can add to. Its entry points have the group `assay.KIND`."""
_LISTABLE = (*KINDS, *_REGISTRIES)


def _library(options: Options) -> int:
    shelf = opt.shelf_of(options)
    return {"list": _list, "show": _show, "check": _check, "publish": _publish}[options.action](
        options, shelf
    )


def _kind(name: str) -> str:
    for kind in _LISTABLE:
        if name in (kind, kind[:-1], {"policies": "policy", "families": "family"}.get(kind, "")):
            return kind
    raise UsageError(
        "CLI-001",
        f"there is no kind '{name}'.{near_miss(name, _LISTABLE)}",
        fix=f"The kinds are {', '.join(_LISTABLE)}.",
    )


def _list(options: Options, shelf: Shelf) -> int:
    kinds = [_kind(name) for name in options.what] or list(_LISTABLE)
    listed = {kind: _items(kind, shelf) for kind in kinds}
    return opt.give(options, listed, _lines(listed))


def _lines(listed: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for kind, items in listed.items():
        width = max((len(item["id"]) for item in items), default=0)
        yield kind
        yield from (_line(item, width) for item in items)


def _line(item: dict[str, Any], width: int) -> str:
    note = "not published" if item.get("published") is False else ""
    if "origin" in item:
        note = f"plugin of {item['origin']['distribution']} {item['origin']['version']}"
    text = f"broken: {item['fault']}" if item.get("fault") else item["title"] or ""
    return f"  {item['id']:<{width}}  {text}{f'  ({note})' if note else ''}".rstrip()


def _items(kind: str, shelf: Shelf) -> list[dict[str, Any]]:
    if kind not in KINDS:
        registry = home_value(_REGISTRIES[kind])
        shipped = [{"id": name, "title": _title(registry[name])} for name in registry]
        return [*shipped, *(_plugin(plugin, registry) for plugin in installed(f"assay.{kind}"))]
    return [
        {
            "id": entry.id,
            "title": getattr(shelf.load(kind, entry), "title", None),
            "published": entry.key in shelf.lock(entry.root).published,
        }
        for entry in shelf.entries(kind)
    ]


def _title(entry: Any) -> str:
    """What an entry is; an adapter is the function that makes one."""
    if hasattr(entry, "title"):
        return str(entry.title)
    return (getattr(entry, "__doc__", None) or "").strip().partition("\n")[0]


def _plugin(plugin: InstalledPlugin, registry: Registry[Any]) -> dict[str, Any]:
    """A plugin and where it comes from; one that can't be used is listed with the reason."""
    title, fault = None, plugin.fault
    if not fault:
        try:
            title = printable(_title(registry.named(plugin.name)))
        except ShelfError as error:
            fault = error.message
    entry = {"id": plugin.name, "title": title, "origin": plugin.origin._asdict()}
    return {**entry, "fault": fault} if fault else entry


def _show(options: Options, shelf: Shelf) -> int:
    if len(options.what) != 2:
        raise UsageError(
            "CLI-001",
            "show takes a kind and a name.",
            fix="For example: assay library show gates answer_grounded",
        )
    kind, name = _kind(options.what[0]), options.what[1]
    if kind in KINDS:
        item = shelf.profile(name) if kind == "profiles" else shelf.load(kind, name)
        return opt.give(options, item, lambda: _print_file(kind, name, item.id, shelf))
    registry = home_value(_REGISTRIES[kind])
    entry = registry.get(name)
    if entry is None:
        raise ShelfError(
            "LIB-001",
            f"no {registry.kind} is named '{name}'.{registry.near(name)}",
            fix=f"`assay library list {kind}` shows them.",
        )
    own = entry.sheet() if hasattr(entry, "sheet") else {"id": name, "title": _title(entry)}
    for plugin in installed(f"assay.{kind}"):
        if plugin.name == name:
            (mark,) = registry.fingerprints([name]).values()
            own |= {"plugin": str(plugin.origin), "fingerprint": mark}
    return opt.give(options, own, (f"{key:<11} {value}" for key, value in own.items()))


def _print_file(kind: str, name: str, item: str, shelf: Shelf) -> None:
    """Print an item as it is written, in a file that is named or on the shelf."""
    with open_input(
        name.partition("#")[0] if is_yaml_name(name) else shelf.find(kind, item).path
    ) as stream:
        sys.stdout.write(stream.read().decode())


def _guess_kind(tree: Any, path: str) -> str:
    for key, kind in (("profile", "profiles"), ("policy", "policies"), ("rubric_id", "rubrics")):
        if isinstance(tree, dict) and key in tree:
            return kind
    raise ShelfError(
        "LIB-002",
        "is neither a profile, a policy nor a rubric.",
        where=path,
        fix="It needs one of the keys 'profile', 'policy' or 'rubric_id'.",
    )


def _check(options: Options, shelf: Shelf) -> int:
    """Load and lint files, or the whole shelf. Malformed files are exit 3, anti-patterns and
    changed published files exit 1.
    """
    files = list(options.what) or [entry.path for kind in KINDS for entry in shelf.entries(kind)]
    malformed: list[Fault] = []
    faults: list[Fault] = []
    for path in files:
        try:
            document = read_yaml(path)
            kind = _guess_kind(document.tree, path)
            faults += lint(kind, document, shelf)
            record = load_file(kind, path)
            stem = os.path.splitext(os.path.basename(path))[0]
            if "@" in stem and stem != record.id:
                malformed.append(
                    Fault(
                        f"the file is named '{stem}' but contains '{record.id}'.",
                        code="LIB-002",
                        file=path,
                        fix="Rename one of them.",
                    )
                )
            shelf.load(kind, path)
        except InputError as error:
            into = faults if error.code == "LIB-003" else malformed
            into += error.listed(path)
    if not options.what:
        faults += [
            Fault(
                "published and changed since.",
                code="LIB-003",
                file=key,
                fix="Put the change into a new version.",
            )
            for key in changed(shelf)
        ]
        faults += clashes(shelf) + sourceless(shelf)
    report = {
        "files": files,
        "faults": [fault.as_dict() for fault in malformed],
        "findings": [fault.as_dict() for fault in faults],
    }
    code = ExitCode.MALFORMED if malformed else ExitCode.FAILED if faults else ExitCode.PASSED
    rows = ((fault.file or "", fault.text()) for fault in (*malformed, *faults))
    return opt.give(options, report, opt.found_lines(rows, len(files), "fault"), code)


def _publish(options: Options, shelf: Shelf) -> int:
    """Freeze what is new in one library: its own folder with --library, else the built-in one."""
    if options.what:
        raise UsageError("CLI-001", "publish takes no names: it publishes everything that is new.")
    own = shelf.roots[0]
    built_in = own == BUILTIN
    now = fingerprint.current() if built_in else []
    added = publish(
        own,
        fingerprint.recordable(now) if built_in else {},
        measures=fingerprint.recordable_measures() if built_in else {},
    )
    lines = [f"published {key}" for key in added] or ["Nothing new to publish."]
    return opt.give(options, {"published": added}, lines)


def _versions(options: Options) -> int:
    now = fingerprint.current()
    wrong = fingerprint.check(now) if options.check or options.json else []
    left = fingerprint.unchecked(now)
    document = fingerprint.versions(now, wrong)
    # Without its extra a system's behaviour is unknown, which is not the same as unchanged.
    checked = ExitCode.FAILED if wrong else ExitCode.NOT_ENOUGH if left else ExitCode.PASSED
    lines = [f"CHANGED {text}" for text in wrong] + [f"NOT CHECKED {text}" for text in left]
    return opt.give(
        options,
        document,
        chain(
            _version_lines(now, document),
            (lines or ["Behaviour matches the versions."]) if options.check else (),
        ),
        checked if options.check else ExitCode.PASSED,
    )


def _version_lines(now: Iterable[fingerprint.System], document: dict[str, Any]) -> Iterator[str]:
    yield document["scoringSystem"]
    yield document["gradingSystem"]
    yield (
        "A grade carries the versions that its profile and policy state, which are listed with"
        " each of them below."
    )
    for system in now:
        shown = (
            f"{system.fingerprint[:19]}..."
            if system.fingerprint.startswith("sha256:")
            else system.fingerprint
        )
        yield f"{system.family} {system.name}: {shown}"
    shelf = Shelf()
    yield from (f"published {key}{_stated(shelf, key)}" for key in document["published"])


def _stated(shelf: Shelf, key: str) -> str:
    """The version of its system that a published item states; a plain rubric states none."""
    kind, _, name = key.partition("/")
    field, system = (
        ("grading_system", "gradingSystem")
        if kind == "policies"
        else ("scoring_system", "scoringSystem")
    )
    try:
        version = getattr(shelf.load(kind, name), field, None)
    except ShelfError:  # it has changed since, which --check reports
        return ""
    return f": {system}/{version}" if version else ""


def _schema_of(options: Options) -> int:
    from assay.services.documents import document_kinds

    kinds = document_kinds()
    if options.name not in kinds:
        raise UsageError(
            "CLI-001",
            f"there is no schema '{options.name}'.{near_miss(options.name, kinds)}",
            fix=f"Schemas: {', '.join(kinds)}.",
        )
    opt.print_json(kinds[options.name].schema)
    return ExitCode.PASSED


COMMANDS = {
    "library": Command(
        _library,
        "List, show, check and publish profiles, policies and rubrics. It also lists and shows the"
        " formulas, gates and measures they use.",
        "assay library show profiles rag",
        (
            arg(
                "action",
                choices=("list", "show", "check", "publish"),
                help="list or show items, check files, or publish new versions",
            ),
            arg(
                "what",
                nargs="*",
                metavar="WHAT",
                help="list [KIND]; show KIND NAME; check [FILE...]; publish takes nothing",
            ),
            "--library",
        ),
    ),
    "versions": Command(
        _versions,
        "Show the versions of the scoring and the grading system, and what is published.",
        "assay versions --check",
        (
            flag(
                "--check",
                "recompute both behaviour fingerprints; exit 1 if behaviour changed without a new"
                " version, 4 if one of them needs an extra that is not installed",
            ),
        ),
        configured=False,
    ),
    "schema-of": Command(
        _schema_of,
        "Print the JSON Schema (2020-12) of a document.",
        "assay schema-of run > run.schema.json",
        (
            arg(
                "name",
                kind="text",
                metavar="NAME",
                help=(
                    "what to print: run, scorecard, grades, event, profile, exam, prompts, index"
                    " ...; a wrong name lists them all"
                ),
            ),
        ),
        configured=False,
    ),
}
