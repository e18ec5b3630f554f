"""Decide from documents: build the two sides of a comparison from runs, scorecards or grades, and
apply the release rules to them.

This module orders the stages after grading, as `grading` orders those before. It opens no file and
stores nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType, structs

from assay.errors import Fault, InputError, NotEnoughEvidence, UsageError
from assay.files.json_files import Document, Unread
from assay.pipeline.given_grades import grades_of
from assay.pipeline.grading import Graded, Grader
from assay.pipeline.notes import policy_note, same_sides, shared_groups, unnoticed
from assay.records.decision import Decision, SliceComparisons
from assay.records.digests import run_digest, scorecard_digest
from assay.records.evidence import IMPORTED, Run
from assay.registry import near_miss
from assay.release.baseline import StoredBaseline, check_age, moment_of
from assay.release.comparability import (
    UNADMITTED,
    mismatch_error,
    mismatches,
    mixed_versions,
    own_expectations,
    refuse_itself,
    unadmitted_floors,
    undeclared,
)
from assay.release.decision import decision, unpaired_decision
from assay.release.declarations import declared_by
from assay.release.flaky import flaky_samples
from assay.release.looks import slices_of, with_looks, with_slices
from assay.release.overlap import (
    align,
    content_of,
    other_inputs,
    overlap_advice,
    with_equal_inputs,
)
from assay.release.pairs import few_groups, pair_up, repeats_note
from assay.release.plan import changes
from assay.release.policy import ReleaseRules
from assay.release.promotion import promote, with_finding
from assay.release.sides import Side, SideBuilder
from assay.release.summary import Summary
from assay.release.unscored import hold_unscored, unscored_in, unscored_runs

MAX_FAULTS = 20


class Terms(NamedTuple):
    """The options of a decision besides its policy."""

    allow_unpaired: bool = False
    quarantine: tuple[str, ...] = ()
    looks: int = 1
    slices: tuple[str, ...] = ()
    plan: Mapping[str, Any] | None = None
    """The declared plan, as the decision records it."""
    samples: tuple[str, ...] | None = None
    """The samples that the plan declares."""
    regraded: tuple[str, ...] = ()
    """A `regraded_note` for each side that was graded by something else when it was stored."""
    candidate: str = ""
    """How the candidate was named, as by `latest`."""


_REGRADED = "when it was stored; this"


def regraded_note(
    name: str, before: str, now: str, word: str = "decision", *, kind: str = "evaluation"
) -> str:
    """The note that an evaluation or a baseline was graded by something else when it was stored."""
    sides = "both sides" if word == "decision" else "it"
    return f"{kind} {name} was graded by {before} {_REGRADED} {word} grades {sides} by {now}."


def is_regraded_note(note: str) -> bool:
    """Whether a note of a stored decision is a `regraded_note`."""
    return note.startswith(("evaluation ", "baseline ")) and _REGRADED in note


class Declared(NamedTuple):
    """The plan as a decision records it, and the samples that it declares."""

    plan: dict[str, Any]
    samples: tuple[str, ...] | None


def declared(
    plan: Mapping[str, Any] | None, rules: ReleaseRules, *, looks: int, slices: Sequence[str]
) -> Declared:
    """The plan of a decision, with every field that differs from what was declared."""
    now = {**rules.declared(), "looks": looks, "slices": sorted(slices)}
    if plan is None:
        return Declared({"declared": False, "changed": [], **now}, None)
    samples = plan.get("samples")
    return Declared(
        {"declared": True, "changed": changes(plan, now), "digest": plan["digest"], **now},
        None if samples is None else tuple(samples),
    )


def check_kept_age(
    record: Mapping[str, Any], rules: ReleaseRules, *, where: str, now: datetime | None = None
) -> None:
    """Refuse a baseline in a ledger that is too old or has no date, like one in a folder."""
    check_age(kept_baseline(record, where), rules, now=now)


def kept_baseline(record: Mapping[str, Any], where: str) -> StoredBaseline:
    """A baseline in a ledger, like one in a folder."""
    made_at = moment_of(str(record.get("made_at")), where)
    return StoredBaseline(str(record.get("name")), where, "runs", made_at, dict(record))


Seen = Callable[[Document, Graded], None]


def side_of(
    documents: Iterable[Document | Unread],
    grader: Grader,
    *,
    name: str,
    where: str = "",
    seen: Seen | None = None,
) -> Side:
    """One side of a comparison. A document that can't be read is an error, since its content is
    unknown. `seen` receives each grade as it is made.
    """
    builder, summary, unscored = SideBuilder(name), Summary(), Counter[tuple[str, str]]()
    faults: list[Fault] = []
    count = 0
    for document in documents:
        if isinstance(document, Unread):
            faults.append(document.fault)
            continue
        try:
            for graded in grades_of(document, grader):
                run, grade = graded.run, graded.grade
                if run is None:
                    builder.add(
                        grade,
                        attempt=None,
                        digest=scorecard_digest(grade.scorecard),
                        content=scorecard_digest(structs.replace(grade.scorecard, run_id="")),
                        declared=None,
                        sample=None,
                        imported=False,
                    )
                else:
                    builder.add(
                        grade,
                        attempt=run.attempt,
                        digest=run_digest(run),
                        content=run_digest(unnamed(run)),
                        declared=declared_by(run),
                        sample=content_of(run),
                        imported=IMPORTED in run.metadata,
                    )
                summary.add(grade)
                unscored.update(unscored_in(grade))
                count += 1
                if seen is not None:
                    seen(document, graded)
        except InputError as error:
            if getattr(error, "of_shelf", False) or error.code.startswith(("LIB-", "REL-")):
                raise
            faults += error.faults or [
                Fault(error.message, code=error.code, file=document.file, line=document.line)
            ]
        if len(faults) >= MAX_FAULTS:
            break
    if faults:
        raise InputError(
            faults[0].code, faults[0].message, where=faults[0].file, faults=faults[:MAX_FAULTS]
        )
    if not count:
        raise NotEnoughEvidence("REL-003", f"the {name} contains no runs.", where=where)
    return builder.side(summary.block())._replace(unscored=unscored)


def unnamed(run: Run) -> Run:
    """A run without what differs between runs of the same behaviour: its id, version, times and
    metadata. An imported run keeps its metadata, which is what its tool reported, without the line;
    it loses the workflow's id, which may come from the file's name.
    """
    workflow, metadata = structs.replace(run.workflow, version=""), dict[str, Any]()
    if isinstance(imported := run.metadata.get(IMPORTED), dict):
        reported = {key: value for key, value in imported.items() if key != "line"}
        workflow = structs.replace(workflow, id="")
        metadata = {**run.metadata, IMPORTED: reported}
    return structs.replace(
        run,
        run_id="",
        workflow=workflow,
        started_at=None,
        finished_at=None,
        metadata=metadata,
    )


def decide(
    candidate: Side, baseline: Side, rules: ReleaseRules, grader: Grader, *, terms: Terms
) -> Decision:
    """The decision on two sides, as `assay.decision/1`."""
    refuse_itself(terms.candidate, candidate, baseline)
    plan = dict(terms.plan or declared(None, rules, looks=terms.looks, slices=terms.slices).plan)
    aligned = align(candidate, baseline, rules)
    # another version of the dataset must not let the candidate escape the pairs it has
    least, overlap = rules.min_pairs * terms.allow_unpaired, aligned.overlap
    paired = overlap is not None and overlap.equal >= least
    different = [
        item for item in mismatches(candidate, baseline) if item.field != "dataset" or not paired
    ]
    blocking = [
        mismatch
        for mismatch in different
        if not (terms.allow_unpaired and mismatch.field == "dataset")
    ]
    if blocking:
        raise mismatch_error(blocking)
    if different or not aligned.candidate.rows.keys() & aligned.baseline.rows.keys():
        return _unpaired(
            candidate, baseline, rules, terms, plan, without_gates=grader.rules.cards.without_gates
        )
    quarantine = full_names(terms.quarantine, candidate.rows.keys() | baseline.rows.keys())
    terms = terms._replace(quarantine=tuple(quarantine))
    promotion = promote(
        pair_up(aligned.candidate, aligned.baseline, planned=terms.samples),
        rules,
        shrinkage=grader.rules.shrinkage,
        quarantined=quarantine,
        without_gates=grader.rules.cards.without_gates,
        new=[candidate.rows[name] for name in aligned.overlap.new] if aligned.overlap else (),
    )
    warnings = (
        policy_note(rules),
        mixed_versions(candidate),
        unadmitted := unadmitted_floors(candidate, terms.quarantine),
        same_sides(candidate, baseline),
        other_inputs(aligned),
        undeclared(baseline),
        repeats_note(aligned.candidate, aligned.baseline),
        shared_groups(promotion),
    )
    if terms.looks > 1:
        promotion = with_looks(promotion, rules, looks=terms.looks)
    slices: SliceComparisons | UnsetType = UNSET
    if terms.slices:
        slices = slices_of(promotion, rules, list(terms.slices), looks=terms.looks)
        promotion = with_slices(promotion, slices, rules)
    if unadmitted is not None:
        promotion = with_finding(promotion, UNADMITTED, {}, rules, violated=False)
    if own := own_expectations(candidate, baseline):
        promotion = with_finding(promotion, own, {}, rules, violated=False)
    promotion = hold_unscored(
        promotion, candidate, baseline, unscored_runs(candidate, baseline), rules
    )
    if aligned.overlap is not None:
        advice = overlap_advice(aligned.overlap, terms.quarantine)
        promotion = promotion._replace(would_change=(*advice, *promotion.would_change))
    rows = candidate.rows.keys() | baseline.rows.keys()
    return decision(
        promotion,
        candidate,
        baseline,
        rules,
        plan=plan,
        looks=terms.looks,
        flaky=flaky_samples(candidate, baseline, quarantined=quarantine, level=rules.level),
        notes=[*terms.regraded, *filter(None, warnings)] or UNSET,
        overlap=UNSET if aligned.overlap is None else aligned.overlap,
        unplanned=UNSET if terms.samples is None else sorted(rows - set(terms.samples)),
        slices=slices,
    )


def _unpaired(
    candidate: Side,
    baseline: Side,
    rules: ReleaseRules,
    terms: Terms,
    plan: dict[str, Any],
    *,
    without_gates: bool,
) -> Decision:
    if not terms.allow_unpaired:
        other, fix = "", "Evaluate both on the same samples, or pass --allow-unpaired"
        fix += " (`allow_unpaired` in Python and HTTP)."
        if n := with_equal_inputs(candidate, baseline):
            other = (
                f" {n:,} of {len(candidate.rows):,} samples have the inputs of the baseline's, so"
                " their ids, expectations, assertions, weights or thresholds differ."
            )
            fix = "Evaluate the baseline again with the candidate's ids and expectations."
        raise InputError(
            "REL-002",
            f"the two sides share no sample with equal content, so nothing can be paired.{other}",
            fix=fix,
        )
    if terms.looks > 1 or terms.slices or terms.quarantine:
        raise UsageError(
            "CLI-001",
            "looks, slices and quarantine need paired samples, and these sets are not paired.",
        )
    if terms.samples is not None:
        plan["changed"] = [
            *plan["changed"],
            "its samples were declared to be paired, and the sets are compared unpaired",
        ]
    warnings = (
        policy_note(rules),
        mixed_versions(candidate),
        unadmitted_floors(candidate),
        undeclared(baseline),
        *map(few_groups, (candidate, baseline)),
        unnoticed(candidate, baseline),
    )
    return unpaired_decision(
        candidate,
        baseline,
        rules,
        plan=plan,
        without_gates=without_gates,
        flaky=flaky_samples(candidate, baseline, level=rules.level),
        notes=[*terms.regraded, *dict.fromkeys(filter(None, warnings))],
    )


def full_names(names: Iterable[str], known: Collection[str]) -> list[str]:
    """The full names, `DATASET/SAMPLE`, of samples to leave out; `SAMPLE` alone is enough if only
    one dataset has it.
    """
    resolved = []
    for name in names:
        matches = [name] if name in known else [full for full in known if full.endswith(f"/{name}")]
        if len(matches) > 1:
            raise UsageError(
                "CLI-001",
                f"'{name}' matches several samples: {', '.join(sorted(matches)[:5])}.",
                fix="Give the full name of the one to leave out.",
            )
        if not matches:
            short = [full.partition("/")[2] for full in known if "/" in full]
            raise UsageError(
                "CLI-001",
                f"there is no sample '{name}' to leave out.{near_miss(name, [*known, *short])}",
            )
        resolved += matches
    return resolved
