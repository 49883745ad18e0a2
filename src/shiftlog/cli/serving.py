"""The commands `mcp` (one agent over stdio) and `serve` (HTTP clients on this machine).

A plain `shiftlog mcp` never comes here: `entry` sends it straight to the bridge.
"""

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from shiftlog.cli.connecting import opened_home
from shiftlog.cli.screen.output import Printer
from shiftlog.model.errors import InvalidParameter, StorageError

if TYPE_CHECKING:
    from shiftlog.config.loading import HttpSection
    from shiftlog.link.client import Client

TEAM_HINT = (
    "HTTP here is for clients on this machine. Serving a team over the network needs TLS, keys and a database of its "
    "own, and comes with its own setup"
)
COME_UP_S = 30.0
LOOK_EVERY_S = 0.05


def _words(values: tuple[str, ...]) -> list[str]:
    return [word for value in values for part in value.split(",") if (word := part.strip())]


@click.command(short_help="Serve one agent over stdio; agents start this themselves.")
@click.option("--toolsets", metavar="NAMES", multiple=True, help="Toolsets to offer, separated by commas.")
@click.option(
    "--tools", metavar="NAMES", multiple=True, help="Single tools to offer, alone or in addition to --toolsets."
)
@click.option("--exclude-tools", metavar="NAMES", multiple=True, help="Tools never to offer.")
@click.option("--dialect", metavar="NAMES", multiple=True, help="Dialects to offer: nexo, mcpserver, execkit.")
@click.option(
    "--policy-file", metavar="FILE", multiple=True, help="Additional policy for this agent; see docs/policy.md."
)
@click.option("--read-only", is_flag=True, help="Offer only tools that change nothing.")
@click.option("--in-process", is_flag=True, help="Run everything in this process, without the daemon.")
def mcp(
    toolsets: tuple[str, ...],
    tools: tuple[str, ...],
    exclude_tools: tuple[str, ...],
    dialect: tuple[str, ...],
    policy_file: tuple[str, ...],
    read_only: bool,
    in_process: bool,
) -> int:
    """Serve one agent over standard input and output. Agents start this command themselves.

    `shiftlog setup` configures an agent to do so. The process forwards messages between the agent and the daemon and
    is ready in milliseconds. --in-process runs without a daemon, for containers and for debugging.

    \b
    Examples:
      claude mcp add --scope user shiftlog -- shiftlog mcp
      shiftlog mcp --toolsets journal --read-only
    """
    lists = {
        "toolsets": _words(toolsets),
        "tools": _words(tools),
        "exclude_tools": _words(exclude_tools),
        "dialects": _words(dialect),
    }
    options: dict[str, Any] = {name: words for name, words in lists.items() if words}
    if read_only:
        options["read_only"] = True
    if in_process:
        _export_policy(policy_file)
        from shiftlog.daemon.in_process import serve_in_process

        return serve_in_process(opened_home(), options)
    from shiftlog.link.bridge import run

    if policy_file:
        options["policy_files"] = [*policy_file]
    return run(options)


@click.command(short_help="Serve MCP over HTTP on this machine.")
@click.option("--host", metavar="ADDRESS", help="Loopback address to listen on (default: http.host).")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Port to listen on; 0 takes any free one (default: http.port).",
)
@click.option("--policy-file", metavar="FILE", multiple=True, help="Additional policy for every client.")
def serve(host: str | None, port: int | None, policy_file: tuple[str, ...]) -> int:
    """Serve MCP over HTTP on this machine until Ctrl-C.

    This runs the daemon in the foreground with HTTP enabled. A daemon that already runs is replaced, and its agents
    reconnect. Clients need the token from the file http.token in the state directory. To serve HTTP always, set
    http.enabled in config.toml instead.

    \b
    Examples:
      shiftlog serve
      shiftlog serve --port 7500
    """
    from shiftlog import daemon
    from shiftlog.link import client

    home = opened_home()
    _export_policy(policy_file)
    settings = _settings(Path(home), host, port)
    if _port_of_daemon(home) != settings.port:  # the daemon that is replaced frees its port
        _check_free(settings)
    start_lock = _take_start_lock(home)
    replaced = client.stop_daemon(home)
    if replaced is not None:
        click.echo(f"The daemon with pid {replaced} made way.", err=True)
        _check_free(settings)
    announcing = Thread(target=_announce, args=(home, start_lock), daemon=True)
    announcing.start()
    return daemon.main(["--home", home, "--foreground", "--idle-stop-s", "0"])


