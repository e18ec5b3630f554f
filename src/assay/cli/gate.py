"""`assay gate`: whether a candidate may replace a baseline."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli.batch_engine import ENGINE, refuse_batch_options
from assay.cli.frame import COMPARED_BY, STORE, Bounds, Command, Options, arg, flag, repeated
from assay.cli.grade import choice_of
from assay.cli.hints import command
from assay.cli.ledger import storing_evaluated
from assay.cli.run_settings import is_typed
from assay.errors import UsageError, count, few
from assay.files.atomic import write_file
from assay.files.inputs import StoredInput
from assay.files.own_files import is_batch_output
from assay.registry import is_path
from assay.release.baseline import names
from assay.release.decision import exit_code
from assay.release.policy import Bars, ReleaseRules, make_release_rules
from assay.views.documents import pretty

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.archive.evaluation_choice import ToolProfile
    from assay.archive.sides import SideReader
    from assay.archive.store import Store
    from assay.pipeline.choice import Choice
    from assay.pipeline.grading import Grader
    from assay.records.decision import Decision


def run(options: Options) -> int:
    """Decide, or plan a decision."""
    rules = rules_of(options)  # what is wrong with them comes first
    if options.sign and not options.attest:
        raise UsageError("CLI-001", "--sign needs --attest FILE.")
    if options.plan:
        from assay.cli.gate_plan import plan

        refuse_batch_options(options)
        return plan(options, rules, choice_of(options))
    if not options.files or not options.baseline:
        named = options.baseline or options.files
        raise UsageError(
            "CLI-001",
            "a decision needs a candidate and --baseline."
            if not named
            else f"a decision needs a candidate to compare with {', '.join(named)}."
            if options.baseline
            else "a decision needs --baseline.",
            fix=_example(options),
        )
    opt.outputs(options)
    # before anything is written: no file says promote of a decision that could not be kept
    return _finish(options, decision_of(options))


def rules_of(options: Options) -> ReleaseRules:
    """The rules of the release policy that the options name, with the numbers they set."""
    return make_release_rules(
        opt.shelf_of(options).policy_of("release", options.release_policy),
        Bars(options.margin, options.min_pass_rate, options.confidence, options.min_overlap),
    )


def decision_of(options: Options) -> Decision:
    """The decision between two sides, stored in a ledger if the candidate is an evaluation in it or
    the options request it.
    """
    rules, choice = rules_of(options), choice_of(options)
    if (source := options.sources.get("baseline")) and not is_typed(options, "baseline"):
        opt.note(f"the baseline is {few(options.baseline)}, which {source} names.")
    if any(map(is_batch_output, [*options.files, *options.baseline])):
        from assay.cli.gate_batch import decide_on_batches

        return decide_on_batches(options, rules)
    refuse_batch_options(options)
    with storing_evaluated(options) as store:
        return (
            _decide(options, rules, choice.grader())
            if store is None
            else _decide_and_store(options, rules, choice, store)
        )


def _decide(
    options: Options,
    rules: ReleaseRules,
    grader: Grader,
    *,
    kept: SideReader | None = None,
) -> Decision:
    from assay.cli.gate_sides import read_baseline, read_side, score_pairs
    from assay.cli.gate_worst import CandidateWorst
    from assay.pipeline.deciding import Terms, decide, declared, full_names

    options.judged, options.compared, options.worst = [], [], CandidateWorst.of(options)
    now, regraded = opt.moment(options.now), [*getattr(options, "regraded", ())]
    candidate = read_side(
        options.files,
        grader,
        name="candidate",
        kept=kept,
        read=options.judged,
        seen=None if options.worst is None else options.worst.add,
    )
    baseline = read_baseline(
        options.baseline,
        grader,
        folder=options.baselines,
        rules=rules,
        now=now,
        options=options,
        kept=kept,
        read=options.compared,
        regraded=regraded,
    )
    plan, samples = declared(_plan(options), rules, looks=options.looks, slices=options.slice)
    if not options.allow_unpaired and (
        options.charts or any(path.endswith(".html") for path in options.output)
    ):
        pairs = score_pairs(candidate, baseline, rules, planned=samples)
        left_out = full_names(options.quarantine, candidate.rows.keys() | baseline.rows.keys())
        options.pairs = [pair for pair in pairs if pair.sample not in left_out]
    terms = Terms(
        options.allow_unpaired,
        tuple(options.quarantine),
        options.looks,
        tuple(options.slice),
        plan,
        samples,
        tuple(regraded),
        next((path.asked for path in options.files if isinstance(path, StoredInput)), ""),
    )
    return decide(candidate, baseline, rules, grader, terms=terms)


def _example(options: Options) -> str:
    """An example of a decision that is possible with what is stored."""
    if options.files:
        from assay.cli.references import suggested_baseline

        found = next(iter(names(options.baselines)), None) or suggested_baseline(options)
        if found is not None:
            return f"Run `{command('gate', *options.files, '--baseline', found, options=options)}`."
        return (
            "Give the results to compare with, a file or an evaluation's name: `--baseline"
            " BASELINE`. The ledger has no other version of this workflow yet."
        )
    if options.baseline:
        named = options.baseline if is_typed(options, "baseline") else ()
        words = [word for name in named for word in ("--baseline", name)]
        return f"Run `{command('gate', 'latest', *words, options=options)}`."
    return "For example: `assay gate candidate.jsonl --baseline baseline.jsonl`."


def _plan(options: Options) -> dict[str, Any] | None:
    """The plan that was declared before."""
    if not options.with_plan:
        return None
    from assay.release.plan import read_plan

    return read_plan(options.with_plan)


def _decide_and_store(
    options: Options, rules: ReleaseRules, choice: Choice, store: Store
) -> Decision:
    """The decision, kept with the grades of both sides and their evidence."""
    from assay.archive.sides import SideReader, decision_drafts

    choice = choice.dated()
    sides = SideReader(store, choice)
    document = _decide(options, rules, choice.grader(), kept=sides)
    candidate, baseline = sides.kept
    if bare := candidate.bare + baseline.bare:
        opt.note(
            f"not stored, because they came without their evidence: {count(bare, 'grade')}."
            " The decision is stored, but cannot be replayed."
        )
    made: ToolProfile | None = getattr(options, "made_profile", None)
    store.put(decision_drafts(document, candidate, baseline, plan=_plan(options), made=made))
    return document


def _finish(options: Options, document: Decision) -> int:
    from assay.cli import terminal
    from assay.cli.gate_worst import next_command
    from assay.views import junit
    from assay.views.blocks import Note
    from assay.views.decision import decision_summary, outcome_word
    from assay.views.decision_sections import decision_charts
    from assay.views.markdown_view import view

    summary = decision_summary(document)
    page = view(outcome_word(document), summary)
    if options.worst is not None and (worst := options.worst.markdown()):
        page += f"\n{worst}"
    forms: dict[str, Callable[[Decision], bytes]] = {
        ".md": lambda _: page.encode(),
        ".xml": junit.decision,
        ".sarif": lambda document: _sarif(options, document),
        ".html": lambda document: _html(options, document),
    }
    if options.charts:
        from assay.views.drawing import write_charts

        write_charts(decision_charts(document, options.pairs), options.charts)
    if (target := opt.step_summary(options)) is not None:
        opt.append_summary(target, page.encode())
    if options.attest:
        _attest(options, document)
    for note in document.loud or () if options.json else ():
        opt.note(note)
    show = partial(terminal.show, [*summary, *map(Note, next_command(options, document))])
    return opt.give(options, document, show, exit_code(document), forms=forms)


def _html(options: Options, document: Decision) -> bytes:
    from assay.views.decision import outcome_word
    from assay.views.decision_sections import decision_view
    from assay.views.render import report

    title = f"Assay: {outcome_word(document)}"
    parts = [*decision_view(document, pairs=options.pairs), *options.worst.parts()]
    heading = f"{few(options.files)} against {few(options.baseline)}"
    return report(title, *parts, heading=heading).encode()


def _sarif(options: Options, document: Decision) -> bytes:
    from assay.cli.gate_sides import sample_places
    from assay.views.sarif_grades import decision, named_samples

    files = [file for file in options.files if is_path(file) and file != "-"]
    return decision(
        document,
        places=sample_places(files, named_samples(document)),
        file=files[0] if files else None,
    )


def _attest(options: Options, document: Decision) -> None:
    from datetime import UTC, datetime

    from assay.release.attestation import envelope, statement

    now = opt.moment(options.now) or datetime.now(UTC)
    made = statement(document.tree(), subjects=options.judged, baseline=options.compared, now=now)
    write_file(options.attest, pretty(envelope(made, key=options.sign)))


COMMANDS = {
    "gate": Command(
        run,
        "Decide whether a candidate may replace a baseline. Samples are paired; the rules are about"
        " gates, scores, floors and severe failures. Exit 0 only for promote.",
        "assay gate candidate.jsonl --baseline baseline.jsonl -o decision.json",
        (
            arg(
                "files",
                metavar="CANDIDATE",
                nargs="*",
                help=(
                    "runs, scorecards or grades of the candidate (.json or .jsonl), another tool's"
                    " result file, an evaluation's name, latest, latest~1, or an output of"
                    " `assay batch`"
                ),
            ).of_runs(),
            repeated(
                "--baseline",
                "BASELINE",
                "the baseline, in any of these forms, or the name of a stored baseline (in the"
                " folder, and with --store also in the ledger); may be repeated",
                kind="name",
                key="baseline",
            ).of_runs(),
            arg(
                "--release-policy",
                kind="name",
                key="release.policy",
                metavar="R",
                default="release",
                help="release policy by name, name@version or YAML file (default: release)",
            ),
            arg(
                "--margin",
                key="release.margin",
                type=float,
                metavar="M",
                help=(
                    "how many points the score may drop and still count as not worse"
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
            arg(
                "--min-overlap",
                key="release.min_overlap",
                type=float,
                metavar="X",
                help=(
                    "for two versions of a dataset: leave out changed samples if at least this"
                    " share of the baseline's samples is equal (default: the policy's, which is 1:"
                    " changed samples count as lost)"
                ),
            ),
            flag(
                "--allow-unpaired",
                "compare sets that share no samples, or use different datasets; the"
                " decision notes it",
            ),
            repeated(
                "--quarantine",
                "SAMPLE",
                "exclude a flaky sample, by name, and list it; may be repeated",
                kind="text",
                trust="freely",
            ),
            "--baselines",
            arg(
                "--with-plan",
                kind="path",
                metavar="FILE",
                help=(
                    "decide on the samples of a plan made with --plan, and list what changed since"
                ),
            ),
            flag(
                "--plan",
                "don't decide: show how many samples a decision needs, and write the plan with -o",
                trust="never",
            ),
            arg(
                "--effect",
                within=Bounds(least=-100, most=100),
                metavar="X",
                type=float,
                default=0.0,
                help="with --plan: the true difference to plan for, in points (default: 0)",
            ),
            arg(
                "--sd",
                within=Bounds(above=0, most=100),
                metavar="X",
                type=float,
                help=(
                    "with --plan: the standard deviation of paired differences (default: estimated"
                    " from the baseline)"
                ),
            ),
            arg(
                "--power",
                within=Bounds(least=0.5, below=1),
                metavar="X",
                type=float,
                help="with --plan: the chance of detecting that difference (default: the policy's)",
            ),
            arg(
                "--looks",
                within=Bounds(least=1),
                metavar="N",
                type=int,
                default=1,
                help=(
                    "how many times you will look at the results; with more than 1, the interval is"
                    " valid at every look (default: 1)"
                ),
            ),
            repeated(
                "--slice",
                "KIND",
                "also compare by tag, group or family, corrected for multiple comparisons; over"
                " batches, by a column that the baseline kept; may be repeated",
                kind="text",
                trust="freely",
            ),
            arg(
                "--attest",
                kind="path",
                metavar="FILE",
                help="write an in-toto statement of the decision",
            ),
            arg(
                "--sign",
                kind="path",
                trust="trusted",
                metavar="KEY",
                help="sign the statement with this Ed25519 key (PEM)",
            ),
            "--step-summary",
            *COMPARED_BY,
            "--charts",
            *STORE,
            "--no-store",
            *ENGINE,
        ),
        formats=(".json", ".md", ".xml", ".html", ".sarif"),
        defaults={"pairs": None},
    ),
}
