"""Resolves the host of an ssh shell, with aliases and jump hosts, and checks it against the operator's list.

Works on text alone: no name is looked up and no host contacted before every hop is permitted.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shiftlog.model.shell_errors import HostNotAllowed, SshConnectFailed
from shiftlog.params.wording import missing
from shiftlog.shell.remote.settings import SshSettings
from shiftlog.shell.remote.ssh.config import Alias, read_alias

DEFAULT_PORT = 22
_LONGEST_ROUTE = 8
_JUMP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:/]+))(?::(?P<port>\d+))?/?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One host of a route: its given name and what that resolves to."""

    given: str
    host: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The hop's name in results."""
        return f"{self.user}@{self.given}:{self.port}"


def resolve(values: Mapping[str, Any], settings: SshSettings) -> tuple[Hop, ...]:
    """Return the route to the host that the arguments name, itself last; raises if a hop is not permitted."""
    hops = _route(values["host"], values.get("user"), values.get("port"), settings, seen=())
    for hop in hops:
        if not all(any(permits(pattern, hop) for pattern in patterns) for patterns in settings.hosts):
            raise HostNotAllowed(
                f"host '{hop.given}' is not permitted by the operator", details={"kind": "host", "value": hop.given}
            )
    return hops


def _route(
    given: str, user: str | None, port: int | None, settings: SshSettings, seen: tuple[str, ...]
) -> tuple[Hop, ...]:
    alias = read_alias(settings.key_dir / "config", given)
    host = (alias.values.get("hostname") or given).replace("%h", given).rstrip(".").lower()
    port = port or alias.port or DEFAULT_PORT
    if alias.runs:
        raise connect_failed(given, port, f"its configuration sets {alias.runs}, which is not supported")
    if given in seen or len(seen) >= _LONGEST_ROUTE:
        raise connect_failed(given, port, "its jump hosts lead in a circle")
    user = user or alias.values.get("user")
    if user is None:
        if seen:
            raise connect_failed(given, port, "no user is configured for this jump host")
        raise missing("user")
    last = Hop(given=given, host=host, port=port, user=user, identity_files=tuple(alias.identity_files))
    return (*_jumps(alias, last, settings, (*seen, given)), last)


def _jumps(alias: Alias, last: Hop, settings: SshSettings, seen: tuple[str, ...]) -> tuple[Hop, ...]:
    hops: tuple[Hop, ...] = ()
    for number, text in enumerate(alias.jumps):
        jump = _JUMP.match(text)
        if jump is None:
            raise connect_failed(last.given, last.port, "its ProxyJump cannot be read")
        name = jump["six"] or jump["host"]
        way = _route(name, jump["user"] or None, int(jump["port"]) if jump["port"] else None, settings, seen)
        # A jump host's own jumps lead to the first one only; later ones are reached from the one before.
        hops += way if number == 0 else way[-1:]
    return hops


def permits(pattern: str, hop: Hop) -> bool:
    """Return True if a glob `[user@]host[:port]` matches a hop, by its given or its resolved name."""
    user, _, rest = pattern.rpartition("@")
    bracketed = re.fullmatch(r"\[(.*)\](?::([0-9*?]+))?", rest)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    else:
        host, port = rest, None
    if user and not fnmatch.fnmatchcase(hop.user, user):
        return False
    if port and not fnmatch.fnmatchcase(str(hop.port), port):
        return False
    return any(fnmatch.fnmatchcase(name.lower(), host.lower()) for name in (hop.given, hop.host))


def connect_failed(host: str, port: int, reason: str) -> SshConnectFailed:
    """Return the error for a host that cannot be reached."""
    return SshConnectFailed(f"cannot connect to {host}:{port}: {reason}", details={"reason": reason})