def _export_policy(files: tuple[str, ...]) -> None:
    """Put the policy files into the environment, where the app of this process reads them."""
    from shiftlog.link.wire import POLICY_FILES_VARIABLE

    if files:
        os.environ[POLICY_FILES_VARIABLE] = json.dumps([str(Path(name).expanduser().absolute()) for name in files])


def _settings(home: Path, host: str | None, port: int | None) -> "HttpSection":
    """Put the options into the environment, and return the settings that the daemon will read."""
    from shiftlog.config.loading import ConfigError, load

    os.environ["SHIFTLOG_HTTP_ENABLED"] = "true"
    if host is not None:
        os.environ["SHIFTLOG_HTTP_HOST"] = host
    if port is not None:
        os.environ["SHIFTLOG_HTTP_PORT"] = str(port)
    try:
        read = load(home, os.environ)
    except ConfigError as error:
        if error.details.get("key") not in ("http.host", "SHIFTLOG_HTTP_HOST"):
            raise
        says = f"'{error.details.get('value')}' is not a loopback address (127.0.0.1, ::1 or localhost)"
        raise InvalidParameter(says, details=error.details, hint=TEAM_HINT) from None
    from shiftlog.app.policy import operator_policy

    operator_policy(home, read, os.environ)  # report its faults before a running daemon is replaced
    return read.http


def _port_of_daemon(home: str) -> int | None:
    """Return the port of a running daemon's HTTP listener, None if it has none."""
    from shiftlog.link.client import DaemonUnreachable, connect

    try:
        with connect(home, start=False) as client:
            return urlsplit(client.call("daemon.status").get("page") or "").port
    except DaemonUnreachable:
        return None


def _check_free(settings: "HttpSection") -> None:
    """Refuse a taken port; the daemon itself would only log it."""
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, settings.port), family=family).close()
    except OSError as error:
        raise StorageError(
            f"Cannot listen on {settings.host} port {settings.port}: {os.strerror(error.errno or 0)}",
            hint="Choose another port with --port; 0 takes any that is free",
        ) from None


def _take_start_lock(home: str) -> int:
    """Keep clients from starting a daemon between the end of the old one and our start."""
    lock = os.open(Path(home, "start.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _announce(home: str, start_lock: int) -> None:
    """Print the address and the token file once HTTP is served."""
    url = _served_at(home, start_lock)
    if url is None:
        return
    token = Path(home, "http.token")
    printer = Printer()
    printer.line("MCP over HTTP:  ", (url, "green"))
    printer.line("Token:          ", (str(token), "cyan"), ("  sent as 'Authorization: Bearer TOKEN'", "dim"))
    printer.line(
        ("For example:    ", "dim"),
        f'claude mcp add --transport http shiftlog {url} --header "Authorization: Bearer $(cat {token})"',
    )
    printer.line(("Ctrl-C stops serving.", "dim"))


def _served_at(home: str, start_lock: int) -> str | None:
    deadline = time.monotonic() + COME_UP_S
    try:
        client = _connected(home, deadline)
    finally:
        os.close(start_lock)
    if client is None:
        return None
    with client:
        while time.monotonic() < deadline:
            url = client.call("daemon.status")["http"]
            if url:
                return url
            time.sleep(LOOK_EVERY_S)
    return None


def _connected(home: str, deadline: float) -> "Client | None":
    from shiftlog.link.client import DaemonUnreachable, connect

    while time.monotonic() < deadline:
        try:
            return connect(home, start=False)
        except DaemonUnreachable:
            time.sleep(LOOK_EVERY_S)
    return None
