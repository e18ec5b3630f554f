"""The table of verbs: which there are, the job each belongs to, and the module that runs it.

Plain data, so that `assay --help` loads nothing else. A new verb is one row here and one module
with `COMMANDS`; see `frame`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the help needs no `typing`, which takes as long to load as all the rest
if TYPE_CHECKING:
    from collections.abc import Mapping


class Verb:
    """A verb of the command line. One with actions runs the module of the action."""

    def __init__(
        self,
        module: str,
        summary: str,
        *,
        actions: Mapping[str, tuple[str, str]] | None = None,
        description: str = "",
        example: str = "",
        word: str = "ACTION",
        left: str = "nothing was written",
    ) -> None:
        self.module = module
        self.summary = summary
        self.actions = actions or {}
        """Each action's module and what it does."""
        self.description = description
        self.example = example
        self.word = word
        self.left = left
        """What an interrupted command has left behind."""


_JUDGE = {
    "rubric": ("judge_rubric", "score texts against the criteria of a rubric"),
    "pairwise": ("judge_pairwise", "compare two answers to each task, in both orders"),
    "claims": ("judge_claims", "decide whether the retrieved context supports each claim of a run"),
    "passages": (
        "judge_claims",
        "decide which passages help, and how much of the expected answer they contain",
    ),
    "panel": ("judge_rubric", "ask several judges by one rubric, and take their mean or majority"),
    "audit": (
        "judge_card",
        "measure a judge's biases, its consistency and which injections it obeys",
    ),
    "calibrate": (
        "judge_calibrate",
        "compare a judge's verdicts with human labels, and correct its estimates",
    ),
    "card": (
        "judge_card",
        "make a judge's card: agreement, biases, price, and whether it may gate",
    ),
    "drift": ("judge_calibrate", "compare a judge's latest card with its earlier ones"),
}

_MEASURE = {
    "retrieval": (
        "measure",
        "measure ranked retrieval as trec_eval does, from qrels and a run file",
    ),
    "pass-at-k": ("measure", "estimate pass@k and pass^k without bias, from counts or attempts"),
    "tests": (
        "measure",
        "count fail-to-pass and pass-to-pass tests, and the instances they resolve",
    ),
    "tool-calls": (
        "measure",
        "compare tool calls with the expected ones: selection, arguments, BFCL verdicts",
    ),
    "solutions": (
        "measure_code",
        "run untrusted solutions against their tests in the sandbox, with pass@k",
    ),
    "patch": (
        "measure_code",
        "check whether patches apply cleanly, and how similar they are to a reference",
    ),
    "repair": (
        "measure_repair",
        "judge a patch by tests in the sandbox, each run without it and with it",
    ),
    "agreement": (
        "measure_raters",
        (
            "compare two or more raters of the same items: kappas, alpha, correlations,"
            " each with its interval"
        ),
    ),
    "pairwise": (
        "measure_raters",
        (
            "summarise verdicts on pairs in both orders: consistency, win rate, accuracy,"
            " position bias"
        ),
    ),
    "text": (
        "measure",
        "compare answers with expected texts: exact, substring, word, numbers, edit similarity",
    ),
}

_TOOLS = {
    "check": (
        "tools_check",
        "list what is wrong with a schema, a server or grading files, each with a fix",
    ),
    "validate": ("tools_check", "the older name of `assay tools check`"),
    "grade": (
        "tools_grade",
        "run the two deterministic stages: --emit-prompts, then --consume-scores FILE",
    ),
    "score": ("tools_score", "have a judge score the prompts, each in an isolated request"),
    "import": (
        "tools_tree",
        "add schemas and selections to a grading tree; older versions stay",
    ),
    "record": ("tools_tree", "write a grading entry from an evaluator's answers"),
    "index": ("tools_gate", "rebuild the indexes of a tree; --lock freezes a selection's members"),
    "status": (
        "tools_gate",
        "show the tree of a namespace or selection: statuses, grades, blockers",
    ),
    "regrade": ("tools_tree", "grade again after a trigger, as far as stored answers allow"),
    "gate": (
        "tools_gate",
        "run the production gate: B or better, stable, no veto, clean validation",
    ),
    "export": (
        "tools_gate",
        "write a namespace or selection in its strict published form, into a new folder",
    ),
}

