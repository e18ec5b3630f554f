"""The rules that turn a framework's reports into evidence, whether they arrive live or are read
from spans later (W-083).

- A step is an outermost unit of a workflow (a node, an executor, an agent that runs alone);
  whatever runs inside it belongs to it.
- An agent is a step that calls a model. Its name is that of the agent or graph inside it, else the
  step's.
- A retry is a unit that failed and began again: the same step, or a model or agent inside it.
- A handoff is work that passes from one agent to another, directly or through steps without an
  agent.
- A call is valid if it was not refused and its arguments, as the model wrote them, keep the schema
  that the model was shown. A call that was never run counts too.
- Calls are in the order in which they were made. A model makes its calls when it answers, in the
  order of its answer; a call that no model asked for is made when it begins. How and when a call
  ends changes nothing: one that was refused, denied, failed or never run keeps its place.

Live runs (`live`) and imported traces (`trace`) both use these rules. Two copies would drift apart,
and a grade would then depend on how its evidence arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from assay.canon import canonical
from assay.errors import AssayError
from assay.files.json_files import parse_json
from assay.records.contract import check
from assay.records.evidence import Retrieved
from assay.tracing.spans import RequestedCall, amount

T = TypeVar("T")
BROKEN = "the arguments break the tool's schema"
UNKNOWN = "no tool of this name was offered"
NOT_RUN = "the tool was not run"


# --- handoffs


def agents_before(
    sources: Iterable[T], agent: Callable[[T], str | None], before: Callable[[T], Iterable[T]]
) -> list[str]:
    """The agents that work came from, each once, nearest first; steps without an agent are skipped.

    >>> came = {"join": ["left", "right"], "left": [], "right": []}
    >>> agents_before(
    ...     ["join"], lambda step: None if step == "join" else step, lambda step: came[step]
    ... )
    ['left', 'right']
    """
    seen: set[int] = set()
    agents: dict[str, None] = {}
    waiting = list(sources)
    for step in waiting:  # grows during the loop
        if id(step) in seen:
            continue
        seen.add(id(step))
        name = agent(step)
        if name is not None:
            agents[name] = None
        else:
            waiting += before(step)
    return list(agents)


# --- calls


def made_at(answered: int, began: Sequence[int | None]) -> list[tuple[int, int]]:
    """The place of each call of one answer: when it was made, and its position in the answer.
    `began` has the start of each call, None if it never ran.

    An answer may be recorded after its calls began, as an agent's answer is that contains its
    tools' spans. Then a call was made no later than it, or any call after it, began.

    >>> made_at(5, [None, None]), made_at(9, [None, 4, 3, None])
    ([(5, 0), (5, 1)], [(3, 0), (3, 1), (3, 2), (9, 3)])
    """
    moments, latest = [], answered
    for moment in reversed(began):
        latest = latest if moment is None else min(latest, moment)
        moments.append(latest)
    return [(moment, index) for index, moment in enumerate(reversed(moments))]


def keeps(schema: Any, arguments: Any) -> bool | None:
    """Whether arguments keep a schema; None without a usable schema.

    >>> number = {"type": "object", "properties": {"a": {"type": "integer"}}}
    >>> keeps(number, {"a": 2}), keeps(number, {"a": "2"}), keeps(None, {"a": 2})
    (True, False, None)
    """
    if not isinstance(schema, dict | bool):
        return None
    return check(schema, {} if arguments is None else arguments).passed


def verdict_if_not_run(
    call: RequestedCall, offered: Mapping[str, Any] | None
) -> tuple[bool | None, str]:
    """Whether a call that was requested and never run is valid, and what is wrong with it: the tool
    doesn't exist, the arguments were refused, or the run ended first.
    """
    unknown = offered is not None and call.name not in offered
    schema = None if unknown or offered is None else offered[call.name]
    valid = False if unknown or isinstance(call.arguments, str) else keeps(schema, call.arguments)
    return valid, UNKNOWN if unknown else BROKEN if valid is False else NOT_RUN


def offered_tools(tools: Any) -> dict[str, Any] | None:
    """The tools that a model was shown, with the JSON Schema of each, in the format of OpenAI,
    Anthropic or the conventions; None if unknown.

    >>> offered_tools(
    ...     [
    ...         {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}},
    ...         {"name": "now"},
    ...     ]
    ... )
    {'add': {'type': 'object'}, 'now': None}
    """
    if not isinstance(tools, list | tuple):
        return None
    schemas: dict[str, Any] = {}
    for tool in tools:
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            schemas[function["name"]] = function.get("parameters", function.get("input_schema"))
    return schemas if schemas or not tools else None


def listed_tools(offers: Iterable[Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """The tools of several offers as evidence, by name, each with every schema that it was offered
    with. A schema that can't be written as JSON is unknown.

    >>> listed_tools([{"now": {}}, {"now": {"type": "object"}, "add": None}, None, {"now": {}}])
    [{'name': 'add'}, {'name': 'now', 'schema': {'type': 'object'}}, {'name': 'now', 'schema': {}}]
    """
    seen = {
        (name, repr(schema)): schema  # the models of a run are mostly shown the same tools
        for offer in {id(offer): offer for offer in offers if offer}.values()
        for name, schema in offer.items()
    }
    tools: dict[tuple[str, bytes], dict[str, Any]] = {}
    for (name, _), schema in seen.items():
        try:
            text = canonical(schema) if isinstance(schema, dict | bool) else b""
        except (AssayError, TypeError, ValueError, RecursionError):
            text = b""
        known = {"schema": parse_json(text)} if text else {}
        tools[name, text] = {"name": name, **known}
    return [tool for _, tool in sorted(tools.items(), key=lambda item: item[0])]


# --- costs


def reported_cost(places: Iterable[Any]) -> int | Decimal | None:
    """What a model call cost: the first amount that its provider reports in one of these objects,
    under any of the usual names; None if there is none.
    """
    costs = (
        amount(place.get(key))
        for place in places
        if isinstance(place, Mapping)
        for key in ("cost_usd", "total_cost", "cost")
    )
    return next((cost for cost in costs if cost is not None), None)


# --- passages


class Passages(NamedTuple):
    """The passages that a run retrieved, each once, and how many were left out because they were
    repeated or have neither id nor text.
    """

    found: list[Retrieved]
    repeated: int
    nameless: int


def passages(searches: Iterable[Sequence[tuple[str | None, str | None]]]) -> Passages:
    """The passages of several searches, each a list of ids and texts, best first. A search that
    repeats another, as a retry does, adds nothing.

    >>> passages([[("d1", "So."), (None, "No id.")], [("d1", "So."), (None, "No id.")]]).found[0]
    Retrieved(id='d1', text='So.', rank=1, relevant=None)
    """
    distinct = dict.fromkeys(map(tuple, searches))
    texts: dict[str, str | None] = {}
    repeated = nameless = 0
    for name, text in _named(distinct):
        if name is None:
            nameless += 1
        elif name in texts:
            repeated += 1
        else:
            texts[name] = text
    ranked = len(distinct) == 1 and not nameless
    return Passages(
        [
            Retrieved(id=name, text=text, rank=place if ranked else None)
            for place, (name, text) in enumerate(texts.items(), start=1)
        ],
        repeated,
        nameless,
    )


def _named(
    searches: Iterable[Sequence[tuple[str | None, str | None]]],
) -> Iterator[tuple[str | None, str | None]]:
    """Each passage with its name: its id, or a hash of its text."""
    for search in searches:
        for given, text in search:
            yield (
                given
                or (
                    None
                    if text is None
                    else f"text:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
                ),
                text,
            )


def passage_id(given: Any, metadata: Any) -> str | None:
    """The id of a document, or the id or source in its metadata."""
    fields = metadata if isinstance(metadata, dict) else {}
    name = given or fields.get("id") or fields.get("source")
    return None if name is None else str(name)
