"""Whether there is a Java that Spark runs on. Spark is installed with its extra; Java is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""
INSTALL = (
    f"Install Java {OLDEST} or newer: `apt-get install default-jre-headless` on Debian and Ubuntu,"
    f" `brew install openjdk@{OLDEST}` on macOS. Or set JAVA_HOME."
)


def java_fault() -> str:
    """Why Spark can't run on this machine's Java; empty if it can. Runs `java -version`."""
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if program is None:
        return "there is no `java` on the path, and JAVA_HOME is not set"
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or "it does not answer"
        return f"{program} can't be started: {reason}"
    release = java_release(done.stderr + done.stdout)
    if done.returncode or release is None:
        return f"{program} does not work"
    if release < OLDEST:
        return f"{program} is Java {release}, and Spark needs {OLDEST} or newer"
    return ""


def java_release(text: str) -> int | None:
    """The release in what `java -version` prints.

    >>> java_release('openjdk version "17.0.20" 2026-08-18'), java_release('"1.8.0_402"')
    (17, 8)
    """
    match = re.search(r'"(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None
