"""`assay gate`: what one may ask of a decision. `deciding` makes it."""

from __future__ import annotations

from assay.cli.frame import COMPARED_BY, STORE, Command, Options, arg, flag, repeated


def run(options: Options) -> int:
    """Decide, or plan a decision."""
    from assay.cli.deciding import run as decide  # the help needs none of what decides

    return decide(options)


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
                effect="writes",
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
