"""`assay judge export`, `ask` and `consume`: judge work as files, for answers that come from
elsewhere or later.
"""

from __future__ import annotations

import asyncio
import os
import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.ledger import add_store, storing
from assay.errors import ExitCode, InputError, UsageError, printable
from assay.files.atomic import atomic_write
from assay.judging.client import Errored
from assay.judging.config import JudgeSpec
from assay.judging.exchange import ANSWER_SCHEMA, Replay, read_answers, read_questions
from assay.judging.fence import Salt
from assay.judging.identity import rubric_name
from assay.judging.items import read_items
from assay.judging.pairwise_task import DEFINITION, Compared, compare
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
    import argparse

    from assay.archive.store import Store
    from assay.judging.client import Client
    from assay.judging.exchange import QuestionLine
    from assay.judging.items import Item
    from assay.scoring.rubric import Rubric


def _add_work(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--rubric", metavar="R", help="score by this rubric: name, name@version or YAML file"
    )
    made.add_argument("--pairs", action="store_true", help="compare pairs instead")
    made.add_argument(
        "--criterion",
        metavar="NAME",
        action="append",
        default=[],
        help="only this criterion of the rubric; may be repeated",
    )
    made.add_argument(
        "--output-field",
        metavar="NAME",
        help="which of a run's outputs is judged (default: all of them)",
    )
    made.add_argument(
        "--with-reference", action="store_true", help="show what was expected of each run"
    )
    made.add_argument(
        "--definition",
        metavar="TEXT",
        default=DEFINITION,
        help="with --pairs: what counts as better",
    )
    made.add_argument(
        "--samples", metavar="N", type=int, default=1, help="draws of each question (default: 1)"
    )
    made.add_argument("--seed", metavar="N", type=int, default=0, help="draws orders (default: 0)")
    made.add_argument(
        "--model",
        metavar="M",
        default="external",
        help="who answers; goes into the results (default: external)",
    )
    opt.add_library(made)


class _Work:
    """The questions that files and options ask, run against whoever answers."""

    def __init__(self, options: argparse.Namespace, files: list[str]) -> None:
        if bool(options.rubric) == bool(options.pairs):
            raise UsageError("CLI-001", "say what is asked: --rubric R, or --pairs.")
        if options.samples < 1:
            raise UsageError("CLI-001", f"--samples is {options.samples}; it must be at least 1.")
        self.options = options
        self.rubric: Rubric | None = None
        if options.rubric:
            self.rubric = opt.shelf_of(options).rubric(options.rubric)
            self.items: list[Item] = read_items(
                files, output=options.output_field, with_reference=options.with_reference
            )
            self.questions = questions_of(self.items, self.rubric, only=options.criterion)
        else:
            from assay.cli.judge_tasks import pairs_of

            self.pairs = pairs_of(files)

    def run(self, replay: Replay) -> tuple[list[Judged], list[Compared]]:
        if self.rubric is not None:
            return (
                asyncio.run(judge_rubric(replay, self.questions, samples=self.options.samples)),
                [],
            )
        return [], asyncio.run(
            compare(replay, self.pairs, seed=self.options.seed, definition=self.options.definition)
        )


def export(argv: list[str]) -> int:
    """Write the questions of a job to a file."""
    made = opt.parser(
        "judge export",
        "Write the questions of a job to a file, one on each line; whoever answers gets the fenced"
        " texts and the shape of the reply.",
        "assay judge export runs.jsonl --rubric rag -o questions.jsonl",
    )
    made.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="runs, items or pairs, as for `rubric` and `pairwise`",
    )
    _add_work(made)
    made.add_argument("--batch", action="store_true", help="in OpenAI's batch format, for --model")
    opt.add_output(made, (".jsonl",))
    options = made.parse_args(argv)
    job = _Work(options, options.files)
    replay = Replay({}, Salt.fresh())
    job.run(replay)
    if not opt.outputs(options):
        raise UsageError("CLI-001", "no file to write to.", fix="Give -o questions.jsonl")
    for path in opt.outputs(options):
        _write_pending(path, replay, batch=options.batch, model=options.model)
    document = {
        "schema": "assay.judge-export/1",
        "questions": len(replay.pending),
        "files": list(options.output),
    }
    if options.json:
        opt.print_json(document)
    else:
        sys.stdout.write(
            f"{len(replay.pending):,} questions in {', '.join(options.output)}; consume their"
            " answers with `assay judge consume`\n"
        )
    return ExitCode.PASSED


def _write_pending(path: str, replay: Replay, *, batch: bool, model: str) -> None:
    spec = JudgeSpec(judge="batch", model=model)
    with atomic_write(path) as stream:
        for pending in replay.pending.values():
            stream.write(encode(pending.batch(spec) if batch else pending.line()) + b"\n")


def consume(argv: list[str]) -> int:
    """Turn a file of answers into judgements."""
    made = opt.parser(
        "judge consume",
        "Turn answers that came from elsewhere into judgements. The same files and options as for"
        " the export; each answer is held against its question.",
        "assay judge consume answers.jsonl --of runs.jsonl --rubric rag --model m-1 -o"
        " judged.jsonl",
    )
    made.add_argument(
        "files",
        metavar="ANSWERS",
        nargs="+",
        help='lines of {"id", "reply", "model"}, or the output of OpenAI\'s batches',
    )
    made.add_argument(
        "--of",
        metavar="FILE",
        action="append",
        required=True,
        help="the runs, items or pairs that were exported; may be repeated",
    )
    _add_work(made)
    made.add_argument(
        "--replace",
        action="store_true",
        help="put the judge's score in the place of one that a run already has",
    )
    made.add_argument(
        "--pending",
        metavar="FILE",
        help="write the questions that still have no answer here (.jsonl)",
    )
    opt.add_output(made, (".json", ".jsonl"))
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _consume(options, store)


