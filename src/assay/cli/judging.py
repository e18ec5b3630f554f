"""What verbs that ask a judge share: their options, which judge and journal, what it will cost, how
it went.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from assay.canon import time_of
from assay.cli import options as opt
from assay.cli.frame import Argument, Bounds, arg, flag, repeated
from assay.cli.ledger import stored as stored
from assay.cli.parsing import Options
from assay.cli.progress import Progress
from assay.errors import ExitCode, UsageError, count, printable
from assay.files.yaml_files import read_entry
from assay.judging.apis import needs_address
from assay.judging.client import Client, Journal, price_of, tokens_of
from assay.judging.config import JudgeSpec, Limits, Price, check_spec, load_judge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from assay.judging.client import Usage
    from assay.judging.questions import Question
    from assay.services.storing import Store
    from assay.store.drafts import Draft


T = TypeVar("T")

DEFAULT_JOURNAL = ".assay/judge.journal"
_LIMITS: tuple[Argument, ...] = (
    arg(
        "--concurrency",
        within=Bounds(least=1),
        metavar="N",
        type=int,
        help="requests at the same time (default: 16)",
    ),
    arg(
        "--timeout",
        within=Bounds(above=0, most=10_000_000),
        metavar="S",
        type=float,
        help="seconds for one attempt (default: 60)",
    ),
    arg(
        "--retries",
        within=Bounds(0, 20),
        metavar="N",
        type=int,
        help="attempts after the first (default: 6)",
    ),
    arg(
        "--max-usd",
        kind="number",
        key="limits.judge_usd",
        metavar="X",
        help="stop asking before this much is spent; needs a price",
    ),
    arg(
        "--journal",
        kind="path",
        metavar="FILE",
        default=DEFAULT_JOURNAL,
        help=f"where paid answers are kept; no question is paid for twice (default:"
        f" {DEFAULT_JOURNAL})",
    ),
    flag("--no-journal", "don't keep answers"),
    flag("--dry-run", "print the number of calls and their cost; ask nothing"),
    arg("--seed", metavar="N", type=int, default=0, help="seed of orders and waits (default: 0)"),
)
JUDGE: tuple[Argument, ...] = (
    repeated("--judge", "FILE", "a judge's description (YAML)", kind="path", key="judge"),
    arg(
        "--model",
        kind="text",
        trust="freely",
        metavar="M",
        help="the model's name, instead of a description",
    ),
    arg(
        "--base-url",
        kind="address",
        metavar="URL",
        help="the API's base URL, such as http://127.0.0.1:8080/v1",
    ),
    arg(
        "--api",
        kind="text",
        trust="trusted",
        metavar="API",
        default="openai",
        help="the API to use: openai, anthropic, litellm or a plugin's (default: openai)",
    ),
    arg(
        "--key-env",
        kind="text",
        trust="trusted",
        metavar="NAME",
        help="the environment variable that contains the key; the key itself is never an argument",
    ),
    arg(
        "--price",
        kind="text",
        trust="freely",
        metavar="IN,OUT",
        help="US dollars per million tokens, in and out",
    ),
    arg(
        "--structured",
        choices=("json_schema", "json_object", "none"),
        default="json_schema",
        help="how to request the shape of a reply (default: json_schema)",
    ),
    arg(
        "--max-tokens",
        within=Bounds(least=1),
        metavar="N",
        type=int,
        default=700,
        help="longest reply (default: 700)",
    ),
    *_LIMITS,
)
"""The options that describe a judge and how it is asked."""
JUDGES: tuple[Argument, ...] = (
    repeated(
        "--judge",
        "FILE",
        "a judge's description (YAML); repeat it for each member",
        kind="path",
        key="judge",
    ),
    *_LIMITS,
)
"""The same for several judges."""


def journal_of(options: Options) -> Journal:
    """The journal that the options name. It can't be overwritten, because it contains the replies
    that were paid for.
    """
    if options.no_journal:
        return Journal()
    if os.path.realpath(options.journal) in map(os.path.realpath, options.output):
        raise UsageError(
            "CLI-001",
            f"'{options.journal}' is the journal and would be overwritten.",
            fix="Write to another file.",
        )
    return Journal(options.journal)


def ask(
    options: Options,
    specs: Sequence[JudgeSpec],
    job: Callable[[list[Client]], Awaitable[T]],
    *,
    total: int,
) -> tuple[T, list[Usage]]:
    """Run a job with its clients over the journal; its result, and what each client used."""
    progress = Progress(total, "judging", unit="calls")

    async def run(journal: Journal) -> tuple[T, list[Usage]]:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    Client(
                        spec,
                        journal,
                        seed=options.seed,
                        on_answer=lambda answer: progress.add(1),
                    )
                )
                for spec in specs
            ]
            result = await job(clients)
            return result, [client.usage for client in clients]

    try:
        with journal_of(options) as journal:
            return asyncio.run(run(journal))
    finally:
        progress.end()


def warnings_in(usages: Sequence[Usage]) -> list[str]:
    """What breaks the judge protocol, over all judges that were asked."""
    return [sentence for usage in usages for sentence in usage.warnings]


def judge_shown(spec: JudgeSpec) -> dict[str, Any]:
    """A judge in the form that documents contain, without secrets."""
    return {"judge": spec.judge, "family": spec.family, **spec.identity(), "digest": spec.digest}


def dry_run(
    options: Options,
    specs: Sequence[JudgeSpec],
    questions: Sequence[tuple[Question, int]],
    *,
    more: str = "",
) -> int:
    """Print what a job would ask and cost. `questions` come with their sample number."""
    rows, lines = [], []
    with journal_of(options) as journal:
        for spec in specs:
            client = Client(spec, journal)
            new = [
                question
                for question, sample in questions
                if not client.has(question, sample=sample)
            ]
            tokens_in = math.ceil(sum(tokens_of(question.messages("0" * 32)) for question in new))
            tokens_out = len(new) * spec.max_tokens
            cost = None
            if spec.price is not None:
                cost = price_of(spec.price, tokens_in, tokens_out).quantize(Decimal("0.0001"))
            cached = len(questions) - len(new)
            rows.append(
                {
                    "judge": spec.judge,
                    "calls": len(new),
                    "cached": cached,
                    "input_tokens": tokens_in,
                    "output_tokens_at_most": tokens_out,
                    "cost_usd_at_most": cost,
                }
            )
            most = "no price given" if cost is None else f"at most {cost} US dollars"
            lines.append(
                f"{spec.judge}: {count(len(new), 'call')}, {cached:,} already answered; about"
                f" {tokens_in:,} tokens in, {most}"
            )
    document = {"schema": "assay.judge-plan/1", "dry_run": True, "judges": rows, "note": more}
    return print_plan(options, document, [*lines, *([more] if more else [])])


def print_plan(options: Options, document: dict[str, Any], lines: list[str]) -> int:
    """Print what would be asked, without asking."""
    return opt.give(options, document, [*lines, "Nothing was asked."], written=())


def note_usage(usages: Sequence[Usage], counts: dict[str, int]) -> None:
    """Print the usage on standard error."""
    outcomes = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
    sys.stderr.write(f"{outcomes or 'nothing was asked'}\n")
    for usage in usages:
        cost = "" if usage.cost_usd is None else f", {usage.cost_usd:.4f} US dollars"
        unpriced = (
            f" ({count(usage.unpriced, 'reply', 'replies')} without token counts)"
            if usage.unpriced
            else ""
        )
        slow = f", slowed down {count(usage.slowed, 'time')}" if usage.slowed else ""
        left = (
            f"; the endpoint does not take {', '.join(usage.left_out)}, which was left out"
            if usage.left_out
            else ""
        )
        sys.stderr.write(
            f"{usage.judge}: {count(usage.calls, 'call')}, {usage.cached:,} from the journal,"
            f" {count(usage.retries, 'retry', 'retries')}, {count(usage.repairs, 'repair')},"
            f" {usage.input_tokens:,} +"
            f" {usage.output_tokens:,} tokens{cost}{unpriced}{slow}{left}\n"
        )
        for sentence in usage.warnings:
            opt.warn(sentence)


def note_age(usage: Usage) -> None:
    """Whether answers of the journal make a card old, on standard error."""
    at = time_of(usage.answered_at)
    days = None if at is None else (datetime.now(UTC) - at) / timedelta(days=1)
    if not usage.cached or (days is not None and days < 1):
        return
    sentence = (
        "the journal doesn't show when some of these answers came, so a judge with a card made from"
        " them may not gate"
        if days is None
        else f"the oldest answer is {days:.1f} days old, and so is a card made from these answers"
    )
    opt.note(f"{sentence}. To ask again, give --journal a new file.")


def finish(
    options: Options,
    store: Store | None,
    document: dict[str, Any],
    lines: Iterable[str],
    *,
    rows: Callable[[], Iterable[Any]] | None = None,
    draft: Draft | None = None,
    whole: bool = True,
) -> int:
    """Store a document, write its files and print it: as JSON, or its lines. `rows` are those of a
    .jsonl file. Exit 4 where something has no verdict.
    """
    if store is not None:
        from assay.services.storing import judgement_draft

        store.put([judgement_draft(document) if draft is None else draft])
    forms = {} if rows is None else {".jsonl": lambda _: opt.json_lines(rows())}
    code = ExitCode.PASSED if whole else ExitCode.NOT_ENOUGH
    return opt.give(options, document, map(printable, lines), code, forms=forms)


def specs_of(options: Options, *, only: str = "") -> list[JudgeSpec]:
    """The judges that the options describe. `only` names an action that asks one judge: a second
    one is refused, because it would be ignored.
    """
    if options.judge:
        if getattr(options, "model", None) or getattr(options, "base_url", None):
            raise UsageError(
                "CLI-001",
                "describe a judge by --judge, or by --model and --base-url, not both.",
            )
        specs = [load_judge(read_entry(path, "judge")) for path in options.judge]
    elif getattr(options, "model", None):
        if not options.base_url and needs_address(options.api):
            raise UsageError(
                "CLI-001",
                "--model needs --base-url.",
                fix="For example --base-url http://127.0.0.1:8080/v1",
            )
        specs = [
            JudgeSpec(
                judge="".join(
                    char if char.isalnum() or char in "._-" else "-" for char in options.model
                ),
                model=options.model,
                base_url=options.base_url or "",
                api=options.api,
                key_env=options.key_env,
                structured=options.structured,
                max_tokens=options.max_tokens,
                price=_price(options.price),
            )
        ]
    else:
        raise UsageError(
            "CLI-001", "no judge is named.", fix="Give --judge FILE, or --model with --base-url."
        )
    if only and len(specs) > 1:
        raise UsageError(
            "CLI-001",
            f"`assay judge {only}` asks one judge.",
            fix="Give --judge once. `assay judge panel` asks several about a rubric.",
        )
    return [_limited(spec, options) for spec in specs]


def _limited(spec: JudgeSpec, options: Options) -> JudgeSpec:
    given = {
        "concurrency": options.concurrency and min(1024, options.concurrency),
        "timeout_s": options.timeout,
        "retries": options.retries,
        "max_usd": None if options.max_usd is None else amount("--max-usd", options.max_usd),
    }
    limits: Limits = msgspec.structs.replace(
        spec.limits, **{name: value for name, value in given.items() if value is not None}
    )
    made = msgspec.structs.replace(spec, limits=limits)
    check_spec(made)
    return made


def amount(name: str, text: str) -> Any:
    """The amount that an option names, exactly."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number < 0:
        raise UsageError("CLI-001", f"{name} is {text!r}; it must be a number of at least 0.")
    return number


def _price(text: str | None) -> Price | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2:
        raise UsageError(
            "CLI-001",
            f"--price must be two numbers with a comma between them, in and out, not {text!r}.",
            fix="For example --price 0.40,1.60",
        )
    return Price(
        input_per_million=amount("--price", parts[0]),
        output_per_million=amount("--price", parts[1]),
    )
