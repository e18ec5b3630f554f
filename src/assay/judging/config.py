"""The description of a judge: which model answers where, at what price, within which limits. It
never contains the key, only the name of the variable that does.

A description is a small YAML file, or the options of the command line. Anything that could carry a
secret into a log or a report is refused.
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from assay import exact
from assay.canon import digest
from assay.errors import EvidenceError, ShelfError, UsageError, raise_faults
from assay.files.json_files import Document
from assay.judging.apis import JUDGE_APIS as JUDGES
from assay.records.evidence import ClosedRecord, Number
from assay.records.reading import read_record

Positive = Annotated[float, Meta(gt=0)]


class Price(ClosedRecord, frozen=True):
    """US dollars for a million tokens."""

    input_per_million: Number
    """For a million tokens of the question."""
    output_per_million: Number
    """For a million tokens of the answer."""


class Limits(ClosedRecord, frozen=True):
    """How many questions a judge gets at once, and when to stop."""

    concurrency: Annotated[int, Meta(ge=1, le=1024)] = 16
    """Questions at the same time."""
    timeout_s: Positive = 60.0
    """For one attempt."""
    retries: Annotated[int, Meta(ge=0, le=20)] = 6
    """Attempts after the first."""
    budget_s: Positive = 300.0
    """For one question with all its attempts and waits."""
    max_usd: Number | None = None
    """For one job. Requests in flight when it is reached are still paid for."""
    max_candidate_chars: Annotated[int, Meta(ge=1)] = 60_000
    """Longer texts are not judged at all."""


class JudgeSpec(ClosedRecord, frozen=True):
    """One judge."""

    judge: Annotated[str, Meta(pattern=r"^\S+$")]
    """The judge's name."""
    model: Annotated[str, Meta(pattern=r"\S")]
    """The model's name at the endpoint."""
    base_url: str = ""
    """Where it answers, such as `http://127.0.0.1:8080/v1`."""
    api: str = "openai"
    """How it is asked: see `apis`."""
    key_env: str | None = None
    """The environment variable that has the key; never the key itself."""
    family: str | None = None
    """The model family, to notice a judge that judges its own family."""
    version: str | None = None
    """The model's version, kept with its scores."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = 0.0
    """None leaves it out of the request."""
    max_tokens: Annotated[int, Meta(ge=1)] = 700
    """The longest reply."""
    seed: int | None = None
    """Sent with every question, where the endpoint takes one."""
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    """How to request the shape of a reply."""
    price: Price | None = None
    """What a million tokens cost, for budgets."""
    limits: Limits = Limits()
    """How fast the judge may be asked, and when to stop."""
    proxy_from_environment: bool = False
    """Whether the proxy settings of the environment apply."""
    allow_plain_http: bool = False
    """Whether a key may go over HTTP to another machine."""

    @property
    def whole_version(self) -> str | None:
        """The version of the model; if a plugin asks it, with the digest of the plugin's code."""
        plugin = JUDGES.fingerprints([self.api]).values()
        marks = [mark.removeprefix("sha256:")[:12] for mark in plugin]
        return "+".join([self.version or self.api, *marks]) if marks else self.version

    def identity(self) -> dict[str, Any]:
        """Everything that identifies a judge; limits and prices do not."""
        return {
            "api": self.api,
            "base_url": self.base_url,
            "model": self.model,
            "version": self.whole_version,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "structured": self.structured,
            **JUDGES.fingerprints([self.api]),
        }

    @property
    def digest(self) -> str:
        """The digest of the identity."""
        return digest(self.identity())


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def load_judge(document: Document) -> JudgeSpec:
    """A judge from its YAML file, or an error with every fault and its line."""
    try:
        spec = read_record(document, JudgeSpec, "JDG-001")
    except EvidenceError as error:
        raise ShelfError(
            "JDG-001", error.message, where=document.file, faults=error.faults
        ) from None
    faults = [
        document.fault(message, tuple(path.split(".")), code="JDG-001", fix=fix)
        for path, message, fix in spec_faults(spec)
    ]
    raise_faults(faults, where=document.file, kind=ShelfError)
    return spec


def spec_faults(spec: JudgeSpec) -> list[tuple[str, str, str]]:
    """What is wrong with a description beyond its shape: path, message, fix."""
    faults: list[tuple[str, str, str]] = []
    api = JUDGES.get(spec.api)
    if api is None:
        faults.append(
            (
                "api",
                f"is {spec.api!r}.{JUDGES.near(spec.api)}",
                f"Use {', '.join(JUDGES)}, or a judge of a plugin.",
            )
        )
    elif api.dialect is not None:
        faults += [("base_url", message, fix) for message, fix in _url_faults(spec)]
    if spec.key_env is not None and not _NAME.fullmatch(spec.key_env):
        # never print it: it may well be the key itself
        faults.append(
            (
                "key_env",
                "is not the name of an environment variable.",
                "Put the key into the environment and its name here.",
            )
        )
    if spec.price is not None:
        for name in ("input_per_million", "output_per_million"):
            value = getattr(spec.price, name)
            if not exact.is_number(value) or value < 0:
                faults.append(
                    (f"price.{name}", f"is {value!r}; a price is a number of at least 0.", "")
                )
    if spec.limits.max_usd is not None and (
        not exact.is_number(spec.limits.max_usd) or spec.limits.max_usd < 0
    ):
        faults.append(
            (
                "limits.max_usd",
                f"is {spec.limits.max_usd!r}; it must be a number of at least 0.",
                "",
            )
        )
    if spec.limits.max_usd is not None and spec.price is None:
        faults.append(
            (
                "limits.max_usd",
                "cannot be kept without a price.",
                "Add `price` with input_per_million and output_per_million.",
            )
        )
    return faults


def check_spec(spec: JudgeSpec) -> None:
    """Refuse a description that is wrong beyond its shape."""
    for path, message, fix in spec_faults(spec):
        raise UsageError("JDG-001", f"{path} {message}", where=spec.judge, fix=fix)


def _url_faults(spec: JudgeSpec) -> list[tuple[str, str]]:
    try:
        parts = urlsplit(spec.base_url)
        port = parts.port
    except ValueError:
        return [("is not a URL.", "Write it as http://host:port/v1 or https://host/v1.")]
    if parts.username or parts.password or "@" in parts.netloc:
        return [
            (
                "contains a user or a password.",
                "Put the key into the environment and name it with `key_env`.",
            )
        ]
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return [
            (
                f"{spec.base_url[:200]!r} is not an http or https URL.",
                "Write it as http://host:port/v1 or https://host/v1.",
            )
        ]
    if parts.query or parts.fragment:
        return [("has a query or a fragment, which may contain a key.", "Give the path only.")]
    if (
        parts.scheme == "http"
        and spec.key_env
        and parts.hostname not in _LOOPBACK
        and not spec.allow_plain_http
    ):
        return [
            (
                "would send the key in clear text.",
                "Use https, or set `allow_plain_http: true` if the network is yours.",
            )
        ]
    return []


def key_of(spec: JudgeSpec) -> str | None:
    """The key of a judge, from the environment; None if it needs none."""
    if spec.key_env is None:
        return None
    key = os.environ.get(spec.key_env, "").strip()
    if not key:
        raise UsageError(
            "JDG-002",
            f"the environment variable {spec.key_env} is not set or empty.",
            where=spec.judge,
            fix=f"export {spec.key_env}=... and run again.",
        )
    if not key.isascii() or not key.isprintable():
        raise UsageError(
            "JDG-002",
            f"the value of {spec.key_env} contains characters that a header can't carry.",
            where=spec.judge,
        )
    return key
