"""The names of runs on a command line, as what `project.inputs` makes of them: sources, and the
rules that they are graded by.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.configured import COMMAND_LINE
from assay.cli.imported_inputs import (
    MADE,
    report_import,
)
from assay.cli.parsing import Resolved
from assay.project.imports import Reading
from assay.project.inputs import InputResolver, Lookup
from assay.project.names import LedgerNames
from assay.services.evaluation_choice import CHOSEN, FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from assay.cli.parsing import Options

STORED = "the evaluation"
"""Where an option's value comes from that an evaluation was stored with."""


def reading_of(options: Options) -> Reading:
    """How the options have other tools' files read."""
    return Reading(options.kind, options.map, options.config)


def ledger_names(options: Options) -> LedgerNames:
    """The names of the ledger that the options choose."""
    url = getattr(options, "db", None) or getattr(options, "store", None) or ""
    return LedgerNames(url, options.project, config=options.config)


def _lookup(options: Options, *, items: bool = False) -> Lookup:
    # `assay baseline` calls the folder `--dir`
    baselines = getattr(options, "baselines", "") or getattr(options, "dir", "")
    return Lookup(
        opt.note,
        options.project,
        baselines,
        getattr(options, "db", None) or "",
        getattr(options, "store", None),
        reading_of(options),
        items,
        bool(getattr(options, "stored_grades", False)),
    )


@contextmanager
def resolved(
    options: Options, named: Mapping[str, Sequence[str]], *, items: bool = False
) -> Iterator[Options]:
    """The options with a source for every name, while a command works. `named` has the values of
    each option that takes runs.
    """
    lookup = _lookup(options, items=items)
    with tempfile.TemporaryDirectory() as folder, InputResolver(lookup, folder) as resolver:
        values: dict[str, Any] = {}
        for dest, texts in named.items():
            baseline = dest == "baseline"
            made = resolver.inputs(texts, baseline=baseline or dest == "others")
            (resolver.baselines if baseline else resolver.candidates).extend(made)
            if made:
                several = isinstance(getattr(options, dest), list)
                values[dest] = made if several else made[0]
        options = options.with_values(**values, resolved=Resolved(resolver.stored))
        if not lookup.grades or resolver.imported:
            options = _graded_by(options, resolver)
        for imported in resolver.imported:
            report_import(imported)
        yield options


def suggested_baseline(options: Options) -> str | None:
    """A baseline in the ledger that the candidate of the options can be compared with."""
    with InputResolver(_lookup(options), "") as resolver:
        resolver.candidates.extend(options.files)
        return resolver.suggested()


def _graded_by(options: Options, resolver: InputResolver) -> Options:
    """The options with the rules that grade the inputs, as far as the command takes any."""
    known = [name for name, _ in CHOSEN if _option(options, name) in options]
    given = given_rules(options)
    profile = getattr(options, "profile", "")
    is_named = profile == "" or (
        profile is not None and options.sources.get("profile", COMMAND_LINE) == COMMAND_LINE
    )
    chosen = resolver.rules(
        given=given if "profile" in known else {**given, "profile": ""},
        configured=_configured(options, given),
        is_named=is_named,
        flags={name: f"--{_option(options, name).replace('_', '-')}" for name in FLAGS},
        shelf=opt.shelf_of(options) if "library" in options else None,
    )
    sources = options.sources
    if chosen.made is not None:
        return options.with_values(
            profile=resolver.profile_file(chosen.made.profile),
            rubric=None,
            sources={**sources, "profile": MADE, "rubric": MADE},
            resolved=options.resolved._replace(made=chosen.made),
        )
    values = {name: getattr(chosen, name) for name in known}
    if "profile" in known and chosen.own is not None:
        values["profile"] = resolver.profile_file(chosen.own, "profiles")
        sources = {**sources, "profile": STORED, "rubric": STORED}
    changed = {
        name: value
        for name, value in values.items()
        if value != getattr(options, _option(options, name))
    }
    return options.with_values(
        **{_option(options, name): value for name, value in changed.items()},
        sources=sources,
        resolved=options.resolved._replace(rules=frozenset(changed)),
    )


def _option(options: Options, name: str) -> str:
    """The option that names the profile, the rubric or the policy."""
    return f"grading_{name}" if f"grading_{name}" in options else name


def given_rules(options: Options) -> dict[str, Any]:
    """What the command line names of profile, rubric and policy."""
    given: dict[str, Any] = {}
    for name, default in CHOSEN:
        option = _option(options, name)
        value = getattr(options, option, default)
        if name in options.resolved.rules:  # those that evaluations were stored with
            continue
        if options.sources.get(option, COMMAND_LINE if value != default else "") == COMMAND_LINE:
            given[name] = value
    return given


def _configured(options: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    """What assay.yaml sets of them."""
    values = {name: getattr(options, _option(options, name), default) for name, default in CHOSEN}
    return {
        name: values[name]
        for name, default in CHOSEN
        if name not in given and values[name] != default
    }
