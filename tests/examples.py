"""How much a test does: few examples and a short seed in the suite, many in `make campaign`."""

from __future__ import annotations

import inspect
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from hypothesis import settings

CAMPAIGN = os.environ.get("HYPOTHESIS_PROFILE") == "campaign"


def share(hundredths: int) -> int:
    """The part of the profile's number, at least five."""
    return max(5, settings.default.max_examples * hundredths // 100)


def repeats(suite: int, campaign: int) -> int:
    """How often something random is repeated."""
    return campaign if CAMPAIGN else suite


def each(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Any], Any]:
    """`pytest.mark.parametrize` as a loop within one test, for many cases that cost less than a
    test does. The first that fails says which it is.
    """
    keys = tuple(names.replace(",", " ").split()) if isinstance(names, str) else tuple(names)
    cases = [dict(zip(keys, (one,) if len(keys) == 1 else one, strict=True)) for one in values]

    def looped(test: Any) -> Any:
        @wraps(test)
        def run(**given: Any) -> None:
            for case in cases:
                try:
                    test(**given, **case)
                except BaseException as error:
                    error.add_note(f"with {case!r}")
                    raise

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=left)
        return run

    return looped


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
