"""The trusted parent of untrusted code: starts it as another user under limits, watches it, and is
the only one to report how it ended.

Its report goes through a pipe that the untrusted process closes before any code of the candidate
runs. If Assay runs as root, the candidate gets a separate user, so it can neither signal nor
inspect this process. Otherwise both have the same user: this process then makes itself unreadable
(not dumpable), and a candidate that kills it leaves no report, which never counts as passed.

Every 50 ms it reads `/proc`: memory and CPU time of the whole tree, and its number of tasks.
"""

from __future__ import annotations

import os
import resource
import select
import sys
import time

from .processes import look, others, refused_routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .processes import Job

_LOOK_MS = 50
_GRACE_S = 0.1
_SIGKILL = 9
_SET_DUMPABLE, _SET_SUBREAPER = 4, 36


def supervise(job: Job, act: Callable[[Job, int], None]) -> None:
    """Run `act` in a child as the job's user, report how it ended, and exit. `act` gets the job and
    a pipe for the reason if it can't start.
    """
    report, leash = int(job["report"]), int(job["leash"])
    if job["private"]:
        _prctl(_SET_DUMPABLE, 0)
    if not job["namespaced"]:
        _prctl(_SET_SUBREAPER, 1)
    _say(report, "ready\n")
    trouble, trouble_in = os.pipe()
    child = os.fork()
    if child == 0:
        _close_all_but([trouble_in, int(job["answer"]), *job["channel"]], int(job["highest"]))
        _start(job, act, trouble_in)
    os.close(trouble_in)
    for descriptor in job["channel"]:
        os.close(descriptor)
    lines = _watch(job, child, leash)
    reason = os.read(trouble, 4096)
    if reason:
        lines.append(f"error {reason.decode('utf-8', 'replace')!r}")
    written = _written(str(job["report_file"]), int(job["report_bytes"]))
    if written is not None:
        lines.append(f"report {len(written)}")
    try:
        _say(report, "\n".join([*lines, "end\n"]))
        if written is not None:
            _send(report, written)
    except BrokenPipeError:
        if not job["namespaced"]:
            _remove(str(job["folder"]))  # the caller is gone
        os._exit(1)
    os._exit(0)


def give_up(trouble: int, reason: str) -> None:
    """Exit from a child that can't start, and report why; only before untrusted code runs."""
    os.write(trouble, reason.encode("utf-8", "replace")[:4000])
    os._exit(126)


def _start(job: Job, act: Callable[[Job, int], None], trouble: int) -> None:
    try:
        os.setsid()
        os.umask(0o022)
        if job["user"]:
            _become(int(job["user"]))
        os.chdir(job["folder"])
        for path, mode, data in job["files"]:
            _put(path, mode, data)
        _limit(job)
        act(job, trouble)
    except BaseException as error:
        give_up(trouble, f"{type(error).__name__}: {error}")
    os._exit(126)


def _close_all_but(kept: list[int], highest: int) -> None:
    """Close every descriptor but the standard three and these, above all the supervisor's report
    pipe.
    """
    at = 3
    for descriptor in sorted(descriptor for descriptor in kept if descriptor >= 3):
        os.closerange(at, descriptor)
        at = descriptor + 1
    os.closerange(at, max(highest, at, 1024) + 1)


def _become(user: int) -> None:
    os.setgroups([])
    try:
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError:  # a container maps only the low numbers
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    if os.getuid() == 0 or os.geteuid() == 0:
        raise PermissionError("is still root")


def _put(path: str, mode: int, data: bytes | str | None) -> None:
    """Write one entry below the working folder: None is a folder, text a symbolic link. Paths
    through a link are refused.
    """
    parts = path.split("/")
    folder = ""
    for part in parts[:-1] if data is not None else parts:
        folder = f"{folder}/{part}" if folder else part
        if os.path.islink(folder):
            raise PermissionError(f"{path} leads through the symbolic link {folder}")
        if not os.path.isdir(folder):
            os.mkdir(folder)
    if isinstance(data, str):
        os.symlink(data, path)
    elif data is not None:
        if os.path.lexists(path):
            os.unlink(path)
        pipe = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode & 0o777)
        _send(pipe, data)
        os.close(pipe)


def _limit(job: Job) -> None:
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: job["cpu_s"],
        resource.RLIMIT_AS: job["memory"],
        resource.RLIMIT_FSIZE: job["file"],
        resource.RLIMIT_NOFILE: job["open_files"],
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if job["tasks"]:
        bounds[resource.RLIMIT_NPROC] = job["tasks"]
    for what, bound in bounds.items():
        _, hard = resource.getrlimit(what)
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        # The hard limit is one second more: the soft one ends the process with SIGXCPU, which shows
        # why it ended.
        top = bound + 1 if what == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else bound
        resource.setrlimit(what, (bound, top))


