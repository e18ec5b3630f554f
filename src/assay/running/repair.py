"""What is measured of a patch once its workflow is done: whether it applies, which tests pass
without it and with it, and what the sandbox saw.

The tests stand on the side of what is expected: an input that holds one is refused, and hidden ones
are laid over the tree only in the sandbox. Whatever cannot be found out (no git, no walls, a sample
at fault) is left out of the evidence with its reason, and so fails closed; nothing ever runs
without walls. Nothing here depends on time: the same patch leaves the same evidence.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from functools import lru_cache
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import AssayError, InputError
from assay.files.json_files import parse_json
from assay.running.checks import exact_number
from assay.running.dataset import lookup
from assay.running.patch_tests import RUNNERS, lay_out, make_job, read_files, repair
from assay.running.revisions import is_repository, read_revision
from assay.sandbox import Limits, available
from assay.sandbox.isolation import INSTALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

    from assay.running.compatibility import Prepared
    from assay.running.patch_tests import Job, Repair
    from assay.running.patch_tests import Run as TestRun
    from assay.running.runner import After
    from assay.running.workflow import Repository, Workflow
    from assay.sandbox import Entry

NOTHING_RAN = "nothing ran in the sandbox"
MAX_WHY = 200
_RAISED = re.compile(
    r"(?:E\s+)?([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Failure|Warning|Timeout)\b.*)"
)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


def repair_of(workflow: Workflow) -> After:
    """What is measured of each patch of a workflow. Raises `InputError` where the file asks for
    what cannot be: nothing has run then.
    """
    spec = workflow.spec.repository
    if spec is None:
        raise InputError("RUN-001", "the workflow names no repository.", where=workflow.where)
    shown = [
        name for name, one in workflow.inputs.items() if _touches(one.source or name, _gold(spec))
    ]
    if shown:
        fix = (
            "Tests stand on the side of what is expected; take the input out, or take it from"
            " another field."
        )
        raise InputError(
            "RUN-003",
            f"the input '{shown[0]}' would show the workflow the tests that judge it.",
            where=workflow.where,
            fix=fix,
        )
    return _Verification(workflow, spec)


def lacking() -> str:
    """What this machine lacks for judging patches, and the line to install it; empty where nothing
    is.
    """
    if shutil.which("git") is None:
        return (
            "git is not installed: apt-get install git (Debian, Ubuntu), dnf install git (Fedora),"
            " apk add git (Alpine)."
        )
    why_not = available()[0].why_not
    return f"the sandbox is not available: {why_not}. {INSTALL}" if why_not else ""


class _Tree(NamedTuple):
    entries: list[Entry]
    digest: str
    commit: str | None


class _Verification:
    """The patches of one workflow, each judged by the tests of its sample."""

    def __init__(self, workflow: Workflow, spec: Repository) -> None:
        self._spec = spec
        self._root = os.path.realpath(workflow.folder / spec.path)
        if not os.path.isdir(self._root):
            raise InputError(
                "RUN-004",
                f"repository.path is {spec.path!r}, and there is no such folder.",
                where=workflow.where,
            )
        seconds = float(exact_number(spec.timeout_s))
        if not 0 < seconds <= 86_400:
            raise InputError(
                "RUN-001",
                f"repository.timeout_s is {spec.timeout_s}; it is a number of seconds up to a day.",
                where=workflow.where,
            )
        self._limits = Limits(wall_s=seconds, cpu_s=max(1, ceil(seconds)), memory_mb=spec.memory_mb)
        self._readable = [os.path.realpath(workflow.folder / path) for path in spec.readable]
        absent = [path for path in self._readable if not os.path.isdir(path)]
        if absent:
            raise InputError(
                "RUN-004",
                f"repository.readable names {absent[0]!r}, and there is no such folder.",
                where=workflow.where,
            )
        self._command = (
            spec.command if isinstance(spec.command, list) else list(RUNNERS[spec.command])
        )
        self._check(workflow.where)
        self._read = lru_cache(maxsize=4)(_read)
        self._known = lru_cache(maxsize=16)(_nothing_known)
        # A test has so many seconds by the clock: more tests than cores would make slow ones of
        # quick ones.
        self._places = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._lacking = lru_cache(maxsize=1)(lacking)

    def _check(self, where: str) -> None:
        """Refuse a command or a path that no sample can mend."""
        spec = self._spec
        fixed = {
            name: value
            for name in ("fail_to_pass", "pass_to_pass")
            if isinstance(value := getattr(spec, name), list)
        }
        try:
            make_job(
                {
                    **self._shared(),
                    "instance_id": where,
                    "patch": "",
                    **(fixed or {"fail_to_pass": ["one"]}),
                }
            )
        except InputError as error:
            raise InputError(
                "RUN-001",
                f"repository: {error.message}",
                where=where,
                fix=error.fix,
                faults=error.faults,
            ) from None

    def _shared(self) -> dict[str, Any]:
        return {"tree": self._root, "test_command": self._command, "restore": self._spec.restore}

    def __call__(self, sample: Prepared, run: dict[str, Any]) -> dict[str, Any]:
        """The evidence of one patch."""
        try:
            return self._judged(sample, run)
        except AssayError as error:
            return _evidence(run, reason=f"{error.message} {error.fix}".strip())

    def _judged(self, sample: Prepared, run: dict[str, Any]) -> dict[str, Any]:
        given, patch = lookup(run.get("outputs") or {}, self._spec.patch)
        if not given or patch is None:
            return _evidence(run, reason=f"the run gave no output '{self._spec.patch}'")
        if not isinstance(patch, str) or "\0" in patch:
            words = (
                "holds a NUL: it is binary"
                if isinstance(patch, str)
                else f"is {type(patch).__name__}, not a text"
            )
            return _evidence(run, applies=False, reason=f"the output '{self._spec.patch}' {words}")
        job = self._job(sample, patch)
        leaked = _leaked(sample.inputs, {*job.tests, *([job.hidden] if job.hidden else ())})
        if leaked is not None:
            return _evidence(
                run,
                reason=(
                    f"the input '{leaked}' showed the workflow a test that judges it, so no test"
                    " shows anything"
                ),
            )
        tree = self._tree(sample)
        about = {"tree": tree.digest, **({} if tree.commit is None else {"base": tree.commit})}
        missing = self._lacking()
        if missing.startswith("git"):
            return _evidence(run, reason=missing, about=about)
        if missing:
            trees = lay_out(job, tree.entries, readable=self._readable)
            return _evidence(
                run,
                applies=trees.applies,
                reason=missing if trees.applies else trees.reason,
                gate=missing,
                about=about,
            )
        known = self._known(tree.digest, sha256(job.hidden.encode("utf-8", "replace")).hexdigest())
        with self._places:
            found = repair(
                job,
                limits=self._limits,
                isolation="bubblewrap",
                readable=self._readable,
                entries=tree.entries,
                known=known,
            )
        return _shown(run, found, about)

    def _job(self, sample: Prepared, patch: str) -> Job:
        spec = self._spec
        tests = {
            name: value if isinstance(value, list) else _names(sample.row, value)
            for name, value in (
                ("fail_to_pass", spec.fail_to_pass),
                ("pass_to_pass", spec.pass_to_pass),
            )
        }
        hidden = lookup(sample.row, spec.test_patch)[1]
        return make_job(
            {
                **self._shared(),
                **tests,
                "instance_id": sample.sample_id,
                "patch": patch,
                "hidden": "" if hidden is None else hidden,
            }
        )

    def _tree(self, sample: Prepared) -> _Tree:
        spec, folder = self._spec, self._root
        if spec.path_from is not None:
            name = _text(sample.row, spec.path_from)
            if name is None:
                raise InputError(
                    "RUN-002", f"the sample has no field '{spec.path_from}', which names its tree."
                )
            folder = os.path.realpath(os.path.join(self._root, name))
            if (
                os.path.isabs(name)
                or not folder.startswith(f"{self._root}{os.sep}")
                or not os.path.isdir(folder)
            ):
                raise InputError(
                    "RUN-002", f"the sample's tree {name[:200]!r} is no folder below '{spec.path}'."
                )
        base = (
            _text(sample.row, spec.base_from) if spec.base_from is not None else None
        ) or spec.base
        if base is not None and not is_repository(folder):
            raise InputError(
                "RUN-002",
                f"the base revision is {base[:80]!r}, and '{os.path.basename(folder)}' is no git"
                " repository.",
            )
        return self._read(folder, base)


def _read(folder: str, base: str | None) -> _Tree:
    """A tree, read once: every sample is judged on the same files."""
    if base is None:
        entries, commit = read_files(folder), None
    else:
        commit, entries = read_revision(folder, base)
    total = sha256()
    for entry in sorted(entries, key=lambda entry: entry.path):
        data = entry.data if isinstance(entry.data, bytes) else os.fsencode(entry.data or "")
        kind = "folder" if entry.data is None else "link" if isinstance(entry.data, str) else "file"
        total.update(
            b"%s %o %s %s\n"
            % (
                kind.encode(),
                entry.mode,
                sha256(data).hexdigest().encode(),
                os.fsencode(entry.path),
            )
        )
    return _Tree(entries, f"sha256:{total.hexdigest()}", commit)


def _nothing_known(_tree: str, _hidden: str) -> MutableMapping[str, TestRun]:
    """The runs without a patch that are known of a tree: none yet. They are a property of the tree,
    not of the patch.
    """
    return {}


# --- the sample


def _gold(spec: Repository) -> list[str]:
    """The fields of a sample that must not become inputs."""
    return [
        name
        for name in (spec.fail_to_pass, spec.pass_to_pass, spec.test_patch)
        if isinstance(name, str)
    ]


def _touches(path: str, gold: Iterable[str]) -> bool:
    return any(
        path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.")
        for other in gold
    )


def _leaked(inputs: Mapping[str, Any], secrets: set[str]) -> str | None:
    """The input that holds a test's very name, or the hidden tests: a dataset may map its fields in
    ways that the workflow file does not show.
    """

    def holds(value: Any) -> bool:
        if isinstance(value, dict):
            return any(holds(item) for item in value.values())
        return (
            any(map(holds, value))
            if isinstance(value, list)
            else isinstance(value, str) and value in secrets
        )

    return next((name for name, value in inputs.items() if holds(value)), None)


def _text(row: Mapping[str, Any], path: str) -> str | None:
    value = lookup(row, path)[1]
    if value is None or (isinstance(value, str) and value):
        return value
    raise InputError("RUN-002", f"the field '{path}' is {type(value).__name__}; it is a text.")


def _names(row: Mapping[str, Any], path: str) -> Any:
    """The tests that a field lists, as a list or as the JSON text of one."""
    found, value = lookup(row, path)
    if not found or value is None:
        raise InputError(
            "RUN-002",
            f"the sample has no field '{path}', which lists tests.",
            fix="An empty list says that there are none.",
        )
    if isinstance(value, str):
        try:
            value = parse_json(value.encode())
        except ValueError:
            raise InputError("RUN-002", f"the field '{path}' is no list of tests.") from None
    return value


# --- evidence


def _evidence(
    run: Mapping[str, Any],
    *,
    applies: bool | None = None,
    reason: str,
    gate: str = NOTHING_RAN,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The evidence where no test ran: no count of tests, and a gate that is open and so fails."""
    found: dict[str, Any] = {} if applies is None else {"patch_applies": applies}
    found["gates"] = {
        **run.get("gates", {}),
        "no_sandbox_violation": {"passed": None, "reason": gate},
    }
    found["metadata"] = {"repair": {**(about or {}), "tests_not_run": reason}}
    return found


