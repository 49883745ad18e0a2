"""The commands `status` (an overview) and `daemon` (start, stop, status)."""

import fcntl
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shiftlog.cli.connecting import ANSWER_S, json_option, open_client, opened_home
from shiftlog.cli.screen.output import Column, Part, Printer, id_column, print_json, since, title_column
from shiftlog.link import processes, wire
from shiftlog.model.errors import StorageError
from shiftlog.text.figures import count, largest_unit, size

if TYPE_CHECKING:
    from shiftlog.shell.engine.holders import ShellHolders

END_S = 5.0
READING_HINT = "shiftlog show, verify and export read it as it is"
LOOK_EVERY_S = 0.02
OPEN_COLUMNS = (
    title_column("OPEN SESSION"),
    Column("AGENT", "agent_id", spare=1),
    Column("TURNS", "turns", right=True, spare=2),
    Column("ACTIVE", lambda item: f"{since(item['last_activity'])} ago", right=True),
    id_column(),
)

Facts = dict[str, Any]


@click.command(short_help="Show the daemon, connected clients and open sessions.")
@json_option
def status(as_json: bool) -> None:
    """Show an overview: the daemon, its clients, the size of the record and the open sessions.

    Starts the daemon if it does not run.

    \b
    Example:
      shiftlog status
    """
    facts = _facts()
    if as_json:
        print_json(facts)
    else:
        print_status(Printer(), facts)


def print_status(printer: Printer, facts: Facts) -> None:
    """Print a status answer of the daemon."""
    for name, parts in status_lines(facts):
        printer.line((f"{name:<10}", "dim"), *parts)
    if facts.get("open"):
        printer.line()
        printer.table(OPEN_COLUMNS, facts["open"])
        if facts["sessions_open"] > len(facts["open"]):
            printer.line(("shiftlog sessions --status open lists them all", "dim"))


def status_lines(facts: Facts) -> list[tuple[str, list[Part]]]:
    """Return the lines of a status: a name and the parts to print."""
    clients = sum(one["role"] == "mcp" for one in facts["connections"])
    memory = f", {size(facts['rss_bytes'])}" if facts["rss_bytes"] else ""
    up = f"pid {facts['pid']}, version {facts['version']}, up {largest_unit(facts['uptime_s'])}{memory}"
    daemon: list[Part] = [("running", "green"), f"  {up}"]
    if facts.get("read_only"):
        daemon = [("none", "yellow"), "  the state directory cannot be written; this command reads it itself"]
    record: Part = ("cannot be read", "red")
    if "sessions" in facts:
        record = (
            f"{count(facts['sessions'], 'session')} ({facts['sessions_open']:,} open), "
            f"{count(facts['turns'], 'turn')}, {count(facts['entries'], 'entry')}, {size(facts['database_bytes'])}"
        )
    http: list[Part] = [("off", "dim"), "  shiftlog serve, or http.enabled in config.toml"]
    if facts.get("http_fault"):
        http = [("not served", "red"), f"  {facts['http_fault']}"]
    elif facts.get("http"):
        http = [facts["http"]]
    elif facts.get("page"):
        http = [facts["page"], ("  only the page; shiftlog serve adds MCP", "dim")]
    faults: list[tuple[str, list[Part]]] = [
        ("fault", [(str(fault["what"]), "red"), f"  {fault['reason']}"]) for fault in facts.get("faults", ())
    ]
    return [
        *faults,
        ("daemon", daemon),
        ("home", [facts["home"]]),
        ("socket", [facts["socket"]]),
        ("http", http),
        ("agents", [f"{count(clients, 'MCP client')} connected"]),
        ("record", [record]),
    ]


@click.group(short_help="Start, stop or check the daemon.")
def daemon() -> None:
    """Start, stop or check the daemon, which keeps the record.

    You rarely need this: every command and every agent starts the daemon on demand, and it stops by itself after
    an idle time (daemon.idle_stop_minutes).

    \b
    Example:
      shiftlog daemon stop
    """


