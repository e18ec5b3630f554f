"""Compare calls with expected calls: tool selection, arguments, trajectory.

Calls are paired with expected calls of the same tool so that the most arguments are right; an extra
call counts against precision, a missing one against recall. A call without arguments counts as one
argument, so that extra calls are not free. All scores are exact fractions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from assay.errors import InputError
from assay.exact import Ratio
from assay.grouping import grouped
from assay.scoring.checks import is_among, key
from assay.scoring.metrics import bfcl

MAX_CELLS = 250_000
"""The most pairs of calls of one tool that are compared: five hundred different calls against five
hundred take seconds.
"""
Mode = Literal["strict", "unordered", "subset", "superset"]
Over = Literal["names", "arguments"]


class WrittenCall(NamedTuple):
    """One call. `arguments` is None if it can't be read, which matches nothing."""

    name: str
    arguments: dict[str, Any] | None


class Expected(NamedTuple):
    """One expected call. `declared` and `named` are set if the rules look at the tool."""

    name: str
    accepted: Mapping[str, list[Any]] | None
    """The acceptable values of each argument; None if the expectation is malformed and nothing can
    match.
    """
    required: int
    """How many arguments are required."""
    declared: Mapping[str, Any] | None = None
    """The parameters that its tool declares."""
    named: frozenset[str] = frozenset()
    """The parameters that its tool requires."""


class CallPair(NamedTuple):
    """How well a call matches an expected call of the same tool."""

    right: int
    """Arguments that are right."""
    wanted: int
    """Arguments to get right: the required ones, and the optional ones that the call has; at least
    1.
    """
    is_whole: bool
    """Whether the whole call is right."""


class Pairing(NamedTuple):
    """A pair, with the indexes of its call and its expected call."""

    call: int
    expected: int
    pair: CallPair


class Matching(NamedTuple):
    """The best assignment of calls to expected calls."""

    calls: int
    expected: int
    selected: int
    """Calls of an expected tool, each expected call counted once."""
    right: int
    given: int
    wanted: int
    whole: int
    pairs: list[Pairing]

    @property
    def selection(self) -> Ratio:
        """The share of right tools among all called or expected ones; 1 if there are none."""
        return (
            Ratio(self.selected, max(self.calls, self.expected))
            if self.calls or self.expected
            else Ratio(1, 1)
        )

    @property
    def argument_f1(self) -> Ratio:
        """2 right / (given + wanted); 1 if no call was made or expected."""
        return (
            Ratio(2 * self.right, self.given + self.wanted)
            if self.calls or self.expected
            else Ratio(1, 1)
        )

    @property
    def is_correct(self) -> bool:
        """Whether the calls are the expected ones, in any order."""
        return self.calls == self.expected == self.whole


class MatchingRules(NamedTuple):
    """How a call is compared with an expected call of the same tool."""

    name: str
    compare: Callable[[WrittenCall, Expected], CallPair]
    is_transitive: bool
    """Whether two calls that match one single-valued expectation match exactly the same
    expectations; then equal calls are paired without comparing all.
    """


def right_arguments(given: Mapping[str, Any], accepted: Mapping[str, Any]) -> int:
    """How many of the arguments have one of their acceptable values.

    >>> right_arguments({"x": 1, "y": "a", "z": 0}, {"x": [1.0], "y": ["b"]})
    1
    """
    right = 0
    for name, value in given.items():
        listed = accepted.get(name)
        right += type(listed) is list and is_among(value, listed)
    return right


def _compare_plain(call: WrittenCall, expected: Expected) -> CallPair:
    given, accepted = call.arguments, expected.accepted
    if given is None or accepted is None:
        return CallPair(0, expected.required or 1, False)
    if not given and not accepted:
        return _NO_ARGUMENTS
    right, wanted = right_arguments(given, accepted), len(accepted)
    return CallPair(right, wanted or 1, right == wanted == len(given))


_NO_ARGUMENTS = CallPair(1, 1, True)


def _compare_bfcl(call: WrittenCall, expected: Expected) -> CallPair:
    given, accepted, declared = call.arguments, expected.accepted, expected.declared
    if given is None or accepted is None or declared is None:
        return CallPair(0, expected.required or 1, False)
    if not given and not expected.required:
        return _NO_ARGUMENTS
    right = optional = 0
    for name, value in given.items():
        listed = accepted.get(name)
        if listed is not None and name in declared:
            optional += "" in listed and name not in expected.named
            right += bfcl.argument_fault(value, declared[name], listed) is None
    # if as many are right as there are to get right, none is missing
    return CallPair(
        right,
        expected.required + optional or 1,
        right == len(given) == expected.required + optional,
    )


