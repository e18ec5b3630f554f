"""`assay judge audit` and `card`: what is known about a judge, and whether that is enough."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.ledger import add_store, storing
from assay.errors import ExitCode, InputError, UsageError
from assay.files.json_files import read_json
from assay.judging.audit import PROBES, Measured
from assay.judging.audit import audit as run_probes
from assay.judging.card import admit, make_card
from assay.judging.figures import impossible
from assay.judging.injections import load
from assay.judging.items import read_pairs
from assay.judging.probes import audit_pairs, audit_rubric, digest_of, paddings
from assay.judging.questions import PAIRWISE_PROMPT, RUBRIC_PROMPT
from assay.records.grade import ENGINE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from assay.archive.store import Store
    from assay.judging.client import Client
    from assay.judging.items import Pair

AUDIT_SCHEMA = "assay.judge-audit/1"


def audit(argv: list[str]) -> int:
    """Measure a judge's biases."""
    made = opt.parser(
        "judge audit",
        "Measure what moves a judge besides quality: position, length, padding, its own family,"
        " repeats, stated scores, injections. Each with an interval.",
        "assay judge audit --judge judge.yaml -o audit.json",
    )
    made.add_argument(
        "--items",
        metavar="FILE",
        help="pairs of your own, labelled where you can, instead of the 40 bundled ones",
    )
    made.add_argument(
        "--probe",
        metavar="NAME",
        action="append",
        default=[],
        help=f"only this probe; may be repeated ({', '.join(PROBES)})",
    )
    made.add_argument(
        "--first",
        metavar="N",
        type=int,
        help="only the first N pairs and injections, for a slow judge; intervals grow accordingly",
    )
    made.add_argument(
        "--repeats",
        metavar="N",
        type=int,
        default=3,
        help="draws of one question in the probe of repeats (default: 3)",
    )
    common.add_judge(made)
    opt.add_output(made, (".json",))
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _audit(options, store)


def _audit(options: argparse.Namespace, store: Store | None) -> int:
    specs = common.specs_of(options)[:1]
    spec = specs[0]
    probes = _probes(options.probe)
    if options.repeats < 2:
        raise UsageError("CLI-001", f"--repeats is {options.repeats}; it takes two to disagree.")
    if options.first is not None and options.first < 2:
        raise UsageError("CLI-001", f"--first is {options.first}; it must be at least 2.")
    pairs: Sequence[Pair] = (read_pairs([options.items]) if options.items else audit_pairs())[
        : options.first
    ]
    injections = load()[: options.first]
    calls = _calls(probes, len(pairs), len(injections), options.repeats)
    if options.dry_run:
        sys.stdout.write(
            f"{spec.judge}: at most {calls:,} calls, some of them the same question and asked once."
            " Nothing was asked.\n"
        )
        return ExitCode.PASSED
    rubric = audit_rubric()
    with common.journal_of(options) as journal:

        async def ask(clients: list[Client]) -> dict[str, Measured]:
            return await run_probes(
                clients[0],
                pairs=pairs,
                paddings=paddings(),
                criterion=rubric.criteria[0],
                injections=injections,
                family=spec.family,
                probes=probes,
                repeats=options.repeats,
            )

        found, usages = common.work(specs, journal, ask, seed=options.seed, total=calls)
    price = (
        None
        if spec.price is None
        else {
            "input_per_million": spec.price.input_per_million,
            "output_per_million": spec.price.output_per_million,
        }
    )
    source = options.items or "bundled"
    judge = common.judge_shown(spec)
    document = audit_document(
        found,
        judge=judge,
        pairs=pairs,
        source=source,
        injections=len(injections),
        price=price,
        usage=usages[0],
    )
    if store is not None:
        from assay.store.drafts import draft

        store.put([draft(document, kind="audit")])
    common.write_outputs(options, {}, document)
    if options.json:
        opt.print_json(document)
    else:
        for name, measured in found.items():
            lost = (
                f" {measured.lost} of {measured.answers} answers had no verdict."
                if measured.lost
                else ""
            )
            sys.stdout.write(f"{measured.sentence}{lost}\n")
            rate = measured.detail.get("inconsistency_rate") if name == "position" else None
            if rate and rate["value"] is not None:
                sys.stdout.write(
                    f"order: {rate['value']:.3f} of the pairs are judged by their order"
                    f" ({rate['low']:.3f} to {rate['high']:.3f}).\n"
                )
    answers, lost = (
        sum(getattr(measured, name) for measured in found.values()) for name in ("answers", "lost")
    )
    common.note_usage(usages, {"answers": answers, "without a verdict": lost})
    told = [measured for name, measured in found.items() if name != "self_preference"]
    return (
        ExitCode.PASSED
        if all(measured.estimate.value is not None for measured in told)
        else ExitCode.NOT_ENOUGH
    )


