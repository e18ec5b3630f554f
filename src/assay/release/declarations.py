"""What a run declares about its own bar: required outputs, forbidden tools, the output schema, the
expected value, how many tests there are, the schemas of tools, and the checks that another tool
made.

Gates are computed from these, so a candidate could open them by declaring less. For the same sample
it is held to what the baseline declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from assay.canon import digest
from assay.errors import count
from assay.files.json_files import member
from assay.records.evidence import (
    CHECKS,
    IMPORTED,
    OFFERED,
    TESTING,
    TOOLS,
    UNCHECKED,
    VOUCHED,
    Run,
)
from assay.records.schema_weight import without_notes


class Declarations(NamedTuple):
    """The declarations of one run; of several repeats, the weakest of each."""

    required_outputs: frozenset[str]
    required_inputs: frozenset[str]
    forbidden_tools: frozenset[str]
    critical_steps: frozenset[str]
    other_steps: frozenset[str]
    step_failed: bool
    handoffs: frozenset[tuple[str, str]] | None
    """The handoffs that are allowed; None if the run states none."""
    output_schema: str | None
    expected: str | None
    tests: tuple[int, int]
    """How many tests there are: those that must turn green, and those that must stay so."""
    failing: tuple[int, int]
    """How many of each fail."""
    checks: Mapping[str, Decimal | int]
    tools: Mapping[str, str] | None
    """The schema of each declared tool; None if the run states none."""
    offered: Mapping[str, frozenset[str]]
    """The schemas that each tool was offered with, or declared."""
    called: frozenset[str]
    """The tools that were called."""
    testing: str | None
    """How a patch is tested; None if the run doesn't state it."""
    expected_handoffs: frozenset[tuple[str, str]]
    """Where each agent's handoffs should go."""
    calls_checked: bool | None
    """Whether each tool call was held to the schema that its model was shown, or that the workflow
    file declares. None if there were no calls, or if nothing shows whether one of them is valid.
    """
    unchecked: bool
    """Whether the tool that it was imported from passed it without a check."""

    def of_workflow(self) -> list[str]:
        """The declarations that a workflow makes for all of its samples alike, in words."""
        return [
            *(f"required output {name}" for name in self.required_outputs),
            *(f"forbidden tool {name}" for name in self.forbidden_tools),
        ]


def declared_by(run: Run) -> Declarations:
    """What this run declares."""
    steps, tests, tools = run.steps or (), run.tests, _tools(run.metadata.get(TOOLS))
    tallies = (tests.fail_to_pass, tests.pass_to_pass) if tests is not None else (None, None)
    fail, keep = (0 if tally is None else tally.total for tally in tallies)
    unturned, broken = (0 if tally is None else tally.total - tally.passed for tally in tallies)
    return Declarations(
        frozenset(run.required_outputs or ()),
        frozenset(run.required_inputs or ()),
        frozenset(run.forbidden_tools or ()),
        frozenset(step.name for step in steps if step.critical),
        frozenset(step.name for step in steps if not step.critical),
        any(step.status != "success" for step in steps),
        (
            None
            if run.handoff_rules is None
            else frozenset((str(agent), str(other)) for agent, other in run.handoff_rules)
        ),
        _output_schema(run),
        None if run.expected is None else digest(run.expected),
        (fail, keep),
        (unturned, broken),
        {**_checks(run.metadata.get(CHECKS)), **_importers(run.metadata.get("plugins"))},
        tools,
        _offered(run.metadata.get(OFFERED))
        | {name: frozenset((schema,)) for name, schema in (tools or {}).items()},
        frozenset(call.name for call in run.tool_calls or ()),
        None if run.metadata.get(TESTING) is None else str(run.metadata[TESTING]),
        _expected_handoffs(run),
        _calls_checked(run),
        member(run.metadata, IMPORTED, UNCHECKED) is True,
    )


def _output_schema(run: Run) -> str | None:
    """The digest of the schema; None if it accepts all outputs, which are always an object."""
    stated = without_notes(run.output_schema)
    if isinstance(stated, dict):
        required, kind = stated.get("required", []), stated.get("type", "object")
        is_open = required == [] and kind == "object" and stated.keys() <= {"required", "type"}
        return None if is_open else digest(stated)
    return None if stated in (None, True) else digest(stated)


