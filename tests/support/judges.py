"""What the tests of judges share: texts that the scripted judge can read, judges, a command without
a process, and an endpoint that says any bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.cli.main import run as run_command
from assay.judging.client import Client, Journal, JudgeAnswer
from assay.judging.config import JudgeSpec, Limits, Price
from assay.judging.items import AnswerPair, JudgedItem
from assay.judging.questions import PairQuestion, Question, RubricQuestion
from assay.scoring.rubric import Rubric, RubricCriterion

KEY = "sk-planted/0123456789abcdef"  # with a slash, which some endpoints say back as \/
HASTE = 8916
"""A seed whose first waits between attempts are all very short."""
PRICE = Price(input_per_million=1, output_per_million=2)
RUBRIC_YAML = """\
rubric_id: plain
version: 1
criteria:
  - name: correctness
    definition: The text says what is so.
    evidence_required: [a sentence that can be checked]
    scale: [1, 5]
    anchors: {"1": wrong, "2": mostly wrong, "3": half right, "4": mostly right, "5": right}
    weight: 0.6
  - name: clarity
    definition: The text can be read.
    evidence_required: [a sentence that is hard to read]
    scale: [1, 5]
    anchors: {"1": obscure, "2": hard, "3": passable, "4": clear, "5": very clear}
    weight: 0.4
