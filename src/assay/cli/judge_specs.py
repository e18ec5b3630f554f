"""The judges that the options of `assay judge` describe."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from assay.cli.parsing import Options
from assay.errors import UsageError
from assay.files.yaml_files import read_entry
from assay.judging.apis import needs_address
from assay.judging.config import JudgeSpec, Limits, Price, check_spec, load_judge


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
