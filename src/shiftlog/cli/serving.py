"""The commands `mcp` (one agent over stdio), `repl` (the session log's envelopes) and `serve` (HTTP on this machine).

A plain `shiftlog mcp` or `shiftlog repl` never comes here: `entry` sends it straight to the bridge or to the REPL,
which parses the same options itself.
"""

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from shiftlog import __version__
from shiftlog.cli.connecting import opened_home
from shiftlog.cli.screen.output import Printer
from shiftlog.model.errors import InvalidParameter, StorageError

if TYPE_CHECKING:
    from shiftlog.config.loading import HttpSection

TEAM_HINT = "HTTP here is for clients on this machine; shiftlog server serves a team, with API keys and PostgreSQL"
COME_UP_S = 30.0
LOOK_EVERY_S = 0.05


@click.command(short_help="Serve one agent over stdio; agents start this themselves.")
@click.option("--toolsets", metavar="NAMES", multiple=True, help="Toolsets to offer, separated by commas.")
@click.option(
    "--tools", metavar="NAMES", multiple=True, help="Single tools to offer, alone or in addition to --toolsets."
)
@click.option("--exclude-tools", metavar="NAMES", multiple=True, help="Tools never to offer.")
@click.option(
    "--dialect", "dialects", metavar="NAMES", multiple=True, help="Dialects to offer: nexo, mcpserver, execkit."
)
@click.option(
    "--policy-file", metavar="FILE", multiple=True, help="Additional policy for this agent; see docs/policy.md."
)
@click.option("--read-only", is_flag=True, help="Offer only tools that change nothing.")
@click.option("--in-process", is_flag=True, help="Run everything in this process, without the daemon.")
def mcp(policy_file: tuple[str, ...], read_only: bool, in_process: bool, **lists: tuple[str, ...]) -> int:
    """Serve one agent over standard input and output. Agents start this command themselves.

    `shiftlog setup` configures an agent to do so. The process forwards messages between the agent and the daemon and
    is ready in milliseconds. --in-process runs without a daemon, for containers and for debugging.

    \b
    Examples:
      claude mcp add --scope user shiftlog -- shiftlog mcp
      shiftlog mcp --toolsets journal --read-only
    """
    options: dict[str, Any] = {}
    for name, values in lists.items():
        if words := [word for value in values for part in value.split(",") if (word := part.strip())]:
            options[name] = words
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


@click.command(short_help="Run the session log's REPL; client scripts use this.")
@click.option("--agent-stdio", is_flag=True, help="Read envelopes until the input ends (default without a terminal).")
@click.option("--interactive", is_flag=True, help="The same, with a prompt (default on a terminal).")
@click.option("--invoke", metavar="METHOD", help="Send one request and print its result.")
@click.option("--workspace-path", metavar="PATH", help="Workspace (default: the working directory).")
@click.option("--agent", metavar="NAME", help="Agent that makes the calls (default: SHIFTLOG_AGENT).")
@click.option("--marker-file", metavar="FILE", help="Accepted and ignored; a local store needs no marker.")
@click.version_option(__version__, prog_name="shiftlog repl", message="%(prog)s %(version)s")
@click.argument("params", required=False)
def repl(params: str | None, **given: Any) -> int:
    """Read request envelopes of the session log on standard input and write their answers to standard output.

    Envelopes are JSON lines or YAML documents. The same program is installed as `mcpserver-repl`. PARAMS belongs to
    --invoke: JSON or YAML text, or `-` to read it from the input. The exit status is 0 at the end of the input or if
    the request succeeded, 1 if the request of --invoke failed, and 2 for a usage error.

    \b
    Examples:
      shiftlog repl --agent-stdio < requests.jsonl
      shiftlog repl --invoke workflow.sessionlog.currentSession
      shiftlog repl --invoke workflow.sessionlog.queryHistory '{"limit": 5}'
    """
    from shiftlog.repl import options

    chosen = options.ReplOptions()
    for name, value in given.items():
        setattr(chosen, name, value)
    try:
        return options.run(options.check(chosen, [] if params is None else [params]))
    except options.UsageError as error:
        raise click.UsageError(str(error)) from error


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
    # Keeps clients from starting a daemon between the end of the old one and our start.
    start_lock = os.open(Path(home, "start.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(start_lock, fcntl.LOCK_EX)
    replaced = client.stop_daemon(home)
    if replaced is not None:
        click.echo(f"The daemon with pid {replaced} made way.", err=True)
        _check_free(settings)
    Thread(target=_announce, args=(home, start_lock), daemon=True).start()
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


def _announce(home: str, start_lock: int) -> None:
    """Print the address and the token file once HTTP is served; clients may start a daemon again from then on."""
    from shiftlog.link.client import DaemonUnreachable, connect

    url, deadline = None, time.monotonic() + COME_UP_S
    try:
        while not url and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
            with suppress(DaemonUnreachable), connect(home, start=False) as client:
                url = client.call("daemon.status")["http"]
    finally:
        os.close(start_lock)
    if not url:
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