def _shown(run: Mapping[str, Any], found: Repair, about: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence of a patch whose tests ran, or which does not apply."""
    if not found.applies:
        return _evidence(run, applies=False, reason=found.reason, about=about)
    made = found.evidence()
    faults = {
        "fail_to_pass": (
            "passed without the patch, so it shows nothing and does not count as passed"
        ),
        "pass_to_pass": "failed without the patch too",
    }
    said = {name: faults[which] for which, names in found.invalid_before.items() for name in names}
    failed = {name: _why(ended) for name, ended in found.after.items() if not ended.passed}
    more = {
        "failed": failed,
        "faults_of_the_sample": said,
        "restored_absent": list(found.not_there),
        "left_out": list(found.guarded),
    }
    return {
        "patch_applies": True,
        "tests": made["tests"],
        "gates": {**run.get("gates", {}), **made["gates"]},
        "metadata": {"repair": {**about, **{name: value for name, value in more.items() if value}}},
    }


def _why(ended: TestRun) -> str:
    """Why a test failed, in one line: what it raised first where it ended by itself, else what the
    sandbox says.
    """
    outcome = ended.outcome
    if outcome.status == "failed" and outcome.exit_code:
        for stream in (outcome.stderr, outcome.stdout):
            for line in stream.text.splitlines():
                raised = _RAISED.match(line)
                if raised is not None:
                    words = "".join(sign if sign.isprintable() else "?" for sign in raised[1])
                    return _ADDRESS.sub("0x...", words)[:MAX_WHY]
    return ended.reason[:MAX_WHY]
