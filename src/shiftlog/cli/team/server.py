"""The command `server`: one replica of a team's server over PostgreSQL."""

import os

import click

from shiftlog.cli.connecting import opened_home


@click.command(short_help="Serve a team over HTTP from PostgreSQL.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on (default: server.host, 127.0.0.1).")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Port to listen on; 0 takes any free one (default: server.port, 7438).",
)
def server(host: str | None, port: int | None) -> int:
    """Serve the journal of a team over HTTP until a signal ends it: MCP, tools, pages, health and metrics.

    The journal is in the PostgreSQL database that `store.url` names. Any number of these processes may serve one
    database, behind any load balancer. There are no shells and no hooks here; those belong to the daemon of each
    machine. Every request needs an API key (`shiftlog keys create`), and without one the server listens on loopback
    only. It speaks plain HTTP: put a reverse proxy with TLS before it. The log is JSON on standard error. SIGTERM
    drains: the server says that it is not ready, finishes what runs, and ends.

    \b
    Examples:
      SHIFTLOG_STORE_URL=postgresql://me@db.example/shiftlog shiftlog server
      shiftlog server --host 0.0.0.0 --port 8080
    """
    if host is not None:
        os.environ["SHIFTLOG_SERVER_HOST"] = host
    if port is not None:
        os.environ["SHIFTLOG_SERVER_PORT"] = str(port)
    home = opened_home()
    from shiftlog.server.process import serve_team

    return serve_team(home)
