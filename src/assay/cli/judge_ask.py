"""`assay judge ask`: a model answers a file of questions."""

from __future__ import annotations

import argparse
import sys
from hashlib import sha256
from typing import Any

from msgspec.structs import asdict

from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.frame import Command, arg
from assay.cli.judge_specs import only, specs_of
from assay.errors import count, printable
from assay.judging.client import Client, Errored
from assay.judging.exchange import ANSWER_SCHEMA, QuestionLine, read_questions
from assay.judging.rubric_task import spread
from assay.views.documents import encode


def _ask(options: argparse.Namespace) -> int:
    specs = specs_of(options)
    only(specs, "ask")
    opt.outputs(options)
    questions = read_questions(options.files)
    if options.dry_run:
        plan = {"schema": "assay.judge-plan/1", "dry_run": True, "questions": len(questions)}
        return common.print_plan(options, plan, [f"{count(len(questions), 'question')}."])

    async def ask_all(clients: list[Client]) -> list[dict[str, Any] | None]:
        async def answer(question: QuestionLine) -> dict[str, Any] | None:
            return await _answer(clients[0], question)

        return await spread(answer, questions, width=clients[0].width)

    found, usages = common.ask(options, specs, ask_all, total=len(questions))
    answers = [answer for answer in found if answer is not None]
    failed = len(found) - len(answers)
    document = {
        "schema": "assay.judge-answers/1",
        "answers": answers,
        "failed": failed,
        "usage": usages[0],
    }
    common.note_usage(usages, {"answered": len(answers), "without an answer": failed})
    lines = [] if options.output else [encode(answer).decode() for answer in answers]
    return common.finish(options, None, document, lines, rows=lambda: answers, whole=not failed)


async def _answer(client: Client, question: QuestionLine) -> dict[str, Any] | None:
    # the id is part of the key: two draws of one question have the same words
    messages = [asdict(message) for message in question.messages]
    words = encode([question.id, messages, question.response_schema])
    key = "sha256:" + sha256(client.spec.digest.encode() + words).hexdigest()
    try:
        reply, _ = await client.reply(
            key, "file", messages, question.response_schema, sample=question.sample
        )
    except Errored as error:
        sys.stderr.write(printable(f"{question.id}: {error}") + "\n")
        return None
    answer = {
        "schema": ANSWER_SCHEMA,
        "id": question.id,
        "reply": reply.text,
        "model": reply.model or client.spec.model,
        "finish": reply.finish,
    }
    return answer if reply.refusal is None else {**answer, "refusal": reply.refusal}


COMMANDS = {
    "judge ask": Command(
        _ask,
        "Answer a file of questions with a model; `assay judge consume` reads the answers.",
        "assay judge ask questions.jsonl --judge judge.yaml -o answers.jsonl",
        (
            arg(
                "files",
                metavar="QUESTIONS",
                nargs="+",
                help='lines of {"id", "messages", "response_schema"}',
            ),
            *common.JUDGE,
        ),
        formats=(".jsonl",),
    ),
}
