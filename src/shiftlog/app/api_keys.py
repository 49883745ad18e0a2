"""API keys of a team's server: made, checked, rotated and revoked. The database keeps a hash, never the key.

A key is `slk_`, its id, `_` and 256 random bits. A page keeps a cookie that is signed with the server's own key and the
hash of the API key, so it ends with either of them.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from shiftlog.journal.clock import Clock
from shiftlog.model.errors import InvalidParameter, StorageError
from shiftlog.model.limits import API_KEY_KEPT_S, API_KEY_USE_EVERY_S, PAGE_COOKIE_S
from shiftlog.model.team import ApiKey, KeyScope
from shiftlog.store.postgres.team import TeamTables

PREFIX = "slk_"
MOST_REMEMBERED = 10_000
NAME_CHARS = 100
_KEY = re.compile(r"slk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_COOKIE = re.compile(r"([0-9a-f]{16})\.([0-9a-f]{1,12})\.([A-Za-z0-9_-]{16})\.([0-9a-f]{64})", re.ASCII)
_PURPOSE = b"shiftlog-team-page-v1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeKey:
    """A new key; `secret` is the whole text of it, which is shown once."""

    key: ApiKey
    secret: str


class ApiKeys:
    """The keys of one database. `seal` is a secret that all replicas share; the database does not have it."""

    def __init__(self, tables: TeamTables, clock: Clock, seal: bytes) -> None:
        self._tables = tables
        self._clock = clock
        self._seal = seal
        # Recent lookups, of unknown keys too: requests in a row do not each ask the database.
        self._known: dict[str, tuple[float, ApiKey | None]] = {}
        self._used: dict[str, float] = {}

    async def create(self, name: str, scopes: Collection[KeyScope], lasts: timedelta | None = None) -> MadeKey:
        """Make a key."""
        if not name.strip() or len(name) > NAME_CHARS or not name.isprintable():
            raise InvalidParameter.invalid("name", f"one line of at most {NAME_CHARS} characters", name)
        if not scopes:
            raise InvalidParameter.missing("scope")
        now, key_id, secret = self._clock.now(), secrets.token_hex(8), secrets.token_urlsafe(32)
        key = ApiKey(
            id=key_id,
            name=name.strip(),
            hash=_digest(secret),
            scopes=frozenset(scopes),
            created_at=now,
            expires_at=None if lasts is None else now + lasts,
        )
        await self._tables.add_key(key)
        return MadeKey(key=key, secret=f"{PREFIX}{key_id}_{secret}")

    async def rotate(self, key_id: str, overlap: timedelta) -> MadeKey:
        """Make a key with the name and scopes of another one, which ends after `overlap`."""
        old = await self.find(key_id)
        if not old.is_valid(self._clock.now()):
            raise InvalidParameter.invalid("key", "a key that is neither revoked nor expired", key_id)
        lasts = None if old.expires_at is None else old.expires_at - old.created_at
        made = await self.create(old.name, old.scopes, lasts)
        await self._tables.end_key(old.id, self._clock.now() + overlap)
        return made

    async def revoke(self, key_id: str) -> ApiKey:
        """End a key; replicas notice within `API_KEY_KEPT_S`."""
        key = await self.find(key_id)
        await self._tables.end_key(key.id, self._clock.now())
        self._known.pop(key.id, None)
        return key

    async def find(self, key_id: str) -> ApiKey:
        """Return the key with this id, or the only one whose id begins with it."""
        found = [key for key in await self._tables.keys() if key_id and key.id.startswith(key_id)]
        if len(found) != 1:
            says = "several keys begin with it" if found else "shiftlog keys list shows the ids"
            raise InvalidParameter.invalid("key", f"the id of a key; {says}", key_id)
        return found[0]

    async def list(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        return await self._tables.keys()

    async def is_any_valid(self) -> bool:
        """Return True if there is a key that is neither revoked nor expired."""
        now = self._clock.now()
        return any(key.is_valid(now) for key in await self._tables.keys())

    async def check(self, given: str) -> ApiKey | None:
        """Return the key of a request; None if it is not valid."""
        parts = _KEY.fullmatch(given)
        if parts is None:
            return None
        key = await self._look_up(parts[1])
        if key is None or not hmac.compare_digest(_digest(parts[2]), key.hash):
            return None
        return await self._valid(key)

    def cookie_for(self, key: ApiKey) -> str:
        """Return a cookie that is accepted in place of a key for a day."""
        ends = int(self._clock.now().timestamp()) + PAGE_COOKIE_S
        stamp = f"{key.id}.{ends:x}.{secrets.token_urlsafe(12)}"
        return f"{stamp}.{self._sign(key, stamp)}"

    async def check_cookie(self, cookie: str) -> ApiKey | None:
        """Return the key of a cookie; None if it is not valid."""
        parts = _COOKIE.fullmatch(cookie)
        key = await self._look_up(parts[1]) if parts is not None else None
        if parts is None or key is None:
            return None
        stamp = cookie.rpartition(".")[0]
        if not hmac.compare_digest(parts[4], self._sign(key, stamp)):
            return None
        return await self._valid(key) if int(parts[2], 16) > self._clock.now().timestamp() else None

    def _sign(self, key: ApiKey, stamp: str) -> str:
        return hmac.new(_PURPOSE + self._seal + key.hash, stamp.encode(), hashlib.sha256).hexdigest()

    async def _look_up(self, key_id: str) -> ApiKey | None:
        kept = self._known.get(key_id)
        if kept is not None and time.monotonic() - kept[0] < API_KEY_KEPT_S:
            return kept[1]
        key = await self._tables.key(key_id)
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[key_id] = time.monotonic(), key
        return key

    async def _valid(self, key: ApiKey) -> ApiKey | None:
        now = self._clock.now()
        if not key.is_valid(now):
            return None
        if time.monotonic() - self._used.get(key.id, -API_KEY_USE_EVERY_S) >= API_KEY_USE_EVERY_S:
            self._used[key.id] = time.monotonic()
            with suppress(StorageError):  # only for the list of keys: a standby cannot note it, and answers reads
                await self._tables.note_key_used(key.id, now)
        return key


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