def _consume(options: argparse.Namespace, store: Store | None) -> int:
    written = [*opt.outputs(options), *([options.pending] if options.pending else [])]
    taken = {os.path.realpath(path) for path in (*options.of, *options.files)}
    for path in written:
        if os.path.realpath(path) in taken:
            raise UsageError(
                "CLI-001", f"'{path}' is read, or written twice.", fix="Write to another file."
            )
        taken.add(os.path.realpath(path))
    answers = read_answers(options.files)
    job = _Work(options, options.of)
    replay = Replay(answers, Salt.fresh())
    judged, compared = job.run(replay)
    replay.check_all_used()
    models = sorted({said.model for said in answers.values() if said.model})
    if len(models) > 1:
        raise InputError(
            "JDG-005",
            f"the answers come from several models: {', '.join(models)}.",
            fix="One judge, one file; a panel of them is `assay judge panel`.",
        )
    model = models[0] if models else options.model
    judge = {"judge": model, "model": model, "source": "files"}
    scorer = {
        "kind": "llm",
        "name": model,
        "prompt_version": RUBRIC_PROMPT if job.rubric is not None else PAIRWISE_PROMPT,
    }
    if job.rubric is not None:
        scorer["rubric"] = rubric_name(job.rubric)
    if job.rubric is not None:
        counts = counts_of(answer for one in judged for answer in one.answers)
        document: dict[str, Any] = {
            "schema": "assay.judgements/1",
            "judge": judge,
            "scorer": scorer,
            "rubric": job.rubric.id,
            "prompt_version": RUBRIC_PROMPT,
            "samples": options.samples,
            "items": [one.shown() for one in judged],
            "counts": counts,
            "pending": len(replay.pending),
            **ENGINE,
        }
        rubric = job.rubric

        def lines() -> list[bytes]:
            return [
                encode(tree)
                for tree in scored_runs(
                    job.items, judged, rubric, scorer=scorer, replace=options.replace
                )
            ]

        whole = all(one.raw is not None for one in judged)
    else:
        from assay.cli.judge_tasks import comparisons_document

        counts = counts_of(look.answer for one in compared for look in one.looks)
        document = comparisons_document(
            compared,
            judge=judge,
            scorer=scorer,
            counts=counts,
            usage=None,
            limit=0.10,
            seed=options.seed,
        )
        document["pending"] = len(replay.pending)

        def lines() -> list[bytes]:
            return [encode(line) for one in compared for line in one.verdicts()]

        whole = document["without_verdict"] == 0
    common.keep(store, document)
    common.write_outputs(
        options, {".jsonl": lambda: b"".join(line + b"\n" for line in lines())}, document
    )
    if options.pending:
        _write_pending(options.pending, replay, batch=False, model=options.model)
    if options.json:
        opt.print_json(document)
    else:
        sys.stdout.write(
            ", ".join(f"{number:,} {name}" for name, number in counts.items() if number) + "\n"
        )
        if replay.pending:
            where = (
                f" They are in {options.pending}."
                if options.pending
                else " Write them to a file with --pending."
            )
            sys.stdout.write(f"{len(replay.pending):,} questions have no answer yet.{where}\n")
    return ExitCode.PASSED if whole else ExitCode.NOT_ENOUGH


def ask(argv: list[str]) -> int:
    """Answer a file of questions with a model."""
    made = opt.parser(
        "judge ask",
        "Answer a file of questions with a model, whoever wrote them; the answers are read by"
        " `assay judge consume`.",
        "assay judge ask questions.jsonl --judge judge.yaml -o answers.jsonl",
    )
    made.add_argument(
        "files",
        metavar="QUESTIONS",
        nargs="+",
        help='lines of {"id", "messages", "response_schema"}',
    )
    common.add_judge(made)
    opt.add_output(made, (".jsonl",))
    options = made.parse_args(argv)
    specs = common.specs_of(options)
    common.only(specs, "ask")
    opt.outputs(options)
    questions = read_questions(options.files)
    if options.dry_run:
        if options.json:
            opt.print_json(
                {"schema": "assay.judge-plan/1", "dry_run": True, "questions": len(questions)}
            )
        else:
            sys.stdout.write(f"{len(questions):,} questions; nothing was asked.\n")
        return ExitCode.PASSED
    with common.journal_of(options) as journal:

        async def all_of_them(clients: list[Client]) -> list[dict[str, Any] | None]:
            client = clients[0]

            async def one(question: QuestionLine) -> dict[str, Any] | None:
                # the id is part of it: two draws of one question have the same words
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

            return await spread(one, questions, width=client.width)

        found, usages = common.work(
            specs, journal, all_of_them, seed=options.seed, total=len(questions)
        )
    answers = [answer for answer in found if answer is not None]
    failed = len(found) - len(answers)
    for path in opt.outputs(options):
        with atomic_write(path) as stream:
            stream.writelines(encode(answer) + b"\n" for answer in answers)
    if options.json:
        opt.print_json(
            {
                "schema": "assay.judge-answers/1",
                "answers": answers,
                "failed": failed,
                "usage": usages[0],
            }
        )
    elif not options.output:
        sys.stdout.buffer.writelines(encode(answer) + b"\n" for answer in answers)
    common.note_usage(usages, {"answered": len(answers), "without an answer": failed})
    return ExitCode.PASSED if not failed else ExitCode.NOT_ENOUGH
