"""The table of verbs: which there are, the job each belongs to, and the module that runs it.

Plain data, so that `assay --help` loads nothing else. A new verb is one row here and one module
with `COMMANDS`; see `frame`.
"""

from __future__ import annotations

from assay.family import Verb, installed, shipped


def actions_of(verb: str) -> dict[str, tuple[str, str]]:
    """The actions that families add to a verb."""
    return {
        name: action
        for family in shipped()
        for name, action in family.actions.get(verb, {}).items()
    }


_NOT_SERVED = "no page was served yet"
_WHOLE_FILES = "every file that was written is complete, the rest was not started"

GROUPS: dict[str, dict[str, Verb]] = {
    "everyday": {
        "init": Verb("init", "set up a project: write an assay.yaml, samples and a CI job"),
        "run": Verb(
            "run",
            "run a workflow on a dataset, record what happened, and grade it",
            left="finished runs are in the journal of the work folder",
        ),
        "import": Verb(
            "importing",
            "import another tool's results, grade them and store them as an evaluation",
        ),
        "grade": Verb("grade", "grade runs or scorecards; exit 0 only if all passed"),
        "explain": Verb("explain", "explain a grade, and the smallest change that moves it"),
        "evals": Verb("evals", "list the evaluations in the ledger, with pass rate and score"),
        "view": Verb(
            "view",
            "open the ledger, an evaluation or a result file in your browser; no token needed",
            left=_NOT_SERVED,
        ),
        "gate": Verb(
            "gate",
            "decide whether a candidate may replace a baseline: promote, hold, reject or not"
            " enough evidence",
        ),
        "rehearse": Verb(
            "rehearse",
            "show how often a release policy would reject, hold and promote a version against"
            " itself, and what it would find",
        ),
        "baseline": Verb(
            "baseline",
            "store, show, list and compare baselines",
            actions={
                "set": ("baseline", "store evidence under a name; older versions stay"),
                "show": ("baseline", "show what a stored baseline contains"),
                "list": ("baseline", "list the stored baselines"),
                "diff": (
                    "baseline",
                    "compare a stored baseline with another, or with files, sample by sample",
                ),
            },
            description="Store, show, list and compare baselines.",
            example="assay baseline set production runs.jsonl",
        ),
        "report": Verb(
            "report",
            "rank runs, summarise them with rates and intervals, or export their grades",
            actions={
                "rank": ("report", "order runs or candidates by the tie-break rules"),
                "summary": ("report", "summarise many runs: pass rate, score, gates and criteria"),
                "comment": (
                    "report",
                    "write the body of a comment on a pull request",
                ),
                "export": (
                    "report",
                    "write grades for another tool: inspect_ai, MLflow, promptfoo, OpenTelemetry",
                ),
            },
            description="Reports over many runs. None of them is a gate.",
            example="assay report summary runs.jsonl",
        ),
        "config": Verb("config", "show the settings of a verb, and where each value comes from"),
        "trust": Verb("trust", "trust an assay.yaml from somebody else, until it changes"),
    },
    "judges and metrics": {
        "measure": Verb(
            "measure",
            "compute one family of metrics from files: retrieval, pass@k, tests, tool calls, text",
            actions={
                "retrieval": (
                    "measure",
                    "measure ranked retrieval as trec_eval does, from qrels and a run file",
                ),
                "pass-at-k": (
                    "measure",
                    "estimate pass@k and pass^k without bias, from counts or attempts",
                ),
                "tests": (
                    "measure",
                    "count fail-to-pass and pass-to-pass tests, and the instances they resolve",
                ),
                "tool-calls": (
                    "measure",
                    (
                        "compare tool calls with the expected ones: selection, arguments, BFCL"
                        " verdicts"
                    ),
                ),
                "text": (
                    "measure",
                    (
                        "compare answers with expected texts: exact, substring, word, numbers, edit"
                        " similarity"
                    ),
                ),
                **actions_of("measure"),
            },
            description="Compute one family of metrics from files, without a run or a profile.",
            example="assay measure retrieval --qrels qrels.txt --run run.txt --metric ndcg_cut_10",
            word="KIND",
        ),
    },
    "tools": {},
    "exams": {},
    "keep and serve": {
        "serve": Verb(
            "serve",
            "serve the pages and the API of a ledger: SQLite by default, PostgreSQL by URL",
            left=_NOT_SERVED,
        ),
        "mcp": Verb(
            "assay.mcp.server",
            "serve evaluations, grades and decisions to coding agents, over the Model Context"
            " Protocol",
        ),
        "token": Verb(
            "token",
            "create, list and revoke the tokens that clients need",
            actions={
                "create": (
                    "token",
                    "make a token for a project; its text is printed once and never stored",
                ),
                "list": ("token", "list the tokens, without their secrets"),
                "revoke": ("token", "revoke a token"),
            },
            description="Manage the tokens that clients of a server need.",
            example="assay token create --project support --scope read --scope write",
        ),
        "ledger": Verb(
            "ledger",
            "check a whole ledger, recompute what it stores, or export it",
            actions={
                "verify": (
                    "ledger_checks",
                    "check every digest, every link and the chain of every project",
                ),
                "replay": (
                    "ledger_checks",
                    "recompute a stored grade or decision from its evidence, and compare the bytes",
                ),
                "export": (
                    "ledger_export",
                    "write every grade as Parquet rows, partitioned by project, profile and day",
                ),
            },
            description="Check, replay and export the records that `--store` and the server keep.",
            example="assay ledger verify",
        ),
    },
    "library": {
        "library": Verb("library", "list, show, check and publish profiles, policies and rubrics"),
        "versions": Verb(
            "library", "print the versions of both systems; --check recomputes their behaviour"
        ),
    },
    "advanced": {
        "verify-attestation": Verb("attest", "check an attestation: signature, digests and result"),
        "conform": Verb("conform", "run a file of conformance cases"),
        "schema-of": Verb("library", "print the JSON Schema of a document"),
        "doctor": Verb("doctor", "show what is installed, and what each job lacks"),
        "completion": Verb(
            "completion", "print a script that completes commands in bash, zsh or fish"
        ),
        "demo": Verb("demo", "grade bundled examples of every family and write a report"),
    },
}
"""The verbs by the job they do, in the order of `assay --help`."""

for _family in shipped():
    for _group, _verbs in _family.verbs.items():
        GROUPS.setdefault(_group, {}).update(_verbs)

VERBS: dict[str, Verb] = {name: verb for group in GROUPS.values() for name, verb in group.items()}


def installed_verbs() -> dict[str, dict[str, Verb]]:
    """The verbs of installed packages, by their job. One that is taken is an error."""
    groups: dict[str, dict[str, Verb]] = {}
    for family in installed():
        for group, verbs in family.verbs.items():
            for name, verb in verbs.items():
                if name in VERBS or any(name in known for known in groups.values()):
                    from assay.plugins.points import broken

                    what = f"has the verb '{name}', which is taken"
                    raise broken("assay.families", family.name, what)
                groups.setdefault(group, {})[name] = verb
    return groups


def all_verbs() -> dict[str, Verb]:
    """Every verb, those of installed packages last."""
    more = installed_verbs().values()
    return {**VERBS, **{name: verb for verbs in more for name, verb in verbs.items()}}


def find_verb(name: str) -> Verb | None:
    """The verb of that name. Installed packages are asked only for one that does not ship."""
    return VERBS.get(name) or (
        all_verbs().get(name) if name.replace("-", "_").isidentifier() else None
    )
