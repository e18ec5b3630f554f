"""Finds the verb, loads its module, and turns errors into words and exit codes."""

from __future__ import annotations

import sys

from assay import __version__
from assay.errors import EXIT_CODES_TEXT, AssayError, ExitCode, UsageError

VERBS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "the main job on bundled examples: all families graded, a report written"),
    "run": ("run", "run a workflow on a dataset, write down what happened, and grade it"),
    "import": ("importing", "what another tool wrote, as evidence: OpenTelemetry spans"),
    "grade": ("grade", "runs or scorecards to grades; exit 0 only if all passed"),
    "explain": ("grade", "why this grade, and the smallest change that moves it"),
    "rank": ("compare", "order runs or candidates by the tie-break rules"),
    "summary": ("compare", "the reporting bundle over many runs"),
    "measure": (
        "measure",
        "one family of metrics on files: retrieval, pass@k, tests, tool calls, text",
    ),
    "gate": (
        "gate",
        "may this candidate replace that baseline: promote, hold, reject or not enough evidence",
    ),
    "baseline": ("baseline", "store, show, list and compare baselines"),
    "verify-attestation": ("attest", "whether an attestation holds: signature, digests, result"),
    "judge": (
        "judge",
        "models as judges: rubrics, pairs, panels; their biases, calibration, card and drift",
    ),
    "exam": ("exam", "grade exams by their axes, gate them, break and mend their normalisation"),
    "schema": ("schema", "grade tool schemas: FlowMCP schemas and the tools of any MCP server"),
    "serve": (
        "serve",
        "the API and its event streams over a ledger: SQLite by default, PostgreSQL by URL",
    ),
    "token": ("token", "make, list and revoke the tokens that let clients in"),
    "library": ("library", "list, show, check and publish profiles, policies and rubrics"),
    "versions": ("library", "the versions of both systems; --check recomputes their behaviour"),
    "schema-of": ("library", "the JSON Schema of a document"),
    "verify": (
        "ledger",
        "check a whole ledger: every digest, every link, the chain of every project",
    ),
    "replay": (
        "ledger",
        "make a stored grade again from its stored evidence, and compare the bytes",
    ),
    "conform": ("conform", "run a file of conformance cases"),
    "doctor": ("doctor", "what is installed, and what is missing for what"),
}


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in VERBS.items())
    return (
        "assay: the release gate for AI workflows. Evidence goes in; scores, a grade and a"
        f" decision come out.\n\nusage: assay VERB [options]\n\n{verbs}\n\n  assay VERB --help  "
        " what a verb takes, with an example\n  assay --version     the version\n  --debug        "
        "     with any verb: show the traceback of a fault\n\nexample: assay grade runs.jsonl -o"
        f" grades.json\n{EXIT_CODES_TEXT}\n"
    )


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that cannot show a sign gets another one, not an error
    debug = "--debug" in argv
    argv = [argument for argument in argv if argument != "--debug"]
    verb = argv[0] if argv else ""
    if verb in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return ExitCode.PASSED
    if verb in ("-V", "--version"):
        sys.stdout.write(f"assay {__version__}\n")
        return ExitCode.PASSED
    if verb not in VERBS:
        return _unknown(verb, as_json="--json" in argv)
    as_json = "--json" in argv
    from importlib import import_module

    try:
        module = import_module(f"assay.cli.{VERBS[verb][0]}")
        code: int = module.run(verb, argv[1:])
        sys.stdout.flush()
        return code
    except SystemExit as ended:  # the parser has printed its help
        return ended.code if isinstance(ended.code, int) else ExitCode.PASSED
    except AssayError as error:
        _complain(error, as_json=as_json)
        return error.exit_code
    except KeyboardInterrupt:
        # the verbs that write one file after the other cannot say that there is none yet
        left = {
            "run": "what was finished is in the journal of its work folder",
            "judge": "what was answered is in the journal and is not asked again",
            **dict.fromkeys(
                ("schema", "exam"), "every file that was written is whole, the rest was not begun"
            ),
        }.get(verb, "nothing was written")
        from assay.cli.process import INTERRUPTED, end_children, tell

        tell(left)
        end_children()
        return INTERRUPTED
    except RecursionError:
        _complain(AssayError("FIL-004", "the input nests too deep."), as_json=as_json)
        return ExitCode.MALFORMED
    except Exception as error:
        if debug:
            raise
        _complain(
            AssayError(
                "ERR-001",
                f"a fault of ours: {type(error).__name__}: {error}.",
                fix="Run again with --debug and report what it prints.",
            ),
            as_json=as_json,
        )
        return ExitCode.FAULT


def _unknown(verb: str, *, as_json: bool) -> int:
    if not verb or verb == "--json":
        sys.stderr.write(_help())
        return ExitCode.MISUSE
    from assay.registry import near_miss

    _complain(
        UsageError(
            "CLI-001",
            f"there is no verb '{verb}'.{near_miss(verb, VERBS)}",
            fix="`assay --help` lists them.",
        ),
        as_json=as_json,
    )
    return ExitCode.MISUSE


def _complain(error: AssayError, *, as_json: bool) -> None:
    sys.stdout.flush()
    if as_json:
        import json

        sys.stderr.write(json.dumps(error.as_dict(), ensure_ascii=False) + "\n")
    else:
        sys.stderr.write(f"assay: {error} [{error.code}]\n")
