"""`assay measure solutions` and `patch`: untrusted code, applied to copies and run in the sandbox.

Nothing that the code prints affects the result. The results fit into a run unchanged: `gates`,
`patch_applies`, `tests`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from assay.cli.frame import Options, arg
from assay.cli.measuring import K, Measured, measure, read_ks, shown, trees
from assay.errors import InputError, NotEnoughEvidence, UsageError, printable
from assay.files.inputs import open_input
from assay.sandbox.isolation import require
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import verdict
from assay.sandbox.solutions import check_solution
from assay.scoring.metrics.applying import applies_cleanly
from assay.scoring.metrics.passk import AttemptedTask, report
from assay.scoring.metrics.patches import MAX_PATCH, PatchError, parse_patch, patch_likeness

# --- what they share


SANDBOX = arg(
    "--sandbox",
    trust="trusted",
    choices=("bubblewrap", "process"),
    default="bubblewrap",
    help=(
        "bubblewrap isolates the code; process only limits it and leaves the gate"
        " undetermined (default: bubblewrap)"
    ),
)


def untimed(run: Mapping[str, Any]) -> dict[str, Any]:
    """How a run of untrusted code ended, without its duration, which differs each time."""
    return {name: value for name, value in run.items() if name != "wall_s"}


def gate_line(gate: Any) -> str:
    """The verdict of the sandbox, for a person."""
    return (
        "no_sandbox_violation:"
        f" {'undetermined' if gate['passed'] is None else 'passed' if gate['passed'] else 'FAILED'} ({printable(gate['reason'])})"  # noqa: E501
    )


def read_patch(path: str) -> str | None:
    """The text of a patch; None if it is not UTF-8, as with binary junk. One that is too long is
    cut where its reader refuses it.
    """
    with open_input(path) as stream:
        data = stream.read(4 * MAX_PATCH + 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def need_git() -> None:
    """Raise an error if git is not installed."""
    if shutil.which("git") is None:
        # without it nobody can say whether a patch applies, and "no" would be a guess
        raise NotEnoughEvidence(
            "SCO-038",
            "there is no `git` on the path, so it can't check whether a patch applies.",
            fix="Install git.",
        )


# --- solutions


def _solutions(options: Options) -> Measured:
    ks = read_ks(options.k)
    require(options.sandbox)
    limits = SandboxLimits(wall_s=options.timeout)
    passed: dict[str, list[bool]] = {}
    items, lines, outcomes = [], [], []
    for tree in trees(options.file):
        texts = (
            [tree.get(key) for key in ("task_id", "solution", "test")]
            if isinstance(tree, dict)
            else []
        )
        entry, support = (
            (tree.get("entry_point"), tree.get("support", ""))
            if isinstance(tree, dict)
            else (None, "")
        )
        if (
            len(texts) != 3
            or not all(isinstance(text, str) and text for text in texts)
            or not isinstance(support, str)
            or not isinstance(entry, str | None)
        ):
            raise InputError(
                "SCO-036",
                "a line must have task_id, solution and test as texts.",
                where=options.file,
            )
        name, solution, test = (str(text) for text in texts)
        mode: Any = "one-process" if options.one_process else "two-process"
        checked = check_solution(
            solution,
            test,
            entry,
            support=support,
            limits=limits,
            isolation=options.sandbox,
            mode=mode,
        )
        has_passed = checked.passed is True
        passed.setdefault(name, []).append(has_passed)
        outcomes.append(checked.outcome)
        word = "passed" if has_passed else "FAILED"
        lines.append(f"{word}  {printable(name)}  {printable(checked.reason)}")
        items.append(
            {
                "task_id": name,
                "passed": has_passed,
                "status": checked.outcome.status,
                "reason": checked.reason,
                "mode": checked.mode,
                "violations": [violation._asdict() for violation in checked.outcome.violations],
                "wall_s": checked.outcome.wall_s,
            }
        )
    if not items:
        raise NotEnoughEvidence("SCO-036", "there are no attempts in the file.", where=options.file)
    document = {
        **report(
            [AttemptedTask(name, len(tries), sum(tries)) for name, tries in passed.items()], ks
        ),
        "attempts": items,
        "sandbox": options.sandbox,
        "gates": {"no_sandbox_violation": verdict(outcomes)},
    }
    lines += [
        f"{name:<8} {shown(value)}"
        for name, value in document.items()
        if name.startswith(("pass@", "pass^"))
    ]
    lines.append(gate_line(document["gates"]["no_sandbox_violation"]))
    stored = {**document, "attempts": [untimed(item) for item in items]}
    return Measured(document, lines, stored)


# --- patch


def _patch(options: Options) -> Measured:
    need_git()
    if not os.path.isdir(options.tree):
        raise InputError(
            "SCO-038",
            "is not a folder.",
            where=options.tree,
            fix="Give the tree that the patches are for with --tree DIR.",
        )
    if len(set(options.patches)) != len(options.patches):
        raise UsageError("CLI-001", "a patch is named twice.")
    reference = _reference(options.reference) if options.reference else None
    entries = {
        path: _patch_entry(read_patch(path), options.tree, reference) for path in options.patches
    }
    applied = sum(entry["applies"] for entry in entries.values())
    document = {"patches": entries, "applied": applied, "n": len(entries)}
    lines = []
    for path, entry in entries.items():
        alike = "" if entry["similarity"] is None else f"  similarity {shown(entry['similarity'])}"
        lines.append(
            f"{'applies' if entry['applies'] else 'FAILS  '} "
            f" {printable(path)}{alike}{'' if entry['applies'] else '  ' + printable(entry['reason'])}"  # noqa: E501
        )
    lines.append(f"{applied} of {len(entries)} apply cleanly")
    return Measured(document, lines)


def _reference(path: str) -> str:
    text = read_patch(path)
    try:
        if text is None:
            raise PatchError("it is not UTF-8 text")
        parse_patch(text)
    except PatchError as error:
        raise InputError(
            "SCO-038", f"is not a patch to compare with: {error}.", where=path
        ) from None
    return text


def _patch_entry(text: str | None, tree: str, reference: str | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"applies": False, "reason": None, "files": [], "similarity": None}
    if text is None:
        return {**entry, "reason": "the patch is not UTF-8 text"}
    try:
        entry["files"] = list(dict.fromkeys(item.path for item in parse_patch(text)))
    except PatchError as error:
        return {**entry, "reason": str(error)}
    check = applies_cleanly(text, tree)
    entry["applies"], entry["reason"] = check.clean, None if check.clean else check.reason
    if reference is not None:
        try:
            alike = patch_likeness(text, reference)
            entry["similarity"] = alike.num / alike.den
        except PatchError as error:
            entry["similarity_reason"] = str(error)
    return entry


COMMANDS = {
    "measure solutions": measure(
        "solutions",
        _solutions,
        (
            "Run untrusted Python solutions against their tests, each in its own sandbox, and"
            " count the passes. Nothing that a solution prints affects the count."
        ),
        "assay measure solutions attempts.jsonl --k 1",
        arg(
            "file",
            metavar="FILE",
            help=(
                '.jsonl of {"task_id", "solution", "test", "entry_point", "support"}; one line'
                " for each attempt"
            ),
        ),
        K,
        SANDBOX,
        arg(
            "--one-process",
            action="store_true",
            trust="trusted",
            help=(
                "for solutions whose values can't cross between processes; they can forge"
                " their verdict"
            ),
        ),
        arg(
            "--timeout",
            metavar="S",
            type=float,
            default=10.0,
            help="seconds for one attempt (default: 10)",
        ),
    ),
    "measure patch": measure(
        "patch",
        _patch,
        (
            "Check whether each patch applies cleanly to a tree: git tries it on a throw-away copy"
            " of the files it names. Exits 0 once measured."
        ),
        "assay measure patch --tree repo fix-1.diff fix-2.diff --reference gold.diff",
        arg(
            "patches",
            nargs="+",
            metavar="PATCH",
            help=(
                "unified diffs as git writes them (a/..., b/...); a path that leads out of the"
                " tree is refused"
            ),
        ),
        arg(
            "--tree",
            kind="path",
            metavar="DIR",
            required=True,
            help="the tree the patches are for; it is only read",
        ),
        arg(
            "--reference",
            kind="path",
            metavar="FILE",
            help=(
                "a patch to compare each with: the share of changed lines both have, 0..1;"
                " likeness is not correctness"
            ),
        ),
    ),
}
