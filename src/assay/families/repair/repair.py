"""What is measured about a patch after its workflow has finished: whether it applies, which tests
pass without it and with it, and what the sandbox saw.

Tests are treated like expected values: an input that contains one is refused, and hidden tests are
copied into the tree only in the sandbox. Whatever cannot be measured (no git, no sandbox, a faulty
sample) is left out of the evidence with its reason, and so fails closed; nothing ever runs without
the sandbox. Nothing here depends on time: the same patch leaves the same evidence.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from math import ceil
from typing import Any, NamedTuple

from assay.errors import AssayError, InputError
from assay.families.repair.guards import is_within
from assay.families.repair.patches import (
    RUNNERS,
    PatchJob,
    Repair,
    lay_out,
    make_job,
    read_files,
    repair,
)
from assay.files.json_files import parse_json
from assay.running.compatibility import PreparedSample, touches
from assay.running.dataset import lookup
from assay.running.runner import PostRun
from assay.running.steps import RunStep
from assay.running.workflow import LoadedWorkflow, Repository
from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.isolation import INSTALL, available
from assay.sandbox.limits import MAX_TREE_FILES, MAX_TREE_MB, SandboxLimits
from assay.sandbox.outcome import SandboxVerdict
from assay.sandbox.trees import check_paths
from assay.tracing.recorder import exact_number

GIT_SECONDS = 120.0
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@^~{}+-]{0,199}")
_ENTRY = re.compile(rb"(\d{6}) (\w+) ([0-9a-f]{40,64}) +(\d+|-)\t(.+)", re.DOTALL)
# A repository's own settings may name programs to run, and an object that is missing may be fetched
# from anywhere.
_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "protocol.allow=never",
    "core.pager=cat",
)


def read_revision(folder: str, revision: str) -> tuple[str, list[TreeEntry]]:
    """The commit of a revision, by its full name, and its files. Raises InputError SCO-038 if there
    is no such revision, or if its tree is too large or not one that git would make.
    """
    if not _REVISION.fullmatch(revision):
        raise InputError(
            "SCO-038",
            f"{revision[:80]!r} is not the name of a revision.",
            where=folder,
            fix="Name a commit, a tag or a branch.",
        )
    commit = _git(
        folder,
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{revision}^{{commit}}",
        what=f"there is no revision {revision!r}",
    )
    name = commit.decode("ascii", "replace").strip()
    listed = list(_listed(folder, name))
    check_paths([path for _, _, path, _ in listed])
    files = {path for mode, _, path, _ in listed if mode != "160000"}
    for path in files:
        parts = path.split("/")
        if any("/".join(parts[:count]) in files for count in range(1, len(parts))):
            # such a tree was forged: if the parent is a link, the file would be written elsewhere
            raise InputError(
                "SCO-038",
                f"the revision {revision!r} has a file below {path.rpartition('/')[0]!r}, which is"
                " a file.",
                where=folder,
            )
    size = sum(size for *_, size in listed)
    if size > MAX_TREE_MB * 2**20 or len(listed) > MAX_TREE_FILES:
        fix = "It is copied into memory: use a smaller repository."
        raise InputError(
            "SCO-038",
            f"the revision {revision!r} has more than {MAX_TREE_MB} MB or"
            f" {MAX_TREE_FILES:,} files.",
            where=folder,
            fix=fix,
        )
    data = iter(_contents(folder, [blob for mode, blob, _, _ in listed if mode != "160000"]))
    return name, [
        _entry(mode, path, b"" if mode == "160000" else next(data)) for mode, _, path, _ in listed
    ]


def _entry(mode: str, path: str, data: bytes) -> TreeEntry:
    if mode == "160000":  # another repository, which is not here
        return TreeEntry(path, 0o755, None)
    if mode == "120000":
        return TreeEntry(path, 0o777, os.fsdecode(data))
    return TreeEntry(path, 0o755 if mode == "100755" else 0o644, data)


def _listed(folder: str, commit: str) -> Iterator[tuple[str, str, str, int]]:
    """Mode, object, path and size of each file of a commit."""
    for line in _git(
        folder, "ls-tree", "-r", "-z", "-l", "--full-tree", commit, what="the tree cannot be read"
    ).split(b"\0"):
        if line:
            match = _ENTRY.fullmatch(line)
            if match is None or match[2] not in (b"blob", b"commit"):
                raise InputError(
                    "SCO-038",
                    f"git lists something other than a file: {line[:80]!r}.",
                    where=folder,
                )
            yield (
                match[1].decode(),
                match[3].decode(),
                os.fsdecode(match[5]),
                0 if match[4] == b"-" else int(match[4]),
            )


def _contents(folder: str, blobs: list[str]) -> Iterator[bytes]:
    """The bytes of objects, in their order."""
    if not blobs:
        return
    output = _git(
        folder,
        "cat-file",
        "--batch",
        what="a file cannot be read",
        stdin="".join(f"{blob}\n" for blob in blobs).encode(),
    )
    at = 0
    for blob in blobs:
        end = output.find(b"\n", at)
        head = output[at:end].split()
        if end < 0 or len(head) != 3 or head[1] != b"blob":
            raise InputError(
                "SCO-038",
                f"the object {blob} is missing.",
                where=folder,
                fix="Clone the whole repository, not a part of it.",
            )
        start, size = end + 1, int(head[2])
        yield output[start : start + size]
        at = start + size + 1


def _git(folder: str, *arguments: str, what: str, stdin: bytes = b"") -> bytes:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    settings = [
        word
        for setting in (*_SETTINGS, f"safe.directory={os.path.realpath(folder)}")
        for word in ("-c", setting)
    ]
    command = ["git", *settings, "-C", folder, *arguments]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            input=stdin,
            env=environment,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise InputError(
            "SCO-038", f"{what}: git is not installed.", where=folder, fix="Install git."
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(
            "SCO-038", f"{what}: git took longer than {GIT_SECONDS:g} s.", where=folder
        ) from None
    if done.returncode != 0:
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputError(
            "SCO-038", f"{what}{f': git says {errors[0][:300]!r}' if errors else ''}.", where=folder
        )
    return done.stdout


NOTHING_RAN = "nothing ran in the sandbox"
MAX_WHY = 200
_RAISED = re.compile(
    r"(?:E\s+)?([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Failure|Warning|Timeout)\b.*)"
)
"""An exception as unittest and pytest print it."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_SAMPLE_FAULTS = {
    "fail_to_pass": "passed without the patch, so it shows nothing and does not count as passed",
    "pass_to_pass": "failed without the patch too",
}


