"""Host aliases: reads the supported part of OpenSSH's client configuration from the operator's key directory.

Supported are HostName, User, Port, IdentityFile, ProxyJump and Include. Match blocks are skipped; an alias that would
run a program (ProxyCommand, KnownHostsCommand) is refused by that name where it is used. Everything else has no effect.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_INCLUDE_DEPTH = 8
_SINGLE = {"hostname", "user", "port", "proxyjump"}
_PROGRAMS = {"proxycommand": "ProxyCommand", "knownhostscommand": "KnownHostsCommand"}


@dataclass(slots=True, kw_only=True)
class Alias:
    """The configuration of one host; `runs` names a setting that would run a program."""

    values: dict[str, str] = field(default_factory=dict[str, str])
    identity_files: list[str] = field(default_factory=list[str])
    runs: str | None = None

    @property
    def port(self) -> int | None:
        """The port to connect to, if it is valid."""
        port = self.values.get("port", "")
        return int(port) if port.isdigit() and 0 < int(port) < 65536 else None

    @property
    def jumps(self) -> tuple[str, ...]:
        """The jump hosts, nearest first."""
        given = self.values.get("proxyjump", "none")
        return () if given.lower() == "none" else tuple(part.strip() for part in given.split(",") if part.strip())


def read_alias(config: Path, host: str) -> Alias:
    """Return what a configuration file says of a host; of several values for one setting the first counts."""
    alias = Alias()
    _read(config, config.parent, host, alias, active=True, depth=0)
    return alias


def _read(path: Path, folder: Path, host: str, alias: Alias, *, active: bool, depth: int) -> None:
    for keyword, arguments in _lines(path):
        if keyword == "host":
            active = _matches(arguments, host)
        elif keyword == "match":
            active = False
        elif not active:
            continue
        elif keyword == "include" and depth < _INCLUDE_DEPTH:
            for pattern in arguments:
                for included in _included(pattern, folder):
                    _read(included, folder, host, alias, active=True, depth=depth + 1)
        elif keyword in _SINGLE and arguments:
            alias.values.setdefault(keyword, arguments[0])
        elif keyword == "identityfile" and arguments:
            alias.identity_files.append(arguments[0])
        elif keyword in _PROGRAMS and arguments and arguments[0].lower() != "none":
            alias.runs = alias.runs or _PROGRAMS[keyword]


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        found = re.match(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*$", line)
        if found is None:
            continue
        try:
            arguments = shlex.split(found[2], comments=True)
        except ValueError:
            arguments = found[2].split()
        yield found[1].lower(), arguments


def _matches(patterns: list[str], host: str) -> bool:
    """Apply a Host line: one pattern must match, and none of the negated ones."""
    if any(one.startswith("!") and _glob(one[1:], host) for one in patterns):
        return False
    return any(not one.startswith("!") and _glob(one, host) for one in patterns)


def _glob(pattern: str, host: str) -> bool:
    # Only * and ? are special in OpenSSH's patterns.
    return fnmatch.fnmatchcase(host.lower(), pattern.lower().replace("[", "[[]"))


def _included(pattern: str, folder: Path) -> list[Path]:
    path = Path(pattern).expanduser()
    if path.is_absolute():
        return sorted(Path("/").glob(str(path).lstrip("/")))
    return sorted(folder.glob(pattern))
