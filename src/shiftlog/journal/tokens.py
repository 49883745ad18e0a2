"""Recovery tokens: signed, bound to one session and agent, expiring; the store keeps only their hashes.

`slr1.<payload>.<signature>`, both base64url without padding. The payload is canonical JSON; signed is
`shiftlog-token-v1`, a newline and the payload. Whether a token was used or revoked is the store's to know.
"""

import base64
import binascii
import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from shiftlog.journal.keys import Keys
from shiftlog.model.canonical import canonical
from shiftlog.model.errors import RecoveryTokenInvalid
from shiftlog.model.times import parse, shown

PREFIX = "slr1."
LABEL = b"shiftlog-token-v1\n"
MAX_CHARS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token says: which session, for whom, from which head on, under which policy, until when."""

    session_id: str
    agent_key: str
    head_hash: str
    policy: str
    issued_at: datetime
    expires_at: datetime
    token_id: str


def mint(keys: Keys, claims: Claims) -> str:
    """Return the token of some claims."""
    payload = canonical(
        {
            "sid": claims.session_id,
            "agent": claims.agent_key,
            "head": claims.head_hash,
            "policy": claims.policy,
            "iat": shown(claims.issued_at),
            "exp": shown(claims.expires_at),
            "jti": claims.token_id,
        }
    )
    return f"{PREFIX}{_encoded(payload)}.{_encoded(keys.sign_bytes(LABEL + payload))}"


def new_token_id() -> str:
    """Return a random id for a token."""
    return secrets.token_hex(16)


def read(keys: Keys, token: str) -> Claims:
    """Return what a token says, if a key of ours signed it; raise RecoveryTokenInvalid with the reason."""
    payload, signature = _parts(token)
    if not keys.did_sign(LABEL + payload, signature):
        raise invalid("signature")
    try:
        said = cast(dict[str, Any], json.loads(payload))
        return Claims(
            session_id=said["sid"],
            agent_key=said["agent"],
            head_hash=said["head"],
            policy=said["policy"],
            issued_at=parse(said["iat"]),
            expires_at=parse(said["exp"]),
            token_id=said["jti"],
        )
    except (ValueError, KeyError, TypeError):
        raise invalid("malformed") from None


def token_hash(token: str) -> str:
    """Return what the store keeps of a token."""
    return hashlib.sha256(token.encode("ascii", "replace")).hexdigest()


def invalid(reason: str) -> RecoveryTokenInvalid:
    """Return the error for a token that cannot be used, with `malformed`, `signature`, `unknown` or `revoked`."""
    return RecoveryTokenInvalid("Recovery token invalid", details={"reason": reason})


def _parts(token: str) -> tuple[bytes, bytes]:
    parts = token.removeprefix(PREFIX).split(".")
    if not token.startswith(PREFIX) or len(token) > MAX_CHARS or len(parts) != 2:
        raise invalid("malformed")
    try:
        return _decoded(parts[0]), _decoded(parts[1])
    except (ValueError, binascii.Error):
        raise invalid("malformed") from None


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _decoded(text: str) -> bytes:
    data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    # Base64 has several spellings of the same bytes; only ours was signed.
    if _encoded(data) != text:
        raise invalid("signature")
    return data