@daemon.command()
@json_option
def start(as_json: bool) -> None:
    """Start the daemon if it does not run.

    \b
    Example:
      shiftlog daemon start
    """
    home = opened_home()
    if wire.is_read_only(home):
        raise StorageError(f"{home} cannot be written, so no daemon can be started", hint=READING_HINT)
    before = _lock_holder(home)
    facts = _facts()
    started = facts["pid"] != before
    if as_json:
        print_json({"started": started, **_summary(facts)})
        return
    says = "Started the daemon" if started else "The daemon runs already"
    Printer().line(f"{says} (pid {facts['pid']}) for {facts['home']}")


def _facts() -> Facts:
    """Return what the daemon says of itself, starting it if it does not run."""
    with open_client(answers_within_s=ANSWER_S) as client:
        return client.call("daemon.status")


def _summary(facts: Facts) -> Facts:
    return {
        name: facts.get(name)
        for name in ("pid", "version", "home", "socket", "uptime_s", "http", "http_fault", "faults")
    }


@daemon.command()
@click.option("--shells", is_flag=True, help="End the shells too, with all that runs in them.")
@json_option
def stop(shells: bool, as_json: bool) -> None:
    """Stop the daemon after it has finished the running requests.

    Connected agents start it again with their next call. Local shells and their commands go on and wait for the next
    daemon (daemon.hold_shells_minutes); --shells ends them. A daemon that does not answer is killed; everything that
    it acknowledged is safe.

    \b
    Example:
      shiftlog daemon stop
    """
    from shiftlog.link.client import DaemonUnreachable, connect, stop_daemon

    try:
        connect(start=False, timeout_s=ANSWER_S).close()
        pid, ended = stop_daemon(shells=shells), False
    except DaemonUnreachable:
        pid = _end_silent(wire.home_path())
        ended = pid is not None
    if shells:
        _held_shells().end_all()
    if as_json:
        held = len(_held_shells().listed())
        print_json({"stopped": pid is not None, "pid": pid, "ended": ended, "held_shells": held})
    elif ended:
        Printer().line(f"The daemon (pid {pid}) did not answer and was ended.")
    else:
        Printer().line("No daemon was running." if pid is None else f"Stopped the daemon (pid {pid}).")
    if not as_json and (held := len(_held_shells().listed())):
        Printer().line(f"Left for the next daemon: {count(held, 'shell')}; shiftlog daemon stop --shells ends them.")


def _held_shells() -> "ShellHolders":
    """Return the shells of this state directory that are held."""
    from shiftlog.shell.engine.holders import ShellHolders

    return ShellHolders(Path(wire.home_path()) / "held", 0)


def _end_silent(home: str) -> int | None:
    """Kill a daemon that holds the lock but does not answer; return its pid, None if there is none."""
    pid = _lock_holder(home)
    if pid is None:
        return None
    started = processes.started(pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if processes.alive(pid, started):
            os.kill(pid, number)
        deadline = time.monotonic() + END_S
        while processes.alive(pid, started) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
    return pid


def _lock_holder(home: str) -> int | None:
    """Return the pid in the lock file if the lock is really held."""
    try:
        lock = os.open(wire.lock_path(home), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(lock, 32, 0).partition(b"\n")[0]
        return int(pid) if pid.isdigit() else None
    else:
        return None
    finally:
        os.close(lock)


@daemon.command("status", short_help="Check whether the daemon runs.")
@json_option
def daemon_status(as_json: bool) -> int:
    """Check whether the daemon runs, without starting it. The exit status is 1 if it does not.

    \b
    Example:
      shiftlog daemon status
    """
    from shiftlog.link.client import DaemonUnreachable

    try:
        client = open_client(start=False, answers_within_s=ANSWER_S)
    except DaemonUnreachable as error:
        if as_json:
            print_json({"running": False, "reason": error.message})
        else:
            Printer().line(f"{error.message}.")
        return 1
    with client:
        facts: Facts = client.call("daemon.status")
    if as_json:
        print_json({"running": True, **_summary(facts), "connections": facts["connections"]})
        return 0
    printer = Printer()
    for name, parts in status_lines(facts)[: 4 + len(facts["faults"])]:
        printer.line((f"{name:<10}", "dim"), *parts)
    for one in facts["connections"]:
        where = f" in {one['cwd']}" if one["cwd"] else ""
        printer.line(
            (f"{'client':<10}", "dim"), f"{one['face']}, pid {one['pid']}, {largest_unit(one['age_s'])}{where}"
        )
    return 0