PLAIN = MatchingRules("plain", _compare_plain, True)
BFCL = MatchingRules("bfcl", _compare_bfcl, False)
RULES: dict[str, MatchingRules] = {rules.name: rules for rules in (PLAIN, BFCL)}


def _units(call: WrittenCall) -> int:
    return len(call.arguments) if call.arguments else 1


def match(
    calls: Sequence[WrittenCall], expected: Sequence[Expected], *, rules: MatchingRules = PLAIN
) -> Matching:
    """Pair calls with expected calls of the same tool, so that the most arguments are right.

    >>> lookup = Expected("lookup", {"city": ["Oslo"], "day": [1]}, 2)
    >>> matching = match(
    ...     [WrittenCall("lookup", {"city": "Oslo", "day": 2}), WrittenCall("wipe", {})], [lookup]
    ... )
    >>> matching.selection, matching.argument_f1
    (Ratio(num=1, den=2), Ratio(num=2, den=5))
    """
    wishes = grouped((wish.name, index) for index, wish in enumerate(expected))
    made = grouped((call.name, index) for index, call in enumerate(calls) if call.name in wishes)
    pairs: list[Pairing] = []
    for name, rows in made.items():
        pairs += _pair_up(calls, expected, rows, wishes[name], rules)
    pairs.sort(key=lambda pairing: pairing.expected)
    right = whole = 0
    wanted = sum(wish.required or 1 for wish in expected)
    for _, at, pair in pairs:
        right += pair.right
        whole += pair.is_whole
        wanted += pair.wanted - (expected[at].required or 1)
    given = sum(map(_units, calls))
    return Matching(len(calls), len(expected), len(pairs), right, given, wanted, whole, pairs)


def _pair_up(
    calls: Sequence[WrittenCall],
    expected: Sequence[Expected],
    rows: list[int],
    columns: list[int],
    rules: MatchingRules,
) -> list[Pairing]:
    """The best pairs of calls and expected calls of one tool: most right arguments, then fewest
    wrong optional ones, then most calls that are wholly right.
    """
    if len(rows) == 1 and len(columns) == 1:
        return [Pairing(rows[0], columns[0], rules.compare(calls[rows[0]], expected[columns[0]]))]
    pairings: list[Pairing] = []
    if rules.is_transitive:
        rows, columns = _take_equal(calls, expected, rows, columns, rules, pairings)
    if not rows or not columns:
        return pairings
    keys = {row: key(calls[row].arguments, typed=not rules.is_transitive) for row in rows}
    # no more of several equal calls can be paired than there are expected calls
    copies: Counter[Any] = Counter()
    kept = []
    for row in rows:
        copies[keys[row]] += 1
        if copies[keys[row]] <= len(columns):
            kept.append(row)
    rows = kept
    if len(rows) * len(columns) > MAX_CELLS:
        raise InputError(
            "FIL-004",
            f"{len(rows):,} different calls of {calls[rows[0]].name!r} would be matched with"
            f" {len(columns):,} expected ones; at most {MAX_CELLS:,} pairs are compared.",
        )
    compared: dict[Any, list[CallPair]] = {}
    for row in rows:
        if keys[row] not in compared:
            compared[keys[row]] = [
                rules.compare(calls[row], expected[column]) for column in columns
            ]
    optional = sum(len(expected[column].accepted or ()) for column in columns)
    weights = {
        name: [
            _weight(pair, expected[column], len(columns), optional)
            for pair, column in zip(line, columns, strict=True)
        ]
        for name, line in compared.items()
    }
    for row, at in zip(rows, assign([weights[keys[row]] for row in rows]), strict=True):
        if at is not None:
            pairings.append(Pairing(row, columns[at], compared[keys[row]][at]))
    return pairings


def _take_equal(
    calls: Sequence[WrittenCall],
    expected: Sequence[Expected],
    rows: list[int],
    columns: list[int],
    rules: MatchingRules,
    pairings: list[Pairing],
) -> tuple[list[int], list[int]]:
    """Pair each single-valued expectation with the first free call that equals it. Returns the rows
    and columns that are left.

    Such a pair is always part of a best assignment: giving the call to another expectation gains at
    most what it loses.
    """
    left = []
    free = grouped((key(calls[row].arguments), row) for row in reversed(rows))
    for column in columns:
        wish = expected[column]
        accepted = wish.accepted
        alike = (
            free.get(key({name: listed[0] for name, listed in accepted.items()}))
            if accepted is not None and _is_single(wish)
            else None
        )
        if alike:
            row = alike.pop()
            pairings.append(Pairing(row, column, rules.compare(calls[row], wish)))
        else:
            left.append(column)
    taken = {pairing.call for pairing in pairings}
    return [row for row in rows if row not in taken], left


