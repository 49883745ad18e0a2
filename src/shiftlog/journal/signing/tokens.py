"""Recovery tokens: signed, bound to one session and agent, expiring, single-use. The store keeps only their hashes.

The form is `slr1.<payload>.<signature>`, both base64url without padding. The payload is canonical JSON; the signature
covers `shiftlog-token-v1`, a newline and the payload. A hash stands for the agent: short, and without its name.
"""

import base64
import binascii
import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from shiftlog.journal.signing.keys import Keys
from shiftlog.model.canonical import canonical
from shiftlog.model.errors import (
    RecoveryTokenExpired,
    RecoveryTokenInvalid,
    RecoveryTokenMismatch,
    RecoveryTokenUsed,
)
from shiftlog.model.nouns import Session, Token, changed
from shiftlog.model.times import parse, shown, truncated
from shiftlog.store.protocol import Reader, Writer

PREFIX = "slr1."
LABEL = b"shiftlog-token-v1\n"
MAX_CHARS = 1_024
# Stands for the agent in a token for any agent; no agent id has this key.
ANYONE = "*"
# Stands for the policy of a session that is not closed.
LIVE_POLICY = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims of a token: which session, for whom, from which head on, under which policy, until when."""

    session_id: str
    agent: str
    head_hash: str
    policy: str
    issued_at: datetime
    expires_at: datetime
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A new token; it is shown once and never stored."""

    text: str
    hash: str
    expires_at: datetime


class Tokens:
    """Issue, check and spend the tokens of one state directory."""

    def __init__(self, keys: Keys, ttl: timedelta) -> None:
        self._keys = keys
        self.ttl = ttl

    def issue(self, writer: Writer, session: Session, now: datetime) -> Issued:
        """Make the session's one valid token, bound to it as it stands now; an earlier one is revoked.

        It does not outlive the offer that it accepts.
        """
        self._keys.keep()
        now = truncated(now)
        expires_at = now + self.ttl
        if session.offer is not None:
            expires_at = min(expires_at, truncated(session.offer.expires_at))
        text = mint(
            self._keys,
            Claims(
                session_id=session.id,
                agent=holder_of(session),
                head_hash=session.head_hash,
                policy=policy_of(session),
                issued_at=now,
                expires_at=expires_at,
                token_id=secrets.token_hex(16),
            ),
        )
        issued = Issued(text=text, hash=token_hash(text), expires_at=expires_at)
        writer.revoke_tokens(session.id, now)
        writer.put_token(Token(hash=issued.hash, session_id=session.id, issued_at=now, expires_at=expires_at))
        return issued

    def check(self, reader: Reader, text: str, now: datetime) -> Claims:
        """Return the claims of a token that can be used now; check form, signature and state, in that order."""
        claims = read(self._keys, text)
        kept = reader.token(token_hash(text))
        if kept is not None and kept.used_at is not None:
            raise RecoveryTokenUsed("Recovery token already used", details={"used_at": shown(kept.used_at)})
        if kept is not None and kept.revoked_at is not None:
            raise invalid("revoked")
        if now >= claims.expires_at:
            details = {"expired_at": shown(claims.expires_at)}
            raise RecoveryTokenExpired("Recovery token expired", details=details)
        if kept is None:
            raise invalid("unknown")
        return claims

    def read(self, text: str) -> Claims:
        """Return the claims of a token that our key signed, also of a spent one."""
        return read(self._keys, text)

    def spend(self, writer: Writer, text: str, now: datetime) -> None:
        """Note that a token was used; from now on it is refused."""
        kept = writer.token(token_hash(text))
        if kept is not None:
            writer.put_token(changed(kept, used_at=truncated(now)))


def holder_of(session: Session) -> str:
    """Return the mark of the agent that a session's token is for: whom it is offered to, else its own."""
    offer = session.offer
    if offer is None:
        return agent_mark(session.agent_key)
    return ANYONE if offer.agent_key is None else agent_mark(offer.agent_key)


def check_holder(claims: Claims, agent_key: str) -> None:
    """Refuse an agent that a token is not for."""
    if claims.agent not in (ANYONE, agent_mark(agent_key)):
        raise mismatch("agent")


def policy_of(session: Session) -> str:
    """Return the policy that a session's token is bound to."""
    return LIVE_POLICY if session.closing is None else str(session.closing.policy)


def agent_mark(agent_key: str) -> str:
    """Return the mark of an agent in tokens: a hash of its key."""
    return hashlib.sha256(agent_key.encode("utf-8")).hexdigest()[:32]


def mint(keys: Keys, claims: Claims) -> str:
    """Return the token of some claims."""
    payload = canonical(
        {
            "sid": claims.session_id,
            "agent": claims.agent,
            "head": claims.head_hash,
            "policy": claims.policy,
            "iat": shown(claims.issued_at),
            "exp": shown(claims.expires_at),
            "jti": claims.token_id,
        }
    )
    return f"{PREFIX}{_encoded(payload)}.{_encoded(keys.private.sign(LABEL + payload))}"


def read(keys: Keys, token: str) -> Claims:
    """Return the claims of a token that our key signed; raise RecoveryTokenInvalid with the reason."""
    payload, signature = _parts(token)
    if not keys.did_sign(LABEL + payload, signature):
        raise invalid("signature")
    try:
        facts = cast(dict[str, Any], json.loads(payload))
        return Claims(
            session_id=facts["sid"],
            agent=facts["agent"],
            head_hash=facts["head"],
            policy=facts["policy"],
            issued_at=parse(facts["iat"]),
            expires_at=parse(facts["exp"]),
            token_id=facts["jti"],
        )
    except (ValueError, KeyError, TypeError):
        raise invalid("malformed") from None


def token_hash(token: str) -> str:
    """Return the hash under which the store keeps a token."""
    return hashlib.sha256(token.encode("ascii", "replace")).hexdigest()


def invalid(reason: str) -> RecoveryTokenInvalid:
    """Return the error for a token that cannot be used: `malformed`, `signature`, `unknown` or `revoked`."""
    return RecoveryTokenInvalid("Recovery token invalid", details={"reason": reason})


def mismatch(reason: str) -> RecoveryTokenMismatch:
    """Return the error for a good token of something else: another `agent`, `session`, `policy` or `head`."""
    return RecoveryTokenMismatch("Recovery token does not match", details={"reason": reason})


def _parts(token: str) -> tuple[bytes, bytes]:
    parts = token.removeprefix(PREFIX).split(".")
    if not token.startswith(PREFIX) or len(token) > MAX_CHARS or len(parts) != 2 or not all(parts):
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
