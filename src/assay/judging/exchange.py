"""Judge work as files: questions out, answers in, whoever gives them; in our own lines or in
OpenAI's batch format.

The id of a question is made of its digest, so an answer can only be taken for the question it was
given to: a candidate, a rubric or a wording that changed in between changes the id. What has no
answer stays without a verdict and is written out again as still to be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.errors import Fault, InputError
from assay.files.json_files import Unread, stream_documents
from assay.judging.client import Answer
from assay.judging.endpoints import DIALECTS, Said
from assay.judging.questions import Question, put
from assay.judging.replies import read_verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assay.judging.config import JudgeSpec
    from assay.judging.fence import Salt
    from assay.judging.questions import Asked

QUESTION_SCHEMA = "assay.judge-question/1"
ANSWER_SCHEMA = "assay.judge-answer/1"
MAX_FAULTS = 20
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


def question_id(asked: Asked, sample: int) -> str:
    """The name of a question in a file; 64 signs at most, as batches want it."""
    return f"q-{asked.digest.removeprefix('sha256:')[:48]}-s{sample}"


class Replay:
    """Answers questions from a file of answers, and notes those that have none."""

    def __init__(self, answers: dict[str, Said], salt: Salt) -> None:
        self.answers = answers
        self.pending: dict[str, Pending] = {}
        self.used: set[str] = set()
        self._salt = salt

    @property
    def width(self) -> int:
        """A file has no waiting."""
        return 1

    async def ask(self, question: Question, *, sample: int = 0) -> Answer:
        """The answer in the file. A reply that cannot be used is `unparsable`: there is nobody to
        ask again.
        """
        asked = put(question, self._salt)
        name = question_id(asked, sample)
        said = self.answers.get(name)
        if said is None:
            self.pending[name] = Pending(name, asked, question.prompt_version, sample)
            return Answer(
                "errored",
                None,
                "there is no answer to this question in the file",
                name,
                False,
                False,
                None,
            )
        self.used.add(name)
        found = read_verdict(said, question, asked.schema)
        return Answer(
            found.outcome, found.verdict, found.fault or found.reason, name, True, False, said.model
        )

    def check_all_used(self) -> None:
        """Refuse answers to questions that were not asked: they belong to other texts, another
        rubric or another wording.
        """
        foreign = sorted(self.answers.keys() - self.used)
        if foreign:
            raise InputError(
                "JDG-007",
                f"{len(foreign)} answers are to questions that these files and options do not ask,"
                f" for example {foreign[0]}.",
                fix=(
                    "Give the same files and options as for the export. If a text or the rubric"
                    " changed since, export again."
                ),
            )


def read_answers(paths: Iterable[str]) -> dict[str, Said]:
    """The answers of .jsonl files: `{"id", "reply", "model"}`, or the output of OpenAI's
    batches.
    """
    found: dict[str, Said] = {}
    faults: list[Fault] = []
    for path in paths:
        for document in stream_documents(path):
            if isinstance(document, Unread):
                faults.append(document.fault)
                continue
            try:
                name, said = _answer(document.tree)
                if name in found:
                    raise ValueError(f"the question {name} is answered twice.")
                if said is not None:
                    found[name] = said
            except (ValueError, InputError) as error:
                message = error.message if isinstance(error, InputError) else str(error)
                faults.append(
                    Fault(message, code="JDG-005", file=document.file, line=document.line)
                )
    if faults:
        refused = InputError(
            faults[0].code, faults[0].message, where=faults[0].file, faults=faults[:MAX_FAULTS]
        )
        refused.fault_count = len(faults)
        raise refused
    return found


def _answer(tree: Any) -> tuple[str, Said | None]:
    """A line's question and what was said; None where the batch has an error in its place, which
    leaves the question open.
    """
    if not isinstance(tree, dict):
        raise ValueError("the line is no JSON object.")
    if "custom_id" in tree:
        name = tree["custom_id"]
        response = tree.get("response")
        if not isinstance(name, str):
            raise ValueError("custom_id is no text.")
        if (
            tree.get("error") is not None
            or not isinstance(response, dict)
            or response.get("status_code") != 200
        ):
            return name, None
        return name, DIALECTS["openai"].read(response.get("body"))
    unknown = sorted(set(tree) - {"schema", "id", "reply", "model", "finish", "refusal"})
    if unknown:
        raise ValueError(
            f"there is no key '{unknown[0]}' in an answer; it has id, reply, model, finish and"
            " refusal."
        )
    if tree.get("schema", ANSWER_SCHEMA) != ANSWER_SCHEMA:
        raise ValueError(f"the schema is {tree['schema']!r}, not {ANSWER_SCHEMA}.")
    name, reply, model = tree.get("id"), tree.get("reply"), tree.get("model")
    if not isinstance(name, str) or "reply" not in tree:
        raise ValueError("an answer has an `id`, that of its question, and a `reply`.")
    for part in ("model", "finish", "refusal"):
        if tree.get(part) is not None and not isinstance(tree[part], str):
            raise ValueError(f"the {part} is no text.")
    text = reply if reply is None or isinstance(reply, str) else _encode(reply).decode()
    return name, Said(text, tree.get("refusal") or None, tree.get("finish"), None, None, model)
