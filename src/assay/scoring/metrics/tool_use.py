"""Measures of a run's tool use: selection of tools, arguments, validity, trajectory and handoffs.

A run's expected calls are under `expected.tool_calls`, its tools under `expected.tools`, its
expected handoffs under `expected.handoffs`. Forbidden tools and the graph of handoffs are gates,
not scores: see `scoring.gates`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import InputError
from assay.exact import Ratio
from assay.records.evidence import Run
from assay.scoring.metrics.call_schema import check_call
from assay.scoring.metrics.calls import Expected, Matching, WrittenCall, match, trajectory_match
from assay.scoring.metrics.measure import Measure, Undetermined, shown
from assay.scoring.metrics.tool_calls import read_call


def run_calls(run: Run) -> list[WrittenCall]:
    """The calls that a run made."""
    if run.tool_calls is None:
        raise Undetermined("the run lists no `tool_calls` (an empty list means there were none)")
    return [read_call({"name": call.name, "arguments": call.arguments}) for call in run.tool_calls]


def run_expected(run: Run) -> list[Expected]:
    """The calls that a run should have made: `{"name", "arguments": {argument: value}}`; lists of
    values under `acceptable` add to `arguments`.
    """
    listed = run.expected.get("tool_calls") if isinstance(run.expected, dict) else None
    if not isinstance(listed, list):
        raise Undetermined(
            "the run does not say which calls are right (`expected.tool_calls`; an empty list says"
            " none)"
        )
    expected = []
    for index, item in enumerate(listed):
        name = item.get("name") if isinstance(item, dict) else None
        arguments, acceptable = (
            (item.get("arguments", {}), item.get("acceptable", {}))
            if isinstance(item, dict)
            else (None, None)
        )
        if (
            not isinstance(name, str)
            or not name
            or not isinstance(arguments, dict)
            or not isinstance(acceptable, dict)
        ):
            raise Undetermined(
                f'`expected.tool_calls[{index}]` is not {{"name", "arguments", "acceptable"}}'
            )
        if not all(isinstance(values, list) and values for values in acceptable.values()):
            raise Undetermined(
                f"`expected.tool_calls[{index}].acceptable` contains something that is not a list"
                " of values"
            )
        accepted = {
            argument: [value, *acceptable.get(argument, ())]
            for argument, value in arguments.items()
        }
        accepted.update(
            (argument, values)
            for argument, values in acceptable.items()
            if argument not in arguments
        )
        expected.append(Expected(name, accepted, len(accepted)))
    return expected


def _matching(run: Run) -> Matching:
    try:
        return match(run_calls(run), run_expected(run))
    except InputError as error:
        raise Undetermined(error.message) from None


def _selection(run: Run, _params: Mapping[str, Any]) -> Any:
    return shown(_matching(run).selection)


def _check_recorded(run: Run) -> None:
    """Raise `Undetermined` if arguments were not recorded: nobody knows whether they are wrong."""
    count = sum(call.arguments is None for call in run.tool_calls or ())
    if count:
        raise Undetermined(
            f"{count} of {len(run.tool_calls or ())} tool calls do not have their `arguments`"
            " ({} means there were none)"
        )


def _arguments(run: Run, _params: Mapping[str, Any]) -> Any:
    f1 = _matching(run).argument_f1
    _check_recorded(run)
    return shown(f1)


def _validity(run: Run, params: Mapping[str, Any]) -> Any:
    if not run.tool_calls:
        raise Undetermined(
            "the run lists no `tool_calls`" if run.tool_calls is None else "the run called no tool"
        )
    total = len(run.tool_calls)
    tools = run.expected.get("tools") if isinstance(run.expected, dict) else None
    if tools is None:
        unchecked = sum(call.valid is None for call in run.tool_calls)
        if unchecked:
            raise Undetermined(
                f"{unchecked} of {total} tool calls were not checked (`valid` is null), and the run"
                " does not carry its tools (`expected.tools`)"
            )
        return {"passed": sum(call.valid is True for call in run.tool_calls), "total": total}
    if not isinstance(tools, list) or not all(
        isinstance(tool, dict) and isinstance(tool.get("name"), str) for tool in tools
    ):
        raise Undetermined(
            '`expected.tools` is not a list of {"name", "description", "parameters"}'
        )
    _check_recorded(run)
    valid = 0
    for made, call in zip(run.tool_calls, run_calls(run), strict=True):
        checked = check_call(call, tools, closed=bool(params.get("closed", False)))
        if checked.valid is None:
            raise Undetermined(checked.reason)
        # a reported verdict can only worsen a computed one
        valid += checked.valid and made.valid is not False
    return {"passed": valid, "total": total}


def _trajectory(run: Run, params: Mapping[str, Any]) -> Any:
    calls, expected = run_calls(run), run_expected(run)
    if params["over"] == "arguments":
        _check_recorded(run)
    try:
        return int(trajectory_match(calls, expected, mode=params["mode"], over=params["over"]))
    except InputError as error:
        raise Undetermined(error.message) from None


def handoff_accuracy(
    handoffs: Sequence[tuple[str, str]], expected: Sequence[tuple[str, str]]
) -> Ratio:
    """The share of expected handoffs that were made, each as often as expected, among all that were
    made or expected.

    >>> handoff_accuracy([("a", "b"), ("b", "c"), ("b", "c")], [("a", "b"), ("b", "c")])
    Ratio(num=2, den=3)
    """
    if not handoffs and not expected:
        return Ratio(1, 1)
    return Ratio(
        sum((Counter(map(tuple, handoffs)) & Counter(map(tuple, expected))).values()),
        max(len(handoffs), len(expected)),
    )


def _handoff_accuracy(run: Run, _params: Mapping[str, Any]) -> Any:
    """Handoff accuracy of a run: against `expected.handoffs` if present, else each handoff against
    its `expected`.
    """
    if run.handoffs is None:
        raise Undetermined("the run lists no `handoffs` (an empty list means there were none)")
    made = [(handoff.source, handoff.to) for handoff in run.handoffs]
    if isinstance(run.expected, dict) and "handoffs" in run.expected:
        listed = run.expected["handoffs"]
        expected = [_edge(item) for item in listed] if isinstance(listed, list) else [None]
        known = [edge for edge in expected if edge is not None]
        if len(known) < len(expected):
            raise Undetermined('`expected.handoffs` is not a list of {"from", "to"}')
        return shown(handoff_accuracy(made, known))
    if not made:
        raise Undetermined(
            "the run made no handoff, and `expected.handoffs` does not say that none was due"
        )
    # An unlabelled handoff is not left out: a run could then label only what went well.
    unlabelled = sum(handoff.expected is None for handoff in run.handoffs)
    if unlabelled:
        raise Undetermined(
            f"{unlabelled} of {len(made)} handoffs do not say where they should have gone"
            " (`expected`)"
        )
    right = sum(handoff.to == handoff.expected for handoff in run.handoffs)
    return shown(Ratio(right, len(made)))


def _edge(item: object) -> tuple[str, str] | None:
    """The agents of an expected handoff, written as an object or as a pair."""
    if (
        isinstance(item, dict)
        and isinstance(item.get("from"), str)
        and isinstance(item.get("to"), str)
    ):
        return item["from"], item["to"]
    if (
        isinstance(item, list | tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], str)
    ):
        return item[0], item[1]
    return None


_BFCL = "Patil et al. 2024, Berkeley Function-Calling Leaderboard"

TOOL_USE = (
    Measure(
        "tool_selection_accuracy",
        "1",
        "Tools chosen right, of all that were called or should have been",
        "share",
        "higher is better",
        "zero_one",
        (("tool_calls[].name", "expected.tool_calls[].name"),),
        "undetermined; no call where none is expected is 1",
        _selection,
        citation=_BFCL,
        limits=(
            "Sees names only: not the order, the arguments, or whether a call came too late."
            " Another way to the same end is wrong unless it is expected."
        ),
    ),
    Measure(
        "argument_correctness",
        "1",
        "F1 of arguments, with calls paired to expected calls of the same tool so that the most are"
        " right",
        "share",
        "higher is better",
        "zero_one",
        (("tool_calls[].arguments", "expected.tool_calls"),),
        "undetermined; no call where none is expected is 1",
        _arguments,
        citation=f"{_BFCL}; F1 after van Rijsbergen 1979; assignment after Kuhn 1955",
        limits=(
            "Values compare as JSON: 'Oslo' is not 'oslo', and a date written otherwise is wrong"
            " unless it is acceptable. Every argument weighs the same."
        ),
    ),
    Measure(
        "tool_call_validity",
        "1",
        "Calls that name a tool and match its JSON Schema",
        "share",
        "higher is better",
        "ratio",
        (("tool_calls", "expected.tools"), ("tool_calls[].valid",)),
        "undetermined, also where no tool was called",
        _validity,
        params={"closed": False},
        citation=f"JSON Schema 2020-12; {_BFCL}",
        limits=(
            "A valid call can be the wrong one. Unless `closed`, an argument that the schema does"
            " not declare is accepted as the schema accepts it."
        ),
    ),
    Measure(
        "trajectory_match",
        "1",
        "Whether the path of calls is the expected one",
        "yes or no",
        "higher is better",
        "binary",
        (("tool_calls", "expected.tool_calls"),),
        "undetermined",
        _trajectory,
        range="0 or 1",
        params={"mode": "strict", "over": "names"},
        citation=(
            "the trajectory modes of LangChain's agentevals: strict, unordered, subset, superset"
        ),
        limits=(
            "One expected path: a better one does not match. It does not see what the calls"
            " returned."
        ),
    ),
    Measure(
        "handoff_accuracy",
        "1",
        "Handoffs that went to the right agent",
        "share",
        "higher is better",
        "zero_one",
        (("handoffs", "expected.handoffs"), ("handoffs[].expected",)),
        "undetermined, also where a handoff does not say where it should have gone",
        _handoff_accuracy,
        citation="Workflow Scoring & Evaluation Reference Guide, section 6, profile D",
        limits=(
            "Without `expected.handoffs` a handoff that should have happened and did not is not"
            " seen. The order is not compared."
        ),
    ),
)
