"""`assay rehearse`: how often a release policy would reject, hold and promote a version against
itself, before anything is released.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from assay.canon import pretty
from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.deciding import checked, read_baseline, read_side
from assay.cli.frame import COMPARED_BY, STORE, Bounds, Command, Options, arg, flag
from assay.cli.grade import choice_of
from assay.cli.ledger import storing_result
from assay.errors import few
from assay.files.json_files import parse_json
from assay.release.policy import Bars, make_release_rules
from assay.services.rehearse import MOST_RELEASES, RELEASES, Rehearsing, rehearse

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.records.rehearsal import Rehearsal
    from assay.services.storing import Result


def run(options: Options) -> int:
    """Rehearse, and show what came of it. Exits 0: nothing is decided."""
    opt.outputs(options, *options.baseline, options.other)
    with storing_result(options, "rehearse") as result:
        made = _made(options, result)
        if result is not None:
            result.put(parse_json(pretty(made)))
    return _finish(options, made)


def _made(options: Options, result: Result | None) -> Rehearsal:
    choice = choice_of(options)
    rules = make_release_rules(
        opt.shelf_of(options).policy_of("release", options.release_policy),
        Bars(options.tolerance, options.min_pass_rate, options.confidence),
    )
    grader, kept = choice.grader(), None
    if result is not None:
        from assay.services.stored_sides import SideReader

        kept = SideReader(result.store, made_of=result.made_of)
        for card in choice.read_cards():
            result.made_of(card)
    baseline = read_baseline(
        options.baseline,
        grader,
        folder=options.baselines,
        rules=rules,
        now=opt.moment(options.now),
        kept=kept,
    )
    side = checked(baseline, grader, rules, options)
    other = (
        read_side([options.other], grader, name=options.other.name, rules=rules, kept=kept).side
        if options.other
        else None
    )
    asked = Rehearsing(options.releases, options.seed, options.recommend)
    return rehearse(
        side._replace(name=few([source.name for source in options.baseline])),
        rules,
        asked,
        other=other,
    )


def _finish(options: Options, made: Rehearsal) -> int:
    from assay.views.markdown import view
    from assay.views.rehearsal import rehearsal_summary, rehearsal_title

    forms: dict[str, Callable[[Rehearsal], bytes]] = {
        ".md": lambda made: view(rehearsal_title(made), rehearsal_summary(made)).encode(),
        ".html": _html,
    }
    if options.charts:
        from assay.views.charts.rehearsals import power
        from assay.views.drawing import write_charts

        write_charts([power(made)], options.charts)
    show = partial(terminal.show, rehearsal_summary(made))
    return opt.give(options, made, show, forms=forms)


def _html(made: Rehearsal) -> bytes:
    from assay.views.rehearsal import rehearsal_title, rehearsal_view
    from assay.views.render import report

    title = f"Assay: {rehearsal_title(made)}"
    return report(title, *rehearsal_view(made), heading=made.evaluation.name).encode()


COMMANDS = {
    "rehearse": Command(
        run,
        "Rehearse a release policy on repeats of one version: how often it would reject, hold and"
        " promote that version against itself, and which planted regressions it would find. Exit 0"
        " when done.",
        "assay rehearse runs.jsonl --recommend -o rehearsal.html",
        (
            arg(
                "baseline",
                metavar="EVALUATION",
                nargs=1,
                help=(
                    "repeats of one version: runs, scorecards or grades (.json or .jsonl), another"
                    " tool's result file, an evaluation's name, latest, or a stored baseline"
                ),
            ).of_runs(),
            arg(
                "other",
                metavar="OTHER",
                nargs="?",
                help="repeats of another version: how often would it be promoted over EVALUATION?",
            ).of_runs(),
            arg(
                "--release-policy",
                offers="policies",
                kind="name",
                key="release.policy",
                metavar="R",
                default="release",
                help="release policy by name, name@version or YAML file (default: release)",
            ),
            arg(
                "--tolerance",
                key="release.tolerance",
                type=float,
                metavar="X",
                help=(
                    "how much a candidate may lose and still count as not worse, in points"
                    " (default: the policy's)"
                ),
            ),
            arg(
                "--min-pass-rate",
                key="release.min_pass_rate",
                type=float,
                metavar="X",
                help=(
                    "the minimum share of the candidate's samples that must pass, such as 0.95"
                    " (default: the policy's; none in the default policy)"
                ),
            ),
            "--confidence",
            flag(
                "--recommend",
                "also propose a margin, a number of runs and a policy with which this version would"
                " be promoted against itself in four of five releases",
            ),
            arg(
                "--seed",
                within=Bounds(least=0),
                type=int,
                metavar="N",
                default=0,
                help="the seed of the draws (default: 0)",
            ),
            arg(
                "--releases",
                within=Bounds(least=1, most=MOST_RELEASES),
                type=int,
                metavar="N",
                default=RELEASES,
                help=f"how many releases to simulate (default: {RELEASES})",
            ),
            "--baselines",
            *COMPARED_BY,
            "--charts",
            *STORE,
        ),
        formats=(".json", ".md", ".html"),
    ),
}
