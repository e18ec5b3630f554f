"""Finds the verb, loads its module, and turns errors into messages and exit codes."""

from __future__ import annotations

import sys

from assay import __version__
from assay.cli.verbs import GROUPS, all_verbs, find_verb, installed_verbs
from assay.errors import EXIT_CODES_TEXT, AssayError, ExitCode, UsageError


def _help(*, everything: bool = False) -> str:
    listed = {group: dict(verbs) for group, verbs in GROUPS.items()}
    try:
        for group, verbs in installed_verbs().items() if everything else ():
            listed.setdefault(group, {}).update(verbs)
    except AssayError:  # of a package that can't be loaded: its verbs say why
        pass
    width = max(len(name) for verbs in listed.values() for name in verbs)
    groups = "\n\n".join(
        f"{group}:\n"
        + "\n".join(f"  {name:<{width}}  {verb.summary}" for name, verb in verbs.items())
        for group, verbs in listed.items()
    )
    return (
        "assay: the release gate for AI workflows. Evidence goes in; scores, a grade and a"
        f" decision come out.\n\nusage: assay VERB [options]\n\n{groups}\n\n  assay VERB --help  "
        " what a verb takes, with an example\n  assay --version     the version\n  --debug        "
        "     with any verb: show the traceback of an internal error\n\nexample: assay grade"
        f" runs.jsonl -o grades.json\n{EXIT_CODES_TEXT}\n"
    )


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that cannot show a character gets another one, not an error
    debug = "--debug" in argv
    argv = [argument for argument in argv if argument != "--debug"]
    verb = argv[0] if argv else ""
    if verb in ("-h", "--help", "help"):
        sys.stdout.write(_help(everything=verb == "help"))
        return ExitCode.PASSED
    if verb in ("-V", "--version"):
        sys.stdout.write(f"assay {__version__}\n")
        return ExitCode.PASSED
    as_json = "--json" in argv
    try:
        if find_verb(verb) is None:
            return _unknown(argv)
        from assay.cli.frame import dispatch

        code = dispatch(verb, argv[1:])
        sys.stdout.flush()
        return code
    except SystemExit as ended:  # the parser has printed its help
        return ended.code if isinstance(ended.code, int) else ExitCode.PASSED
    except AssayError as error:
        _complain(error, as_json=as_json)
        return error.exit_code
    except KeyboardInterrupt:
        return _interrupted(verb)
    except RecursionError:
        _complain(AssayError("FIL-004", "the input is nested too deeply."), as_json=as_json)
        return ExitCode.MALFORMED
    except Exception as error:
        from assay.cli.process import was_interrupted

        if was_interrupted():
            return _interrupted(verb)
        if debug:
            raise
        shown = _explained(error)
        _complain(shown, as_json=as_json)
        return shown.exit_code


def _interrupted(verb: str) -> int:
    import logging

    from assay.cli.process import INTERRUPTED, end_children, tell

    logging.getLogger("asyncio").disabled = True  # it would add the traceback of the task
    found = find_verb(verb)
    tell(found.left if found else "")
    end_children()
    return INTERRUPTED


def _explained(error: Exception) -> AssayError:
    """An error that nobody expected, in words: of the machine, or else an internal one."""
    from assay.files.atomic import DISK

    if isinstance(error, OSError) and error.errno in DISK:
        return UsageError(
            "FIL-008",
            f"cannot be written: {error.strerror}.",
            where=str(error.filename or "temporary files"),
            fix="Make room; TMPDIR names the folder of temporary files.",
        )
    # how Python reads the bytes of a file name that is not UTF-8
    if isinstance(error, UnicodeEncodeError) and any(
        "\udc80" <= c <= "\udcff" for c in error.object
    ):
        return UsageError(
            "CLI-001",
            f"the name {error.object!r} is not UTF-8, and no document can contain it.",
            fix="Rename the file or folder.",
        )
    return AssayError(
        "ERR-001",
        f"internal error: {type(error).__name__}: {error}.",
        fix="Run again with --debug and report what it prints.",
    )


def _unknown(argv: list[str]) -> int:
    verb = argv[0] if argv else ""
    if not verb or verb == "--json":
        sys.stderr.write(_help())
        return ExitCode.MISUSE
    from assay.registry import near_miss

    error = UsageError(
        "CLI-001",
        f"there is no verb '{verb}'.{near_miss(verb, all_verbs())}",
        fix="`assay --help` lists them.",
    )
    _complain(error, as_json="--json" in argv)
    return ExitCode.MISUSE


def _complain(error: AssayError, *, as_json: bool) -> None:
    sys.stdout.flush()
    if as_json:
        import json

        sys.stderr.write(json.dumps(error.as_dict(), ensure_ascii=False) + "\n")
    else:
        sys.stderr.write(f"assay: {error} [{error.code}]\n")
