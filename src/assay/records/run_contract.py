"""What was asked of a run: its contract. The rest of the run is its observation: what happened.

Gates and measures are computed from both. A release compares like with like: it scores the
observations of both sides under one contract, so that a version can't pass by asking less of
itself. `under` gives a run another contract; it changes nothing that happened.

One part of a contract says how another tool, or a run of tests, came to its verdict. That can't be
asked again, so runs that differ in it aren't comparable: see `fixed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.records.contract import check
from assay.records.evidence import Run, Step, Tally, Tests, ToolCall
from assay.records.schema_weight import without_notes

_encode = msgspec.json.Encoder(order="sorted", decimal_format="string").encode


def _accepts_all(schema: Any) -> bool:
    """Whether a schema accepts all outputs, which are always an object."""
    if isinstance(schema, dict):
        required, kind = schema.get("required", []), schema.get("type", "object")
        return required == [] and kind == "object" and schema.keys() <= {"required", "type"}
    return schema is True


class Fixed(NamedTuple):
    """How others came to their verdicts."""

    checks: tuple[tuple[str, str], ...] = ()
    """What another tool or a scorer checked, each with its lowest passing value."""
    assertions: Any = None
    """What the dataset asserts of the answer."""
    testing: str | None = None
    """How a patch is tested."""
    unchecked: bool = False
    """Whether the tool that it was imported from passed it without a check."""


class RunContract(NamedTuple):
    """What was asked of a run. None is what it doesn't state."""

    required_inputs: tuple[str, ...] | None = None
    required_outputs: tuple[str, ...] | None = None
    output_schema: Any = None
    """Without titles and descriptions."""
    expected: Any = None
    forbidden_tools: tuple[str, ...] | None = None
    handoff_rules: tuple[tuple[str, str], ...] | None = None
    steps: tuple[tuple[str, bool], ...] = ()
    """Each step, and whether it is critical."""
    tests: tuple[int | None, int | None] = (None, None)
    """How many tests must turn green, and how many must stay so."""
    tools: tuple[tuple[str, tuple[bytes, ...]], ...] = ()
    """The schemas that a model was shown for each tool, as JSON without descriptions."""
    calls_checked: bool | None = None
    """Whether every tool call was held to the schema of its tool; None without calls."""
    fixed: Fixed = Fixed()

    def digest(self) -> bytes:
        """A digest of all of it."""
        return blake2b(_encode(tuple(self._as_stated())), digest_size=16).digest()

    def words(self, other: RunContract) -> list[str]:
        """In which parts it differs from another one."""
        ours, theirs = self._as_stated(), other._as_stated()
        return [
            words for name, words in WORDS.items() if getattr(ours, name) != getattr(theirs, name)
        ]

    def _as_stated(self) -> RunContract:
        """Without what asks nothing: a schema that accepts all outputs, and the steps that are
        critical, as a step is by default: which of them there were is what happened.
        """
        return self._replace(
            output_schema=None if _accepts_all(self.output_schema) else self.output_schema,
            steps=tuple(step for step in self.steps if not step[1]),
        )


WORDS = {
    "required_inputs": "required inputs",
    "required_outputs": "required outputs",
    "output_schema": "output schema",
    "expected": "expected value",
    "forbidden_tools": "forbidden tools",
    "handoff_rules": "handoff rules",
    "steps": "critical steps",
    "tests": "number of tests",
    "tools": "tools",
    "calls_checked": "checked tool calls",
    "fixed": "checks",
}
"""The parts of a contract in words."""
EMPTY = RunContract().digest()
"""The digest of a contract that asks nothing."""


def contract_of(run: Run) -> RunContract:
    """What a run was asked.

    >>> from assay.records.evidence import Dataset, Workflow
    >>> plain = {"schema": "assay.run/1", "run_id": "r", "status": "success"}
    >>> about = {"workflow": Workflow(id="w", version="1"), "dataset": Dataset("d", "1", "s")}
    >>> contract_of(Run(**plain, **about)).digest() == EMPTY
    True
    """
    tests, calls = run.tests, run.tool_calls
    return RunContract(
        _sorted(run.required_inputs),
        _sorted(run.required_outputs),
        without_notes(run.output_schema),
        _expected(run),
        _sorted(run.forbidden_tools),
        None
        if run.handoff_rules is None
        else tuple(sorted({(str(agent), str(other)) for agent, other in run.handoff_rules})),
        _steps(run.steps or ()),
        (None, None) if tests is None else (_total(tests.fail_to_pass), _total(tests.pass_to_pass)),
        _tools(run),
        all(call.checked for call in calls) if calls else None,
        Fixed(
            tuple(sorted((name, str(least)) for name, least in run.checks.items())),
            run.assertions,
            run.testing,
            run.unchecked,
        ),
    )


