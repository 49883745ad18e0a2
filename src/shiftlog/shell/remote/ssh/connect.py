"""Connects by ssh, hop by hop; each host's key is checked before anything secret is sent.

asyncssh speaks the protocol; here is decided what is trusted, offered and answered. asyncssh reads no file by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import HostKeyMismatch, HostKeyUnknown, SshAuthFailed
from shiftlog.shell.remote.settings import SshSettings
from shiftlog.shell.remote.ssh.hosts import Hop, connect_failed
from shiftlog.shell.remote.ssh.keys import named_key, offered_keys
from shiftlog.shell.remote.ssh.known_hosts import KnownHost, decide, find_known, fingerprint_of, record

LOG = logging.getLogger(__name__)
_SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The way to log in at the last hop: with a password, with a named key, or with all keys that are found."""

    password: str | None = field(default=None, repr=False)
    key_path: str | None = None
    fingerprint: str | None = None


class Gatekeeper(asyncssh.SSHClient):
    """Answers asyncssh's questions for one hop."""

    def __init__(self, hop: Hop, known: KnownHost, login: Login, settings: SshSettings) -> None:
        self._hop = hop
        self._known = known
        self._pin = login.fingerprint
        self._password = login.password
        self._settings = settings
        self._answered = False
        self._asked_password = False
        self.refusal: ShiftlogError | None = None
        self.methods: list[str] = []

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        data = key.public_data
        self.refusal, new = decide(self._known, data, host=self._hop.given, pin=self._pin, settings=self._settings)
        if isinstance(self.refusal, HostKeyUnknown):
            LOG.warning("host key of %s port %d is not known: %s", self._hop.host, self._hop.port, fingerprint_of(data))
        if new:
            record(self._settings.known_hosts_file, self._hop.host, self._hop.port, data, key.algorithm.decode())
        return self.refusal is None

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Judge the authority that signed the host's certificate."""
        return self._known.vouches(key.public_data)

    def password_auth_requested(self) -> str | None:
        """Give the password once."""
        if self._password is None or self._asked_password:
            return None
        self._asked_password = True
        self.methods.append("password")
        return self._password

    def kbdint_auth_requested(self) -> str | None:
        """Take part only if there is a password to answer with."""
        return None if self._password is None or self._answered else ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Answer a single prompt with the password, once; refuse several prompts."""
        if not prompts:
            return []
        if len(prompts) > 1 or self._answered or self._password is None:
            return None
        self._answered = True
        self.methods.append("keyboard-interactive")
        return [self._password]


async def connect(hops: Sequence[Hop], login: Login, settings: SshSettings) -> list[asyncssh.SSHClientConnection]:
    """Connect hop by hop; return the connections, the last one to the host itself."""
    made: list[asyncssh.SSHClientConnection] = []
    hop = hops[-1]
    try:
        async with asyncio.timeout(settings.connect_s):
            for hop in hops:
                final = hop is hops[-1]
                tunnel = made[-1] if made else None
                made.append(await _connect_one(hop, login if final else Login(), settings, tunnel))
    except TimeoutError:
        close_all(made)
        raise connect_failed(hop.given, hop.port, f"no answer within {settings.connect_s:g} s") from None
    except BaseException:
        close_all(made)
        raise
    return made


def close_all(connections: Sequence[asyncssh.SSHClientConnection]) -> None:
    """Close connections, the farthest first."""
    for connection in reversed(connections):
        connection.close()


async def _connect_one(
    hop: Hop, login: Login, settings: SshSettings, tunnel: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    known = find_known(settings.known_hosts_file, hop.host, hop.port)
    keeper = Gatekeeper(hop, known, login, settings)
    agent: asyncssh.SSHAgentClient | None = None
    no_keys: list[asyncssh.SSHKey] = []
    keys: list[asyncssh.SSHKeyPair | asyncssh.SSHKey] = []
    if login.key_path is not None:
        keys = [named_key(login.key_path, settings.key_dir)]
    elif login.password is None:
        keys, agent = await offered_keys(settings.agent_path, hop.identity_files, settings.key_dir)
    try:
        connection, _ = await asyncssh.create_connection(
            lambda: keeper,
            hop.host,
            hop.port,
            tunnel=tunnel,
            config=None,
            username=hop.user,
            client_keys=keys or None,
            agent_path=None,
            known_hosts=(no_keys, no_keys, _revoked(known)),
            server_host_key_algs=_algorithms(known, login.fingerprint),
            preferred_auth="password,keyboard-interactive" if login.password is not None else "publickey",
            gss_host=None,
            host_based_auth=False,
            x509_trusted_certs=None,
            keepalive_interval=settings.keepalive_s,
            keepalive_count_max=settings.keepalives - 1,  # asyncssh closes the connection at the next unanswered one
            login_timeout=settings.connect_s,
            client_version="Shiftlog",
        )
    except asyncssh.PermissionDenied:
        methods = keeper.methods or (["publickey"] if keys else [])
        raise SshAuthFailed(f"authentication as {hop.user} failed", details={"methods": methods}) from None
    except asyncssh.HostKeyNotVerifiable as error:
        raise _untrusted(hop, keeper, str(error)) from None
    except asyncssh.KeyExchangeFailed as error:
        raise connect_failed(hop.given, hop.port, error.reason) from None
    except asyncssh.Error as error:
        raise connect_failed(hop.given, hop.port, error.reason or "the host ended the connection") from None
    except OSError as error:
        raise connect_failed(hop.given, hop.port, _system_reason(error)) from None
    except ValueError:
        # Invalid names of hosts or users: an empty label (`a..b`), a NUL, an unassigned character.
        raise connect_failed(hop.given, hop.port, "the name of the host or user is not valid") from None
    finally:
        if agent is not None:
            agent.close()
            with contextlib.suppress(OSError):
                await agent.wait_closed()
    return connection


def _untrusted(hop: Hop, keeper: Gatekeeper, reason: str) -> ShiftlogError:
    if keeper.refusal is not None:
        return keeper.refusal
    if "revoked" in reason:
        return HostKeyMismatch(f"host key of {hop.given} does not match known_hosts", details={"host": hop.given})
    return HostKeyUnknown(f"host key of {hop.given} is not known", details={"host": hop.given})


def _revoked(known: KnownHost) -> list[asyncssh.SSHKey]:
    """Return the revoked keys; without an authority the gatekeeper alone checks, so that its error is used."""
    if not known.has_authorities:
        return []
    keys: list[asyncssh.SSHKey] = []
    for one in known.lines:
        if one.marker == "@revoked" and one.key is not None:
            with contextlib.suppress(asyncssh.KeyImportError):
                keys.append(asyncssh.public_key.decode_ssh_public_key(one.key))
    return keys


def _algorithms(known: KnownHost, pin: str | None) -> list[str]:
    """Prefer the types of the known keys; request certificates only if an authority is known."""
    usual = [one.decode() for one in get_default_public_key_algs()]
    first = [name for kind in known.algorithms for name in _SIGNATURES.get(kind, (kind,)) if name in usual]
    certificates = []
    if known.has_authorities and pin is None:
        certificates = [one.decode() for one in get_default_certificate_algs() if b"openssh.com" in one]
    return [*certificates, *first, *(one for one in usual if one not in first)]


def _system_reason(error: OSError) -> str:
    """Return why the network failed; asyncio names the address in place of the reason."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or "the network failed"
