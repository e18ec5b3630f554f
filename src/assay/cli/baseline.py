"""`assay baseline`: store evidence under a name, show it, list it, and compare."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any

from assay.canon import encode
from assay.cli import options as opt
from assay.cli.deciding import read_named, read_side, warn_of_age
from assay.cli.family_inputs import own_reader
from assay.cli.frame import COMPARED_BY, STORE, Command, Options, arg, store_option
from assay.cli.grade import choice_of
from assay.cli.ledger import looking, storing_evaluated
from assay.errors import ExitCode, InputError, UsageError, count, printable
from assay.files.inputs import Source, listed
from assay.files.json_files import Document, Unread, stream_documents
from assay.project.inputs import BaselineName, StoredRuns
from assay.records.grade import ENGINE
from assay.release import baseline as stored_baselines
from assay.release.baseline import StoredBaseline, find, store
from assay.release.comparability import align, mismatch_error, mismatches
from assay.release.decision import compared, failed_names, systems
from assay.release.observations import Pair
from assay.release.policy import ReleaseRules, make_release_rules
from assay.release.sides import pair_up
from assay.services.named_baselines import FoundBaseline, as_stored, find_named
from assay.store.baselines import evidence_of_baseline, list_baselines
from assay.store.drafts import EVIDENCE
from assay.views.text import fact_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from assay.records.decision import ComparisonRecord, SampleOverlap
    from assay.release.attestation import Subject
    from assay.release.sides import Side
    from assay.services.grading import Graded, Grader
    from assay.services.stored_sides import SideReader
    from assay.services.storing import Store
    from assay.store.baselines import KeptBaseline


LOOK = "also look in a ledger, if the folder has no such baseline"
_SHOWN = ("samples", "runs", "summary", "fingerprint")
DIR = arg(
    "--dir",
    "--baselines",
    kind="path",
    dest="dir",
    metavar="DIR",
    help="where stored baselines are (default: .assay/baselines next to the default ledger)",
)


def _set(options: Options) -> int:
    stored = set_baseline(options)
    if stored.kind == "runs":
        from assay.cli.release_settings import release_settings

        policy = opt.shelf_of(options).policy_of("release", release_settings(options).policy)
        rules, now = make_release_rules(policy), opt.moment(options.now)
        warn_of_age(stored, rules, now, "`assay gate` refuses it.")
    return opt.give(options, stored.record, _lines(stored))


def set_baseline(options: Options) -> StoredBaseline:
    """Store the evidence that the options name under their name."""
    stored_baselines.check_name(options.name)
    if pipe := next(
        (
            source.name
            for source in options.files
            if source.path == "-"
            or (os.path.exists(source.path) and not os.path.isfile(source.path))
        ),
        None,
    ):
        raise UsageError(
            "CLI-001",
            f"a baseline is stored from files; {pipe!r} can't be read twice.",
            fix="Name its files.",
        )
    now = opt.moment(options.now) or datetime.now(UTC)
    for source in options.files:  # a new name makes no evaluation newer
        if isinstance(source, StoredRuns) and source.evaluation is not None:
            started = source.evaluation.evaluation.started
            now = min(now, stored_baselines.moment_of(started, source.name))
    with storing_evaluated(options) as store:
        set_own = own_reader("baseline set", [each.path for each in options.files]) or _set_runs
        stored: StoredBaseline = set_own(options, now, store)
        return stored


def _set_runs(options: Options, now: datetime, ledger: Store | None) -> StoredBaseline:
    read: list[Subject] = []
    age = stored_baselines.EvidenceAge()

    def seen(_document: Document, graded: Graded) -> None:
        age.add(graded.run)

    choice, kept = choice_of(options), None
    if ledger is not None:
        from assay.services.stored_sides import SideReader

        choice = choice.dated()
        kept = SideReader(ledger, choice)
    side = read_side(
        options.files,
        choice.grader(),
        name=f"baseline {options.name}",
        kept=kept,
        read=read,
        seen=seen,
    ).side
    if kept is not None:
        _put(options, now, kept)

    def write(stream: IO[bytes]) -> None:
        for source, before in zip(options.files, read, strict=True):
            again = sha256()
            for document in stream_documents(source, digest=again):
                if isinstance(document, Unread):  # it could be read a moment ago
                    fault = document.fault
                    raise InputError(fault.code, fault.message, where=source.name)
                stream.write(encode(document.tree) + b"\n")
            # what came from the ledger is named by its record, and only this process can write it
            if source.numbered and again.hexdigest() != before.sha256:
                raise InputError(
                    "FIL-001",
                    "changed while it was read.",
                    where=source.name,
                    fix="Store the baseline again.",
                )

    facts = {
        "runs": side.runs,
        "samples": len(side.samples),
        "fingerprint": {"digest": side.fingerprint_digest, "fields": dict(side.fingerprint)},
        "digests": dict(side.digests),
        "summary": side.summary,
        **{name: ", ".join(side.fingerprint[name]) for name in ENGINE},
    }
    if options.resolved.made is not None:  # no shelf has it, and a candidate is graded by it
        facts |= options.resolved.made.facts()
    return store(
        options.dir, options.name, kind="runs", facts=facts, write=write, now=age.dated(now)
    )


def _put(options: Options, now: datetime, sides: SideReader) -> None:
    """Also store a baseline of that name in the ledger, in the API's form."""
    from assay.services.stored_sides import baseline_draft, baseline_record, replacing

    if sides.kept[0].bare:
        raise InputError(
            "REL-008",
            "a baseline in a ledger needs runs or scorecards, but these are grades only.",
            where=listed(options.files),
        )
    made = options.resolved.made
    record = baseline_record(options.name, sides.kept[0], now=now, made=made)
    record = replacing(sides.store.ledger, record, project=sides.store.project)
    sides.store.put([baseline_draft(record)])