_EXAM = {
    "grade": ("exam", "mark the answers on the rubric's axes, with a score and a diagnosis"),
    "gate": (
        "exam_gate",
        "decide on graded exams: the hard gate, the regression check and the soft gates",
    ),
    "lint": (
        "exam_upkeep",
        "find mistakes in exam files, such as wrong forms that would be accepted",
    ),
    "break": (
        "exam",
        "mark again without one step of normalisation, and show the marks that are lost",
    ),
    "recalibrate": (
        "exam_upkeep",
        "show what another rubric's weights would have done to past exams",
    ),
    "export-sm2": (
        "exam_upkeep",
        "write items, qualities and due dates for a spaced-repetition scheduler",
    ),
    "review": (
        "exam_upkeep",
        "grade the items that are due in a schedule, and update the schedule",
    ),
}
"""For each action of a verb that has many: the module that runs it and what it does."""
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
        "batch": Verb("batch", "grade millions of rows in files or tables, on DuckDB or Spark"),
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
                    "baseline_diff",
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
                    "report_comment",
                    "write the body of a comment on a pull request",
                ),
                "export": (
                    "report_export",
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
        "judge": Verb(
            "judge",
            "score with model judges, and measure their bias, calibration and drift",
            actions=_JUDGE,
            description="Score with model judges, and measure how far to trust them.",
            example=(
                "assay judge rubric runs.jsonl --rubric rag --model m-1 --base-url"
                " http://127.0.0.1:8080/v1 -o judged.jsonl"
            ),
            left="answered questions are in the journal and are not asked again",
        ),
        "label": Verb(
            "label",
            "draw samples for people to label, and show how well they agree",
            actions={
                "new": ("label", "draw a set of samples, or of pairs, from stored evaluations"),
                "list": ("label", "list the sets, with each rater's progress"),
                "show": ("label", "show the agreement, disagreements and comments of a set"),
                "export": ("label_export", "write labels and verdicts as files for other verbs"),
                "override": (
                    "label_export",
                    "record your own verdict; the grade does not change",
                ),
            },
            description="Collect labels from people. Labels calibrate judges; they never"
            " open a gate.",
            example="assay label new latest --n 50",
        ),
        "measure": Verb(
            "measure",
            "compute one family of metrics from files: retrieval, pass@k, tests, tool calls, text",
            actions=_MEASURE,
            description="Compute one family of metrics from files, without a run or a profile.",
            example="assay measure retrieval --qrels qrels.txt --run run.txt --metric ndcg_cut_10",
            word="KIND",
        ),
    },
    "tools": {
        "tools": Verb(
            "tools",
            "grade tool schemas: FlowMCP schemas and the tools of any MCP server",
            actions=_TOOLS,
            description="Grade tool schemas: FlowMCP schemas, and the tools of any MCP server.",
            example="assay tools grade schemas/prices.mjs --emit-prompts",
            left=_WHOLE_FILES,
        ),
    },
    "exams": {
        "exam": Verb(
            "exam",
            "grade exams, gate a release on them, and check their normalisation",
            actions=_EXAM,
            description="Grade the answers to an exam of any subject, and gate a release on them.",
            example="assay exam grade exam.yaml --answers answers.jsonl -o result.json",
            left=_WHOLE_FILES,
        ),
    },
    "keep and serve": {
        "serve": Verb(
            "serve",
            "serve the pages and the API of a ledger: SQLite by default, PostgreSQL by URL",
            left=_NOT_SERVED,
        ),
        "mcp": Verb(
            "mcp_server",
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

VERBS: dict[str, Verb] = {name: verb for group in GROUPS.values() for name, verb in group.items()}
