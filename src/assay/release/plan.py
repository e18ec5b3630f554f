"""The plan of a decision: what is declared before anything is evaluated, and how many samples and
runs it takes.

A plan fixes the policy with its margin, level and interval, the looks, the slices and the samples.
It carries a digest, so that it cannot be changed afterwards without notice; a decision made with it
names every field that is not as it was declared. Nothing here decides.

Repeats can stand in for samples where the noise is within them: a baseline that was run five times
is known better, and needs that only once. See `expectation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from assay.canon import digest, time_text
from assay.errors import InputError
from assay.exact import is_number
from assay.files.json_files import read_json
from assay.release.confirmation import turns_for
from assay.release.expectation import WANTED, noise_of, samples_for, shown_by
from assay.release.observations import PASS, Observed, Pair, Share, fails
from assay.release.policy import Limits, ReleaseRules
from assay.release.sides import Side

PLAN_SCHEMA = "assay.plan/1"
RUNS = (1, 2, 3, 5, 8)
"""Runs of each sample that a plan compares."""
BANKED = 5
"""Runs of the baseline that a plan considers, besides those it has."""
DECLARED = {
    "policy": "the policy",
    "policy_digest": "the content of the policy",
    "margin": "the margin",
    "level": "the level",
    "min_pairs": "the minimum of pairs",
    "interval": "the kind of interval",
    "looks": "the number of looks",
    "slices": "the slices",
}


def make_plan(
    rules: ReleaseRules,
    *,
    slices: Sequence[str],
    now: datetime,
    baseline: Side | None = None,
    samples: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The plan as a document, with what these samples show at several numbers of runs."""
    limits = rules.limits
    observed = (
        []
        if baseline is None or samples is None
        else [baseline.samples[name].observed for name in samples]
    )
    noise, n = noise_of(observed), len(observed)
    plan: dict[str, Any] = {
        "schema": PLAN_SCHEMA,
        **rules.declared(),
        "slices": sorted(set(slices)),
        "samples": None if samples is None else sorted(samples),
        "n": n or None,
        "noise": None if noise is None else noise._asdict(),
        "wanted": WANTED,
        "shown": [],
        "samples_for": {},
        "confirmation": _confirmation(observed, limits) if observed else None,
        "made_at": time_text(now),
    }
    if noise is not None and n > 1:
        has = max(len(side.attempts) for side in observed)
        pairs = [(runs, runs) for runs in RUNS] + [
            (runs, bank) for bank in sorted({has, BANKED} - {1}) for runs in RUNS if runs < bank
        ]
        for ours, theirs in pairs:
            shown = shown_by(noise, n, (ours, theirs), limits)
            plan["shown"].append(
                {
                    "candidate_runs": ours,
                    "baseline_runs": theirs,
                    "banked": theirs <= has,
                    "runs": n * (ours + (0 if theirs <= has else theirs)),
                    "same_version_promoted": round(shown.same_version_promoted, 4),
                    "smallest_loss": round(shown.smallest_loss, 4),
                }
            )
        for runs in RUNS:
            plan["samples_for"][str(runs)] = samples_for(noise, (runs, runs), limits)
    return {**plan, "digest": digest(plan)}


def _confirmation(observed: Sequence[Observed], limits: Limits) -> dict[str, Any]:
    """How many fresh turns confirm a suspect, and how many suspects chance makes with one run of
    each sample on both sides.
    """
    pairs = [Pair(str(place), Observed((), 1), side) for place, side in enumerate(observed)]
    turns = 0 if limits.deterministic else turns_for(pairs, false_alarm=limits.errors.confirmed)
    spread = [
        share.failing * (share.runs - share.failing) / (share.runs * (share.runs - 1))
        for side in observed
        if (share := Share.seen(side, fails(PASS))).runs > 1
    ]
    expected = None if not spread else len(observed) * sum(spread) / len(spread)
    return {
        "repeats": turns,
        "suspects_by_chance": None if expected is None else round(expected, 2),
    }


def read_plan(path: str) -> dict[str, Any]:
    """A plan from its file, as it was written."""
    return check_plan(read_json(path).tree, where=path)


def check_plan(tree: Any, *, where: str) -> dict[str, Any]:
    """A plan from outside; one that is malformed or was changed is refused."""
    if not isinstance(tree, dict) or tree.get("schema") != PLAN_SCHEMA:
        raise InputError(
            "REL-001",
            f"is not a plan ({PLAN_SCHEMA}).",
            where=where,
            fix="`assay gate --plan -o plan.json` writes one.",
        )
    absent = [name for name in (*DECLARED, "samples", "digest") if name not in tree]
    if absent:
        raise InputError("REL-001", f"the plan lacks {', '.join(absent)}.", where=where)
    samples = tree["samples"]
    if samples is not None and not (
        isinstance(samples, list) and samples and all(isinstance(name, str) for name in samples)
    ):
        raise InputError("REL-001", "the samples of the plan are not a list of names.", where=where)
    if digest({key: value for key, value in tree.items() if key != "digest"}) != tree["digest"]:
        raise InputError(
            "REL-001",
            "the plan does not match its digest: it was changed later.",
            where=where,
            fix="Declare a new plan before you run.",
        )
    return tree


def changes(declared: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A sentence for each field that is not as it was declared; empty if the plan was kept.

    >>> changes({"policy": "release@1", "margin": 1.0}, {"policy": "release@1", "margin": 2.0})
    ['the margin was declared as 1 and is 2']
    """
    sentences = []
    for name, words in DECLARED.items():
        before, after = _shown(declared.get(name)), _shown(now.get(name))
        if before == after or (
            name == "policy_digest" and declared.get("policy") != now.get("policy")
        ):
            continue
        verb, now_verb = ("were", "are") if name == "slices" else ("was", "is")
        sentences.append(
            f"{words} changed, and its name did not"
            if name == "policy_digest"
            else f"{words} {verb} declared as {before} and {now_verb} {after}"
        )
    return sentences


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(sorted(map(str, value))) or "none"
    return f"{float(value):g}" if is_number(value) else str(value)