def repair_of(workflow: LoadedWorkflow) -> PostRun:
    """What is measured of each patch of a workflow that names a repository. Raises `InputError`
    where the file asks for something impossible: nothing has run then.
    """
    spec = workflow.spec.repository
    assert spec is not None
    for name, given in workflow.inputs.items():
        if touches(given.source or name, spec.test_fields):
            raise InputError(
                "RUN-003",
                f"the input '{name}' would show the workflow the tests that judge it.",
                where=workflow.where,
                fix="Remove the input, or take it from another field.",
            )
    return _Verification(workflow, spec)


def lacking() -> str:
    """What this machine lacks for testing patches, and the line to install it; empty if nothing is
    missing.
    """
    if shutil.which("git") is None:
        return (
            "git is not installed: apt-get install git (Debian, Ubuntu), dnf install git (Fedora),"
            " apk add git (Alpine)."
        )
    why_not = available()["bubblewrap"]
    return f"the sandbox is not available: {why_not}. {INSTALL}" if why_not else ""


class _Tree(NamedTuple):
    entries: list[TreeEntry]
    digest: str
    commit: str | None


class _Verification:
    """The patches of one workflow, each judged by the tests of its sample."""

    def __init__(self, workflow: LoadedWorkflow, spec: Repository) -> None:
        self._spec = spec
        self._root = os.path.realpath(workflow.folder / spec.path)
        self._readable = [os.path.realpath(workflow.folder / path) for path in spec.readable]
        for key, path in (("path", self._root), *(("readable", path) for path in self._readable)):
            if not os.path.isdir(path):
                raise InputError(
                    "RUN-004",
                    f"repository.{key} names {path!r}, and there is no such folder.",
                    where=workflow.where,
                )
        seconds = float(exact_number(spec.timeout_s))
        if not 0 < seconds <= 86_400:
            raise InputError(
                "RUN-001",
                f"repository.timeout_s is {spec.timeout_s}; it must be above 0 and at most a day.",
                where=workflow.where,
            )
        self._limits = SandboxLimits(
            wall_s=seconds, cpu_s=max(1, ceil(seconds)), memory_mb=spec.memory_mb
        )
        self._command = (
            spec.command if isinstance(spec.command, list) else list(RUNNERS[spec.command])
        )
        self._check(workflow.where)
        self._read = lru_cache(maxsize=4)(_read)
        self._known = lru_cache(maxsize=16)(_nothing_known)
        # the time limit of a test is by the clock, and with more tests than cores each is slower
        self._slots = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._lacking = lru_cache(maxsize=1)(lacking)
        if spec.path_from is None:
            # before the workflow runs, which may write to the project; an error belongs to a sample
            with suppress(AssayError):
                self._read(self._root, spec.base)

    def _check(self, where: str) -> None:
        """Refuse a command or a path that is wrong for every sample."""
        fixed = {
            name: value
            for name in ("fail_to_pass", "pass_to_pass")
            if isinstance(value := getattr(self._spec, name), list)
        }
        try:
            self._make_job(where, "", fixed or {"fail_to_pass": ["one"]})
        except InputError as error:
            raise InputError(
                "RUN-001",
                f"repository: {error.message}",
                where=where,
                fix=error.fix,
                faults=error.faults,
            ) from None

    def _make_job(self, name: str, patch: str, more: Mapping[str, Any]) -> PatchJob:
        return make_job(
            {
                "instance_id": name,
                "tree": self._root,
                "test_command": self._command,
                "restore": self._spec.restore,
                "patch": patch,
                **more,
            }
        )

    def __call__(self, sample: PreparedSample, run: dict[str, Any]) -> dict[str, Any]:
        """The evidence of one patch."""
        try:
            return self._judged(sample, run)
        except AssayError as error:
            return _not_run(run, f"{error.message} {error.fix}".strip())

    def _judged(self, sample: PreparedSample, run: dict[str, Any]) -> dict[str, Any]:
        output = f"output '{self._spec.patch}'"
        patch = lookup(run.get("outputs") or {}, self._spec.patch)[1]
        if patch is None:
            return _not_run(run, f"the run gave no {output}")
        if not isinstance(patch, str):
            reason = f"the {output} is {type(patch).__name__}, not a string"
            return _not_run(run, reason, applies=False)
        if "\0" in patch:
            return _not_run(run, f"the {output} contains a NUL: it is binary", applies=False)
        job = self._job(sample, patch)
        fields = (lookup(sample.row, field)[1] for field in self._spec.test_fields)
        lists = (text for text in fields if isinstance(text, str))
        secrets = {*job.tests, *(text for text in lists if any(test in text for test in job.tests))}
        leaked = _leaked(sample.inputs, secrets, job.hidden.strip())
        if leaked is not None:
            return _not_run(
                run,
                f"the input '{leaked}' showed the workflow a test that judges it, so no test shows"
                " anything",
            )
        tree = self._tree(sample)
        about = {"tree": tree.digest, **({} if tree.commit is None else {"base": tree.commit})}
        missing = self._lacking()
        if missing.startswith("git"):
            return _not_run(run, missing, about=about)
        if missing:
            trees = lay_out(job, tree.entries, readable=self._readable)
            reason = missing if trees.applies else trees.reason
            return _not_run(run, reason, applies=trees.applies, gate=missing, about=about)
        hidden = sha256(job.hidden.encode("utf-8", "replace")).hexdigest()
        with self._slots:
            judged = repair(
                job,
                limits=self._limits,
                isolation="bubblewrap",
                readable=self._readable,
                entries=tree.entries,
                known=self._known(tree.digest, hidden),
            )
        if not judged.applies:
            return _not_run(run, judged.reason, applies=False, about=about)
        return _evidence(run, judged, about)

    def _job(self, sample: PreparedSample, patch: str) -> PatchJob:
        more = {
            name: value if isinstance(value, list) else _names(sample.row, value)
            for name in ("fail_to_pass", "pass_to_pass")
            for value in (getattr(self._spec, name),)
        }
        hidden = lookup(sample.row, self._spec.test_patch)[1]
        more["hidden"] = "" if hidden is None else hidden
        return self._make_job(sample.sample_id, patch, more)

    def _tree(self, sample: PreparedSample) -> _Tree:
        spec, folder = self._spec, self._root
        if spec.path_from is not None:
            name = _text(sample.row, spec.path_from)
            if name is None:
                raise InputError(
                    "RUN-002", f"the sample has no field '{spec.path_from}', which names its tree."
                )
            folder = os.path.realpath(os.path.join(self._root, name))
            inside = not os.path.isabs(name) and folder.startswith(f"{self._root}{os.sep}")
            if not inside or not os.path.isdir(folder):
                raise InputError(
                    "RUN-002",
                    f"the sample's tree {name[:200]!r} is not a folder below '{spec.path}'.",
                )
        base = spec.base
        if spec.base_from is not None:
            base = _text(sample.row, spec.base_from) or base
        if base is not None and not os.path.exists(os.path.join(folder, ".git")):
            raise InputError(
                "RUN-002",
                f"the base revision is {base[:80]!r}, but '{os.path.basename(folder)}' is not a git"
                " repository.",
            )
        return self._read(folder, base)


