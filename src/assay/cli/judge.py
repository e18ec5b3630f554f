"""`assay judge`: models as judges. Finds the action, and what all of them share: which judge, which
journal, what it will cost, how it went.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.errors import ExitCode, UsageError, printable
from assay.files.atomic import atomic_write
from assay.files.yaml_files import read_yaml
from assay.judging.budget import tokens_of
from assay.judging.client import Client
from assay.judging.config import JudgeSpec, Limits, Price, check_spec, load_judge
from assay.judging.identity import warnings_of
from assay.judging.journal import Journal
from assay.judging.questions import put
from assay.views.documents import pretty

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Sequence

    from assay.archive.store import Store
    from assay.judging.client import Answer
    from assay.judging.questions import Question

ACTIONS: dict[str, str] = {
    "rubric": "score texts against the criteria of a rubric",
    "pairwise": "compare two answers to each task, in both orders",
    "claims": "whether the retrieved context bears each claim of a run out",
    "panel": "several judges on one rubric, by mean or by majority",
    "audit": "measure a judge's biases, its repeatability and what it obeys",
    "calibrate": "hold a judge's verdicts against human labels, and correct estimates by them",
    "card": "one card for one judge: agreement, biases, price, and whether it may gate",
    "drift": "a judge's latest card against its own past",
    "export": "write the questions to files, to be answered elsewhere or later",
    "ask": "answer a file of questions",
    "consume": "read answers that came from elsewhere, and turn them into judgements",
}
MODULES = {
    "rubric": "judge_tasks",
    "pairwise": "judge_tasks",
    "claims": "judge_claims",
    "panel": "judge_tasks",
    "audit": "judge_audit",
    "calibrate": "judge_calibrate",
    "card": "judge_audit",
    "drift": "judge_calibrate",
    "export": "judge_files",
    "ask": "judge_files",
    "consume": "judge_files",
}
DEFAULT_JOURNAL = ".assay/judge.journal"


def run(verb: str, argv: list[str]) -> int:
    """Run one action."""
    action = opt.choose(
        "judge",
        argv,
        ACTIONS,
        what="Ask models to judge, and know how well they do it.",
        example=(
            "assay judge rubric runs.jsonl --rubric rag --model m-1 --base-url"
            " http://127.0.0.1:8080/v1 -o judged.jsonl"
        ),
    )
    if isinstance(action, ExitCode):
        return action
    from importlib import import_module

    code: int = getattr(import_module(f"assay.cli.{MODULES[action]}"), action)(argv[1:])
    return code


def add_judge(made: argparse.ArgumentParser, *, several: bool = False) -> None:
    """The options that describe a judge and how it is asked."""
    made.add_argument(
        "--judge",
        metavar="FILE",
        action="append",
        default=[],
        help="a judge's description (YAML)" + ("; repeat it for each member" if several else ""),
    )
    if not several:
        made.add_argument("--model", metavar="M", help="the model's name, instead of a description")
        made.add_argument(
            "--base-url",
            metavar="URL",
            help="where it answers, for example http://127.0.0.1:8080/v1",
        )
        made.add_argument(
            "--api",
            choices=("openai", "anthropic", "litellm"),
            default="openai",
            help="the dialect of the endpoint (default: openai)",
        )
        made.add_argument(
            "--key-env",
            metavar="NAME",
            help="the environment variable that holds the key; the key itself is never an argument",
        )
        made.add_argument(
            "--price", metavar="IN,OUT", help="US dollars for a million tokens, in and out"
        )
        made.add_argument(
            "--structured",
            choices=("json_schema", "json_object", "none"),
            default="json_schema",
            help="how a reply's shape is asked for",
        )
        made.add_argument(
            "--max-tokens", metavar="N", type=int, default=700, help="longest reply (default: 700)"
        )
    made.add_argument(
        "--concurrency", metavar="N", type=int, help="requests on their way at once (default: 16)"
    )
    made.add_argument(
        "--timeout", metavar="S", type=float, help="seconds for one attempt (default: 60)"
    )
    made.add_argument(
        "--retries", metavar="N", type=int, help="attempts after the first (default: 6)"
    )
    made.add_argument(
        "--max-usd", metavar="X", help="stop asking before this much is spent; needs a price"
    )
    made.add_argument(
        "--journal",
        metavar="FILE",
        default=DEFAULT_JOURNAL,
        help=f"where paid answers are kept; none is asked twice (default: {DEFAULT_JOURNAL})",
    )
    made.add_argument("--no-journal", action="store_true", help="keep nothing")
    made.add_argument(
        "--dry-run",
        action="store_true",
        help="say how many calls it takes and what they cost; ask nothing",
    )
    made.add_argument(
        "--seed", metavar="N", type=int, default=0, help="draws orders and waits (default: 0)"
    )


def specs_of(options: argparse.Namespace) -> list[JudgeSpec]:
    """The judges that the options describe."""
    if options.judge:
        if getattr(options, "model", None) or getattr(options, "base_url", None):
            raise UsageError(
                "CLI-001",
                "a judge is described by --judge or by --model and --base-url, not by both.",
            )
        found = [load_judge(read_yaml(path)) for path in options.judge]
    elif getattr(options, "model", None):
        if not options.base_url and options.api != "litellm":
            raise UsageError(
                "CLI-001",
                "--model needs --base-url.",
                fix="For example --base-url http://127.0.0.1:8080/v1",
            )
        found = [
            JudgeSpec(
                judge="".join(
                    sign if sign.isalnum() or sign in "._-" else "-" for sign in options.model
                ),
                model=options.model,
                base_url=options.base_url or "",
                api=options.api,
                key_env=options.key_env,
                structured=options.structured,
                max_tokens=_above_zero("--max-tokens", options.max_tokens),
                price=_price(options.price),
            )
        ]
    else:
        raise UsageError(
            "CLI-001", "no judge is named.", fix="Give --judge FILE, or --model with --base-url."
        )
    return [_limited(spec, options) for spec in found]


def _limited(spec: JudgeSpec, options: argparse.Namespace) -> JudgeSpec:
    import msgspec

    changes: dict[str, Any] = {}
    if options.concurrency is not None:
        changes["concurrency"] = min(1024, _above_zero("--concurrency", options.concurrency))
    if options.timeout is not None:
        changes["timeout_s"] = _above_zero("--timeout", options.timeout)
    if options.retries is not None:
        if not 0 <= options.retries <= 20:
            raise UsageError("CLI-001", f"--retries is {options.retries}; it must be from 0 to 20.")
        changes["retries"] = options.retries
    if options.max_usd is not None:
        changes["max_usd"] = _amount("--max-usd", options.max_usd)
    limits: Limits = msgspec.structs.replace(spec.limits, **changes)
    made = msgspec.structs.replace(spec, limits=limits)
    check_spec(made)
    return made


def _above_zero(name: str, value: Any) -> Any:
    if not value > 0 or value == float("inf"):
        raise UsageError("CLI-001", f"{name} is {value}; it must be above 0.")
    return value


def _amount(name: str, text: str) -> Any:
    from decimal import Decimal, InvalidOperation

    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite() or found < 0:
        raise UsageError("CLI-001", f"{name} is {text!r}; it must be a number of at least 0.")
    return found


def _price(text: str | None) -> Price | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2:
        raise UsageError(
            "CLI-001",
            f"--price is {text!r}; it is two numbers, in and out, with a comma.",
            fix="For example --price 0.40,1.60",
        )
    return Price(
        input_per_million=_amount("--price", parts[0]),
        output_per_million=_amount("--price", parts[1]),
    )


def journal_of(options: argparse.Namespace) -> Journal:
    """The journal that the options name. It may not be written over: what was paid for is in it."""
    if options.no_journal:
        return Journal()
    if os.path.realpath(options.journal) in map(os.path.realpath, options.output):
        raise UsageError(
            "CLI-001",
            f"'{options.journal}' is the journal and would be overwritten.",
            fix="Write to another file.",
        )
    return Journal(options.journal)


def only(specs: Sequence[JudgeSpec], action: str) -> JudgeSpec:
    """The one judge of an action that asks one: a second would be taken for asked."""
    if len(specs) > 1:
        raise UsageError(
            "CLI-001", f"`{action}` asks one judge.", fix="`assay judge panel` asks several."
        )
    return specs[0]


def work(
    specs: Sequence[JudgeSpec],
    journal: Journal,
    job: Callable[[list[Client]], Awaitable[Any]],
    *,
    seed: int,
    total: int = 0,
) -> tuple[Any, list[dict[str, Any]]]:
    """Run a job with its clients; gives its result and what each client used."""
    from assay.cli.progress import Progress

    progress = Progress(total, "judging", unit="calls")

    def count(answer: Answer) -> None:
        progress.add(1)

    async def all_of_it() -> tuple[Any, list[dict[str, Any]]]:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(Client(spec, journal, seed=seed, on_answer=count))
                for spec in specs
            ]
            found = await job(clients)
            return found, [usage_shown(client) for client in clients]

    try:
        return asyncio.run(all_of_it())
    finally:
        progress.end()


def usage_shown(client: Client) -> dict[str, Any]:
    """What a client used, as it stands in a document."""
    usage = client.usage
    answered = dict(sorted(client.answered.items()))
    warnings = warnings_of(client.spec, left_out=usage.left_out, answered=answered)
    shown = {
        **usage._asdict(),
        "left_out": list(usage.left_out),
        "answered_by": answered,
        "warnings": warnings,
    }
    return {"judge": client.spec.judge, "model": client.spec.model, **shown}


def warnings_in(usages: Sequence[dict[str, Any]]) -> list[str]:
    """What breaks the judge protocol, over all judges that were asked."""
    return [sentence for usage in usages for sentence in usage["warnings"]]


def judge_shown(spec: JudgeSpec) -> dict[str, Any]:
    """A judge as it stands in a document: nothing secret is in it."""
    return {"judge": spec.judge, "family": spec.family, **spec.identity(), "digest": spec.digest}


def dry_run(
    options: argparse.Namespace,
    specs: Sequence[JudgeSpec],
    questions: Sequence[tuple[Question, int]],
    *,
    more: str = "",
) -> int:
    """Say what a job would ask and cost. `questions` come with their sample number."""
    from decimal import Decimal

    rows = []
    with journal_of(options) as journal:
        for spec in specs:
            client = Client(spec, journal)
            new = [
                question
                for question, sample in questions
                if journal.get(client.key(put(question, journal.salt), sample=sample)) is None
            ]
            tokens_in = math.ceil(sum(tokens_of(question.messages("0" * 32)) for question in new))
            tokens_out = len(new) * spec.max_tokens
            cost = None
            if spec.price is not None:
                price_in, price_out = (
                    Decimal(str(spec.price.input_per_million)),
                    Decimal(str(spec.price.output_per_million)),
                )
                cost = ((tokens_in * price_in + tokens_out * price_out) / 1_000_000).quantize(
                    Decimal("0.0001")
                )
            rows.append(
                {
                    "judge": spec.judge,
                    "calls": len(new),
                    "cached": len(questions) - len(new),
                    "input_tokens": tokens_in,
                    "output_tokens_at_most": tokens_out,
                    "cost_usd_at_most": cost,
                }
            )
    if options.json:
        opt.print_json(
            {"schema": "assay.judge-plan/1", "dry_run": True, "judges": rows, "note": more}
        )
    else:
        for row in rows:
            price = (
                "no price given"
                if row["cost_usd_at_most"] is None
                else f"at most {row['cost_usd_at_most']} US dollars"
            )
            sys.stdout.write(
                f"{row['judge']}: {row['calls']:,} calls, {row['cached']:,} already answered; about"
                f" {row['input_tokens']:,} tokens in, {price}\n"
            )
        if more:
            sys.stdout.write(f"{more}\n")
        sys.stdout.write("Nothing was asked.\n")
    return ExitCode.PASSED


def note_usage(usages: Sequence[dict[str, Any]], counts: dict[str, int]) -> None:
    """How it went, on standard error."""
    said = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
    sys.stderr.write(f"{said or 'nothing was asked'}\n")
    for usage in usages:
        cost = "" if usage["cost_usd"] is None else f", {usage['cost_usd']:.4f} US dollars"
        unpriced = (
            f" ({usage['unpriced']:,} replies did not say their tokens)"
            if usage["unpriced"]
            else ""
        )
        slow = f", slowed down {usage['slowed']} times" if usage["slowed"] else ""
        left = (
            f"; the endpoint does not take {', '.join(usage['left_out'])}, which was left out"
            if usage["left_out"]
            else ""
        )
        sys.stderr.write(
            f"{usage['judge']}: {usage['calls']:,} calls, {usage['cached']:,} from the journal,"
            f" {usage['retries']:,} retries, {usage['repairs']:,} repairs,"
            f" {usage['input_tokens']:,} +"
            f" {usage['output_tokens']:,} tokens{cost}{unpriced}{slow}{left}\n"
        )
        sys.stderr.writelines(
            printable(f"warning: {sentence}") + "\n" for sentence in usage["warnings"]
        )


def keep(store: Store | None, document: dict[str, Any]) -> None:
    """Store judgements, before anything is written; nothing where no store was asked for."""
    if store is not None:
        from assay.archive.records import judgement_draft

        store.put([judgement_draft(document)])


def write_outputs(
    options: argparse.Namespace, makers: dict[str, Callable[[], bytes]], document: dict[str, Any]
) -> None:
    """Write each -o file: .json is the document, other extensions have a maker."""
    for path in opt.outputs(options):
        extension = path[path.rfind(".") :]
        with atomic_write(path) as stream:
            stream.write(makers[extension]() if extension in makers else pretty(document))
