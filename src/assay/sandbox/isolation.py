"""Which isolation this machine supports, and how it is set up.

`bubblewrap` gives a run its own mount, process, network, IPC and host-name namespaces: the system
read-only, no home, no network, its own /tmp and /proc. Started by root, the code gets a user id
that no account has; started by another user, it runs as that user inside a user namespace, shown as
nobody. `process` gives limits without isolation, and must be requested by name.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from assay.errors import InputError, NotEnoughEvidence
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import Isolation

INSTALL = (
    "Install bubblewrap: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap"
    " (Fedora), apk add bubblewrap (Alpine)."
)
BY_NAME = "Limits without isolation must be requested by name: --sandbox=process."
WORK = "/sandbox/tree"
REPORTS = "/sandbox/report"
NOBODY = 65534

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("/etc/ld.so.cache", "/etc/alternatives")
_FIRST_USER, _USERS = 0x70000000, 0x0FFFFFFE
"""Numbers that neither accounts nor containers use."""


def available() -> dict[Isolation, str]:
    """Every kind of isolation, the strongest first, after trying each, and why it is unavailable;
    an empty reason means it is available.
    """
    return {"bubblewrap": _why_no_bubblewrap(), "process": _why_no_process()}


def require(isolation: Isolation) -> None:
    """Raise NotEnoughEvidence SBX-001, with what to install, if this isolation is unavailable. It
    never falls back to a weaker one.
    """
    check_isolation(isolation)
    why_not = available()[isolation]
    if why_not:
        raise not_available(isolation, why_not)


def check_isolation(isolation: Isolation) -> None:
    """Raise for an unknown name, and for one that this machine clearly lacks. This is cheap, so it
    is done before every run.
    """
    if isolation not in ("bubblewrap", "process"):
        raise InputError(
            "SBX-003",
            f"there is no isolation {isolation!r}.",
            fix="Use bubblewrap or process.",
        )
    missing = _missing(isolation)
    if missing:
        raise not_available(isolation, missing)


def not_available(isolation: Isolation, why: str) -> NotEnoughEvidence:
    """The error for an isolation that is unavailable."""
    fix = (
        f"{INSTALL} {BY_NAME}"
        if isolation == "bubblewrap"
        else "Run it as an unprivileged user, or with an interpreter under /usr."
    )
    return NotEnoughEvidence(
        "SBX-001", f"the isolation {isolation} is not available: {why}.", fix=fix
    )


def find_bubblewrap() -> str:
    """The path of `bwrap`. Raises SBX-001 if there is none."""
    check_isolation("bubblewrap")
    return str(shutil.which("bwrap"))


def _missing(isolation: Isolation) -> str:
    if sys.platform != "linux":
        return f"it needs Linux, and this is {sys.platform}"
    no_program = isolation == "bubblewrap" and shutil.which("bwrap") is None
    return "there is no `bwrap` on the path" if no_program else ""


def _why_no_bubblewrap() -> str:
    missing = _missing("bubblewrap")
    if missing:
        return missing
    command = [find_bubblewrap(), *_namespaces(), *_system(), "--", "/usr/bin/true"]
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, env={}, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap cannot be run: {error}"
    if done.returncode == 0:
        return ""
    words = done.stderr.decode("utf-8", "replace").strip()[:300]
    return f"bwrap cannot make namespaces here ({words})"


def _why_no_process() -> str:
    missing = _missing("process")
    if not missing and os.geteuid() == 0 and not _is_open(tempfile.gettempdir()):
        return (
            "started by root, the code runs as another user, who cannot enter"
            f" {tempfile.gettempdir()}"
        )
    return missing


def check_reach(python: str) -> None:
    """Raise if the code can't run this interpreter: without isolation and started by root, it runs
    as another user.
    """
    real = os.path.realpath(python)
    if os.geteuid() == 0 and not _is_open(real):
        raise not_available(
            "process", f"started by root, the code runs as another user, who cannot run {real}"
        )


def _is_open(path: str) -> bool:
    """Whether everybody may enter, or run, this path."""
    real = Path(path).resolve()
    try:
        return all(part.stat().st_mode & 0o001 for part in (real, *real.parents))
    except OSError:
        return False


def choose_user() -> int:
    """The user id for the code: a fresh one if we are root, else 0 to keep the current one."""
    return _FIRST_USER + secrets.randbelow(_USERS) if os.geteuid() == 0 else 0


# --- the command line of bwrap


def wall_arguments(
    limits: SandboxLimits,
    *,
    readable: Iterable[str],
    tree_bytes: int,
    texts: dict[str, int],
) -> list[str]:
    """The arguments of `bwrap` up to the command. `texts` are small files of /etc as open
    descriptors.
    """
    space = str(limits.file_mb * 2**20)
    room = str(limits.file_mb * 2**20 + tree_bytes + tree_bytes // 4 + 2**20)
    arguments = [*_namespaces(), *_system(), *_folders(WORK, set())]
    for path, descriptor in texts.items():
        arguments += ["--perms", "0444", "--ro-bind-data", str(descriptor), path]
    for folder in ("/tmp", REPORTS, "/dev/shm"):  # of the sandbox, not of the machine  # noqa: S108
        arguments += ["--perms", "1777", "--size", space, "--tmpfs", folder]
    arguments += ["--perms", "0777", "--size", room, "--tmpfs", WORK]
    made: set[str] = set()
    for path in dict.fromkeys(readable):
        arguments += [*_folders(path, made), "--ro-bind", path, path]
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK]


def _namespaces() -> list[str]:
    arguments = [
        "--die-with-parent",
        "--new-session",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    arguments += ["--hostname", "sandbox", "--cap-drop", "ALL"]
    if os.geteuid() == 0:
        # The supervisor stays root inside with only these three capabilities: to become another
        # user, and to kill that user's processes.
        return [
            *arguments,
            "--cap-add",
            "CAP_SETUID",
            "--cap-add",
            "CAP_SETGID",
            "--cap-add",
            "CAP_KILL",
        ]
    return [
        *arguments,
        "--unshare-user",
        "--disable-userns",
        "--uid",
        str(NOBODY),
        "--gid",
        str(NOBODY),
    ]


def _system() -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for path in _SYSTEM:
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    arguments += ["--perms", "0755", "--dir", "/etc"]
    for path in _ETC:
        arguments += ["--ro-bind-try", path, path]
    return [*arguments, "--proc", "/proc", "--dev", "/dev"]


def _folders(path: str, made: set[str]) -> list[str]:
    """Arguments for the folders above a path, readable by the code's user: bwrap alone would make
    them for root only.
    """
    arguments = []
    parts = path.strip("/").split("/")
    for count in range(1, len(parts)):
        above = "/" + "/".join(parts[:count])
        if above not in made and above != "/usr" and not above.startswith("/usr/"):
            made.add(above)
            arguments += ["--perms", "0755", "--dir", above]
    return arguments


def interpreter(python: str) -> tuple[str, ...]:
    """The folders that an interpreter needs, beyond /usr: its own, and that of its virtual
    environment.
    """
    folders = []
    real = os.path.realpath(python)
    base, environment = (
        os.path.dirname(os.path.dirname(real)),
        os.path.dirname(os.path.dirname(os.path.abspath(python))),
    )
    for folder in (
        base,
        environment if os.path.isfile(os.path.join(environment, "pyvenv.cfg")) else base,
    ):
        if folder == "/usr" or folder.startswith("/usr/"):
            continue
        if folder in ("/", os.path.realpath(os.path.expanduser("~"))) or not os.path.isdir(folder):
            raise InputError(
                "SBX-003",
                f"the interpreter {python} is in {folder}, and the code could read all of that"
                " folder.",
                fix="Use another one.",
            )
        folders.append(folder)
    return tuple(dict.fromkeys(folders))


def etc_texts(user: int) -> dict[str, str]:
    """The files of /etc that programs expect, without any data of this machine. The name server is
    an address reserved for documentation, to which there is no route.
    """
    user = user or NOBODY
    return {
        "/etc/passwd": (
            f"root:x:0:0:root:/nonexistent:/bin/false\nnobody:x:{user}:{user}:nobody:/tmp:/bin/sh\n"
        ),
        "/etc/group": f"root:x:0:\nnogroup:x:{user}:\n",
        "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "/etc/resolv.conf": "nameserver 192.0.2.1\noptions timeout:1 attempts:1\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }
