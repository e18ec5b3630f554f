"""DSSE signatures with Ed25519 keys: made with a private key in a PEM file, checked with a public
one.

Only the key that the checker chose vouches: the key id in a file is a hint, and no field of the
file chooses the algorithm. Needs the extra `sign`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from assay.errors import InputError, UsageError
from assay.files.inputs import open_input
from assay.installing import install_hint

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_CODE = "REL-007"
_UNSIGNED = "the attestation is not signed"


class Signature(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signature. The key id is only a hint."""

    sig: str
    keyid: str = ""


def signed_bytes(payload: bytes, *, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """What a DSSE signature is made over: type and payload, each with its length, so that neither
    can pass for a part of the other.

    >>> signed_bytes(b"hi", payload_type="t")
    b'DSSEv1 1 t 2 hi'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, key: str) -> dict[str, str]:
    """The signature over a payload, with the Ed25519 private key in a PEM file."""
    private = _private_key(key)
    return {
        "keyid": _key_id(private.public_key()),
        "sig": b64encode(private.sign(signed_bytes(payload))).decode(),
    }


def check_signatures(
    signatures: Sequence[Signature], payload: bytes, key: str | None, where: str
) -> tuple[bool | None, str]:
    """Whether one of the signatures was made with the key whose public half is in a PEM file, and
    why.

    Without a key nothing is checked; the reason then lists the key ids that the file claims.
    """
    if key is None:
        claimed = ", ".join(signature.keyid[:80] or "without a key id" for signature in signatures)
        state = f"it claims to be signed by {claimed}" if claimed else _UNSIGNED
        return None, f"signature not checked: {state}"
    public = _public_key(key)
    if not signatures:
        return False, _UNSIGNED
    from cryptography.exceptions import InvalidSignature  # `_public_key` reports a missing extra

    own = _key_id(public)
    valid = False
    for signature in signatures:
        try:
            public.verify(decoded(signature.sig, "signature", where), signed_bytes(payload))
            valid = True
        except InvalidSignature:
            continue
    if not valid:
        why = "someone else signed it, or it was changed since"
        return False, f"no signature matches the key {own}: {why}"
    others = len(signatures) - 1
    more = f"; other signatures that were not checked: {others}" if others else ""
    return True, f"signed with the key {own}{more}"


def decoded(text: str, what: str, where: str) -> bytes:
    """Base64, in its one canonical spelling: characters that a lenient reader skips could hide a
    second meaning.
    """
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    if data is None or b64encode(data).decode() != text:
        raise InputError(_CODE, f"the {what} is not base64.", where=where)
    return data


# --- keys


def _crypto() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise UsageError(
            "CLI-001",
            "signatures need the package cryptography.",
            fix=f"Run: {install_hint('sign')}",
        ) from None
    return serialization, ed25519


def _pem(path: str) -> bytes:
    with open_input(path) as stream:
        return stream.read(64 * 1024)


def _private_key(path: str) -> Any:
    serialization, ed25519 = _crypto()
    try:
        key = serialization.load_pem_private_key(_pem(path), password=None)
    except (ValueError, TypeError) as error:
        raise InputError(
            _CODE,
            f"contains no private key in PEM form: {error}.",
            where=path,
            fix="openssl genpkey -algorithm ed25519 makes one.",
        ) from None
    return _checked_kind(key, ed25519.Ed25519PrivateKey, path)


def _public_key(path: str) -> Any:
    serialization, ed25519 = _crypto()
    data = _pem(path)
    if b"PRIVATE KEY" in data:
        raise InputError(
            _CODE,
            "is a private key.",
            where=path,
            fix="Pass the public key: openssl pkey -in KEY -pubout",
        )
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, TypeError) as error:
        raise InputError(
            _CODE, f"contains no public key in PEM form: {error}.", where=path
        ) from None
    return _checked_kind(key, ed25519.Ed25519PublicKey, path)


def _checked_kind(key: Any, kind: type, path: str) -> Any:
    if not isinstance(key, kind):
        raise InputError(
            _CODE,
            f"is a key of another kind ({type(key).__name__}); use an Ed25519 key.",
            where=path,
        )
    return key


def _key_id(public: Any) -> str:
    serialization, _ = _crypto()
    return (
        "sha256:"
        + sha256(
            public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        ).hexdigest()
    )
