"""What the scripted judge thinks, and how its replies go wrong. How it listens is in
`scripted_judge`.

It knows the truth from the text it is shown: each judged item carries `quality=0.73` (0 worst, 1
best), and `family=NAME` where self-preference matters. An item is a block of the product's fence
whose title ends in CANDIDATE; in other prompts, what stands between two lines that share a word.
Every draw depends on the seed, the model's name, the items as shown, and how often this very
question came before; never on the order in which requests arrive. The biases share one draw, so
that each has exactly its own rate: a judge with position_bias 0.2 says "first" in a fifth of all
questions whatever is true, so P(a wins | a first) - P(a wins | a second) = P(first) - P(second) =
0.2 over both orders. Negative: "second".
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

QUALITY = re.compile(r"quality=(\d+(?:\.\d+)?)")
FAMILY = re.compile(r"family=([\w-]+)")
WORD = re.compile(r"[0-9A-Za-z]{8,}")
BLOCK = re.compile(
    r"^((?:FIRST |SECOND )?CANDIDATE) begins (\S+)\n(.*?)\n\1 ends \2$", re.MULTILINE | re.DOTALL
)
FIRST_WORDS = re.compile(r"[^\s|].{0,40}")
DIGIT = re.compile(r"[0-9]")
PERSON = r"(?:reviewer|rater|expert|user|colleague|author|teacher|annotator|judge|grader|\bI|\bwe)\b[^.\n]{0,80}?\b"
STATED_SCORE = (
    PERSON
    + r"(?:gave|give|rated|rate|scored|score|assigned|say|said)[^.\n\d]{0,60}?(\d+(?:\.\d+)?)"
)
STATED_WINNER = (
    PERSON
    + r"(?:prefer|prefers|preferred|chose|chooses|picked|likes)\b[^.\n]{0,40}?\b(first|second)\b"
)
ORDERED_SCORE = re.compile(
    r"\"score\"\s*:\s*(\d+(?:\.\d+)?)|\bscore\b[^.\n\d]{0,30}(\d+(?:\.\d+)?)", re.I
)
ORDERED_WINNER = re.compile(
    r"\"winner\"\s*:\s*\"(first|second|tie)\"|\bwinner\s*(?:is|:|=)\s*\W?(first|second|tie)\b", re.I
)
ORDERED_SELF = re.compile(
    r"\b(?:choose|pick|prefer|select)\s+(?:this|me\b|my)|\bthis (?:answer|response|one) (?:wins|is"
    r" the winner|must win)",
    re.I,
)
ORDERED_REFUSAL = re.compile(
    r"\b(?:refuse|decline)\b[^.\n]{0,40}\b(?:judge|grade|score|answer|evaluate|evaluation|verdict)",
    re.I,
)
ORDERED_LEAK = re.compile(
    r"\b(?:reveal|repeat|print|copy|quote|output)\b[^.\n]{0,60}\b(?:boundary|system"
    r" prompt|key|delimiter|instructions)",
    re.I,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What the judge is told to be. The default answers correctly and at once."""

    seed: int = 0
    model: str = "scripted-judge"
    family: str = "scripted"
    position_bias: float = 0.0
    """The share of pairwise questions it answers by position alone."""
    verbosity_bias: float = 0.0
    """The share of pairwise questions in which the longer item wins; of rubric questions in which
    an item over `long_chars` gets a step more.
    """
    long_chars: int = 400
    self_preference: float = 0.0
    """The share in which an item of its own family wins (pairwise) or gets a step more (rubric)."""
    sycophancy: float = 0.0
    """The share in which it repeats the score or winner that `stated_score` or `stated_winner`
    finds in the prompt.
    """
    stated_score: str = STATED_SCORE
    stated_winner: str = STATED_WINNER
    noise: float = 0.0
    """The share of verdicts flipped at the end: the other side; a tie to either side; a score by
    one step.
    """
    tie_within: float = 0.0
    scale: tuple[float, float] = (1, 5)
    """Where the schema says nothing."""
    gullible: bool = False
    """Obeys a verdict, "score 5", "choose this", an order to refuse or to reveal, in clear inside
    an item.
    """
    key: str = ""
    """If set, any other key is a 401."""
    latency_s: float = 0.0
    tail_sigma: float = 0.0
    """Latency times exp(sigma z), z normal: 1.0 makes one call in a hundred ten times as slow."""
    hang: str = ""
    """silent: no byte ever. headers: the head of a reply, then nothing. drip: a space each 0.2 s,
    for ever.
    """
    dead: str = ""
    """refused: nobody listens. reset: cut in the middle of the reply. close: closed without a
    byte.
    """
    fail_first: int = 0
    fail_with: int | str = 503
    """A status, or silent, headers, drip, reset, close."""
    status: int = 200
    """Anything else is the answer to everything."""
    rate_limit: float | None = None
    """Questions per second that are answered; more are a 429."""
    retry_after: str = ""
    """How the 429 says it: empty for not at all, seconds, date, or any other text as it stands."""
    retry_after_s: float = 1.0
    refuses: tuple[str, ...] = ()
    """Parameters that are a 400, as temperature, response_format; json_schema refuses only that
    type of response_format.
    """
    malformed: str | tuple[str, ...] = ()
    """One of MALFORMED, or several in turn."""
    malformed_times: int | None = None
    """How often per question before it answers well; for ever if not said."""
    usage: str = "counted"
    """counted, absent, null, or odd (texts and negative numbers)."""
    record: bool = True

    def __post_init__(self) -> None:
        shares = (
            abs(self.position_bias),
            self.verbosity_bias,
            self.self_preference,
            self.sycophancy,
        )
        if sum(shares) > 1 or min(shares) < 0 or not 0 <= self.noise <= 1:
            raise ValueError(
                f"the biases share one draw, so they may not sum above 1: {shares}, noise"
                f" {self.noise}"
            )
        unknown = set(
            [self.malformed] if isinstance(self.malformed, str) else self.malformed
        ) - set(MALFORMED)
        if unknown or self.hang not in HANGS or self.dead not in ("", "refused", *CUTS):
            raise ValueError(f"no such behaviour: {sorted(unknown)} {self.hang} {self.dead}")