# --- watching


def _watch(job: Job, child: int, leash: int) -> list[str]:
    lines: list[str] = []
    peak_kb, cpu_s = 0, 0.0
    waiting = os.pidfd_open(child)
    events = select.poll()
    events.register(waiting, select.POLLIN)
    events.register(leash, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in events.poll(_LOOK_MS)]
        _, tasks, computed_s, kb = look(job)
        peak_kb, cpu_s = max(peak_kb, kb), max(cpu_s, computed_s)
        if tasks >= job["most_tasks"]:
            lines.append(
                f"violation processes {tasks} tasks at once, and {job['most_tasks']} may be"
            )
        if leash in ready:
            lines.append("stopped leash")
        elif waiting in ready:
            break
        elif tasks > job["most_tasks"]:
            lines.append("stopped processes")
        elif kb * 1024 > job["memory"]:
            lines.append("stopped memory")
        elif computed_s > job["cpu_s"] + 1:
            lines.append("stopped cpu")
        if lines and lines[-1].startswith("stopped"):
            break
    stopped = bool(lines) and lines[-1].startswith("stopped")
    if not stopped:
        lines += _leftover(job)
    _kill_all(job, child)
    _, status, usage = os.wait4(child, 0)
    lines.append(
        f"signal {os.WTERMSIG(status)}"
        if os.WIFSIGNALED(status)
        else f"exit {os.WEXITSTATUS(status)}"
    )
    lines.append(f"cpu {max(cpu_s, usage.ru_utime + usage.ru_stime):.4f}")
    lines.append(f"peak {max(peak_kb, usage.ru_maxrss)}")
    if job["namespaced"]:
        routes = refused_routes()
        if routes:
            lines.append(
                f"violation network {routes} attempt{'s'[: routes != 1]} to reach a network;"
                " the sandbox has none"
            )
    return list(dict.fromkeys(lines))


def _leftover(job: Job) -> list[str]:
    """Report processes that outlive the one that was started. They get a tenth of a second to end
    by themselves.
    """
    until = time.monotonic() + _GRACE_S
    while True:
        left = others(job)
        if not left:
            return []
        if time.monotonic() > until:
            return [f"violation leftover {len(left)} processes went on after the end"]
        time.sleep(0.005)


def _kill_all(job: Job, child: int) -> None:
    if job["namespaced"]:
        _kill(-1)  # everything in this namespace but its first process and this one
        return
    for _ in range(200):
        if job["user"]:
            helper = os.fork()
            if helper == 0:
                _become(int(job["user"]))
                _kill(-1)  # as that user: everything of that user
                os._exit(0)
            os.waitpid(helper, 0)
        pids = others(job)
        if not pids:
            return
        for pid in pids:
            _kill(pid)
        time.sleep(0.002)
        _reap(child)


def _reap(child: int) -> None:
    """Wait for adopted processes that have ended; another call waits for the child itself."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == child:
            return
        os.waitpid(ended.si_pid, 0)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, _SIGKILL)
    except OSError:
        return


# --- pipes


def _written(path: str, most: int) -> bytes | None:
    """The report a command wrote, if it is a plain file; links and pipes are not followed."""
    if not path:
        return None
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        if os.fstat(file).st_mode & 0o170000 != 0o100000 or os.fstat(file).st_size > most:
            return None
        parts = []
        while part := os.read(file, 1024 * 1024):
            parts.append(part)
        return b"".join(parts)[:most]
    except OSError:
        return None


def _remove(folder: str) -> None:
    """Remove the folders of a run without isolation whose caller is gone. Links are removed, not
    followed.
    """
    for path, folders, files in os.walk(os.path.dirname(folder), topdown=False):
        for name in (*files, *folders):
            whole = os.path.join(path, name)
            try:
                (
                    os.rmdir(whole)
                    if name in folders and not os.path.islink(whole)
                    else os.unlink(whole)
                )
            except OSError:
                continue
    os.rmdir(os.path.dirname(folder))


def _say(pipe: int, text: str) -> None:
    _send(pipe, text.encode("utf-8", "backslashreplace"))


def _send(pipe: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


def _prctl(what: int, value: int) -> None:
    import ctypes  # takes 5 ms, which most runs don't need

    if ctypes.CDLL(None).prctl(what, value, 0, 0, 0) != 0:
        print("prctl failed", file=sys.stderr)
        os._exit(125)