def _show(options: Options) -> int:
    with looking(options) as ledger:
        baseline = find_named(options.dir, options.name, ledger)
        if baseline.kept is not None and ledger is not None:
            _check_kept(baseline, ledger)
    stored, record = baseline.stored, dict(baseline.stored.record)
    if baseline.kept is not None:
        record["digest"] = baseline.kept.digest
    versions = stored_baselines.versions(options.dir, record["name"])
    document = {**record, "path": stored.path, "versions": versions}
    return opt.give(options, document, _checked_lines(stored))


def _check_kept(baseline: FoundBaseline, ledger: Store) -> None:
    """Check that a baseline of a ledger states what is shown, and that all of its evidence is
    unchanged.
    """
    assert baseline.kept is not None
    _check_shown(baseline.kept)
    for item in evidence_of_baseline(
        ledger.ledger,
        baseline.kept,
        kinds=("exam",) if baseline.stored.kind == "exam" else EVIDENCE,
        project=ledger.project,
    ):
        item.tree()


def _check_shown(kept: KeptBaseline) -> None:
    absent = [name for name in _SHOWN if name not in kept.record]
    if absent:
        raise InputError("REL-005", f"the baseline lacks {', '.join(absent)}.", where=kept.digest)


def _checked_lines(stored: StoredBaseline) -> list[str]:
    """What a record states. Anyone can write one whose digest is right and whose numbers are not
    there.
    """
    try:
        sum((stored.record["samples"], stored.record["runs"]))
        return list(_lines(stored))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise stored_baselines.changed(
            stored.path, "its record lacks what `assay baseline set` writes"
        ) from None


def _lines(stored: StoredBaseline) -> Iterator[str]:
    record = stored.record
    summary = record["summary"]
    if stored.kind == "exam":
        lines = [("exam", f"score {summary['score']} over {count(summary['n'], 'item')}")]
    else:
        rate, mean = summary["pass_rate"], summary["weighted_score"]["mean"]
        lines = [
            ("samples", f"{record['samples']} in {count(record['runs'], 'run')}"),
            ("pass rate", f"{100 * float(rate['value']):.1f}%"),
            ("score", f"{float(mean['value']):.2f}"),
        ]
    lines += [
        (field, ", ".join(map(str, values[:3])))
        for field, values in record["fingerprint"]["fields"].items()
        if not field.endswith("_digest") and any(values)
    ]
    lines.append(("evidence", stored.path))
    width = max(len(name) for name, _ in lines)
    yield printable(f"{stored.name}, made {record['made_at']}")
    yield from (f"  {printable(f'{name:<{width}}  {text}')}" for name, text in lines)


def _list(options: Options) -> int:
    lines_found: list[dict[str, Any]] = []
    broken: list[dict[str, Any]] = []
    for name in stored_baselines.names(options.dir):
        for version in stored_baselines.versions(options.dir, name):
            label = f"{name}@{version}"
            try:
                stored = find(options.dir, label)
                _checked_lines(stored)
            except InputError as error:
                broken.append({"name": label, "fault": str(error)})
                continue
            lines_found.append(_line(stored))
    with looking(options) as ledger:
        if ledger is not None:
            _list_kept(ledger, lines_found, broken)
    if not lines_found and not broken and not options.json:
        also = (
            ""
            if ledger is None
            else f", nor in the project '{ledger.project}' of {ledger.ledger.where}"
        )
        opt.note(f"there are no baselines in {options.dir}{also}.")
    lines = [
        f"{printable(line['name']):<32}  {line['made_at']:<20}  {line['samples']:>7} samples "
        f" {line['kind']}"
        for line in lines_found
    ]
    lines += [
        f"{printable(line['name']):<32}  BROKEN: {printable(line['fault'])}" for line in broken
    ]
    code = ExitCode.MALFORMED if broken else ExitCode.PASSED
    return opt.give(options, {"baselines": lines_found, "broken": broken, **ENGINE}, lines, code)