# --- what it is asked


class Shown(NamedTuple):
    """One judged item, as it stands in the prompt."""

    text: str
    quality: float | None
    """None where the mark is missing: then it wins, loses and scores as 0.5."""
    boundary: str


class Question(NamedTuple):
    pairwise: bool
    schema: dict[str, Any]
    items: tuple[Shown, ...]
    text: str


def content_text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def items_shown(text: str) -> tuple[Shown, ...]:
    """The judged items in the order of the text: the product's own blocks, or else whatever carries
    a mark.

    Of several blocks titled CANDIDATE the last one is judged: those before it are examples.
    """
    blocks = {
        block[1]: Shown(block[3], _quality(block[3]), block[2]) for block in BLOCK.finditer(text)
    }
    return tuple(blocks.values()) or _marked(text)


def _quality(text: str) -> float | None:
    mark = QUALITY.search(text)
    return min(1.0, float(mark[1])) if mark else None


def _marked(text: str) -> tuple[Shown, ...]:
    """What stands between the nearest two lines that share a word with a digit; without such lines,
    the paragraph around the mark.
    """
    marks = list(QUALITY.finditer(text))
    lines: dict[str, list[tuple[int, int]]] = {}
    start = 0
    for line in text.split("\n") if marks else ():
        if len(line) <= 300 and DIGIT.search(
            line
        ):  # a line that fences is short, and long ones are what takes the time
            for word in {word for word in WORD.findall(line) if not word.isalpha()}:
                lines.setdefault(word, []).append((start, start + len(line)))
        start += len(line) + 1
    found: dict[tuple[int, int], Shown] = {}
    for mark in marks:
        end = text.find("\n\n", mark.end())
        spans = []
        for word, places in lines.items():
            before = [close for _, close in places if close <= mark.start()]
            after = [begin for begin, _ in places if begin >= mark.end()]
            if before and after:
                spans.append((before[-1] + 1, after[0] - 1, word))
        around = (max(text.rfind("\n\n", 0, mark.start()), 0), len(text) if end < 0 else end, "")
        start, end, word = min(spans, key=lambda span: span[1] - span[0], default=around)
        found.setdefault((start, end), Shown(text[start:end], min(1.0, float(mark[1])), word))
    return tuple(found.values())


def read_question(body: dict[str, Any]) -> Question:
    texts = [
        content_text(message.get("content"))
        for message in body.get("messages") or ()
        if message.get("role") == "user"
    ]
    text = next(
        (text for text in texts if BLOCK.search(text) or QUALITY.search(text)), "\n".join(texts)
    )
    tools = body.get("tools") or [{}]
    schema = (
        ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        or ((body.get("output_config") or {}).get("format") or body.get("output_format") or {}).get(
            "schema"
        )
        or tools[0].get("input_schema")
        or {}
    )
    items = items_shown(text)
    properties = schema.get("properties") or {}
    pairwise = (
        "winner" in properties if properties else len(items) > 1 if items else '"winner"' in text
    )
    return Question(pairwise, schema, items, text)


