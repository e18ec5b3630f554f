"""Addresses and commands of servers as messages show them: without their secrets."""

from __future__ import annotations

import re
import shlex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from assay.secrets import names_a_secret, secret_in


def url_shown(url: str) -> str:
    """An address without what may be secret in it: user, password, query and fragment.

    >>> url_shown("https://me:pass@example.com:8443/mcp?key=1#x")
    'https://example.com:8443/mcp'
    """
    parts = split_url(url)
    host = parts.netloc.rpartition("@")[2]
    return (
        urlunsplit((parts.scheme, host, parts.path, "", ""))
        if host
        else "(an address without a host)"
    )


def command_shown(command: list[str]) -> str:
    """A command for a message or a report: what looks like a secret is left out.

    >>> command_shown(["server", "--api-key", "s3cr3t", "--token=abc", "--port", "80"])
    "server --api-key '***' '--token=***' --port 80"
    """
    hidden = secret_parts(command)
    return shlex.join(
        url_shown(part) if "://" in part else masked(part, hidden, least=1) for part in command
    )


def secret_parts(command: list[str]) -> list[str]:
    """The parts of a command that look like secrets."""
    parts = []
    for before, part in zip(["", *command], command, strict=False):
        option, equals, value = part.partition("=")
        if equals and value and _takes_a_secret(option):
            parts.append(value)
        elif (
            before.startswith("-")
            and "=" not in before
            and not part.startswith("-")
            and _takes_a_secret(before)
        ):
            parts.append(part)
        elif (secret := secret_in(part)) is not None:
            parts.append(part[secret.start : secret.end])
    return parts


def _takes_a_secret(option: str) -> bool:
    return names_a_secret(option) or re.search(r"token|key$", option, re.IGNORECASE) is not None


def masked(text: str, secrets: list[str], *, least: int = 4) -> str:
    """A text without the secrets."""
    for secret in sorted(
        {secret for secret in secrets if len(secret) >= least}, key=len, reverse=True
    ):
        text = text.replace(secret, "***")
    return text


def split_url(url: str) -> Any:
    """The parts of an address; empty ones where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return urlsplit("")
    return parts
