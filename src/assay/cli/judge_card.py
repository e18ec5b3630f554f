"""`assay judge card`: one card for one judge, from its audit and its calibration."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.frame import STORE, Command, arg, policy_option
from assay.errors import ExitCode, InputError, UsageError
from assay.files.atomic import atomic_write
from assay.files.json_files import read_json
from assay.grading.policy import make_rules
from assay.judging.audit import AUDIT_SCHEMA
from assay.judging.calibration import verdicts_of
from assay.judging.card import admit_tree, make_card, read_card
from assay.judging.figures import impossible
from assay.judging.labels import read_labels
from assay.views.documents import pretty

if TYPE_CHECKING:
    import argparse

    from assay.archive.store import Store


def _card(options: argparse.Namespace, store: Store | None) -> int:
    audited = _document(options.audit, AUDIT_SCHEMA, "audit") if options.audit else None
    calibration = _calibration(options.calibration) if options.calibration else None
    if audited is None and not options.model:
        raise UsageError(
            "CLI-001",
            "the card has no judge.",
            fix="Give --audit FILE, or --model with --calibration.",
        )
    if audited is not None and options.model and audited["judge"].get("model") != options.model:
        raise UsageError(
            "CLI-001",
            f"the audit is of {audited['judge'].get('model')!r}, not of {options.model!r}.",
        )
    rules = make_rules(opt.shelf_of(options).policy(options.policy))
    if rules.judge_terms is None:
        raise UsageError(
            "CLI-001",
            f"the policy {rules.policy} has no terms for judges.",
            fix="Set them in `judge.gate` of a policy, as workflow-judged does.",
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
    for path in opt.outputs(options):
        with atomic_write(path) as stream:
            if path.endswith(".html"):
                from assay.views.judge_card import judge_page

                stream.write(judge_page(read_card(document)).encode("utf-8", "replace"))
            else:
                stream.write(pretty(document))
    if options.json:
        opt.print_json(document)
    else:
        may = "may gate" if admission.may_gate else "may not gate"
        sys.stdout.write(f"{document['model']} {may} under {rules.policy}.\n")
        states = {True: "holds", False: "fails", None: "not measured"}
        sys.stdout.writelines(
            f"  {states[term.holds]:<12}  {term.sentence}\n" for term in admission.terms
        )
    return ExitCode.PASSED if admission.may_gate else ExitCode.FAILED


def _document(path: str, schema: str, what: str) -> dict[str, Any]:
    tree = read_json(path).tree
    if (
        not isinstance(tree, dict)
        or tree.get("schema") != schema
        or not isinstance(tree.get("judge"), dict)
    ):
        raise InputError(
            "JDG-009", f"is not the {what} of a judge: its schema is not {schema}.", where=path
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
            "is not a judge calibration.",
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
    return verdicts_of(read_labels(options.labels)) if options.labels else {}


COMMANDS = {
    "judge card": Command(
        common.stored(_card),
        "One card for one judge, from its audit and its calibration, with whether it may gate under"
        " a policy. Exit 0 if it may, 1 if not.",
        "assay judge card --audit audit.json --calibration calibration.json -o card.json -o"
        " card.html",
        (
            arg("--audit", metavar="FILE", help="the output of `assay judge audit -o audit.json`"),
            arg(
                "--calibration",
                metavar="FILE",
                help="the output of `assay judge calibrate -o calibration.json`",
            ),
            arg(
                "--labels",
                metavar="FILE",
                help=(
                    "the labels file of the calibration; its verdicts go on the card, so that drift"
                    " can be seen item by item"
                ),
            ),
            arg("--model", metavar="M", help="the model the card is for, if there is no audit"),
            policy_option("workflow-judged"),
            "--now",
            "--library",
            *STORE,
        ),
        formats=(".json", ".html"),
    ),
}
