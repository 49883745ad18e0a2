"""Known host keys: reads the operator's known_hosts, checks a presented key against it, records a new one.

The file is OpenSSH's, with hashed names, `[host]:port`, `@revoked` and `@cert-authority`; beside it lines
`host SHA256:…` are understood. What the operator's file says is final: no pin overrules it.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import FingerprintMismatch, HostKeyMismatch, HostKeyUnknown
from shiftlog.shell.remote.settings import SshSettings

FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")

Standing = Literal["known", "unknown", "contradicted", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """One line that fits a host: a key, or only its fingerprint."""

    marker: str
    key: bytes | None
    fingerprint: str

    @property
    def algorithm(self) -> str | None:
        """The key's type, if the line holds the key itself."""
        if self.key is None or len(self.key) < 4:
            return None
        size = int.from_bytes(self.key[:4], "big")
        return self.key[4 : 4 + size].decode("ascii", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHost:
    """The file's lines about one host; `elsewhere` holds for it under the standard port only."""

    lines: tuple[KnownKey, ...]
    elsewhere: tuple[KnownKey, ...] = ()

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The types of the known keys, to be requested first."""
        found = [one.algorithm for one in self.lines + self.elsewhere if one.marker == ""]
        return tuple(dict.fromkeys(one for one in found if one is not None))

    @property
    def has_authorities(self) -> bool:
        """True if certificates may prove the host."""
        return any(one.marker == "@cert-authority" for one in self.lines)

    def judge(self, key: bytes) -> Standing:
        """Judge a key that the host presents."""
        fingerprint = fingerprint_of(key)
        if any(one.fingerprint == fingerprint for one in (*self.lines, *self.elsewhere) if one.marker == "@revoked"):
            return "revoked"
        plain = [one for one in self.lines if one.marker == ""]
        if plain:
            return "known" if any(one.fingerprint == fingerprint for one in plain) else "contradicted"
        same = any(one.marker == "" and one.fingerprint == fingerprint for one in self.elsewhere)
        return "known" if same else "unknown"

    def vouches(self, authority: bytes) -> bool:
        """Return True if an authority's certificates are trusted for the host."""
        fingerprint = fingerprint_of(authority)
        marked = {one.marker for one in self.lines if one.fingerprint == fingerprint}
        return "@cert-authority" in marked and "@revoked" not in marked


def fingerprint_of(key: bytes) -> str:
    """Return a key's fingerprint as OpenSSH shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def find_known(path: Path, host: str, port: int) -> KnownHost:
    """Return what a known_hosts file says of a host; a missing file means no known host."""
    if port == 22:
        return KnownHost(lines=tuple(_fitting(path, host)))
    return KnownHost(lines=tuple(_fitting(path, f"[{host}]:{port}")), elsewhere=tuple(_fitting(path, host)))


def decide(
    known: KnownHost, key: bytes, *, host: str, pin: str | None, settings: SshSettings
) -> tuple[ShiftlogError | None, bool]:
    """Return why a presented key is refused, or None, and whether it is to be recorded."""
    standing, presented = known.judge(key), fingerprint_of(key)
    if standing in ("contradicted", "revoked"):
        refusal = HostKeyMismatch(
            f"host key of {host} does not match known_hosts", details={"host": host, "presented": presented}
        )
        return refusal, False
    unknown = HostKeyUnknown(f"host key of {host} is not known", details={"host": host})
    if pin is None:
        if standing == "known":
            return None, False
        return (None, True) if settings.accept_new_host_keys else (unknown, False)
    if standing == "unknown" and settings.require_known_hosts and not settings.accept_new_host_keys:
        return unknown, False
    if not hmac.compare_digest(pin.rstrip("="), presented):
        details = {"presented": presented, "pinned": pin}
        return FingerprintMismatch(f"host key of {host} is not the pinned one", details=details), False
    return None, False


def record(path: Path, host: str, port: int, key: bytes, algorithm: str) -> None:
    """Add a host's key to the file; it and its directory are made if need be."""
    name = host if port == 22 else f"[{host}]:{port}"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = f"{name} {algorithm} {base64.b64encode(key).decode()}\n".encode()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            line = b"\n" + line
        os.write(fd, line)
    finally:
        os.close(fd)


def _fitting(path: Path, name: str) -> Iterator[KnownKey]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 2 or words[0].startswith("#") or not _fits(words[0], name):
            continue
        if FINGERPRINT.fullmatch(words[1]):
            yield KnownKey(marker=marker, key=None, fingerprint=words[1].rstrip("="))
            continue
        try:
            key = base64.b64decode(words[2], validate=True)
        except (IndexError, binascii.Error):
            continue
        yield KnownKey(marker=marker, key=key, fingerprint=fingerprint_of(key))


def _fits(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        return _fits_hash(patterns, name)
    fits = False
    for pattern in patterns.split(","):
        negated = pattern.startswith("!")
        # In these patterns only * and ? are special; brackets belong to names with a port.
        if fnmatch.fnmatchcase(name.lower(), pattern.lstrip("!").lower().replace("[", "[[]")):
            if negated:
                return False
            fits = True
    return fits


def _fits_hash(hashed: str, name: str) -> bool:
    try:
        _, _, salt, digest = hashed.split("|")
        expected = base64.b64decode(digest, validate=True)
        return hmac.compare_digest(hmac.digest(base64.b64decode(salt, validate=True), name.encode(), "sha1"), expected)
    except (ValueError, binascii.Error):
        return False
