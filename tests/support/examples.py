"""How much a test does: few examples and a short seed in the suite, many in `make campaign`."""

from __future__ import annotations

import os
import resource
import sys
import traceback
from collections.abc import Callable

from hypothesis import settings

CAMPAIGN = os.environ.get("HYPOTHESIS_PROFILE") == "campaign"


def share(hundredths: int) -> int:
    """The part of the profile's number, at least five."""
    return max(5, settings.default.max_examples * hundredths // 100)


def repeats(suite: int, campaign: int) -> int:
    """How often something random is repeated."""
    return campaign if CAMPAIGN else suite


def within_cpu_seconds(limit: int, work: Callable[[], None]) -> None:
    """Do something in a copy of this process that may compute no longer than that: what would take
    hours ends and fails.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFSIGNALED(status), (
        f"ended after {limit} CPU seconds: signal {os.WTERMSIG(status)}"
    )
    assert status == 0, "failed as printed on standard error"