def _line(stored: StoredBaseline) -> dict[str, Any]:
    record = stored.record
    return {
        "name": stored.name,
        "kind": stored.kind,
        "made_at": record["made_at"],
        "samples": record["samples"],
        "runs": record["runs"],
    }


def _list_kept(ledger: Store, listed: list[dict[str, Any]], broken: list[dict[str, Any]]) -> None:
    """The ledger's baselines by name, oldest first, as in the folder."""
    where = ledger.ledger.where
    kept = []
    for baseline in list_baselines(ledger.ledger, project=ledger.project):
        try:
            if baseline.kept is not None:
                _check_shown(baseline.kept)
                kept.append(
                    {
                        **_line(as_stored(baseline.kept, where)),
                        "digest": baseline.digest,
                        "ledger": where,
                    }
                )
            fault = baseline.fault
        except InputError as error:
            fault = str(error)
        if fault:
            broken.append({"name": baseline.digest, "fault": fault, "ledger": where})
    kept.reverse()
    listed += sorted(kept, key=lambda line: str(line["name"]).rpartition(" ")[0])


DIFF_SCHEMA = "assay.baseline-diff/1"


def diff(options: Options) -> int:
    """Compare a stored baseline with another one, or with files."""
    opt.outputs(options, *options.others)  # what cannot be written is said before any work
    with looking(options) as ledger:
        document = _compared(options, ledger)
    return opt.give(options, document, map(printable, diff_lines(document)))


def _compared(options: Options, ledger: Store | None) -> dict[str, Any]:
    kept = None
    if ledger is not None:
        from assay.services.stored_sides import SideReader

        kept = SideReader(ledger)
    grader = choice_of(options).grader()
    rules = make_release_rules(opt.shelf_of(options).policy_of("release", options.release_policy))
    before = _side([options.baseline], options, grader, kept)
    after = _side(options.others, options, grader, kept)
    return compare_sides(before, after, rules)


def _side(sources: list[Source], options: Options, grader: Grader, kept: SideReader | None) -> Side:
    if len(sources) == 1 and isinstance(sources[0], BaselineName):
        return read_named(sources[0].name, grader, folder=options.dir, kept=kept).side.side
    return read_side(sources, grader, name=listed(sources)).side


def compare_sides(before: Side, after: Side, rules: ReleaseRules) -> dict[str, Any]:
    """What is different between two sides, over all samples and in each of them. Sides that can't
    be compared are an error.
    """
    aligned = align(after, before, rules)
    different = [
        mismatch
        for mismatch in mismatches(after, before)
        if not (mismatch.field == "dataset" and aligned.overlap is not None)
    ]
    if different:
        raise mismatch_error(different)
    pairs = pair_up(aligned.candidate, aligned.baseline)
    return {
        "schema": DIFF_SCHEMA,
        "baseline": before.name,
        "other": after.name,
        "comparison": compared(pairs, rules),
        "missing": {
            "other": [pair.sample for pair in pairs if not pair.candidate.attempts],
            "baseline": sorted(after.samples.keys() - before.samples.keys()),
        },
        **({} if aligned.overlap is None else {"overlap": aligned.overlap}),
        "changed": [shown for pair in pairs if (shown := _changed(pair)) is not None],
        "policy": rules.policy,
        **systems(after, rules),
    }


def _changed(pair: Pair) -> dict[str, Any] | None:
    """What is different in one sample; None if nothing is."""
    if not pair.candidate.attempts or not pair.baseline.attempts:
        return None  # listed as missing
    ours, theirs = (
        float(sum(run.score for run in side.attempts)) / len(side.attempts) / 100
        for side in (pair.candidate, pair.baseline)
    )
    gates, floors = (
        [failed_names(pair, side, kind) for side in ("candidate", "baseline")]
        for kind in ("gate", "floor")
    )
    shown = {
        "sample": pair.sample,
        "difference": round(ours - theirs, 4),
        "other": ours,
        "baseline": theirs,
        "newly_failed_gates": sorted(gates[0] - gates[1]),
        "mended_gates": sorted(gates[1] - gates[0]),
        "newly_missed_floors": sorted(floors[0] - floors[1]),
    }
    return (
        shown
        if shown["difference"]
        or shown["newly_failed_gates"]
        or shown["mended_gates"]
        or shown["newly_missed_floors"]
        else None
    )


