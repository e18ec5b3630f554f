"""`assay gate --plan`: how many samples and runs a decision needs, before anything is evaluated.

`--store` keeps the plan as a result. A decision made with the plan also stores it, as evidence. A
record has only one kind, so the stored result contains the plan and isn't the plan itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.gate_sides import checked, read_baseline
from assay.cli.ledger import storing_result
from assay.errors import UsageError, count
from assay.release.plan import make_plan
from assay.services.compare import full_names
from assay.views.text import fact_lines

if TYPE_CHECKING:
    from assay.cli.parsing import Options
    from assay.release.policy import ReleaseRules
    from assay.services.choice import Choice
    from assay.services.storing import Result


def plan(options: Options, rules: ReleaseRules, choice: Choice) -> int:
    """Print how many samples and runs a decision needs, and write the plan. Exits 0, because
    nothing is decided.
    """
    if options.files:
        raise UsageError(
            "CLI-001",
            "a plan is made from the baseline alone; a candidate's noise must not change it.",
            fix="`assay gate --plan --baseline BASELINE`",
        )
    for path in opt.outputs(options):
        if not path.endswith(".json"):
            raise UsageError("CLI-001", f"a plan is written as .json, not to '{path}'.")
    with storing_result(options, "gate --plan") as result:
        made = _made(options, rules, choice, result)
        if result is not None:
            result.put({"plan": made})
    return opt.give(options, made, plan_lines(made))


def _made(
    options: Options, rules: ReleaseRules, choice: Choice, result: Result | None
) -> dict[str, Any]:
    grader, kept = choice.grader(), None
    if result is not None:
        from assay.services.stored_sides import SideReader

        kept = SideReader(result.store, made_of=result.made_of)
        for card in choice.read_cards():
            result.made_of(card)
    now = opt.moment(options.now)
    baseline = (
        checked(
            read_baseline(
                options.baseline,
                grader,
                folder=options.baselines,
                rules=rules,
                now=now,
                kept=kept,
            ),
            grader,
            rules,
            options,
        )
        if options.baseline
        else None
    )
    samples = (
        None
        if baseline is None
        else sorted(
            set(baseline.samples) - {*full_names(options.quarantine, baseline.samples.keys())}
        )
    )
    return make_plan(
        rules,
        slices=options.slice,
        now=now or datetime.now(UTC),
        baseline=baseline,
        samples=samples,
    )


def plan_lines(made: dict[str, Any]) -> Iterator[str]:
    """A plan for a terminal."""
    yield (
        f"plan under {made['policy']}: margin {made['margin']:g} points, at least"
        f" {count(made['min_pairs'], 'pair')}, up to {count(made['looks'], 'look')}\n"
    )
    noise, confirmation = made["noise"], made["confirmation"]
    if noise is None:
        yield "Nothing is known of the noise: name a baseline with several runs of each sample."
        return
    source = (
        "assumed, from one run of each sample; run the baseline several times to know"
        if noise["assumed"]
        else f"from the repeats of {count(noise['samples'], 'sample')}"
    )
    chance = confirmation["suspects_by_chance"]
    yield from fact_lines(
        ("samples", f"{made['n']:,}"),
        ("noise", f"{noise['scores'] ** 0.5:.1f} points between runs of one sample, {source}"),
        (
            "confirm",
            f"{count(confirmation['repeats'], 'fresh run')} in a row confirm a new failure"
            + ("" if chance is None else f"; chance makes about {chance:.0f} suspects"),
        ),
    )
    yield "\nHow often this gate would promote a version that is the same as its baseline:\n"
    yield "  runs of each sample        to run   promoted   shows a loss of"
    for row in made["shown"]:
        banked = " (banked)" if row["banked"] else ""
        runs = f"{row['candidate_runs']} against {row['baseline_runs']}{banked}"
        enough = "  <- enough" if row["same_version_promoted"] >= made["wanted"] else ""
        yield (
            f"  {runs:<22} {row['runs']:>10,} {row['same_version_promoted']:>10.0%}"
            f" {row['smallest_loss']:>11.1f} points{enough}"
        )
    needed = [
        f"{runs} {'run' if runs == '1' else 'runs'}: {'-' if n is None else f'{n:,}'}"
        for runs, n in made["samples_for"].items()
    ]
    yield f"\nSamples for {made['wanted']:.0%}, by runs of each on both sides: {'; '.join(needed)}."
    yield "Banked runs of the baseline are made once; only the samples on which they disagree need"
    yield "repeats of the candidate."
