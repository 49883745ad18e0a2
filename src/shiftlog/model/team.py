"""Nouns of a team's server: API keys with their scopes, and the session of an MCP client of the older revision."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class KeyScope(StrEnum):
    """The rights of an API key. `write` includes `read`, and both include `metrics`."""

    METRICS = "metrics"
    READ = "read"
    WRITE = "write"


_INCLUDED = {
    KeyScope.METRICS: frozenset({KeyScope.METRICS}),
    KeyScope.READ: frozenset({KeyScope.METRICS, KeyScope.READ}),
    KeyScope.WRITE: frozenset({KeyScope.METRICS, KeyScope.READ, KeyScope.WRITE}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """One API key as it is stored; `hash` is the SHA-256 of its secret part."""

    id: str
    name: str
    hash: bytes
    scopes: frozenset[KeyScope]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Return True if the key is neither revoked nor expired."""
        ends = [at for at in (self.expires_at, self.revoked_at) if at is not None]
        return all(at > now for at in ends)

    def allows(self, scope: KeyScope) -> bool:
        """Return True if the key has a scope that includes this one."""
        return any(scope in _INCLUDED[held] for held in self.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSession:
    """The facts of an MCP client's `initialize`, kept for its later requests; `key_id` is the key that it came with."""

    id: str
    key_id: str
    version: str
    client_info: Mapping[str, Any]
    capabilities: Mapping[str, Any]
