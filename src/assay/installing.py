"""How to install Assay: the one place that knows the name on the package index.

On the index the project is `assaykit`; the import and the command are `assay`. A text for somebody
else (a page, a report, a CI job) takes `install_command`; an error on this machine takes
`install_hint`, which fits the copy that is running.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from importlib import import_module

from assay.errors import AssayError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DISTRIBUTION = "assaykit"
_HERE = os.path.dirname(os.path.abspath(__file__))


def requirement(*extras: str) -> str:
    """What to write into a list of requirements.

    >>> requirement("judge", "sign")
    'assaykit[judge,sign]'
    """
    return DISTRIBUTION + _listed(extras)


def install_command(*extras: str) -> str:
    """How anybody installs Assay from the package index.

    >>> install_command(), install_command("judge")
    ('pip install assaykit', "pip install 'assaykit[judge]'")
    """
    return f"pip install {shlex.quote(requirement(*extras))}"


def install_hint(*extras: str) -> str:
    """How to add extras to the copy that is running: a checkout, a copy that was installed from a
    folder, a file or a repository, or one from the package index.
    """
    folder = checkout()
    if folder is not None:
        place = "." if _is_working_folder(folder) else folder
        return f"pip install -e {shlex.quote(place + _listed(extras))}"
    source = _source()
    if source:
        return f"pip install {shlex.quote(f'{requirement(*extras)} @ {source}')}"
    return install_command(*extras)


def import_extra(
    module: str,
    extra: str,
    message: str,
    *,
    code: str = "RUN-004",
    where: str = "",
    kind: type[AssayError] = UsageError,
) -> Any:
    """A module that comes with an extra; without it, an error with the message and how to install
    it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise kind(code, message, where=where, fix=f"Run: {install_hint(extra)}") from None


def checkout(package: str = _HERE) -> str | None:
    """The folder of the checkout that this package runs from; None for an installed copy."""
    above, name = os.path.split(os.path.dirname(package))
    try:
        with open(os.path.join(above, "pyproject.toml"), encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError):
        return None
    ours = re.search(rf'^name = "{DISTRIBUTION}"$', text, re.MULTILINE)
    return above if name == "src" and ours else None


def _source() -> str:
    """The URL that this copy was installed from, where that is not the package index: `pip` notes
    it, without passwords. A folder or file that is gone doesn't count.
    """
    from importlib import metadata  # slow to load, and only a hint needs it
    from urllib.parse import unquote, urlsplit

    try:
        noted = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        document = json.loads(noted or "{}")
        url, vcs = document.get("url", ""), document.get("vcs_info")
    except (metadata.PackageNotFoundError, OSError, ValueError, AttributeError):
        return ""
    if not isinstance(url, str):
        return ""
    if isinstance(vcs, dict):
        return f"{vcs.get('vcs')}+{url}@{vcs.get('commit_id')}"
    parts = urlsplit(url)
    gone = parts.scheme == "file" and not os.path.exists(unquote(parts.path))
    return "" if gone else url


def _is_working_folder(folder: str) -> bool:
    try:
        return os.path.samefile(os.curdir, folder)
    except OSError:  # the working folder was removed
        return False


def _listed(extras: tuple[str, ...]) -> str:
    return f"[{','.join(extras)}]" if extras else ""
