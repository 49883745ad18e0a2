"""The process of one replica: it opens the app, listens, keeps leases and sessions in order, and drains at its end.

On SIGTERM it first says that it is not ready and asks clients to leave with each answer, for `server.drain_s`. Then it
takes no new connections, finishes what runs, and ends. A second signal skips the wait.
"""

import ipaddress
import logging
import os
import random
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import uvicorn
import uvloop

from shiftlog import __version__
from shiftlog.app.app import App, open_app
from shiftlog.app.team import Team, open_team
from shiftlog.config.loading import ServerSection, load
from shiftlog.daemon import secrecy
from shiftlog.daemon.http import QuietServer, listen_at
from shiftlog.daemon.http_connections import LimitedProtocol
from shiftlog.daemon.lifecycle import collect_rarely
from shiftlog.daemon.tasks import until
from shiftlog.daemon.upkeep import LEASES, Upkeep
from shiftlog.model.errors import ConfigError, StorageError
from shiftlog.model.limits import (
    RENEW_EVERY_S,
    SERVER_FINISH_S,
    SERVER_KEEP_ALIVE_S,
    SWEEP_EVERY_S,
)
from shiftlog.server.application import team_application
from shiftlog.server.logs import open_json_log
from shiftlog.web.live import Live

KEYS_HINT = "Make one first: shiftlog keys create NAME --scope write"

log = logging.getLogger(__name__)


def serve_team(home: str, environ: Mapping[str, str] = os.environ) -> int:
    """Serve until a signal ends the process; return the exit status. Raises ShiftlogError if it cannot start."""
    os.umask(0o077)
    given = dict(environ)
    config = load(Path(home), given)
    secrecy.hide()
    open_json_log(config.daemon.log_level)
    anyio.run(_serve, Path(home), given, backend_options={"loop_factory": uvloop.new_event_loop})
    return 0


@dataclass(slots=True)
class _Presence:
    """The clients with a recent request at any replica, as last read; threads read it."""

    clients: frozenset[str] = frozenset()


async def _serve(home: Path, environ: Mapping[str, str]) -> None:
    presence = _Presence()
    async with (
        open_app(home, environ, connected=lambda: presence.clients, for_team=True) as app,
        open_team(app) as team,
    ):
        await _check_keys(app, team)
        await Replica(app, team, presence).run()


async def _check_keys(app: App, team: Team) -> None:
    """Refuse to listen for other machines while no key exists, so that a mistake in the settings opens nothing."""
    if await team.keys.is_any_valid():
        return
    host = app.config.server.host
    if not is_loopback(host):
        raise ConfigError(
            f"server.host is {host}, which other machines reach, but there is no API key",
            details={"key": "server.host", "value": host},
            hint=KEYS_HINT,
        )
    log.warning("there is no API key yet, so every request is refused: %s", KEYS_HINT)


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Replica:
    """One running process of a team's server."""

    def __init__(self, app: App, team: Team, presence: _Presence) -> None:
        self._app = app
        self._team = team
        self._presence = presence
        self._live = Live(app=app, news=team.changes)
        self._draining = anyio.Event()
        self._hurried = anyio.Event()
        self._upkeep = Upkeep()

    async def run(self) -> None:
        """Serve until a signal, then drain."""
        settings = self._app.config.server
        listener = _listener(settings)
        await self._upkeep.attempt(LEASES, self._renew)  # leases may have run out while no replica was there
        collect_rarely()
        server = QuietServer(
            uvicorn.Config(
                team_application(self._app, self._team, self._live, self._draining),
                interface="asgi3",
                log_config=None,
                access_log=False,
                lifespan="on",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=SERVER_FINISH_S,
                timeout_keep_alive=SERVER_KEEP_ALIVE_S,
                http=LimitedProtocol,
                limit_concurrency=settings.max_connections,
            )
        )
        repeat = self._upkeep.repeat
        async with anyio.create_task_group() as background:
            background.start_soon(self._obey_signals)
            background.start_soon(repeat, LEASES, RENEW_EVERY_S, self._renew)
            # Replicas that were started together must not all sweep at the same moment.
            every_s = SWEEP_EVERY_S * random.uniform(1, 2)  # noqa: S311 - no secret
            background.start_soon(repeat, "the sweep of idle sessions", every_s, self._sweep)
            background.start_soon(self._bring_up_to_date)
            background.start_soon(self._stop, server)
            host, port = listener.getsockname()[:2]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            log.info("listens", extra={"facts": {"url": url, "version": __version__, "pid": os.getpid()}})
            await server.serve(sockets=[listener])
            background.cancel_scope.cancel()
        log.info("stopped")

    async def _stop(self, server: QuietServer) -> None:
        """Wait for the signal, then for proxies and clients to leave, and end the web server."""
        await self._draining.wait()
        async with until(self._hurried):
            await anyio.sleep(self._app.config.server.drain_s)
        self._live.stop()
        server.should_exit = True

    async def _obey_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._draining.is_set():
                    self._hurried.set()
                else:
                    log.info("draining after %s", signal.Signals(number).name)
                    self._draining.set()

    async def _renew(self) -> None:
        clients = await self._team.mcp_sessions.present()
        self._presence.clients = frozenset(clients)
        await self._app.continuity.renew(clients)

    async def _sweep(self) -> None:
        clients = await self._team.mcp_sessions.present()
        await self._app.sweep(clients)
        await self._team.mcp_sessions.forget_old()

    async def _bring_up_to_date(self) -> None:
        await self._upkeep.until_done("the tables after an upgrade", self._app.maintenance.bring_up_to_date)


def _listener(settings: ServerSection) -> socket.socket:
    try:
        return listen_at(settings.host.strip("[]"), settings.port)
    except OSError as error:
        raise StorageError(
            f"Cannot listen on {settings.host} port {settings.port}: {os.strerror(error.errno or 0)}",
            hint="Choose another address or port with --host and --port; port 0 takes any that is free",
        ) from None