def _is_single(wish: Expected) -> bool:
    return wish.accepted is not None and all(len(listed) == 1 for listed in wish.accepted.values())


def _weight(pair: CallPair, expected: Expected, pairs: int, optional: int) -> int:
    """An integer in which one right argument outweighs all optional ones, and one of those
    outweighs all whole calls.
    """
    return (pair.right * (optional + 1) - (pair.wanted - (expected.required or 1))) * (
        pairs + 1
    ) + pair.is_whole


def trajectory_match(
    calls: Sequence[WrittenCall],
    expected: Sequence[Expected],
    *,
    mode: Mode,
    over: Over,
) -> bool:
    """Whether the sequence of calls is the expected one.

    `strict`: the same calls in the same order. `unordered`: the same calls. `subset`: no call
    beyond the expected ones. `superset`: every expected call, and maybe more. `over` decides
    whether calls are compared by tool name, or by name and arguments.

    >>> path = [WrittenCall("plan", {}), WrittenCall("write", {})]
    >>> [
    ...     trajectory_match(path, [Expected("write", {}, 0)], mode=mode, over="names")
    ...     for mode in ("strict", "unordered", "subset", "superset")
    ... ]
    [False, False, False, True]
    """
    if mode == "strict":
        return len(calls) == len(expected) and all(
            call.name == wish.name and (over == "names" or _compare_plain(call, wish).is_whole)
            for call, wish in zip(calls, expected, strict=True)
        )
    if over == "names":
        common = sum(
            (
                Counter(call.name for call in calls) & Counter(wish.name for wish in expected)
            ).values()
        )
    else:
        wishes = [wish._replace(required=1) for wish in expected]
        common = match(calls, wishes, rules=_WHOLE).whole
    return (mode == "superset" or common == len(calls)) and (
        mode == "subset" or common == len(expected)
    )


def _compare_whole(call: WrittenCall, expected: Expected) -> CallPair:
    pair = _compare_plain(call, expected)
    return CallPair(int(pair.is_whole), 1, pair.is_whole)


_WHOLE = MatchingRules("whole", _compare_whole, True)


# --- the best assignment


def assign(weights: Sequence[Sequence[int]]) -> list[int | None]:
    """The column of each row, so that the sum of the weights is largest (the Hungarian algorithm);
    None for rows without one, if there are more rows than columns.

    It is written here because the weights are exact and the matrices tiny. The order of rows and
    columns decides between several best assignments. O(rows^2 * columns) at worst; ties cost
    little, because a free column is taken first.

    >>> assign([[3, 2], [3, 0]]), assign([[1], [5]]), assign([])
    ([1, 0], [None, 0], [])
    """
    rows = len(weights)
    columns = len(weights[0]) if rows else 0
    if not columns:
        return [None] * rows
    if rows <= columns:
        return list(_assign(weights, rows, columns))
    turned: list[int | None] = [None] * rows
    for column, row in enumerate(_assign(list(zip(*weights, strict=True)), columns, rows)):
        turned[row] = column
    return turned


def _assign(weights: Sequence[Sequence[int]], rows: int, columns: int) -> list[int]:
    """Shortest augmenting paths with potentials; there are at least as many columns as rows. Column
    and row 0 are sentinels.
    """
    of_row, of_column = [0] * (rows + 1), [0] * (columns + 1)
    holder = [0] * (columns + 1)
    """The row that each column is assigned to, 0 for none."""
    came_from = [0] * (columns + 1)
    # no reduced cost reaches it: a potential moves by at most the largest weight for each row
    far = 4 * (rows + columns + 2) * (1 + max(max(map(abs, row)) for row in weights))
    for row in range(1, rows + 1):
        holder[0] = row
        at = 0
        least = [far] * (columns + 1)
        open_columns = list(range(1, columns + 1))
        used = [0]
        while holder[at]:
            here = holder[at]
            line, potential = weights[here - 1], of_row[here]
            step, nearest, is_free = far, 0, False
            for column in open_columns:
                cost = -line[column - 1] - potential - of_column[column]
                if cost < least[column]:
                    least[column] = cost
                    came_from[column] = at
                cost = least[column]
                if cost < step or (cost == step and not is_free and not holder[column]):
                    step, nearest, is_free = cost, column, not holder[column]
            for column in used:
                of_row[holder[column]] += step
                of_column[column] -= step
            for column in open_columns:
                least[column] -= step
            at = nearest
            used.append(at)
            open_columns.remove(at)
        while at:
            before = came_from[at]
            holder[at] = holder[before]
            at = before
    column_of = [0] * rows
    for column in range(1, columns + 1):
        if holder[column]:
            column_of[holder[column] - 1] = column - 1
    return column_of
