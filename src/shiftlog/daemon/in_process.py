"""Everything in one process: the services of a daemon for the one client at standard input and output.

For containers and debugging. It takes no lock and opens no socket, so a daemon may serve the same state directory.
"""

import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

import anyio

from shiftlog.app.app import open_app
from shiftlog.app.policy import command_timeout_s
from shiftlog.daemon.log import open_log
from shiftlog.daemon.upkeep import LEASES, Upkeep
from shiftlog.journal.sessions import workspace_of
from shiftlog.link import processes, wire
from shiftlog.mcp.catalogue import registry_for, selection_for
from shiftlog.mcp.server import build_server
from shiftlog.mcp.stdio import serve_stdio
from shiftlog.model.caller import Caller
from shiftlog.model.limits import RENEW_EVERY_S, SWEEP_EVERY_S


def serve_in_process(home: str, options: Mapping[str, object]) -> int:
    """Serve the client at standard input and output until it closes its end; return the exit status."""
    os.umask(0o077)
    open_log(wire.log_path(home), "info", foreground=True)
    anyio.run(_serve, Path(home), options)
    return 0


async def _serve(home: Path, options: Mapping[str, object]) -> None:
    caller = _caller()
    present = [str(caller.client_id)]
    async with open_app(home, connected=lambda: present) as app:
        server = build_server(registry_for(app), selection_for(app, options))
        drain = anyio.Event()
        async with anyio.create_task_group() as background:
            background.start_soon(_obey_signals, drain)
            repeat = Upkeep().repeat
            background.start_soon(repeat, LEASES, RENEW_EVERY_S, lambda: app.continuity.renew(present))
            background.start_soon(repeat, "the sweep of idle sessions", SWEEP_EVERY_S, lambda: app.sweep(present))
            await serve_stdio(server, caller, drain=drain)
            background.cancel_scope.cancel()
        await app.continuity.client_gone(str(caller.client_id))


def _caller() -> Caller:
    cwd = processes.working_directory()
    return Caller(
        client_id=os.urandom(16).hex(),
        face="mcp",
        host=socket.gethostname(),
        pid=os.getpid(),
        pid_started=processes.started(),
        cwd=cwd,
        workspace=workspace_of(cwd) if cwd else None,
        holds_leases=True,
        command_timeout_s=command_timeout_s(os.environ),
    )


async def _obey_signals(drain: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            drain.set()
