"""Judge work as files: questions written out and answers from elsewhere read in, in our own format
or in OpenAI's batch format.

The id of a question is made from its digest, so that an answer fits only the question it was given
to: if a candidate, a rubric or the wording changes, so does the id. A question without an answer
has no verdict and is written out again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from assay.errors import InputError, count
from assay.files.json_files import Document, stream_documents
from assay.judging.client import JudgeAnswer
from assay.judging.config import JudgeSpec
from assay.judging.endpoints import DIALECTS, Reply
from assay.judging.fence import Salt
from assay.judging.lines import check_unique, read_lines, take_all
from assay.judging.questions import Asked, Question, put
from assay.judging.replies import read_verdict
from assay.records.reading import read_record

QUESTION_SCHEMA = "assay.judge-question/1"
ANSWER_SCHEMA = "assay.judge-answer/1"
_encode = msgspec.json.Encoder(decimal_format="number").encode


class Pending(NamedTuple):
    """A question that has no answer yet."""

    id: str
    asked: Asked
    prompt_version: str
    sample: int

    def line(self) -> dict[str, Any]:
        """In our own format: everything a person or a program needs to answer."""
        return {
            "schema": QUESTION_SCHEMA,
            "id": self.id,
            "prompt_version": self.prompt_version,
            "sample": self.sample,
            "messages": self.asked.messages,
            "response_schema": self.asked.schema,
        }

    def batch(self, spec: JudgeSpec) -> dict[str, Any]:
        """As a line of OpenAI's batch format."""
        body = DIALECTS["openai"].body(
            spec, self.asked.messages, self.asked.schema, without=frozenset(), sample=self.sample
        )
        return {"custom_id": self.id, "method": "POST", "url": "/v1/chat/completions", "body": body}


def question_id(prompt: Asked, sample: int) -> str:
    """The name of a question in a file; at most 64 characters, the limit of OpenAI's batches."""
    return f"q-{prompt.digest.removeprefix('sha256:')[:48]}-s{sample}"


class Replay:
    """Answers questions from a file of answers, and notes those that have none."""

    width = 1
    """Reading from a file takes no time."""

    def __init__(self, answers: dict[str, Reply], salt: Salt) -> None:
        self.answers = answers
        self.pending: dict[str, Pending] = {}
        self.used: set[str] = set()
        self._salt = salt

    async def ask(self, question: Question, *, sample: int = 0) -> JudgeAnswer:
        """The answer in the file. A reply that cannot be used is `unparsable`: it can't be sent
        back to be repaired.
        """
        prompt = put(question, self._salt)
        name = question_id(prompt, sample)
        reply = self.answers.get(name)
        if reply is None:
            self.pending[name] = Pending(name, prompt, question.prompt_version, sample)
            reason = "there is no answer to this question in the file"
            return JudgeAnswer("errored", None, reason, name, False, False, None)
        self.used.add(name)
        verdict_read = read_verdict(reply, question, prompt.schema)
        reason = verdict_read.fault or verdict_read.reason
        return JudgeAnswer(
            verdict_read.outcome, verdict_read.verdict, reason, name, True, False, reply.model
        )

    def check_all_used(self) -> None:
        """Refuse answers to questions that were not asked: they belong to other texts, another
        rubric or another wording.
        """
        foreign = sorted(self.answers.keys() - self.used)
        if foreign:
            raise InputError(
                "JDG-007",
                f"{count(len(foreign), 'answer')} to questions that these files and options don't"
                f" ask, for example {foreign[0]}.",
                fix=(
                    "Give the same files and options as for the export. If a text or the rubric"
                    " changed since, export again."
                ),
            )


class JudgeAnswerLine(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer in our own format."""

    id: str
    reply: Any
    schema: Literal["assay.judge-answer/1"] = "assay.judge-answer/1"
    model: str | None = None
    finish: str | None = None
    refusal: str | None = None


class QuestionLine(Struct, frozen=True):
    """A question to answer; other keys are ignored."""

    id: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    response_schema: dict[str, Any] | None = None
    sample: int = 0


class Message(Struct, frozen=True):
    """One message of a chat."""

    role: str
    content: str


def read_questions(paths: Iterable[str]) -> list[QuestionLine]:
    """The questions of .jsonl files."""
    read = read_lines(
        paths,
        lambda document: read_record(document, QuestionLine, "JDG-005"),
        absent="there are no questions.",
    )
    check_unique(question.id for question in read)
    return read


def read_answers(paths: Iterable[str]) -> dict[str, Reply]:
    """The answers of .jsonl files: `{"id", "reply", "model"}`, or the output of OpenAI's
    batches.
    """
    seen: set[str] = set()

    def take(document: Document) -> tuple[str, Reply | None]:
        name, reply = _answer(document)
        if name in seen:
            raise InputError("JDG-005", f"the question {name} is answered twice.")
        if reply is not None:
            seen.add(name)
        return name, reply

    documents = (document for path in paths for document in stream_documents(path))
    return {name: reply for name, reply in take_all(documents, take) if reply is not None}


def _answer(document: Document) -> tuple[str, Reply | None]:
    """A line's question and its reply; None if the batch has an error in its place, which leaves
    the question open.
    """
    tree = document.tree
    if isinstance(tree, dict) and "custom_id" in tree:
        name, response = tree["custom_id"], tree.get("response")
        if not isinstance(name, str):
            raise InputError("JDG-005", "custom_id must be a string.")
        if (
            tree.get("error") is not None
            or not isinstance(response, dict)
            or response.get("status_code") != 200
        ):
            return name, None
        return name, DIALECTS["openai"].read(response.get("body"))
    line = read_record(document, JudgeAnswerLine, "JDG-005")
    whole = line.reply is None or isinstance(line.reply, str)
    text = line.reply if whole else _encode(line.reply).decode()
    return line.id, Reply(text, line.refusal or None, line.finish, None, None, line.model)
