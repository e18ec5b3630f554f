"""`assay gate --plan`: how many samples a decision needs, before anything is evaluated.

`--store` keeps the plan as a result. A decision made with the plan also stores it, as evidence. A
record has only one kind, so the stored result contains the plan and isn't the plan itself.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.gate_sides import read_baseline, read_side
from assay.cli.ledger import storing_result
from assay.errors import UsageError, count, printable
from assay.pipeline.deciding import full_names
from assay.release.pairs import pair_up
from assay.release.plan import (
    Spread,
    failures_for,
    make_plan,
    needed_samples,
    spread_of,
    spread_of_pairs,
)
from assay.stats.power import detectable_mean
from assay.views.text import fact_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.archive.sides import SideReader
    from assay.archive.store import Result
    from assay.cli.parsing import Options
    from assay.pipeline.choice import Choice
    from assay.pipeline.grading import Grader
    from assay.release.policy import ReleaseRules
    from assay.release.sides import Side

NUMBERS = (30, 50, 100, 200, 500, 1000, 2000)


def plan(options: Options, rules: ReleaseRules, choice: Choice) -> int:
    """Print how many samples a decision needs, and write the plan. Exits 0, because nothing is
    decided.
    """
    power = options.power if options.power is not None else rules.power
    if options.files and not options.baseline:
        raise UsageError(
            "CLI-001",
            "a first comparison needs --baseline too.",
            fix="`assay gate --plan pilot.jsonl --baseline baseline.jsonl`",
        )
    for path in opt.outputs(options):
        if not path.endswith(".json"):
            raise UsageError("CLI-001", f"a plan is written as .json, not to '{path}'.")
    with storing_result(options, "gate --plan") as result:
        made = _made(options, rules, choice, power, result)
        if result is not None:
            result.put({"plan": made})
    return opt.give(options, made, _lines(made, rules))


def _made(
    options: Options,
    rules: ReleaseRules,
    choice: Choice,
    power: float,
    result: Result | None,
) -> dict[str, Any]:
    grader, kept = choice.grader(), None
    if result is not None:
        from assay.archive.sides import SideReader

        kept = SideReader(result.store, made_of=result.made_of)
        for card in choice.read_cards():
            result.made_of(card)
    now = opt.moment(options.now)
    baseline = (
        read_baseline(
            options.baseline,
            grader,
            folder=options.baselines,
            rules=rules,
            now=now,
            options=options,
            kept=kept,
        )
        if options.baseline
        else None
    )
    spread = _spread(options, grader, baseline, kept)
    samples = (
        None
        if baseline is None
        else sorted(set(baseline.rows) - {*full_names(options.quarantine, baseline.rows)})
    )
    return make_plan(
        rules,
        effect=options.effect,
        power=power,
        spread=spread,
        looks=options.looks,
        slices=options.slice,
        now=now or datetime.now(UTC),
        baseline=baseline,
        samples=samples,
    )


def _spread(
    options: Options, grader: Grader, baseline: Side | None, kept: SideReader | None
) -> Spread:
    if options.sd is not None:
        return Spread(options.sd, "as given with --sd")
    if baseline is None:
        return Spread(None, "unknown; give --sd or --baseline")
    if options.files:
        return spread_of_pairs(
            pair_up(read_side(options.files, grader, name="candidate", kept=kept), baseline)
        )
    return spread_of(baseline)


def _set_facts(made: dict[str, Any]) -> list[tuple[str, str]]:
    """What the samples of the plan would show, each fact with its label."""
    if made["n"] is None:
        return []
    words = {None: "", True: ", which is enough", False: ", which is NOT enough"}
    least = made["smallest_effect"] if made["looks"] == 1 else None
    once, increase = made["rates"]["seen_once"], made["rates"]["detectable_increase"]
    return [
        ("this set", f"{count(made['n'], 'sample')}{words[made['enough']]}"),
        (
            "detects",
            ""
            if least is None
            else f"non-inferiority, if the true difference is at least {least:+.2f} points",
        ),
        (
            "gates",
            ""
            if once is None
            else f"new failures in {100 * once:.1f}% of samples or more show up at least once",
        ),
        (
            "",
            ""
            if increase is None
            else f"the interval of the rate would show a rise of {100 * increase:.1f} percentage"
            " points",
        ),
    ]


def _lines(made: dict[str, Any], rules: ReleaseRules) -> Iterator[str]:
    power, sd = made["power"], made["sd"]
    yield (
        f"plan under {made['policy']}: margin {made['margin']:g}, level {made['level']:g}, interval"
        f" {made['interval']}, power {power:g}"
    )
    yield (
        f"looks {made['looks']}, slices {', '.join(made['slices']) or 'none'}, at least"
        f" {count(made['min_pairs'], 'pair')}\n"
    )
    needed = made["needed"]
    about = "about " if made["looks"] > 1 else ""
    yield from fact_lines(
        (
            "spread",
            f"{'not known' if sd is None else f'{sd:.2f} points'}: {printable(made['sd_source'])}",
        ),
        (
            "needed",
            f"no number of samples is enough: the true difference of {made['effect']:+g} is not"
            f" above -{made['margin']:g}"
            if needed is None
            else f"{about}{needed:,} paired samples, if the true difference is {made['effect']:+g}",
        ),
        (
            "",
            ""
            if sd or needed is None
            else "enough to exclude a rare total loss if no sample differs"
            if needed > made["min_pairs"]
            else "the policy's minimum",
        ),
        *_set_facts(made),
    )
    if sd and made["looks"] == 1:
        yield (
            "\n   pairs      smallest detectable true difference     true difference   pairs needed"
        )
        effects = sorted(
            {made["effect"], 0.0, made["margin"] / 2, made["margin"], 2 * made["margin"]}
        )
        for place, n in enumerate(NUMBERS):
            seen = detectable_mean(n, sd=sd, margin=rules.margin, power=power, level=rules.level)
            right = ""
            if place < len(effects):
                number = needed_samples(rules, effect=effects[place], power=power, sd=sd)
                right = (
                    f"{effects[place]:+15.2f}   {'none' if number is None else f'{number:,}':>12}"
                )
            yield f"{n:>8,}   {'' if seen is None else f'{seen:+.2f}':>38}   {right}"
    yield (
        f"\n{failures_for(0.01, power=power):,} samples show a failure that happens in 1% of cases;"
        f" {failures_for(0.001, power=power):,} show one that happens in 0.1%."
    )
    if made["slices"]:
        yield (
            "Slices have fewer samples and are corrected for multiple comparisons, so they"
            " show only larger drops."
        )