def _read(folder: str, base: str | None) -> _Tree:
    """A tree, read once: every sample is judged on the same files."""
    commit, entries = (None, read_files(folder)) if base is None else read_revision(folder, base)
    total = sha256()
    for entry in sorted(entries, key=lambda entry: entry.path):
        data = entry.data if isinstance(entry.data, bytes) else os.fsencode(entry.data or "")
        kind = "folder" if entry.data is None else "link" if isinstance(entry.data, str) else "file"
        line = f"{kind} {entry.mode:o} {sha256(data).hexdigest()} "
        total.update(line.encode() + os.fsencode(entry.path) + b"\n")
    return _Tree(entries, f"sha256:{total.hexdigest()}", commit)


@lru_cache(maxsize=1)
def project_digest(workflow: LoadedWorkflow) -> str | None:
    """A digest of the files of a workflow's project as they are now; None if each sample names its
    own project, if they can't be read, or if this command runs in it and writes its results there.
    """
    spec = workflow.spec.repository
    if spec is None or spec.path_from is not None:
        return None
    root = os.path.realpath(workflow.folder / spec.path)
    if is_within(os.path.realpath(os.getcwd()), root):
        return None
    try:
        return _read(root, None).digest
    except AssayError:
        return None


def _nothing_known(_tree: str, _hidden: str) -> dict[str, SandboxVerdict]:
    """An empty record of runs without a patch. They are a property of the tree, not of the
    patch.
    """
    return {}


