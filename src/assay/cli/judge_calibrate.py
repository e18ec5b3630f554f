"""`assay judge calibrate` and `assay judge drift`: a judge against people, and against its own
past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.cli import judge as common
from assay.cli import options as opt
from assay.cli.frame import STORE, Bounds, Command, Options, arg
from assay.cli.ledger import storing_result
from assay.errors import ExitCode, InputError, NotEnoughEvidence, UsageError, count, printable
from assay.files.json_files import read_json
from assay.judging.calibration import MINIMUM_LABELS
from assay.judging.calibration import calibrate as calibrate_rows
from assay.judging.calibration_text import shown
from assay.judging.card import check_card
from assay.judging.drift import DriftLimits, compare_cards, moment_of
from assay.judging.labels import (
    check_one_verdict,
    drawn_sentence,
    kind_of,
    own_labels,
    read_labels,
)
from assay.project.ledger import open_for
from assay.registry import near_miss

if TYPE_CHECKING:
    from assay.archive.label_calibration import LabelledRows
    from assay.archive.store import Result, Store

LIMITS = DriftLimits()
STATISTICS = ("cohen_kappa", "krippendorff_alpha", "spearman", "kendall_tau_b", "pearson")


def _calibrate(options: Options, store: Store | None) -> int:
    if bool(options.labels) == bool(options.from_ledger):
        raise UsageError(
            "CLI-001",
            "choose where the labels are: --labels FILE, or --from-ledger SET.",
            fix="`assay label list` lists the sets of the ledger.",
        )
    if options.criterion and not (options.from_ledger or options.judgements):
        raise UsageError("CLI-001", "--criterion is for --from-ledger SET or --judgements FILE.")
    if options.labels:
        opt.outputs(options, options.labels)
    name, version = _set(options.set)
    judgements = read_judgements(options.judgements) if options.judgements else None
    labelled = _of_ledger(options, judgements) if options.from_ledger else None
    if labelled is None and judgements is not None and options.criterion:
        judgements = _on(options.criterion, judgements)
    if labelled is not None:
        name, version = name or labelled.about["name"], version or labelled.about["id"]
        judgements = labelled.judgements
    where = options.labels or f"the set {name}"
    notes: list[str] = []
    try:
        if labelled is None:
            rows = read_labels(options.labels, _verdicts(judgements))
            # the labels of a set in a ledger, exported
            raters = {name: None for row in rows for name in row.raters or ()}
            own = "" if judgements is None else own_labels(raters, judgements)
            drawn = next((row.draw for row in rows if row.draw is not None), None)
            notes = [*filter(None, [own, drawn_sentence(drawn) if drawn else ""])]
            judgements = None if notes else judgements
        else:
            rows, notes = labelled.rows, labelled.sentences
        document = calibrate_rows(
            rows,
            minimum=options.minimum,
            level=options.level,
            seed=options.seed,
            set_id=name,
            set_version=version,
            positive=options.positive,
            judgements=judgements,
        )
    except InputError as error:
        error.where = error.where or where
        raise
    except NotEnoughEvidence as error:
        error.where = where
        raise
    if labelled is not None:
        document["label_set"] = labelled.about
    document["sentences"] = [*notes, *document["sentences"]]
    if store is not None:
        from assay.store.drafts import draft

        opt.outputs(options)
        store.put([draft(document, kind="calibration")])
    return opt.give(options, document, [*document["sentences"], "", *_table(document)])


def _of_ledger(options: Options, judgements: dict[str, Any] | None) -> LabelledRows:
    """People's labels of a set, next to the judge's verdicts."""
    from assay.archive.label_calibration import labelled_rows
    from assay.cli.label import results_named

    with open_for(options.db or options.store or "", read_only=True) as ledger:
        results = results_named(ledger, options.from_ledger, options.project)
        try:
            return labelled_rows(
                ledger,
                results,
                project=options.project,
                criterion=options.criterion,
                judgements=judgements,
            )
        except InputError as error:
            error.where = error.where or options.judgements or ""
            raise


def read_judgements(path: str) -> dict[str, Any]:
    """The judgements of one judge, of our own client or from files. A panel is several judges, and
    has no card.
    """
    tree = read_json(path).tree
    shape = {"schema": str, "judge": dict, "scorer": dict, "items": list}
    if (
        not isinstance(tree, dict)
        or any(not isinstance(tree.get(name), kind) for name, kind in shape.items())
        or not all(map(_is_judged, tree["items"]))
    ):
        raise InputError(
            "JDG-009",
            "does not contain the judgements of one judge.",
            where=path,
            fix="`assay judge rubric -o judgements.json` writes one.",
        )
    check_one_verdict(tree, where=path)
    return tree


def _on(criterion: str, judgements: dict[str, Any]) -> dict[str, Any]:
    """The judgements of one criterion."""
    items = [item for item in judgements["items"] if item.get("criterion") == criterion]
    if not items:
        known = sorted({str(item.get("criterion")) for item in judgements["items"]})
        raise UsageError(
            "CLI-001",
            f"no judgement is on the criterion {criterion!r}.{near_miss(criterion, known)}",
            fix=f"Choose one of {', '.join(known)}.",
        )
    return {**judgements, "items": items}


def _verdicts(judgements: dict[str, Any] | None) -> dict[str, Any]:
    """The verdict on each item; none if there are several on one, by several criteria."""
    items = judgements["items"] if judgements else []
    verdicts = {str(item.get("id")): item.get("raw", item.get("winner")) for item in items}
    return verdicts if len(verdicts) == len(items) else {}


def _is_judged(item: Any) -> bool:
    """Whether this is an item with a verdict that a label can be compared with, or with none."""
    if not isinstance(item, dict) or not isinstance(item.get("criterion"), str | None):
        return False
    return all(item.get(key) is None or kind_of(item[key]) for key in ("raw", "winner"))


def _set(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    name, at, version = text.rpartition("@")
    if not (name and at and version):
        raise UsageError(
            "CLI-001",
            f"--set is {text!r}; it must be a name and a version.",
            fix="For example --set support@3",
        )
    return name, version


def _table(document: dict[str, Any]) -> list[str]:
    """Every number with its interval and n."""
    block = document["agreement"]
    n = document["n_labelled"]
    rows = [("accuracy", document["accuracy"], n)]
    rows += [(name, block[name], n) for name in STATISTICS]
    rows += [
        (f"weighted_kappa {name}", value, n) for name, value in block["weighted_kappa"].items()
    ]
    rows.append(
        ("bias", document["bias"]["mean_difference"], n - document["unparsable"]["labelled"])
    )
    rows += [
        (name, value, document["n_judged"] if name == "naive" else n + document["n_unlabelled"])
        for name, value in document["corrected"].items()
    ]
    return [f"{name:<24} {shown(value)}  n={count:,}" for name, value, count in rows] + [
        f"{'set':<24} {_named(document['set'])}"
    ]


def _named(label_set: dict[str, Any]) -> str:
    name = f"{label_set['id']}@{label_set['version']} " if label_set["id"] else ""
    return f"{name}{label_set['digest']}"


def _drift(options: Options) -> int:
    with storing_result(options, "judge drift") as result:
        return _drifted(options, result)


def _drifted(options: Options, result: Result | None) -> int:
    cards = sorted(
        (check_card(read_json(path).tree, where=path) for path in options.files),
        key=lambda card: moment_of(str(card["made_at"])),
    )
    document = compare_cards(
        cards[:-1],
        cards[-1],
        limits=DriftLimits(options.minimum, options.max_flipped, options.alpha),
    )
    if result is not None:
        opt.outputs(options)
        for card in cards:
            result.made_of(card)
        result.put(document)
    alarm = document["alarm"]
    head = {True: "ALARM", False: "no alarm", None: "cannot tell"}[alarm]
    lines = [printable(f"{document['model']}: {head}: {document['reason']}")]
    for drift in document["comparisons"]:
        lines.append(
            printable(
                f"since {drift.since},"
                f" {count(drift.n, 'item')}{'' if drift.enough else f': {drift.reason}'}"
            )
        )
        lines += [
            f"  {test.id:<12} p={test.p_holm:.3g} after Holm  {test.sentence}"
            for test in drift.tests
        ]
    lines += [
        printable(f"left out: {card['made_at']}, {card['reason']}") for card in document["left_out"]
    ]
    return opt.give(options, document, lines, ExitCode.of(None if alarm is None else not alarm))


COMMANDS = {
    "judge calibrate": Command(
        common.stored(_calibrate),
        "Compare a judge's verdicts with human labels: agreement, bias, and the true rate or mean"
        " from few labels and many verdicts.\nThe labelled rows must be drawn at random from all"
        " rows.",
        "assay judge calibrate --labels labels.jsonl --judgements judgements.json --set support@3"
        " -o calibration.json",
        (
            arg(
                "--labels",
                kind="path",
                metavar="FILE",
                help=(
                    '.jsonl of {"id", "human", "judge"}; human null: unlabelled; judge null:'
                    " unparsable; without judge, the verdict comes from --judgements"
                ),
            ),
            arg(
                "--from-ledger",
                kind="text",
                trust="freely",
                metavar="SET",
                help=(
                    "take the labels that people gave to a set (`assay label`) in the ledger, and"
                    " the verdicts from the evaluation's runs or from --judgements"
                ),
            ),
            arg(
                "--criterion",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="the criterion that people labelled, where there are several",
            ),
            arg(
                "--judgements",
                kind="path",
                metavar="FILE",
                help=(
                    "where the judge gave these verdicts (`judge rubric -o FILE.json`): names the"
                    " judge; a card needs it"
                ),
            ),
            arg(
                "--minimum",
                within=Bounds(least=1),
                metavar="N",
                type=int,
                default=MINIMUM_LABELS,
                help=f"labelled verdicts that are needed (default: {MINIMUM_LABELS})",
            ),
            arg(
                "--level",
                metavar="X",
                type=float,
                default=0.95,
                help="confidence level of every interval (default: 0.95)",
            ),
            arg(
                "--set",
                kind="text",
                trust="freely",
                metavar="ID@VERSION",
                help="name of the calibration set; its digest covers ids and labels",
            ),
            arg(
                "--positive",
                kind="text",
                trust="freely",
                metavar="VALUE",
                help="the value whose rate to estimate, if values are words, for example pass",
            ),
            arg(
                "--seed",
                metavar="N",
                type=int,
                default=0,
                help="recorded with the result; it changes no number (default: 0)",
            ),
            "--db",
            *STORE,
        ),
        formats=(".json",),
    ),
    "judge drift": Command(
        _drift,
        "Compare a judge's latest card with its own past ones: verdicts that flipped on the same"
        " items, agreement, mean.\nExit 0: no change shown; 1: alarm; 4: not enough on the cards.",
        "assay judge drift cards/2026-10.json cards/2026-11.json",
        (
            arg(
                "files",
                nargs="+",
                metavar="CARD",
                help="cards of one judge, in any order; the newest is compared with the others",
            ),
            arg(
                "--minimum",
                within=Bounds(least=1),
                metavar="N",
                type=int,
                default=LIMITS.minimum,
                help=f"items with verdicts on both cards (default: {LIMITS.minimum})",
            ),
            arg(
                "--max-flipped",
                within=Bounds(least=0, below=1),
                metavar="X",
                type=float,
                default=LIMITS.max_flipped,
                help=f"share of verdicts that may change (default: {LIMITS.max_flipped})",
            ),
            arg(
                "--alpha",
                within=Bounds(above=0, below=1),
                metavar="X",
                type=float,
                default=LIMITS.alpha,
                help=f"chance of a false alarm over all tests (default: {LIMITS.alpha})",
            ),
            *STORE,
        ),
        formats=(".json",),
    ),
}