def _expected_handoffs(run: Run) -> frozenset[tuple[str, str]]:
    """As `handoff_accuracy` reads them: those of `expected`, else the label of each handoff."""
    if not isinstance(run.expected, dict) or "handoffs" not in run.expected:
        labels = ((handoff.source, handoff.expected) for handoff in run.handoffs or ())
        return frozenset((source, to) for source, to in labels if to is not None)
    listed = run.expected["handoffs"]
    edges = [
        [edge.get("from"), edge.get("to")] if isinstance(edge, dict) else edge
        for edge in (listed if isinstance(listed, list) else ())
    ]
    return frozenset(
        (edge[0], edge[1])
        for edge in edges
        if isinstance(edge, list)
        and len(edge) == 2
        and all(isinstance(agent, str) for agent in edge)
    )


def _calls_checked(run: Run) -> bool | None:
    traced = run.metadata.get("otel")
    by_us = VOUCHED not in traced if isinstance(traced, dict) else "workflow_digest" in run.metadata
    unknown = by_us and any(call.valid is None for call in run.tool_calls or ())
    return by_us if run.tool_calls and not unknown else None


def _tools(stated: object) -> dict[str, str] | None:
    if not isinstance(stated, dict):
        return None
    return {name: str(schema) for name, schema in stated.items()}


def _offered(stated: object) -> dict[str, frozenset[str]]:
    return {
        name: frozenset(map(str, schemas))
        for name, schemas in (stated.items() if isinstance(stated, dict) else ())
        if isinstance(schemas, list)
    }


def _checks(stated: object) -> dict[str, Decimal | int]:
    return {
        name: least
        for name, least in (stated.items() if isinstance(stated, dict) else ())
        if isinstance(least, Decimal | int)
    }


def _importers(stated: object) -> dict[str, int]:
    """The plugin that imported a run, as a check: another version of it may read better scores."""
    plugins = stated.items() if isinstance(stated, dict) else ()
    return {
        f"{name.removeprefix('plugin:')} {str(made).removeprefix('sha256:')[:12]}": 0
        for name, made in plugins
        if name.startswith("plugin:importer/")
    }


def weakest(mine: Declarations | None, other: Declarations | None) -> Declarations | None:
    """What two repeats both declare."""
    if mine is None or other is None or mine == other:
        return None if mine is None or other is None else mine
    return Declarations(
        mine.required_outputs & other.required_outputs,
        mine.required_inputs & other.required_inputs,
        mine.forbidden_tools & other.forbidden_tools,
        mine.critical_steps & other.critical_steps,
        mine.other_steps | other.other_steps,
        mine.step_failed or other.step_failed,
        None if mine.handoffs is None or other.handoffs is None else mine.handoffs | other.handoffs,
        mine.output_schema if mine.output_schema == other.output_schema else None,
        mine.expected if mine.expected == other.expected else None,
        (min(mine.tests[0], other.tests[0]), min(mine.tests[1], other.tests[1])),
        (max(mine.failing[0], other.failing[0]), max(mine.failing[1], other.failing[1])),
        {
            name: min(least, other.checks[name])
            for name, least in mine.checks.items()
            if name in other.checks
        },
        mine.tools if mine.tools == other.tools else None,
        {
            name: mine.offered.get(name, frozenset()) | other.offered.get(name, frozenset())
            for name in mine.offered.keys() | other.offered.keys()
        },
        mine.called | other.called,
        mine.testing if mine.testing == other.testing else None,
        mine.expected_handoffs & other.expected_handoffs,
        min(mine.calls_checked, other.calls_checked, key=(False, True, None).index),
        mine.unchecked or other.unchecked,
    )


UNSHOWN = "declarations of its runs (grades and scorecards carry none)"
"""What a candidate lost that comes as grades, where the baseline comes as runs."""


Schemas = Mapping[str, frozenset[str]]
"""The schemas of tools, by name."""