def _sorted(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(set(names)))


def _expected(run: Run) -> Any:
    """The expected value, with the handoffs that are expected of each agent."""
    edges = [
        [passed.source, passed.expected]
        for passed in run.handoffs or ()
        if passed.expected is not None
    ]
    stated = run.expected
    if (
        not edges
        or (stated is not None and not isinstance(stated, dict))
        or "handoffs" in (stated or ())
    ):
        return stated
    return {**(stated or {}), "handoffs": sorted(edges)}


def _steps(steps: Iterable[Step]) -> tuple[tuple[str, bool], ...]:
    critical: dict[str, bool] = {}
    for step in steps:
        critical[step.name] = critical.get(step.name, False) or step.critical
    return tuple(sorted(critical.items()))


def _total(tally: Tally | None) -> int | None:
    return None if tally is None else tally.total


def _tools(run: Run) -> tuple[tuple[str, tuple[bytes, ...]], ...]:
    shown: dict[str, set[bytes]] = {}
    for tool in run.tools or ():
        shown.setdefault(tool.name, set()).add(_encode(without_notes(tool.schema)))
    return tuple((name, tuple(sorted(schemas))) for name, schemas in sorted(shown.items()))


def under(run: Run, contract: RunContract) -> Run:
    """What happened in this run, asked what another run was asked."""
    return replace(
        run,
        required_inputs=_listed(contract.required_inputs),
        required_outputs=_listed(contract.required_outputs),
        output_schema=contract.output_schema,
        expected=contract.expected,
        forbidden_tools=_listed(contract.forbidden_tools),
        handoff_rules=None if contract.handoff_rules is None else list(contract.handoff_rules),
        steps=None if run.steps is None else _asked_steps(run.steps, contract),
        tests=_asked_tests(run.tests, contract.tests),
        tool_calls=None
        if run.tool_calls is None
        else [_asked_call(call, run, contract) for call in run.tool_calls],
    )


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _asked_steps(steps: list[Step], contract: RunContract) -> list[Step]:
    """The steps, as critical as the contract says. One that it doesn't name is as critical as the
    run says; but if a critical step of the contract is gone, any that failed may be the same step
    under another name.
    """
    critical = dict(contract.steps)
    gone = any(critical.values()) and not {step.name for step in steps}.issuperset(
        name for name, needed in critical.items() if needed
    )
    return [
        replace(
            step,
            critical=critical.get(step.name, step.critical or (gone and step.status != "success")),
        )
        for step in steps
    ]


def _asked_tests(tests: Tests | None, totals: tuple[int | None, int | None]) -> Tests | None:
    """The results out of the tests that the contract has: of fewer tests, those that are missing
    fail, and of more, those that pass don't make up for any that fails.
    """
    if tests is None:
        return None
    asked = [
        tally
        if tally is None or total is None
        else Tally(
            passed=max(0, min(tally.passed, total - tally.total + tally.passed)), total=total
        )
        for tally, total in zip((tests.fail_to_pass, tests.pass_to_pass), totals, strict=True)
    ]
    return Tests(fail_to_pass=asked[0], pass_to_pass=asked[1])


def _asked_call(call: ToolCall, run: Run, contract: RunContract) -> ToolCall:
    """A tool call, held to the contract's schema of its tool. The contract says nothing of a tool
    that it doesn't know.
    """
    schemas: Mapping[str, tuple[bytes, ...]] = dict(contract.tools)
    if call.name not in schemas:
        unsure = contract.calls_checked and not call.checked and call.valid
        return replace(call, valid=None) if unsure else call
    if call.checked and dict(_tools(run)).get(call.name) == schemas[call.name]:
        return call
    known = [
        schema for text in schemas[call.name] if (schema := msgspec.json.decode(text)) is not None
    ]
    if not known:
        return call
    arguments = {} if call.arguments is None else call.arguments
    if isinstance(arguments, str) or (call.arguments is None and not call.checked):
        return replace(call, valid=None if call.arguments is None else False)
    verdicts = {check(schema, arguments).passed for schema in known}
    valid = True if True in verdicts else None if None in verdicts else False
    return replace(call, valid=valid)