"""


def criterion(name: str = "correctness", **more: Any) -> RubricCriterion:
    fields: dict[str, Any] = {
        "definition": "The text says what is so.",
        "evidence_required": ["a sentence that can be checked"],
        "scale": (1, 5),
        "anchors": {
            "1": "wrong",
            "2": "mostly wrong",
            "3": "half right",
            "4": "mostly right",
            "5": "right",
        },
        "weight": 1,
        **more,
    }
    return RubricCriterion(name=name, **fields)


def rubric(*names: str) -> Rubric:
    return Rubric(
        rubric_id="plain",
        version=1,
        criteria=[criterion(name) for name in names or ("correctness",)],
    )


def text(number: int, *, quality: float | None = None, more: str = "") -> str:
    return f"Answer {number}. quality={(number % 5) / 4 if quality is None else quality:.2f} {more}".rstrip()


def item(number: int, **more: Any) -> JudgedItem:
    return JudgedItem(f"i-{number:03}", f"Question {number}", text(number, **more))


def pair(number: int, a: float, b: float, **more: Any) -> AnswerPair:
    return AnswerPair(
        f"p-{number:03}",
        f"Question {number}",
        text(number, quality=a, more="one"),
        text(number, quality=b, more="two"),
        **more,
    )


def question(number: int = 3, **more: Any) -> RubricQuestion:
    return RubricQuestion(criterion(), f"Question {number}", text(number, **more))


def pair_question(a: float = 0.8, b: float = 0.2, order: Any = "ab") -> PairQuestion:
    return PairQuestion(
        "what is better", "A question", text(1, quality=a), text(2, quality=b), order
    )


def spec(url: str, **more: Any) -> JudgeSpec:
    """A judge that gives up soon, as a test must."""
    limits = {
        "timeout_s": 10.0,
        "retries": 0,
        "budget_s": 20.0,
        "concurrency": 4,
        **more.pop("limits", {}),
    }
    return JudgeSpec(
        judge="scripted",
        model=more.pop("model", "m-1"),
        base_url=url,
        limits=Limits(**limits),
        **more,
    )


class Told(NamedTuple):
    answers: list[JudgeAnswer]
    client: Client


def ask(
    judge: JudgeSpec,
    questions: Sequence[Question],
    *,
    journal: Journal | None = None,
    samples: int = 1,
    **how: Any,
) -> Told:
    """Every question at once; the limiter decides how many are on their way."""

    async def all_of_them() -> Told:
        async with Client(judge, Journal() if journal is None else journal, **how) as client:
            asked = [
                client.ask(one, sample=sample) for one in questions for sample in range(samples)
            ]
            return Told(list(await asyncio.gather(*asked)), client)

    return asyncio.run(all_of_them())


# --- the command


class Said:
    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code, self.out, self.err = code, out.decode(), err.decode()

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Said]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line in this very process, in an empty folder: a scripted judge in a thread
    answers it.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.yaml").write_text(RUBRIC_YAML, encoding="utf-8")

    def run(*arguments: object) -> Said:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = run_command([str(argument) for argument in arguments])
            except SystemExit as error:  # how argparse ends after --help
                code = error.code if isinstance(error.code, int) else 70
        out.flush()
        err.flush()
        said = Said(code, out.buffer.getvalue(), err.buffer.getvalue())
        assert "Traceback" not in said.err
        assert said.code != 5, said.err
        return said

    return run


def put_lines(path: Path, trees: Sequence[Any]) -> Path:
    path.write_text(
        "".join(json.dumps(tree, ensure_ascii=False) + "\n" for tree in trees), encoding="utf-8"
    )
    return path


def put_items(folder: Path, count: int = 3, name: str = "items.jsonl") -> Path:
    return put_lines(
        folder / name,
        [
            {"id": one.id, "input": one.task, "output": one.candidate}
            for one in map(item, range(count))
        ],
    )


def put_pairs(folder: Path, pairs: Sequence[AnswerPair], name: str = "pairs.jsonl") -> Path:
    return put_lines(
        folder / name,
        [
            {"id": one.id, "input": one.task, "a": one.a, "b": one.b, "label": one.label}
            for one in pairs
        ],
    )


def judged(document: dict[str, Any]) -> dict[str, Any]:
    """A document of judgements or comparisons without what tells a first run from a resumed one."""
    kept = {key: value for key, value in document.items() if key != "usage"}
    for one in kept.get("items", ()):
        for sample in one.get("samples", one.get("looks", ())):
            sample.pop("cached")
    return kept


# --- an endpoint that says any bytes


class Raw(NamedTuple):
    url: str
    seen: list[bytes]


@contextlib.contextmanager
def raw_endpoint(reply: Callable[[bytes], bytes]) -> Iterator[Raw]:
    """Each request, head and body, goes to `reply`; what it gives is sent and the connection
    closed.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    seen: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(10)
                data = b""
                while b"\r\n\r\n" not in data or len(data) < _length(data):
                    more = connection.recv(65536)
                    if not more:
                        raise ConnectionError
                    data += more
                seen.append(data)
                connection.sendall(reply(seen[-1]))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Raw(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", seen)
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(5)


def _length(data: bytes) -> int:
    head = data.split(b"\r\n\r\n", 1)[0]
    return (
        len(head)
        + 4
        + next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
    )


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    head = "\r\n".join(
        (
            f"HTTP/1.1 {status}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
            *headers,
        )
    )
    return head.encode("latin-1") + b"\r\n\r\n" + body


def completion(content: Any, **more: Any) -> bytes:
    message = {"role": "assistant", "content": content, **more}
    return json.dumps(
        {"model": "m-1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    ).encode()


def verdict(score: Any = 4, quote: str = "quality", reason: str = "so it is") -> str:
    return json.dumps({"reason": reason, "quotes": [quote], "score": score})


# --- a judge that reads what it is shown


def asked_of(request: bytes) -> tuple[str, str]:
    """The kind of a question (`claim` or the criterion's name), and the data it shows."""
    body = json.loads(request.split(b"\r\n\r\n", 1)[1])
    text = body["messages"][1]["content"]
    title = next(name for name in ("CONTEXT", "PASSAGE", "CANDIDATE") if f"{name} begins" in text)
    block = text.split(f"{title} begins ")[-1].split(f"\n{title} ends")[0]
    shown = " ".join(line.removeprefix("| ") for line in block.split("\n")[1:])
    kinds = {"CONTEXT": "claim", "PASSAGE": "passage"}
    return kinds.get(title) or text.split("CRITERION: ")[1].split("\n")[0], shown


def well_judged(request: bytes) -> str:
    """The best verdict, with a quote of what was shown; the worst of a text with the word WRONG."""
    kind, shown = asked_of(request)
    schema = json.loads(request.split(b"\r\n\r\n", 1)[1])["response_format"]["json_schema"]
    properties = schema["schema"]["properties"]
    quotes = [" ".join(shown.split()[:2])] if shown.strip() else []
    if kind in ("claim", "passage"):
        holds = bool(quotes) and b"WRONG" not in request
        said: dict[str, Any] = {"supported" if kind == "claim" else "relevant": holds}
        quotes = quotes if holds else []
    else:
        ends = properties["score"]
        said = {"score": ends["minimum" if "WRONG" in shown else "maximum"]}
    return json.dumps({"reason": "as it is written", "quotes": quotes, **said})


@contextlib.contextmanager
def reading_judge(garbled: Callable[[bytes], bool] = lambda request: False) -> Iterator[Raw]:
    """An endpoint that judges well, and answers with nonsense where `garbled` says so."""

    def reply(request: bytes) -> bytes:
        return http(completion("nonsense" if garbled(request) else well_judged(request)))

    with raw_endpoint(reply) as endpoint:
        yield endpoint
