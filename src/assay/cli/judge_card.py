"""`assay judge audit` and `card`: what moves a judge besides the quality of a text, and one card
for one judge from its audit and its calibration.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.frame import STORE, Bounds, Command, Options, arg, policy_option, repeated
from assay.cli.judge_specs import specs_of
from assay.errors import ExitCode, InputError, UsageError, count
from assay.files.json_files import read_json
from assay.grading.policy import make_rules
from assay.judging.audit import AUDIT_SCHEMA, PROBES, audit, calls_of
from assay.judging.card import admit_tree, make_card, read_card
from assay.judging.figures import impossible
from assay.judging.injection_probe import MeasuredBias
from assay.judging.injections import load
from assay.judging.items import AnswerPair, read_pairs
from assay.judging.probes import audit_pairs, audit_rubric, digest_of, distinct_pairs, paddings
from assay.judging.questions import PAIRWISE_PROMPT, RUBRIC_PROMPT
from assay.records.grade import ENGINE
from assay.records.judge_card import AuditRecord, CalibrationRecord
from assay.records.reading import read_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.archive.store import Store
    from assay.judging.budget import Usage
    from assay.judging.config import JudgeSpec


def _card(options: Options, store: Store | None) -> int:
    audited = _audited(options.audit) if options.audit else None
    calibration = _calibration(options.calibration) if options.calibration else None
    named = calibration.get("judge") if calibration is not None else None
    model = options.model or (named.get("model") if isinstance(named, dict) else None)
    if audited is None and not model:
        raise UsageError(
            "CLI-001",
            "the card has no judge.",
            fix="Give --audit FILE, a --calibration that names its judge, or --model.",
        )
    if audited is not None and options.model and audited["judge"].get("model") != options.model:
        raise UsageError(
            "CLI-001",
            f"the audit is for {audited['judge'].get('model')!r}, not {options.model!r}.",
        )
    rules = make_rules(opt.shelf_of(options).policy(options.policy))
    if rules.judge_terms is None:
        raise UsageError(
            "CLI-001",
            f"the policy {rules.policy} has no terms for judges.",
            fix="Set them in `judge.gate` of a policy, as workflow-judged does.",
        )
    now = opt.moment(options.now) or datetime.now(UTC)
    judge = audited["judge"] if audited is not None else {"judge": model, "model": model}
    if calibration is not None:
        _check_same(judge, audited, calibration, options.calibration)
    made_card = make_card(
        judge=judge,
        audit=audited,
        calibration=calibration,
        verdicts={} if calibration is None else calibration.get("verdicts") or {},
        now=now,
    )
    admission = admit_tree(made_card, rules.judge_terms, now=now)
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
    may = "may gate" if admission.may_gate else "may not gate"
    states = {False: "fails", None: "not measured", True: "holds"}
    lines = [
        f"{document['model']} {may} under {rules.policy}.",
        *(
            f"  {states[state]:<12}  {term.sentence}"
            for state in states
            for term in admission.terms
            if term.holds is state
        ),
    ]
    return opt.give(
        options, document, lines, ExitCode.of(admission.may_gate), forms={".html": _html}
    )


def _html(card: dict[str, Any]) -> bytes:
    from assay.views.judge_card import judge_page

    return judge_page(read_card(card)).encode("utf-8", "replace")


def _audited(path: str) -> dict[str, Any]:
    document = read_json(path)
    tree = document.tree
    if not isinstance(tree, dict) or tree.get("schema") != AUDIT_SCHEMA:
        raise InputError(
            "JDG-009",
            f"is not a judge audit: its schema is not {AUDIT_SCHEMA}.",
            where=path,
            fix="`assay judge audit --judge judge.yaml -o audit.json` writes one.",
        )
    read_record(document, AuditRecord, "JDG-009")
    return tree


def _calibration(path: str) -> dict[str, Any]:
    document = read_json(path)
    tree = document.tree
    if (
        not isinstance(tree, dict)
        or not isinstance(tree.get("agreement"), dict)
        or "n_labelled" not in tree
    ):
        raise InputError(
            "JDG-009",
            "is not a judge calibration.",
            where=path,
            fix="`assay judge calibrate --labels FILE -o calibration.json` writes one.",
        )
    wrong = impossible(tree)
    if wrong is not None:
        raise InputError("JDG-009", f"has an impossible figure: {wrong}.", where=path)
    read_record(document, CalibrationRecord, "JDG-009")
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
                f"is for another judge: its {what} is {other.get(key)!r}, that of the"
                f" {'audit' if audited is not None else 'card'} {judge.get(key)!r}.",
                where=path,
                fix="Calibrate and audit the same judge: one description, one prompt, one rubric.",
            )
    prompt = (calibration.get("scorer") or {}).get("prompt_version")
    asked_prompt = str(prompt).partition("+")[0]  # an audit shows neither references nor examples
    if audited is not None and asked_prompt not in audited.get("prompt_versions", ()):
        raise InputError(
            "JDG-009",
            f"was made with the prompt {prompt!r}; the audit has"
            f" {', '.join(audited.get('prompt_versions', ())) or 'none'}.",
            where=path,
        )


def _audit(options: Options, store: Store | None) -> int:
    specs = specs_of(options, only="audit")
    probes = tuple(dict.fromkeys(options.probe)) or PROBES
    known: Sequence[AnswerPair] = _own_pairs(options.items) if options.items else audit_pairs()
    pairs, injections = known[: options.first], load()[: options.first]
    calls = calls_of(probes, len(pairs), len(injections), options.repeats)
    if options.dry_run:
        most = f"{specs[0].judge}: at most {count(calls, 'call')}; the same question is asked once."
        plan = {"schema": "assay.judge-plan/1", "dry_run": True, "calls_at_most": calls}
        return common.print_plan(options, plan, [most])

    biases, usages = common.ask(
        options,
        specs,
        lambda clients: audit(
            clients[0],
            pairs=pairs,
            paddings=paddings(),
            criterion=audit_rubric().criteria[0],
            injections=injections,
            family=specs[0].family,
            probes=probes,
            repeats=options.repeats,
        ),
        total=calls,
    )
    document = audit_document(
        biases,
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
        "answers": sum(bias.answers for bias in biases.values()),
        "without a verdict": sum(bias.lost for bias in biases.values()),
    }
    common.note_usage(usages, totals)
    common.note_age(usages[0])
    known_ones = [bias for name, bias in biases.items() if name != "self_preference"]
    return common.finish(
        options,
        store,
        document,
        _lines(biases),
        draft=draft,
        whole=all(bias.estimate.value is not None for bias in known_ones),
    )


def _own_pairs(path: str) -> list[AnswerPair]:
    given = read_pairs([path])
    pairs = distinct_pairs(given)
    if len(pairs) < len(given):
        what = count(len(given) - len(pairs), "pair")
        opt.note(f"left out {what}: repeated, or with two equal texts.")
    if not pairs:
        raise InputError(
            "JDG-005",
            "has no pair of two different texts.",
            where=path,
            fix="Give two different answers to each task.",
        )
    return pairs


def _lines(biases: dict[str, MeasuredBias]) -> Iterator[str]:
    for name, measured in biases.items():
        lost = f" {measured.lost} of {measured.answers} answers had no verdict."
        yield f"{measured.sentence}{lost if measured.lost else ''}"
        rate = measured.detail.get("inconsistency_rate") if name == "position" else None
        if rate and rate["value"] is not None:
            yield (
                f"order: {rate['value']:.3f} of the pairs are decided by their order"
                f" ({rate['low']:.3f} to {rate['high']:.3f})."
            )


def audit_document(
    biases: dict[str, MeasuredBias],
    *,
    spec: JudgeSpec,
    pairs: Sequence[AnswerPair],
    source: str,
    injections: int,
    usage: Usage,
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
        "biases": {name: measured.shown() for name, measured in biases.items()},
        "warnings": usage.warnings,
        "price": spec.price,
        "usage": usage,
        **ENGINE,
    }


COMMANDS = {
    "judge card": Command(
        common.stored(_card),
        "Make the card of a judge from its audit and its calibration, and show whether it may gate"
        " under a policy. Exit 0 if it may, 1 if not.",
        "assay judge card --audit audit.json --calibration calibration.json -o card.json -o"
        " card.html",
        (
            arg(
                "--audit",
                kind="path",
                metavar="FILE",
                help="the output of `assay judge audit -o audit.json`",
            ),
            arg(
                "--calibration",
                kind="path",
                metavar="FILE",
                help="the output of `assay judge calibrate -o calibration.json`",
            ),
            arg(
                "--model",
                kind="text",
                trust="freely",
                metavar="M",
                help="the model the card is for, if neither file names it",
            ),
            policy_option("workflow-judged"),
            "--now",
            "--library",
            *STORE,
        ),
        formats=(".json", ".html"),
    ),
    "judge audit": Command(
        common.stored(_audit),
        "Measure what moves a judge besides quality: position, length, padding, its own family,"
        " repeats, stated scores, injections. Each with an interval.",
        "assay judge audit --judge judge.yaml -o audit.json",
        (
            arg(
                "--items",
                kind="path",
                metavar="FILE",
                help=(
                    "your own pairs, labelled where you can, instead of the 40 bundled ones; copies"
                    " count once"
                ),
            ),
            repeated(
                "--probe",
                "NAME",
                f"only this probe; may be repeated ({', '.join(PROBES)})",
                choices=PROBES,
            ),
            arg(
                "--first",
                within=Bounds(least=2),
                metavar="N",
                type=int,
                help=(
                    "only the first N pairs and injections, for a slow judge; intervals grow"
                    " accordingly"
                ),
            ),
            arg(
                "--repeats",
                within=Bounds(least=2),
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