def _leaked(inputs: Mapping[str, Any], secrets: set[str], hidden: str) -> str | None:
    """The input that is the exact name of a test or a list of them, or contains the hidden tests: a
    dataset may map its fields in ways that the workflow file does not show.
    """

    def contains(value: Any) -> bool:
        if isinstance(value, dict | list):
            return any(map(contains, value.values() if isinstance(value, dict) else value))
        return isinstance(value, str) and (value in secrets or bool(hidden and hidden in value))

    return next((name for name, value in inputs.items() if contains(value)), None)


def _text(row: Mapping[str, Any], path: str) -> str | None:
    value = lookup(row, path)[1]
    if value is None or (isinstance(value, str) and value):
        return value
    kind = type(value).__name__
    raise InputError("RUN-002", f"the field '{path}' is {kind}; it must be a string.")


def _names(row: Mapping[str, Any], path: str) -> Any:
    """The tests that a field lists, as a list or as the JSON text of one."""
    value = lookup(row, path)[1]
    if value is None:
        raise InputError(
            "RUN-002",
            f"the sample has no field '{path}', which lists tests.",
            fix="Give an empty list where there are none.",
        )
    try:
        return parse_json(value.encode()) if isinstance(value, str) else value
    except ValueError:
        raise InputError("RUN-002", f"the field '{path}' is not a list of tests.") from None


def _not_run(
    run: Mapping[str, Any],
    reason: str,
    *,
    applies: bool | None = None,
    gate: str = NOTHING_RAN,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The evidence if no test ran: no count of tests, and an undetermined gate, which fails."""
    violation = {"passed": None, "reason": gate}
    return {
        **({} if applies is None else {"patch_applies": applies}),
        "gates": {**run.get("gates", {}), "no_sandbox_violation": violation},
        "metadata": {"repair": {**(about or {}), "tests_not_run": reason}},
    }


def _evidence(run: Mapping[str, Any], judged: Repair, about: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence of a patch whose tests ran."""
    evidence = judged.evidence()
    more = {
        "failed": {name: _why(ended) for name, ended in judged.after.items() if not ended.passed},
        "faults_of_the_sample": {
            name: _SAMPLE_FAULTS[which]
            for which, names in judged.invalid_before.items()
            for name in names
        },
        "restored_absent": list(judged.not_there),
        "left_out": list(judged.guarded),
    }
    return {
        **evidence,
        "gates": {**run.get("gates", {}), **evidence["gates"]},
        "metadata": {"repair": {**about, **{name: value for name, value in more.items() if value}}},
    }


def _why(ended: SandboxVerdict) -> str:
    """Why a test failed, in one line: what it raised first where it ended by itself, else the
    sandbox's reason.
    """
    outcome = ended.outcome
    if outcome.status == "failed" and outcome.exit_code:
        for line in (outcome.stderr.text + "\n" + outcome.stdout.text).splitlines():
            raised = _RAISED.match(line)
            if raised is not None:
                words = "".join(char if char.isprintable() else "?" for char in raised[1])
                return _ADDRESS.sub("0x...", words)[:MAX_WHY]
    return ended.reason[:MAX_WHY]


def _tested(metadata: Mapping[str, Any]) -> Any:
    """The digest of the project that a patch was tested in. A revision that the run names stays
    what it is.
    """
    about = metadata.get("repair")
    return about.get("tree") if isinstance(about, dict) and "base" not in about else None


def _untestable() -> str:
    return f"patches can't be tested here: {missing}" if (missing := lacking()) else ""


STEP = RunStep(repair_of, _untestable, project_digest, _tested)