def weakened(
    ours: Declarations | None,
    theirs: Declarations | None,
    *,
    passed: bool,
    elsewhere: Schemas = MappingProxyType({}),
) -> list[str]:
    """What the candidate declares less than the baseline, in words. A run that `passed` without any
    of the baseline's tests left them out; one that failed may never have got to them. Agents that
    the baseline's rules don't mention may hand over freely. Grades and scorecards show no
    declarations: against a baseline that has some, they count as lost. `elsewhere` are the tools
    that the baseline has in any sample.
    """
    if theirs is None or theirs == ours:
        return []
    if ours is None:
        return [UNSHOWN] if _limits(theirs) else []
    lost = [f"required output {name}" for name in theirs.required_outputs - ours.required_outputs]
    lost += [f"required input {name}" for name in theirs.required_inputs - ours.required_inputs]
    lost += [f"forbidden tool {name}" for name in theirs.forbidden_tools - ours.forbidden_tools]
    lost += [f"critical step {name}" for name in _lost_steps(ours, theirs)]
    if theirs.handoffs is not None:
        known = {name for rule in theirs.handoffs for name in rule}
        widened = (
            []
            if ours.handoffs is None
            else [rule for rule in ours.handoffs - theirs.handoffs if known.issuperset(rule)]
        )
        lost += (
            ["handoff rules"]
            if ours.handoffs is None
            else [f"limit on handoffs from {source} to {other}" for source, other in widened]
        )
    if theirs.output_schema is not None and ours.output_schema != theirs.output_schema:
        lost.append("output schema of the baseline")
    if theirs.expected is not None and ours.expected != theirs.expected:
        lost.append("expected value of the baseline")
    lost += [
        f"expected handoff from {source} to {other}"
        for source, other in theirs.expected_handoffs - ours.expected_handoffs
    ]
    if theirs.testing is not None and ours.testing != theirs.testing:
        lost.append("test setup of the baseline")
    lost += lost_schemas(ours, theirs, elsewhere)
    for place, name in enumerate(("fail_to_pass", "pass_to_pass")):
        mine, before, failing = ours.tests[place], theirs.tests[place], ours.failing[place]
        if mine < before and (mine or passed):
            lost.append(f"{count(before - mine, 'test')} of {name}")
        elif 0 < before < mine and failing > theirs.failing[place]:
            # passing tests that only the candidate has would dilute those that it broke
            lost.append(
                f"{name} of the baseline's {before} tests (new: {mine - before}; failing:"
                f" {failing}, {theirs.failing[place]} before)"
            )
    for check, least in theirs.checks.items():
        if check not in ours.checks:
            lost.append(f"check {check}")
        elif ours.checks[check] < least:
            lost.append(f"threshold {least} of {check}")
    return sorted({*lost})


def lost_schemas(
    ours: Declarations, theirs: Declarations, elsewhere: Schemas = MappingProxyType({})
) -> list[str]:
    """The baseline's schemas of tools that the candidate did without: all of them, or those of the
    tools that it declares or calls with another schema. A tool that is just gone can't be called,
    but a new one with a schema that none of the baseline's has may be the same under another name.
    A tool that the baseline has in other samples, with that schema, is not new.
    """
    lost = []
    if theirs.calls_checked and ours.calls_checked is False:
        lost.append("schemas that its tool calls were held to")
    if theirs.tools is not None and ours.tools is None:
        lost.append("schemas of tools")
    used = ours.called if theirs.tools is None else ours.called | (ours.tools or {}).keys()
    known, kept = (
        frozenset(chain.from_iterable(side[name] for name in side.keys() - other.keys()))
        for side, other in ((theirs.offered, {}), (ours.offered, theirs.offered))
    )
    shown = {name: ours.offered.get(name, frozenset()) for name in used}
    new = sorted(
        name
        for name in used - theirs.offered.keys()
        if not shown[name] or shown[name] - known - elsewhere.get(name, frozenset())
    )
    for name, schemas in theirs.offered.items():
        if new and name not in ours.offered and not schemas & kept:
            lost.append(f"schema of the tool {name} (gone; new: {', '.join(new[:5])})")
        elif name in used and (not shown[name] or shown[name] - schemas):
            lost.append(f"schema of the tool {name}")
    return lost


def _limits(stated: Declarations) -> bool:
    """Whether a run declares anything that a candidate could weaken."""
    named = stated.required_outputs | stated.required_inputs | stated.forbidden_tools
    values = (stated.handoffs, stated.output_schema, stated.expected, stated.testing)
    return (
        any(value is not None for value in values)
        or any(stated.tests)
        or bool(named or stated.critical_steps or stated.checks or stated.tools)
        or bool(stated.offered or stated.expected_handoffs or stated.calls_checked)
    )


def _lost_steps(ours: Declarations, theirs: Declarations) -> frozenset[str]:
    """The critical steps of the baseline that the candidate made uncritical, or may have renamed or
    left out because they fail: another version may well have other steps, as long as they are as
    many and none of them fails.
    """
    missing = theirs.critical_steps - ours.critical_steps
    if ours.step_failed or len(ours.critical_steps) < len(theirs.critical_steps):
        return missing
    return missing & ours.other_steps