def audit_document(
    found: dict[str, Measured],
    *,
    judge: dict[str, Any],
    pairs: Sequence[Pair],
    source: str,
    injections: int,
    price: Any,
    usage: dict[str, Any],
) -> dict[str, Any]:
    """`assay.judge-audit/1`."""
    return {
        "schema": AUDIT_SCHEMA,
        "judge": judge,
        "prompt_versions": [PAIRWISE_PROMPT, RUBRIC_PROMPT],
        "items": {
            "source": source,
            "n": len(pairs),
            "digest": digest_of(pairs),
            "injections": injections,
        },
        "biases": {name: measured.shown() for name, measured in found.items()},
        "warnings": usage["warnings"],
        "price": price,
        "usage": usage,
        **ENGINE,
    }


def _probes(names: Sequence[str]) -> tuple[str, ...]:
    from assay.registry import near_miss

    for name in names:
        if name not in PROBES:
            raise UsageError(
                "CLI-001",
                f"there is no probe '{name}'.{near_miss(name, PROBES)}",
                fix=f"They are {', '.join(PROBES)}.",
            )
    return tuple(dict.fromkeys(names)) or PROBES


def _calls(probes: Sequence[str], pairs: int, injections: int, repeats: int) -> int:
    each = {
        "padding": 2 * pairs,
        "self_agreement": repeats * pairs,
        "sycophancy": 2 * pairs,
        "injection": 2 * injections,
    }
    looks = 2 * pairs if {"position", "verbosity", "self_preference"} & set(probes) else 0
    return looks + sum(each.get(probe, 0) for probe in probes)


def card(argv: list[str]) -> int:
    """Make a judge's card."""
    made = opt.parser(
        "judge card",
        "One card for one judge, from its audit and its calibration; says whether it may gate under"
        " a policy. Exit 0 if it may, 1 if not.",
        "assay judge card --audit audit.json --calibration calibration.json -o card.json -o"
        " card.html",
    )
    made.add_argument(
        "--audit", metavar="FILE", help="the output of `assay judge audit -o audit.json`"
    )
    made.add_argument(
        "--calibration",
        metavar="FILE",
        help="the output of `assay judge calibrate -o calibration.json`",
    )
    made.add_argument(
        "--labels",
        metavar="FILE",
        help=(
            "the labels file of the calibration; its verdicts go on the card, so that drift can be"
            " seen item by item"
        ),
    )
    made.add_argument("--model", metavar="M", help="whose card it is, where there is no audit")
    made.add_argument(
        "--policy",
        metavar="Q",
        default="workflow-judged",
        help="the policy whose terms it must meet (default: workflow-judged)",
    )
    made.add_argument(
        "--now", metavar="TIME", help="the date of the card, as 2026-11-15T10:00:00Z (default: now)"
    )
    opt.add_library(made)
    opt.add_output(made, (".json", ".html"))
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _card(options, store)


