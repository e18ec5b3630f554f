"""Runs a command as the supervisor's child."""

from __future__ import annotations

import os
import signal

from .supervisor import give_up, supervise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .processes import Job


def command(job: Job) -> None:
    """Supervise the job's command."""
    supervise(job, _become_command)


def _become_command(job: Job, trouble: int) -> None:
    # Python ignores these signals, and the command would inherit that
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    argv, env = list(job["argv"]), dict(job["env"])
    try:
        os.execvpe(argv[0], argv, env)  # running the caller's command is the purpose  # noqa: S606
    except OSError as error:
        give_up(trouble, f"{argv[0]} cannot be run: {error.strerror}")
