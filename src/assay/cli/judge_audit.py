"""`assay judge audit`: what moves a judge besides the quality of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.cli import judge as common
from assay.cli.frame import STORE, Command, arg, repeated
from assay.cli.judge_specs import only, specs_of
from assay.errors import UsageError, count
from assay.judging.audit import AUDIT_SCHEMA, PROBES, audit, calls_of
from assay.judging.injection_probe import MeasuredBias
from assay.judging.injections import load
from assay.judging.items import Pair, read_pairs
from assay.judging.probes import audit_pairs, audit_rubric, digest_of, paddings
from assay.judging.questions import PAIRWISE_PROMPT, RUBRIC_PROMPT
from assay.records.grade import ENGINE
from assay.registry import near_miss

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from assay.archive.store import Store
    from assay.judging.client import Client
    from assay.judging.config import JudgeSpec


def _audit(options: argparse.Namespace, store: Store | None) -> int:
    specs = specs_of(options)
    only(specs, "audit")
    probes = _probes(options.probe)
    if options.repeats < 2:
        raise UsageError("CLI-001", f"--repeats is {options.repeats}; it must be at least 2.")
    if options.first is not None and options.first < 2:
        raise UsageError("CLI-001", f"--first is {options.first}; it must be at least 2.")
    known: Sequence[Pair] = read_pairs([options.items]) if options.items else audit_pairs()
    pairs, injections = known[: options.first], load()[: options.first]
    calls = calls_of(probes, len(pairs), len(injections), options.repeats)
    if options.dry_run:
        most = f"{specs[0].judge}: at most {count(calls, 'call')}; the same question is asked once."
        plan = {"schema": "assay.judge-plan/1", "dry_run": True, "calls_at_most": calls}
        return common.print_plan(options, plan, [most])

    async def ask(clients: list[Client]) -> dict[str, MeasuredBias]:
        return await audit(
            clients[0],
            pairs=pairs,
            paddings=paddings(),
            criterion=audit_rubric().criteria[0],
            injections=injections,
            family=specs[0].family,
            probes=probes,
            repeats=options.repeats,
        )

    found, usages = common.ask(options, specs, ask, total=calls)
    document = audit_document(
        found,
        spec=specs[0],
        pairs=pairs,
        source=options.items or "bundled",
        injections=len(injections),
        usage=usages[0],
    )
    draft = None
    if store is not None:
        from assay.store.drafts import draft as make_draft

        draft = make_draft(document, kind="audit")
    totals = {
        "answers": sum(one.answers for one in found.values()),
        "without a verdict": sum(one.lost for one in found.values()),
    }
    common.note_usage(usages, totals)
    common.note_age(usages[0])
    known_ones = [one for name, one in found.items() if name != "self_preference"]
    return common.finish(
        options,
        store,
        document,
        _lines(found),
        draft=draft,
        whole=all(one.estimate.value is not None for one in known_ones),
    )


def _lines(found: dict[str, MeasuredBias]) -> Iterator[str]:
    for name, measured in found.items():
        lost = f" {measured.lost} of {measured.answers} answers had no verdict."
        yield f"{measured.sentence}{lost if measured.lost else ''}"
        rate = measured.detail.get("inconsistency_rate") if name == "position" else None
        if rate and rate["value"] is not None:
            yield (
                f"order: {rate['value']:.3f} of the pairs are judged by their order"
                f" ({rate['low']:.3f} to {rate['high']:.3f})."
            )


def audit_document(
    found: dict[str, MeasuredBias],
    *,
    spec: JudgeSpec,
    pairs: Sequence[Pair],
    source: str,
    injections: int,
    usage: dict[str, Any],
) -> dict[str, Any]:
    """`assay.judge-audit/1`."""
    return {
        "schema": AUDIT_SCHEMA,
        "judge": common.judge_shown(spec),
        "prompt_versions": [PAIRWISE_PROMPT, RUBRIC_PROMPT],
        "items": {
            "source": source,
            "n": len(pairs),
            "digest": digest_of(pairs),
            "injections": injections,
        },
        "biases": {name: measured.shown() for name, measured in found.items()},
        "warnings": usage["warnings"],
        "price": spec.price,
        "usage": usage,
        **ENGINE,
    }


def _probes(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in PROBES:
            raise UsageError(
                "CLI-001",
                f"there is no probe '{name}'.{near_miss(name, PROBES)}",
                fix=f"Choose one of {', '.join(PROBES)}.",
            )
    return tuple(dict.fromkeys(names)) or PROBES


COMMANDS = {
    "judge audit": Command(
        common.stored(_audit),
        "Measure what moves a judge besides quality: position, length, padding, its own family,"
        " repeats, stated scores, injections. Each with an interval.",
        "assay judge audit --judge judge.yaml -o audit.json",
        (
            arg(
                "--items",
                metavar="FILE",
                help="your own pairs, labelled where you can, instead of the 40 bundled ones",
            ),
            repeated("--probe", "NAME", f"only this probe; may be repeated ({', '.join(PROBES)})"),
            arg(
                "--first",
                metavar="N",
                type=int,
                help=(
                    "only the first N pairs and injections, for a slow judge; intervals grow"
                    " accordingly"
                ),
            ),
            arg(
                "--repeats",
                metavar="N",
                type=int,
                default=3,
                help="draws of each question in the self_agreement probe (default: 3)",
            ),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json",),
    ),
}