def _card(options: argparse.Namespace, store: Store | None) -> int:
    audited = _document(options.audit, AUDIT_SCHEMA, "audit") if options.audit else None
    calibration = _calibration(options.calibration) if options.calibration else None
    if audited is None and not options.model:
        raise UsageError(
            "CLI-001", "whose card is it?", fix="Give --audit FILE, or --model with --calibration."
        )
    if audited is not None and options.model and audited["judge"].get("model") != options.model:
        raise UsageError(
            "CLI-001",
            f"the audit is of {audited['judge'].get('model')!r}, not of {options.model!r}.",
        )
    from assay.grading.policy import make_rules

    rules = make_rules(opt.shelf_of(options).policy(options.policy))
    if rules.judge_terms is None:
        raise UsageError(
            "CLI-001",
            f"the policy {rules.policy} has no terms for judges.",
            fix="`judge.gate` in a policy states them; workflow-judged has them.",
        )
    now = opt.moment(options.now) or datetime.now(UTC)
    judge = (
        audited["judge"]
        if audited is not None
        else {"judge": options.model, "model": options.model}
    )
    if calibration is not None:
        _check_same(judge, audited, calibration, options.calibration)
    made_card = make_card(
        judge=judge, audit=audited, calibration=calibration, verdicts=_verdicts(options), now=now
    )
    admission = admit(made_card, rules.judge_terms, now=now)
    document = {
        **made_card,
        "admission": {
            "policy": rules.policy,
            "gradingSystem": rules.grading_system,
            **admission.shown(),
        },
    }
    if store is not None:
        from assay.archive.records import card_drafts

        store.put(card_drafts(document, audit=audited, calibration=calibration))
    from assay.views.judge_page import judge_page

    common.write_outputs(
        options, {".html": lambda: judge_page(document).encode("utf-8", "replace")}, document
    )
    if options.json:
        opt.print_json(document)
    else:
        said = "may gate" if admission.may_gate else "may not gate"
        sys.stdout.write(f"{document['model']} {said} under {rules.policy}.\n")
        for term in admission.terms:
            sign = "holds" if term.holds else "not measured" if term.holds is None else "fails"
            sys.stdout.write(f"  {sign:<12}  {term.sentence}\n")
    return ExitCode.PASSED if admission.may_gate else ExitCode.FAILED


def _document(path: str, schema: str, what: str) -> dict[str, Any]:
    tree = read_json(path).tree
    if (
        not isinstance(tree, dict)
        or tree.get("schema") != schema
        or not isinstance(tree.get("judge"), dict)
    ):
        raise InputError(
            "JDG-009", f"is no {what} of a judge: its schema is not {schema}.", where=path
        )
    return tree


def _calibration(path: str) -> dict[str, Any]:
    tree = read_json(path).tree
    if (
        not isinstance(tree, dict)
        or not isinstance(tree.get("agreement"), dict)
        or "n_labelled" not in tree
    ):
        raise InputError(
            "JDG-009",
            "is no calibration of a judge.",
            where=path,
            fix="`assay judge calibrate --labels FILE -o calibration.json` writes one.",
        )
    wrong = impossible(tree)
    if wrong is not None:
        raise InputError("JDG-009", f"has a figure that cannot be: {wrong}.", where=path)
    return tree


def _check_same(
    judge: dict[str, Any], audited: dict[str, Any] | None, calibration: dict[str, Any], path: str
) -> None:
    """Refuse to make one card of two judges. A calibration that names no judge makes a card that
    lets nobody gate.
    """
    other = calibration.get("judge")
    if not isinstance(other, dict):
        return
    keys = ("model", "version", "digest") if audited is not None else ("model",)
    for key in keys:
        if judge.get(key) != other.get(key):
            what = "settings" if key == "digest" else key
            raise InputError(
                "JDG-009",
                f"is of another judge: its {what} is {other.get(key)!r}, that of the"
                f" {'audit' if audited is not None else 'card'} {judge.get(key)!r}.",
                where=path,
                fix="Calibrate and audit the same judge: one description, one prompt, one rubric.",
            )
    prompt = (calibration.get("scorer") or {}).get("prompt_version")
    if audited is not None and prompt not in audited.get("prompt_versions", ()):
        raise InputError(
            "JDG-009",
            f"was made with the prompt {prompt!r}; the audit has"
            f" {', '.join(audited.get('prompt_versions', ()))}.",
            where=path,
        )


def _verdicts(options: argparse.Namespace) -> dict[str, Any]:
    if not options.labels:
        return {}
    from assay.judging.labels import read_labels

    return {row.id: row.judge for row in read_labels(options.labels)}
