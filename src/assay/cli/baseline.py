"""`assay baseline`: store, show, list and compare baselines."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.gate_sides import read_side
from assay.cli.grade import choice_of
from assay.cli.ledger import add_store, storing
from assay.errors import ExitCode, InputError, UsageError, printable
from assay.files import Unread, atomic_write, read_json, stream_documents
from assay.records.grade import GRADING_SYSTEM
from assay.records.scorecard import SCORING_SYSTEM
from assay.release import baseline as stored_baselines
from assay.release.baseline import Stored, find, store
from assay.release.decision import comparison_shown
from assay.release.pairs import Pair, pair_up
from assay.release.policy import make_release_rules
from assay.release.promotion import promote
from assay.release.sides import mismatch_error, mismatches
from assay.reports.documents import encode, pretty

if TYPE_CHECKING:
    import argparse

    from assay.cli.keeping import Store
    from assay.cli.stream import Choice
    from assay.release.sides import Side

DIFF_SCHEMA = "assay.baseline-diff/1"
VERSIONS = {"scoringSystem": SCORING_SYSTEM, "gradingSystem": GRADING_SYSTEM}
ACTIONS = {
    "set": "store evidence under a name; an older one of that name stays",
    "show": "what a stored baseline holds",
    "list": "the stored baselines",
    "diff": "a stored baseline against another, or against files, sample by sample",
}


def run(verb: str, argv: list[str]) -> int:
    """Run one of the actions."""
    action = opt.choose(
        "baseline", argv, ACTIONS, what="Stored baselines: evidence with its fingerprint, date and summary.", example="assay baseline set production runs.jsonl"
    )
    if isinstance(action, ExitCode):
        return action
    return {"set": _set, "show": _show, "list": _list, "diff": _diff}[action](argv[1:])


def _parser(action: str, what: str, example: str) -> argparse.ArgumentParser:
    made = opt.parser(f"baseline {action}", what, example)
    made.add_argument(
        "--dir", "--baselines", dest="dir", metavar="DIR", default=".assay/baselines", help="where baselines are stored (default: .assay/baselines)"
    )
    return made


def _add_choices(made: argparse.ArgumentParser) -> None:
    made.add_argument("--grading-policy", metavar="Q", default="workflow", help="policy that grades the runs (default: workflow)")
    made.add_argument("--profile", metavar="P", help="profile by name, letter A-D, name@version or YAML file (default: the run's workflow.family)")
    made.add_argument("--rubric", metavar="R", help="rubric that overrides the profile's criteria")
    opt.add_cards(made)
    opt.add_library(made)


def _choice(options: argparse.Namespace) -> Choice:
    import argparse as parsing

    return choice_of(parsing.Namespace(**{**vars(options), "policy": options.grading_policy}))


def _set(argv: list[str]) -> int:
    made = _parser(
        "set",
        "Store the evidence of the version in production, with its fingerprint, date and summary. Nothing is overwritten: an older one stays as NAME@N.",
        "assay baseline set production runs.jsonl",
    )
    made.add_argument("name", metavar="NAME", help="a plain name: letters, digits, '.', '_' and '-'")
    made.add_argument("files", metavar="FILE", nargs="+", help="runs, scorecards or grades, .json or .jsonl; or one graded exam")
    _add_choices(made)
    add_store(made)
    options = made.parse_args(argv)
    stored_baselines.check_name(options.name)
    if "-" in options.files:
        raise UsageError("CLI-001", "a baseline is not stored from standard input.", fix="Name its files.")
    now = opt.moment(options.now) or datetime.now(UTC)
    with storing(options) as store:
        exam = _exam(options, now, store)
        stored = exam if exam is not None else _set_runs(options, now, store)
    if options.json:
        opt.print_json(stored.record)
    else:
        _print(stored)
    return ExitCode.PASSED


def _set_runs(options: argparse.Namespace, now: datetime, ledger: Store | None) -> Stored:
    side = _kept_side(options, now, ledger) if ledger is not None else read_side(options.files, _choice(options).grader(), name=f"baseline {options.name}")

    def write(stream: IO[bytes]) -> None:
        for path in options.files:
            for document in stream_documents(path):
                if isinstance(document, Unread):  # it could be read a moment ago
                    raise InputError(document.fault.code, document.fault.message, where=path)
                stream.write(encode(document.tree) + b"\n")

    facts = {
        "runs": side.runs,
        "samples": len(side.rows),
        "fingerprint": {"digest": side.fingerprint_digest, "fields": dict(side.fingerprint)},
        "digests": dict(side.digests),
        "summary": dict(side.summary),
        **VERSIONS,
    }
    return store(options.dir, options.name, kind="runs", facts=facts, write=write, now=now)


def _kept_side(options: argparse.Namespace, now: datetime, ledger: Store) -> Side:
    """The side, once a baseline of that name is in the ledger too, in the form that the API gives it."""
    from assay.cli.keeping import Sides, dated
    from assay.server.keeping import baseline_draft, baseline_record

    choice = dated(_choice(options))
    sides = Sides(ledger, choice)
    side = read_side(options.files, choice.grader(), name=f"baseline {options.name}", kept=sides)
    if sides.kept[0].bare:
        raise InputError("REL-008", "a baseline in a ledger is made of runs or scorecards, and grades came without them.", where=", ".join(options.files))
    ledger.put([baseline_draft(baseline_record(options.name, sides.kept[0], now=now))])
    return side


def _exam(options: argparse.Namespace, now: datetime, ledger: Store | None) -> Stored | None:
    """A graded exam as a baseline; None where the files are none. Every number of it is made again first."""
    if len(options.files) != 1 or not options.files[0].endswith(".json"):
        return None
    document = read_json(options.files[0])
    if not isinstance(document.tree, dict) or document.tree.get("schema") != "assay.exam/1":
        return None
    from assay.exams.document import check_result, read_result
    from assay.exams.marking import Marking

    result = read_result(document)
    check_result(result, Marking(opt.shelf_of(options).exam_rubric(options.rubric or result.rubric)), where=options.files[0])
    data = document.source
    if data is None:
        raise InputError("FIL-001", "cannot be read again.", where=options.files[0])
    tree = document.tree
    fields = {name: [str(tree[name])] for name in ("exam", "rubric", "set", "policy", "scoringSystem", "gradingSystem") if tree.get(name) is not None}
    facts = {
        "runs": tree["n"],
        "samples": tree["n"],
        "fingerprint": {"digest": tree.get("digests", {}).get("exam"), "fields": fields},
        "digests": tree.get("digests", {}),
        "summary": {"n": tree["n"], "score": tree["score"]},
        **VERSIONS,
    }
    stored = store(options.dir, options.name, kind="exam", facts=facts, write=lambda stream: stream.write(data), now=now)
    if ledger is not None:
        from assay.cli.kept import exam_baseline_drafts

        ledger.put(exam_baseline_drafts(stored.record, tree))
    return stored


def _show(argv: list[str]) -> int:
    made = _parser("show", "What a stored baseline holds, once its digests were checked.", "assay baseline show production")
    made.add_argument("name", metavar="NAME", help="its name, or NAME@N for an older one")
    options = made.parse_args(argv)
    stored = find(options.dir, options.name)
    if options.json:
        opt.print_json({**stored.record, "path": stored.path, "versions": stored_baselines.versions(options.dir, stored.record["name"])})
    else:
        _print(stored)
    return ExitCode.PASSED


def _print(stored: Stored) -> None:
    record, out = stored.record, sys.stdout
    out.write(f"{printable(stored.name)}, stored {printable(record['made_at'])}\n")
    if stored.kind == "exam":
        out.write(f"  exam        score {record['summary']['score']} over {record['summary']['n']} items\n")
    else:
        summary = record["summary"]
        rate, mean = summary["pass_rate"], summary["weighted_score"]["mean"]
        out.write(f"  samples     {record['samples']} in {record['runs']} runs\n")
        out.write(f"  pass rate   {100 * float(rate['value']):.1f}%\n")
        out.write(f"  score       {float(mean['value']):.2f}\n")
    for field, values in record["fingerprint"]["fields"].items():
        if not field.endswith("_digest") and any(values):
            out.write(f"  {field:<14}  {printable(', '.join(map(str, values[:3])))}\n")
    out.write(f"  evidence    {printable(stored.path)}\n")


def _list(argv: list[str]) -> int:
    made = _parser("list", "The stored baselines; the newest of each name is meant by its name.", "assay baseline list")
    options = made.parse_args(argv)
    found, broken = [], []
    for name in stored_baselines.names(options.dir):
        for version in stored_baselines.versions(options.dir, name):
            label = f"{name}@{version}"
            try:
                stored = find(options.dir, label)
            except InputError as error:
                broken.append({"name": label, "fault": str(error)})
                continue
            record = stored.record
            found.append({"name": label, "kind": stored.kind, "made_at": record["made_at"], "samples": record["samples"], "runs": record["runs"]})
    if options.json:
        opt.print_json({"baselines": found, "broken": broken, **VERSIONS})
    else:
        for one in found:
            sys.stdout.write(f"{printable(one['name']):<32}  {one['made_at']:<20}  {one['samples']:>7} samples  {one['kind']}\n")
        for one in broken:
            sys.stdout.write(f"{printable(one['name']):<32}  BROKEN: {printable(one['fault'])}\n")
        if not found and not broken:
            sys.stderr.write(f"assay: there are no baselines in {printable(options.dir)}.\n")
    return ExitCode.MALFORMED if broken else ExitCode.PASSED


def _diff(argv: list[str]) -> int:
    made = _parser(
        "diff",
        "A stored baseline against another one, or against files: the paired differences, sample by sample. No gate: it exits 0 once compared.",
        "assay baseline diff production runs.jsonl",
    )
    made.add_argument("name", metavar="NAME", help="the stored baseline that is compared with")
    made.add_argument("others", metavar="OTHER|FILE", nargs="+", help="another stored baseline, or files of runs, scorecards or grades")
    made.add_argument("--policy", metavar="R", default="release", help="release policy whose margin and level are used (default: release)")
    _add_choices(made)
    opt.add_output(made, (".json",))
    options = made.parse_args(argv)
    options.files = options.others
    paths = opt.outputs(options)
    grader = _choice(options).grader()
    rules = make_release_rules(opt.shelf_of(options).release_policy(options.policy))
    before = _side(options, options.name, grader)
    if len(options.others) == 1 and not options.others[0].endswith((".json", ".jsonl", ".ndjson")):
        after = _side(options, options.others[0], grader)
    else:
        after = read_side(options.others, grader, name=", ".join(options.others))
    different = mismatches(after, before)
    if different:
        raise mismatch_error(different)
    pairs = pair_up(after, before)
    found = promote(pairs, rules, shrinkage=grader.rules.shrinkage)
    document = {
        "schema": DIFF_SCHEMA,
        "baseline": before.name,
        "other": after.name,
        "comparison": comparison_shown(
            found.comparison,
            n_candidate=len(after.rows),
            n_baseline=len(before.rows),
            n_paired=found.n_paired,
            mcnemar_p=next(rule for rule in found.rules if rule.id == "gate_failure_rate").evidence.get("mcnemar_p"),
            adjusted=found.adjusted_difference,
        ),
        "missing": {"other": found.missing["candidate"], "baseline": found.missing["baseline"]},
        "changed": [shown for pair in pairs if (shown := _changed(pair)) is not None],
        "policy": rules.policy,
        **VERSIONS,
    }
    for path in paths:
        with atomic_write(path) as stream:
            stream.write(pretty(document))
    if options.json:
        opt.print_json(document)
    else:
        _print_diff(document)
    return ExitCode.PASSED


def _side(options: argparse.Namespace, name: str, grader: Any) -> Side:
    stored = find(options.dir, name)
    if stored.kind != "runs":
        raise InputError("REL-002", f"the baseline {stored.name} is a graded exam, and has no runs to pair.", where=stored.path, fix="Use `assay exam gate`.")
    return read_side([stored.path], grader, name=f"baseline {stored.name}")


def _changed(pair: Pair) -> dict[str, Any] | None:
    """What is different in one sample; None where nothing is."""
    ours, theirs = pair.candidate, pair.baseline
    if ours is None or theirs is None:
        return None  # it stands among the missing ones
    shown = {
        "sample": pair.sample,
        "difference": round(pair.ours - pair.theirs, 4),
        "other": pair.ours,
        "baseline": pair.theirs,
        "newly_failed_gates": sorted(ours.failed - theirs.failed),
        "mended_gates": sorted(theirs.failed - ours.failed),
        "newly_missed_floors": sorted(ours.missed - theirs.missed),
    }
    return shown if shown["difference"] or shown["newly_failed_gates"] or shown["mended_gates"] or shown["newly_missed_floors"] else None


def _print_diff(document: dict[str, Any], *, most: int = 20) -> None:
    out, found = sys.stdout, document["comparison"]
    difference = found["difference"]
    out.write(f"{printable(document['other'])} against {printable(document['baseline'])}: {found['n_paired']} paired samples\n")
    if difference["low"] is not None:
        out.write(f"difference  {difference['estimate']:+.2f} points [{difference['low']:+.2f}, {difference['high']:+.2f}], {difference['method']}\n")
    elif difference["estimate"] is not None:
        out.write(f"difference  {difference['estimate']:+.2f} points, no interval: {difference.get('reason')}\n")
    out.write(f"samples     {found['wins']} higher, {found['losses']} lower, {found['ties']} the same\n")
    for side, lost in document["missing"].items():
        if lost:
            out.write(f"missing     {len(lost)} in the {side}: {printable(', '.join(lost[:5]))}{' ...' if len(lost) > 5 else ''}\n")
    ordered = sorted(document["changed"], key=lambda one: (one["difference"], one["sample"]))
    for one in ordered[:most]:
        said = [f"now fails {', '.join(one['newly_failed_gates'])}"] if one["newly_failed_gates"] else []
        said += [f"mended {', '.join(one['mended_gates'])}"] if one["mended_gates"] else []
        said += [f"below the floor of {', '.join(one['newly_missed_floors'])}"] if one["newly_missed_floors"] else []
        out.write(f"  {one['difference']:+7.2f}  {printable(one['sample'])}{'  ' + printable('; '.join(said)) if said else ''}\n")
    if len(ordered) > most:
        out.write(f"  ... and {len(ordered) - most} more that differ\n")
    out.write(f"\npolicy {document['policy']} · {document['scoringSystem']} · {document['gradingSystem']}\n")
