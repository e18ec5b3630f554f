"""`assay gate`: whether a candidate may replace a baseline."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

from assay.canon import pretty
from assay.cli import options as opt
from assay.cli.family_inputs import own_reader
from assay.cli.frame import COMPARED_BY, STORE, Command, Options, arg, flag, repeated
from assay.cli.grade import choice_of
from assay.cli.hints import command
from assay.cli.ledger import storing_evaluated
from assay.cli.run_settings import is_typed
from assay.errors import UsageError, count, few
from assay.files.atomic import write_file
from assay.registry import is_path
from assay.release.attestation import Subject
from assay.release.baseline import names
from assay.release.decision import exit_code
from assay.release.policy import Bars, ReleaseRules, make_release_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.cli.gate_named import Decided
    from assay.records.decision import Decision
    from assay.records.samples import Texts
    from assay.services.choice import Choice
    from assay.services.compare import Asked, FreshRuns
    from assay.services.evaluation_choice import ToolProfile
    from assay.services.grading import Grader
    from assay.services.stored_sides import SideReader
    from assay.services.storing import Store


def run(options: Options) -> int:
    """Decide, or plan a decision."""
    rules = rules_of(options)  # what is wrong with them comes first
    if options.sign and not options.attest:
        raise UsageError("CLI-001", "--sign needs --attest FILE.")
    if options.plan:
        from assay.cli.gate_plan import plan

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
    return _finish(options, decided(options))


def rules_of(options: Options) -> ReleaseRules:
    """The rules of the release policy that the options name, with the numbers they set."""
    return make_release_rules(
        opt.shelf_of(options).policy_of("release", options.release_policy),
        Bars(options.tolerance, options.min_pass_rate, options.confidence, options.min_overlap),
    )


def decided(options: Options) -> Decided:
    """The decision between two sides, stored in a ledger if the candidate is an evaluation in it or
    the options request it.
    """
    rules, choice = rules_of(options), choice_of(options)
    if (source := options.sources.get("baseline")) and not is_typed(options, "baseline"):
        opt.note(f"the baseline is {few(options.baseline)}, which {source} names.")
    if decide := own_reader("gate", [*options.files, *options.baseline]):
        own: Decided = decide(options, rules, asked_of(options))
        return own
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
) -> Decided:
    from assay.cli.gate_named import Decided, importer_of, named_samples
    from assay.cli.gate_sides import read_baseline, read_side, terms_of
    from assay.services.compare import compare
    from assay.views.charts.decisions import ScorePair

    judged, compared = list[Subject](), list[Subject]()
    now = opt.moment(options.now)
    candidate = read_side(
        options.files,
        grader,
        name="candidate",
        rules=rules,
        kept=kept,
        read=judged,
    )
    baseline, origin = read_baseline(
        options.baseline,
        grader,
        folder=options.baselines,
        rules=rules,
        now=now,
        kept=kept,
        read=compared,
    )
    asked = asked_of(options, terms_of(options, origin))._replace(
        fresh=_fresh(options, rules, grader, judged, compared, kept)
    )
    if options.confirm:
        from assay.cli.gate_confirm import confirm

        if options.fresh:
            raise UsageError("CLI-001", "--confirm makes the fresh runs, and --fresh names some.")
        confirmed = confirm(options, (candidate, baseline), rules, grader, asked)
        if confirmed is not None:
            asked = asked._replace(fresh=_kept_fresh(confirmed.fresh, grader, kept))
    decision = compare(candidate, baseline, rules, grader, asked)
    printed = frozenset(getattr(options, "regraded", ()))
    for text in frozenset(decision.regraded or ()) - printed:
        opt.warn(text)
    ours, theirs = candidate.side.samples, baseline.side.samples
    pairs = [
        ScorePair(
            name,
            ours[name].score if name in ours else None,
            theirs[name].score if name in theirs else None,
            (theirs if name in theirs else ours)[name].title,
        )
        for name in sorted(theirs.keys() | (ours.keys() & set(decision.missing.baseline)))
        if name not in decision.missing.quarantined
    ]
    named = named_samples(options, decision, candidate, baseline, grader)
    importer = importer_of(candidate) if candidate.side.imported else ""
    workflow = next(iter(candidate.side.versions), "")
    return Decided(decision, judged, compared, named, pairs, importer, workflow, asked.fresh)


def asked_of(options: Options, terms: Asked | None = None) -> Asked:
    """What the options ask of a decision, besides its sides and rules. `terms` say where the sides
    come from.
    """
    from assay.services.compare import Acceptance, Asked

    accepted = tuple(name for text in options.accept for name in text.split(",") if name)
    return (terms or Asked())._replace(
        quarantine=tuple(options.quarantine),
        slices=tuple(options.slice),
        plan=_plan(options),
        accepted=Acceptance(accepted, options.because or "", _person() if accepted else ""),
    )


def _person() -> str:
    """Who runs this command: on a code host the person who started the job, else the author of
    commits in this folder, else the user of this machine.
    """
    for name in ("GITHUB_ACTOR", "GITLAB_USER_LOGIN"):
        if os.environ.get(name):
            return os.environ[name]
    words = [shutil.which("git") or "git", "config", "user.email"]
    try:
        made = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        return getpass.getuser()
    return made.stdout.strip() or getpass.getuser()


def _fresh(
    options: Options,
    rules: ReleaseRules,
    grader: Grader,
    judged: list[Subject],
    compared: list[Subject],
    kept: SideReader | None,
) -> FreshRuns:
    """The fresh runs that the options name."""
    from assay.cli.gate_sides import read_side
    from assay.services.compare import FreshRuns

    if options.fresh_baseline and not options.fresh:
        raise UsageError(
            "CLI-001", "--fresh-baseline needs --fresh, the fresh runs of the candidate."
        )
    sides = [
        read_side(files, grader, name=f"fresh {name}", rules=rules, kept=kept, read=read)
        if files
        else None
        for files, name, read in (
            (options.fresh, "candidate", judged),
            (options.fresh_baseline, "baseline", compared),
        )
    ]
    return FreshRuns(*sides)


def _kept_fresh(fresh: FreshRuns, grader: Grader, kept: SideReader | None) -> FreshRuns:
    """Fresh runs that were made just now, stored like any other evidence."""
    from assay.services.compare import FreshRuns

    if kept is None:
        return fresh
    sides = [
        None
        if side is None
        else kept.read(side.documents, grader, name=side.side.name, where=side.side.name)
        for side in fresh
    ]
    return FreshRuns(*sides)


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
) -> Decided:
    """The decision, kept with the grades of both sides and their evidence."""
    from assay.services.sides import severe_of
    from assay.services.stored_sides import SideReader, decision_drafts

    choice = choice.dated()
    sides = SideReader(store, choice, severe=severe_of(rules))
    made = _decide(options, rules, choice.grader(), kept=sides)
    candidate, baseline = sides.kept[:2]
    if bare := candidate.bare + baseline.bare:
        opt.note(
            f"not stored, because they came without their evidence: {count(bare, 'grade')}."
            " The decision is stored, but cannot be replayed."
        )
    profile: ToolProfile | None = getattr(options, "made_profile", None)
    drafts = decision_drafts(
        made.decision,
        candidate,
        baseline,
        fresh=[sides.of(side) for side in made.fresh],
        plan=_plan(options),
        made=profile,
    )
    store.put(drafts)
    return made


def _finish(options: Options, made: Decided) -> int:
    from assay.cli import terminal
    from assay.cli.gate_named import next_command, suspects_text
    from assay.records.samples import NO_TEXTS
    from assay.views import junit
    from assay.views.blocks import Note
    from assay.views.decision import TEXT, decision_charts, decision_summary, outcome_word
    from assay.views.markdown import view

    document = made.decision
    texts = NO_TEXTS if made.named is None else made.named.texts
    page = view(outcome_word(document), decision_summary(document, texts, most=TEXT))
    forms: dict[str, Callable[[Decision], bytes]] = {
        ".txt": suspects_text,
        ".md": lambda _: page.encode(),
        ".xml": lambda document: junit.decision(document, texts),
        ".sarif": lambda document: _sarif(options, document, texts),
        ".html": lambda _: _html(options, made),
    }
    if options.charts:
        from assay.views.drawing import write_charts

        write_charts(decision_charts(document, made.pairs), options.charts)
    if (target := opt.step_summary(options)) is not None:
        opt.append_summary(target, page.encode())
    if options.attest:
        _attest(options, made)
    for note in document.loud or () if options.json else ():
        opt.note(note)
    summary = decision_summary(document, texts)
    show = partial(terminal.show, [*summary, *map(Note, next_command(options, made))])
    return opt.give(options, document, show, exit_code(document), forms=forms)


def _html(options: Options, made: Decided) -> bytes:
    from assay.views.decision import decision_view, outcome_word
    from assay.views.render import report

    document, named = made.decision, made.named
    title = f"Assay: {outcome_word(document)}"
    parts = (
        decision_view(document, pairs=made.pairs)
        if named is None
        else [
            *decision_view(document, pairs=made.pairs, texts=named.texts, broken=named.broken),
            *named.parts(),
        ]
    )
    heading = f"{few(options.files)} against {few(options.baseline)}"
    return report(title, *parts, heading=heading).encode()


def _sarif(options: Options, document: Decision, texts: Texts) -> bytes:
    from assay.cli.gate_sides import sample_places
    from assay.views.sarif import decision, named_samples

    files = [file for file in options.files if is_path(file) and file != "-"]
    return decision(
        document,
        places=sample_places(files, named_samples(document)),
        file=files[0] if files else None,
        texts=texts,
    )


def _attest(options: Options, made: Decided) -> None:
    from datetime import UTC, datetime

    from assay.release.attestation import envelope, statement

    now = opt.moment(options.now) or datetime.now(UTC)
    stated = statement(made.decision.tree(), subjects=made.judged, baseline=made.compared, now=now)
    write_file(options.attest, pretty(envelope(stated, key=options.sign)))


COMMANDS = {
    "gate": Command(
        run,
        "Decide whether a candidate may replace a baseline. Samples are paired, and what may be"
        " noise is told from a regression. Exit 0 only for promote.",
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
                "--tolerance",
                key="release.tolerance",
                type=float,
                metavar="X",
                help=(
                    "how much a candidate may lose and still count as not worse: points of the"
                    " score and of each criterion, percentage points of the gate failures"
                    " (default: the policy's, which are 3 and 5)"
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
                trust="never",
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
            flag(
                "--confirm",
                "run what seems to fail newly again, on both versions, by their workflows in"
                " assay.yaml; shows what that may cost before it starts",
                trust="never",
            ),
            arg(
                "--baseline-commit",
                kind="text",
                trust="never",
                metavar="REV",
                help=(
                    "with --confirm: run the baseline from this commit, in a git worktree that is"
                    " made for it and removed"
                ),
            ),
            repeated(
                "--fresh",
                "RUNS",
                "fresh runs of the candidate for the samples that seem to fail newly, numbered by"
                " attempt; may be repeated",
                kind="name",
                trust="never",
            ).of_runs(),
            repeated(
                "--fresh-baseline",
                "RUNS",
                "fresh runs of the baseline for the same samples; may be repeated",
                kind="name",
                trust="never",
            ).of_runs(),
            repeated(
                "--accept",
                "NAMES",
                "accept these samples that newly fail, separated by commas; only for approvers that"
                " the release policy lists, and never for a severe failure",
                kind="text",
                trust="never",
            ),
            arg(
                "--because",
                kind="text",
                trust="never",
                metavar="TEXT",
                help="with --accept: why",
            ),
            repeated(
                "--slice",
                "KIND",
                "also compare by tag, group or family, corrected for multiple comparisons; may be"
                " repeated",
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
        ),
        formats=(".json", ".md", ".xml", ".html", ".sarif", ".txt"),
    ),
}