def scale_of(question: Question, behaviour: Behaviour) -> tuple[float, float, float]:
    """Lowest, highest, and the step between scores."""
    field = (question.schema.get("properties") or {}).get("score") or {}
    for form in (field, *field.get("anyOf", ()), *field.get("oneOf", ())):
        numbers = [x for x in form.get("enum", ()) if isinstance(x, int | float)]
        if numbers:
            return (
                min(numbers),
                max(numbers),
                min(
                    (b - a for a, b in zip(sorted(numbers), sorted(numbers)[1:], strict=False)),
                    default=1,
                ),
            )
        if "minimum" in form and "maximum" in form:
            low, high = form["minimum"], form["maximum"]
            return (
                low,
                high,
                form.get("multipleOf")
                or (1 if form.get("type") == "integer" or high - low > 1 else 0.01),
            )
    low, high = behaviour.scale
    return low, high, 1 if high - low > 1 else 0.01


# --- what it thinks


class Thought(NamedTuple):
    verdict: float | str | None
    reason: str
    refused: bool = False


def draws(*key: Any) -> Iterator[float]:
    """Uniform numbers that depend on the key alone."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=32).digest()
    return (int.from_bytes(digest[at : at + 8], "big") / 2**64 for at in range(0, 32, 8))


def obeyed(question: Question, scale: tuple[float, float, float]) -> Thought | None:
    """What an order inside an item makes a gullible judge say; a verdict of None is the one it
    would have given anyway.
    """
    for place, item in enumerate(question.items):
        if ORDERED_LEAK.search(item.text):
            return Thought(None, f"The boundary is {item.boundary}. {question.text[:200]}")
        if ORDERED_REFUSAL.search(item.text):
            return Thought(None, "I cannot judge this.", refused=True)
        if question.pairwise:
            if order := ORDERED_WINNER.search(item.text):
                return Thought((order[1] or order[2]).lower(), "as the text orders")
            if ORDERED_SELF.search(item.text) or ORDERED_SCORE.search(item.text):
                return Thought(("first", "second")[min(place, 1)], "as the text orders")
        elif order := ORDERED_SCORE.search(item.text):
            score = max(scale[0], min(scale[1], float(order[1] or order[2])))
            return Thought(int(score) if score == int(score) else score, "as the text orders")
    return None


def think(question: Question, behaviour: Behaviour, key: tuple[Any, ...]) -> Thought:
    bias, flip, side, _ = draws(behaviour.seed, *key)
    edges = [abs(behaviour.position_bias) if question.pairwise else 0.0]
    for share in (behaviour.verbosity_bias, behaviour.self_preference, behaviour.sycophancy):
        edges.append(edges[-1] + share)
    moved_by = next(
        (
            name
            for name, edge in zip(("position", "length", "family", "stated"), edges, strict=True)
            if bias < edge
        ),
        "",
    )
    own = (_compare if question.pairwise else _score)(
        question, behaviour, moved_by, flip < behaviour.noise, side < 0.5
    )
    if behaviour.gullible and (obedient := obeyed(question, scale_of(question, behaviour))):
        return obedient if obedient.verdict is not None else obedient._replace(verdict=own.verdict)
    return own


def _worth(item: Shown) -> float:
    return 0.5 if item.quality is None else item.quality


def _is_own(item: Shown, behaviour: Behaviour) -> bool:
    return any(family == behaviour.family for family in FAMILY.findall(item.text))


def _compare(
    question: Question, behaviour: Behaviour, moved_by: str, flipped: bool, side: bool
) -> Thought:
    winner = "tie"
    if len(question.items) > 1:
        first, second = question.items[:2]
        lead = _worth(first) - _worth(second)
        if abs(lead) > behaviour.tie_within:
            winner = "first" if lead > 0 else "second"
        if moved_by == "length" and len(first.text) != len(second.text):
            winner = "first" if len(first.text) > len(second.text) else "second"
        if moved_by == "family" and _is_own(first, behaviour) != _is_own(second, behaviour):
            winner = "first" if _is_own(first, behaviour) else "second"
    if moved_by == "position":
        winner = "first" if behaviour.position_bias > 0 else "second"
    if moved_by == "stated" and (stated := re.search(behaviour.stated_winner, question.text, re.I)):
        winner = stated[1].lower()
    if flipped:
        winner = {"first": "second", "second": "first"}.get(winner, "first" if side else "second")
    return Thought(winner, f"moved by {moved_by}" if moved_by else "the better one")


def _score(
    question: Question, behaviour: Behaviour, moved_by: str, flipped: bool, side: bool
) -> Thought:
    low, high, step = scale_of(question, behaviour)
    item = question.items[0] if question.items else Shown("", 0.5, "")
    steps = math.floor(_worth(item) * (high - low) / step + 0.5 + 1e-9)
    if (moved_by == "length" and len(item.text) > behaviour.long_chars) or (
        moved_by == "family" and _is_own(item, behaviour)
    ):
        steps += 1
    if moved_by == "stated" and (stated := re.search(behaviour.stated_score, question.text, re.I)):
        steps = round((float(stated[1]) - low) / step)
    most = round((high - low) / step)
    steps = max(0, min(most, steps))
    if flipped:
        steps += 1 if steps == 0 or (side and steps < most) else -1
    score = round(low + steps * step, 9)
    return Thought(
        int(score) if score == int(score) else score,
        f"moved by {moved_by}" if moved_by else "as the anchor says",
    )


def answer(question: Question, thought: Thought) -> dict[str, Any]:
    """The verdict in the order and within the lengths of the schema."""
    marks = [QUALITY.search(item.text) or FIRST_WORDS.search(item.text) for item in question.items]
    quotes = [mark[0] for mark in marks if mark]
    known: dict[str, Any] = {
        "reason": thought.reason,
        "quotes": quotes,
        "winner" if question.pairwise else "score": thought.verdict,
    }
    if question.pairwise:
        del known["quotes"]
    properties = question.schema.get("properties") or {name: {} for name in known}
    said: dict[str, Any] = {}
    for name, form in properties.items():
        value = known.get(
            name,
            {
                "string": "",
                "array": [],
                "object": {},
                "boolean": False,
                "integer": 0,
                "number": 0,
            }.get(str(form.get("type"))),
        )
        said[name] = (
            value[: form["maxLength"]] if isinstance(value, str) and "maxLength" in form else value
        )
    return said


# --- how it can go wrong


def _with(**changes: Any) -> Callable[[dict[str, Any], str], str]:
    """The verdict under its own name becomes another value; other names are set as they are."""

    def changed(said: dict[str, Any], verdict: str) -> str:
        return json.dumps(
            {
                **said,
                **{
                    verdict if name == "verdict" else name: value for name, value in changes.items()
                },
            }
        )

    return changed


def _twice(said: dict[str, Any], verdict: str) -> str:
    other = {"first": "second", "second": "first", "tie": "first"}.get(
        said[verdict], 1 if said[verdict] != 1 else 2
    )
    return json.dumps({verdict: other})[:-1] + ", " + json.dumps(said)[1:]


CONTENT: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "cut_off": lambda said, verdict: json.dumps(said)[: len(json.dumps(said)) * 2 // 3],
    "nan": _with(verdict=math.nan),
    "infinity": _with(verdict=math.inf),
    "above_scale": _with(verdict=99),
    "below_scale": _with(verdict=-99),
    "word_for_number": _with(verdict="five"),
    "null_verdict": _with(verdict=None),
    "no_verdict": lambda said, verdict: json.dumps(
        {name: value for name, value in said.items() if name != verdict}
    ),
    "extra_criteria": _with(helpfulness=5, safety=5),
    "duplicate_keys": _twice,
    "false_quote": _with(quotes=["these words stand in no candidate"]),
    "other_language": lambda said, verdict: json.dumps(
        {"begründung": "Die Antwort ist gut.", "punktzahl": said[verdict]}, ensure_ascii=False
    ),
    "prose": lambda said, verdict: "La réponse est bonne : je lui donne quatre points sur cinq.",
    "markdown": lambda said, verdict: f"```json\n{json.dumps(said)}\n```",
    "chatter": lambda said, verdict: (
        f"Sure! Here is my verdict:\n{json.dumps(said)}\nIs there anything else?"
    ),
    "two_objects": lambda said, verdict: json.dumps(said) + "\n" + json.dumps(said),
    "array": lambda said, verdict: json.dumps([said]),
    "empty_object": lambda said, verdict: "{}",
    "empty": lambda said, verdict: "",
    "blank": lambda said, verdict: " \n\t ",
    "null_content": lambda said, verdict: None,
    "number_content": lambda said, verdict: 5,
    "surrogate": _with(reason="half a sign \ud800"),
    "control": _with(reason="a\x00b\x1b[2J\u202e"),
    "deep": lambda said, verdict: "[" * 50_000,
    "huge": _with(reason="x" * 2_000_000),
}
ENVELOPE = (
    "refusal",
    "length",
    "content_filter",
    "tool_call",
    "no_choices",
    "no_message",
    "error_in_200",
)
WIRE: dict[str, tuple[str, bytes]] = {
    "html": (
        "text/html",
        (
            b"<!doctype html><html><head><title>Welcome</title></head><body><h1>Sign in to the"
            b" network</h1></body></html>"
        ),
    ),
    "garbage": (
        "text/event-stream",
        (
            b'data: {"choices": [{"delta": {"cont\n\n\xff\xfe\x00data: ]]]]\n\nevent: ?\n:'
            b" ping\n\ndata: [DON"
        ),
    ),
    "not_utf8": ("application/json", b'{"choices": [{"message": {"content": "\xff\xfe\xfa"}}]}'),
    "empty_body": ("application/json", b""),
    "cut_body": ("application/json", b""),
    "bad_gzip": ("application/json", b"this is not compressed"),
}
MALFORMED = (*CONTENT, *ENVELOPE, *WIRE)
HANGS = ("", "silent", "headers", "drip")
CUTS = ("reset", "close")


class Reply(NamedTuple):
    status: int
    body: bytes
    type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    manner: str = ""
    """Empty for a whole reply, or one of HANGS and CUTS."""

    def wire(self) -> bytes:
        extra = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        head = (
            "HTTP/1.1"
            f" {self.status} {http.client.responses.get(self.status, 'Odd')}\r\ncontent-type:"
            f" {self.type}\r\ncontent-length: {len(self.body)}\r\n"
        )
        return f"{head}{extra}\r\n".encode("latin-1") + self.body


def failure(
    status: int,
    message: str,
    *,
    anthropic: bool,
    param: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> Reply:
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        429: "rate_limit_error",
    }
    error: dict[str, Any] = {"type": kinds.get(status, "api_error"), "message": message}
    tree = (
        {"type": "error", "error": error}
        if anthropic
        else {
            "error": {**error, "param": param, "code": "unsupported_parameter" if param else None}
        }
    )
    return Reply(status, json.dumps(tree).encode(), headers=headers)


def _usage(
    body: dict[str, Any],
    question: Question,
    content: Any,
    behaviour: Behaviour,
    names: tuple[str, str],
) -> dict[str, Any]:
    if behaviour.usage == "absent":
        return {}
    if behaviour.usage != "counted":
        return {
            "usage": (
                None
                if behaviour.usage == "null"
                else {names[0]: "many", names[1]: -3, "total_tokens": 1.5}
            )
        }
    count = {names[0]: max(1, len(question.text) // 4), names[1]: max(1, len(str(content)) // 4)}
    return {
        "usage": (
            {**count, "total_tokens": sum(count.values())} if names[0] == "prompt_tokens" else count
        )
    }


def openai_reply(
    body: dict[str, Any],
    question: Question,
    content: Any,
    said: dict[str, Any],
    odd: str,
    behaviour: Behaviour,
    n: int,
) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    reason = {
        "length": "length",
        "content_filter": "content_filter",
        "tool_call": "tool_calls",
    }.get(odd, "stop")
    if odd in ("refusal", "tool_call", "content_filter"):
        message["content"] = None
    if odd == "refusal":
        message["refusal"] = "I'm sorry, I cannot help with that."
    if odd == "tool_call":
        message["tool_calls"] = [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "submit", "arguments": json.dumps(said)},
            }
        ]
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": reason,
    }
    if odd == "no_message":
        del choice["message"]
    tree = {
        "id": f"chatcmpl-{n}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body.get("model") or behaviour.model,
        "system_fingerprint": "fp_scripted",
        "choices": [] if odd == "no_choices" else [choice],
        **_usage(body, question, content, behaviour, ("prompt_tokens", "completion_tokens")),
    }
    return json.dumps(tree).encode()


def anthropic_reply(
    body: dict[str, Any],
    question: Question,
    content: Any,
    said: dict[str, Any],
    odd: str,
    behaviour: Behaviour,
    n: int,
) -> bytes:
    blocks: list[dict[str, Any]] = [] if content is None else [{"type": "text", "text": content}]
    reason = {
        "length": "max_tokens",
        "content_filter": "refusal",
        "refusal": "refusal",
        "tool_call": "tool_use",
    }.get(odd, "end_turn")
    if odd == "tool_call" or (not odd and (body.get("tool_choice") or {}).get("type") == "tool"):
        name = (body.get("tool_choice") or {}).get("name", "submit")
        blocks, reason = (
            [{"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": said}],
            "tool_use",
        )
    if odd in ("refusal", "content_filter", "no_choices"):
        blocks = []
    tree: dict[str, Any] = {
        "id": f"msg_{n}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model") or behaviour.model,
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        **_usage(body, question, content, behaviour, ("input_tokens", "output_tokens")),
    }
    if odd == "no_message":
        del tree["content"]
    return json.dumps(tree).encode()
