"""`assay judge export`, `ask` and `consume`: judge work as files, for answers that come from
elsewhere or later.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.frame import STORE, Argument, Command, Options, arg, flag, repeated
from assay.cli.judge_pairwise import pairs_of
from assay.cli.judge_specs import specs_of
from assay.errors import InputError, UsageError, count, printable
from assay.files.atomic import write_file
from assay.judging.client import Client, Errored
from assay.judging.config import JudgeSpec
from assay.judging.endpoints import Prompt
from assay.judging.exchange import ANSWER_SCHEMA, QuestionLine, Replay, read_answers, read_questions
from assay.judging.fence import Salt
from assay.judging.identity import definition_name, prompt_name, rubric_name
from assay.judging.items import read_items
from assay.judging.pairwise_task import DEFINITION, Compared, compare, comparisons_document
from assay.judging.questions import PAIRWISE_PROMPT, RUBRIC_PROMPT
from assay.judging.rubric_task import (
    Judged,
    counts_of,
    judge_rubric,
    questions_of,
    scored_runs,
    spread,
)
from assay.records.grade import ENGINE
from assay.views.documents import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assay.archive.store import Store


class _RubricWork:
    """Texts scored by a rubric, from answers in a file."""

    def __init__(self, options: Options, files: list[str]) -> None:
        self.options = options
        self.rubric = opt.shelf_of(options).rubric(options.rubric)
        self.items = read_items(
            files, output=options.output_field, with_reference=options.with_reference
        )
        self.questions = questions_of(self.items, self.rubric, only=options.criterion)
        prompt = prompt_name(RUBRIC_PROMPT, with_reference=options.with_reference)
        self.scorer = {"prompt_version": prompt, "rubric": rubric_name(self.rubric)}
        self.judged: list[Judged] = []

    def run(self, replay: Replay) -> None:
        self.judged = asyncio.run(
            judge_rubric(replay, self.questions, samples=self.options.samples)
        )

    def document(self, judge: dict[str, str], scorer: dict[str, str]) -> dict[str, Any]:
        return {
            "schema": "assay.judgements/1",
            "judge": judge,
            "scorer": scorer,
            "rubric": self.rubric.id,
            "prompt_version": RUBRIC_PROMPT,
            "samples": self.options.samples,
            "items": [item.shown() for item in self.judged],
            "counts": counts_of(answer for item in self.judged for answer in item.answers),
        }

    def rows(self, scorer: dict[str, str]) -> Iterable[Any]:
        return scored_runs(
            self.items, self.judged, self.rubric, scorer=scorer, replace=self.options.replace
        )

    @property
    def whole(self) -> bool:
        return all(item.raw is not None for item in self.judged)


class _PairWork:
    """Pairs compared, from answers in a file."""

    def __init__(self, options: Options, files: list[str]) -> None:
        self.options = options
        self.pairs = pairs_of(files)
        self.scorer = {
            "prompt_version": PAIRWISE_PROMPT,
            "rubric": definition_name(options.definition),
        }
        self.compared: list[Compared] = []

    def run(self, replay: Replay) -> None:
        options = self.options
        self.compared = asyncio.run(
            compare(replay, self.pairs, seed=options.seed, definition=options.definition)
        )

    def document(self, judge: dict[str, str], scorer: dict[str, str]) -> dict[str, Any]:
        return comparisons_document(
            self.compared,
            judge=judge,
            scorer=scorer,
            counts=counts_of(look.answer for pair in self.compared for look in pair.looks),
            usage=None,
            limit=0.10,
            seed=self.options.seed,
        )

    def rows(self, scorer: dict[str, str]) -> Iterable[Any]:
        return [line for pair in self.compared for line in pair.verdicts()]

    @property
    def whole(self) -> bool:
        return all(pair.winner is not None for pair in self.compared)


def _work(options: Options, files: list[str]) -> _RubricWork | _PairWork:
    if bool(options.rubric) == bool(options.pairs):
        raise UsageError("CLI-001", "choose the questions: --rubric R, or --pairs.")
    return _RubricWork(options, files) if options.rubric else _PairWork(options, files)


def _export(options: Options) -> int:
    replay = Replay({}, Salt.fresh())
    _work(options, options.files).run(replay)
    if not opt.outputs(options):
        raise UsageError("CLI-001", "no file to write to.", fix="Give -o questions.jsonl")
    spec = JudgeSpec(judge="batch", model=options.model)
    pending = replay.pending.values()
    lines = [request.batch(spec) if options.batch else request.line() for request in pending]
    n = len(lines)
    document = {"schema": "assay.judge-export/1", "questions": n, "files": list(options.output)}
    line = (
        f"{count(n, 'question')} in {', '.join(options.output)}; consume their answers with `assay"
        " judge consume`"
    )
    return common.finish(options, None, document, [line], rows=lambda: lines)


def _consume(options: Options, store: Store | None) -> int:
    written = [*opt.outputs(options), *([options.pending] if options.pending else [])]
    taken = {os.path.realpath(path) for path in (*options.of, *options.files)}
    for path in written:
        if os.path.realpath(path) in taken:
            raise UsageError(
                "CLI-001",
                f"'{path}' is also read, or is written twice.",
                fix="Write to another file.",
            )
        taken.add(os.path.realpath(path))
    answers = read_answers(options.files)
    job = _work(options, options.of)
    replay = Replay(answers, Salt.fresh())
    job.run(replay)
    replay.check_all_used()
    models = sorted({reply.model for reply in answers.values() if reply.model})
    if len(models) > 1:
        raise InputError(
            "JDG-005",
            f"the answers come from several models: {', '.join(models)}.",
            fix="Use one file for each judge; `assay judge panel` asks several.",
        )
    model = models[0] if models else options.model
    scorer = {"kind": "llm", "name": model, **job.scorer}
    document = job.document({"judge": model, "model": model, "source": "files"}, scorer)
    document = {**document, "pending": len(replay.pending), **ENGINE}
    counts = document["counts"].items()
    lines = [", ".join(f"{number:,} {name}" for name, number in counts if number)]
    if options.pending:
        rows = opt.json_lines(request.line() for request in replay.pending.values())
        write_file(options.pending, rows)
    if replay.pending:
        where = f"They are in {options.pending}." if options.pending else "--pending writes them."
        lines.append(f"{count(len(replay.pending), 'question')} without an answer yet. {where}")
    return common.finish(
        options, store, document, lines, rows=lambda: job.rows(scorer), whole=job.whole
    )


_WORK: tuple[Argument | str, ...] = (
    arg("--rubric", metavar="R", help="score by this rubric: name, name@version or YAML file"),
    flag("--pairs", "compare pairs instead"),
    *common.RUBRIC,
    arg(
        "--definition",
        metavar="TEXT",
        default=DEFINITION,
        help="with --pairs: what counts as better",
    ),
    arg("--seed", metavar="N", type=int, default=0, help="seed of orders (default: 0)"),
    arg(
        "--model",
        metavar="M",
        default="external",
        help="the model that answers; recorded in the results (default: external)",
    ),
    "--library",
)


def _ask(options: Options) -> int:
    specs = specs_of(options, only="ask")
    opt.outputs(options)
    questions = read_questions(options.files)
    if options.dry_run:
        plan = {"schema": "assay.judge-plan/1", "dry_run": True, "questions": len(questions)}
        return common.print_plan(options, plan, [f"{count(len(questions), 'question')}."])

    answers_given, usages = common.ask(
        options,
        specs,
        lambda clients: spread(partial(_answer, clients[0]), questions, width=clients[0].width),
        total=len(questions),
    )
    answers = [answer for answer in answers_given if answer is not None]
    failed = len(answers_given) - len(answers)
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
        prompt = Prompt(messages, question.response_schema, question.sample)
        reply, _ = await client.reply(key, "file", prompt)
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
    "judge export": Command(
        _export,
        "Write the questions of a job to a file, one on each line, with the fenced texts and the"
        " shape of the reply.",
        "assay judge export runs.jsonl --rubric rag -o questions.jsonl",
        (
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help="runs, items or pairs, as for `rubric` and `pairwise`",
            ),
            *_WORK,
            flag("--batch", "in OpenAI's batch format, for --model"),
        ),
        formats=(".jsonl",),
    ),
    "judge consume": Command(
        common.stored(_consume),
        "Turn answers that came from elsewhere into judgements. Takes the same files and"
        " options as the export; each answer is checked against its question.",
        "assay judge consume answers.jsonl --of runs.jsonl --rubric rag --model m-1 -o"
        " judged.jsonl",
        (
            arg(
                "files",
                metavar="ANSWERS",
                nargs="+",
                help='lines of {"id", "reply", "model"}, or the output of OpenAI\'s batches',
            ),
            repeated(
                "--of",
                "FILE",
                "the runs, items or pairs that were exported; may be repeated",
                required=True,
            ),
            *_WORK,
            common.REPLACE,
            arg(
                "--pending",
                metavar="FILE",
                help="write the questions that still have no answer here (.jsonl)",
            ),
            *STORE,
        ),
        formats=(".json", ".jsonl"),
    ),
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