_KINDS_OF_CHANGE = {
    "newly_failed_gates": "now fails",
    "mended_gates": "fixed",
    "newly_missed_floors": "below the floor of",
}


def diff_lines(document: dict[str, Any], *, most: int = 20) -> list[str]:
    """The comparison of two sides as lines, largest drop first."""
    comparison: ComparisonRecord = document["comparison"]
    difference = comparison.difference
    paired = count(comparison.n_paired, "paired sample")
    overlap: SampleOverlap | None = document.get("overlap")
    ends = (
        f", no interval: {difference.reason}"
        if difference.low is None
        else f" [{difference.low:+.2f}, {difference.high:+.2f}], {difference.method}"
    )
    ordered = sorted(document["changed"], key=by_difference)
    more = len(ordered) - most
    systems_used = f"{document['scoringSystem']} · {document['gradingSystem']}"
    return [
        f"{document['other']} against {document['baseline']}: {paired}",
        *fact_lines(
            (
                "dataset",
                ""
                if overlap is None
                else f"{count(overlap.equal, 'equal sample')}; {len(overlap.new)} new,"
                f" {len(overlap.changed)} different, {len(overlap.dropped)} dropped",
            ),
            (
                "difference",
                "" if difference.estimate is None else f"{difference.estimate:+.2f} points{ends}",
            ),
            (
                "samples",
                f"{comparison.wins} higher, {comparison.losses} lower, {comparison.ties} the same",
            ),
            *(
                (
                    "missing",
                    f"{len(lost)} in the {side}: {', '.join(lost[:5])}"
                    + (" ..." if len(lost) > 5 else ""),
                )
                for side, lost in document["missing"].items()
                if lost
            ),
        ),
        *map(change_line, ordered[:most]),
        *([f"  ... and {more:,} more that differ"] if more > 0 else []),
        "",
        f"policy {document['policy']} · {systems_used}",
    ]


def by_difference(change: Mapping[str, Any]) -> tuple[float, str]:
    """The order of changed samples: what fell most comes first."""
    return change["difference"], change["sample"]


def change_line(change: Mapping[str, Any]) -> str:
    """What is different in one sample, in a line."""
    changes = "; ".join(
        f"{words} {', '.join(change[key])}"
        for key, words in _KINDS_OF_CHANGE.items()
        if change[key]
    )
    return f"  {change['difference']:+7.2f}  {change['sample']}  {changes}".rstrip()


COMMANDS = {
    "baseline set": Command(
        _set,
        "Store the evidence of the version in production, with its fingerprint, date and summary."
        " Nothing is overwritten: an older one stays as NAME@N.",
        "assay baseline set production runs.jsonl",
        (
            DIR,
            arg(
                "name",
                kind="text",
                metavar="NAME",
                help="a plain name: letters, digits, '.', '_' and '-'",
            ),
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help=(
                    "runs, scorecards or grades (.json or .jsonl), another tool's result file, an"
                    " evaluation's name or latest; or one graded exam"
                ),
            ).of_runs(),
            *COMPARED_BY,
            *STORE,
            "--no-store",
        ),
    ),
    "baseline show": Command(
        _show,
        "Show what a stored baseline contains, after checking its digests.",
        "assay baseline show production",
        (
            arg(
                "name",
                kind="text",
                metavar="NAME",
                help="its name, NAME@N for an older one or, in a ledger, its digest",
            ),
            DIR,
            store_option(LOOK),
            "--project",
        ),
    ),
    "baseline list": Command(
        _list,
        "List the stored baselines; a plain name means its newest.",
        "assay baseline list",
        (
            DIR,
            store_option("also list those of a ledger, after those of the folder"),
            "--project",
        ),
    ),
    "baseline diff": Command(
        diff,
        "Compare a stored baseline with another, or with files: the paired differences,"
        " sample by sample. It exits 0 whatever the result.",
        "assay baseline diff production runs.jsonl",
        (
            DIR,
            arg(
                "baseline", kind="text", metavar="NAME", help="the stored baseline to compare with"
            ).of_runs(),
            arg(
                "others",
                metavar="OTHER|FILE",
                nargs="+",
                help=(
                    "another stored baseline, an evaluation's name or latest, or files of runs,"
                    " scorecards or grades"
                ),
            ).of_runs(),
            arg(
                "--release-policy",
                "--policy",
                offers="policies",
                kind="name",
                key="release.policy",
                metavar="R",
                default="release",
                help="release policy whose margin and level are used (default: release)",
            ),
            *COMPARED_BY,
            store_option(LOOK),
            "--project",
        ),
        formats=(".json",),
    ),
}
