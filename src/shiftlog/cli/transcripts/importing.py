"""`shiftlog import`: imports the transcripts of other agents, with a progress bar and a report.

The daemon does the work; this module has the options, the output and the exit status.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import click

from shiftlog.cli.connecting import json_option, open_client
from shiftlog.cli.screen.output import Column, Printer, print_json
from shiftlog.cli.screen.progress import ProgressLine
from shiftlog.model.errors import InvalidParameter
from shiftlog.text.figures import tokens
from shiftlog.text.printable import terminal_line

if TYPE_CHECKING:
    from shiftlog.link.client import Client

FAILED, INTERRUPTED = 1, 130
BAR_CHARS = 24
MOST_KEPT = 100
# A watch gives up after this many daemons in a row that ended at once.
MOST_LOST = 5
STEADY_S = 5.0
RETRY_S = 0.5

# The user's environment, not the daemon's, says where agents keep their transcripts.
SEVERAL_FOLDERS = "CLAUDE_CONFIG_DIR"
FOLDER_VARIABLES = ("HOME", SEVERAL_FOLDERS, "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME")

Shown = dict[str, Any]


@click.command("import", short_help="Import the sessions of other agents.")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--agent", "agents", multiple=True, metavar="A", help="Only this agent: claude, codex, gemini, …")
@click.option("--since", metavar="T", help="Only files changed since then: 7d, 12h, a date or a time.")
@click.option("--watch", is_flag=True, help="Keep running and import new data as it is written.")
@click.option("--dry-run", is_flag=True, help="Read and count only; store nothing.")
@click.option("--full", is_flag=True, help="Read every file in full, even unchanged ones.")
@click.option(
    "--jobs", type=click.IntRange(0, 64), metavar="N", help="Reader processes (default: number of cores, at most 4)."
)
@click.option("--keep-images", is_flag=True, help="Keep the bytes of images, not only their digests.")
@click.option("--quiet", is_flag=True, help="Print no progress and no table.")
@json_option
def import_(paths: tuple[str, ...], as_json: bool, quiet: bool, watch: bool, **given: Any) -> int:
    """Import transcripts of Claude Code, Codex and other agents from PATHS (default: the agents' own folders).

    Nothing is stored twice, so you can run it as often as you like. Secrets are masked before anything is stored.

    \b
    Examples:
      shiftlog import
      shiftlog import --since 7d --agent claude
      shiftlog import ~/old-laptop/.codex/sessions --dry-run
      shiftlog import --watch
    """
    if not all(path.strip() for path in paths):
        raise InvalidParameter.missing("paths")  # from an unset variable; the current folder is "."
    if given["since"] is not None and not given["since"].strip():
        raise InvalidParameter.missing("since")
    params: Shown = {name: value for name, value in given.items() if value not in (None, (), False)}
    params |= {"paths": [os.path.abspath(path) for path in paths], "agents": list(given["agents"])}  # noqa: PTH100
    params["environ"] = {name: _absolute(name, os.environ[name]) for name in FOLDER_VARIABLES if name in os.environ}
    params["watch"] = watch
    return _followed(params, as_json=as_json, quiet=quiet)


def _followed(params: Shown, *, as_json: bool, quiet: bool) -> int:
    """Follow an import to its end; a watch goes on with the next daemon if its own ends."""
    from shiftlog.link.client import DaemonUnreachable

    lost = 0
    while True:
        began = time.monotonic()
        try:
            with open_client(purpose="import") as client:
                return _follow(client, {**params, "token": os.urandom(8).hex()}, as_json=as_json, quiet=quiet)
        except DaemonUnreachable:
            lost = 1 if time.monotonic() - began > STEADY_S else lost + 1
            if not params["watch"] or lost > MOST_LOST:
                raise
        if not quiet:
            click.echo("The daemon ended; the watch goes on with a new one.", err=True)
        time.sleep(RETRY_S)


def _absolute(name: str, folders: str) -> str:
    """Return a variable's folders as absolute paths, because the daemon has another working directory."""
    parts = [part.strip() for part in folders.split(",")] if name == SEVERAL_FOLDERS else [folders]
    return ",".join(os.path.abspath(os.path.expanduser(part)) for part in parts if part)  # noqa: PTH100, PTH111


def _follow(client: "Client", params: Shown, *, as_json: bool, quiet: bool) -> int:
    """Print progress and report; the first Ctrl-C stops the import after its batch, and its report is still printed."""
    line = ProgressLine(shown=not quiet and not params["watch"])
    report: Shown | None = None
    interrupts: list[int] = []

    def interrupted(number: int, _: object) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            raise KeyboardInterrupt
        with open_client(start=False) as other:  # the first connection is busy with the stream
            other.call("import_stop", {"token": params["token"]})

    before = signal.signal(signal.SIGINT, interrupted)
    # A watch ends when its reader has gone; a normal import finishes without a reader.
    output = sys.stdout.fileno() if params["watch"] else None
    try:
        for item in client.stream("import", params, output=output):
            if "progress" in item:
                _draw(line, item["progress"])
                continue
            report = item["report"] if report is None else _added(report, item["report"])
            if params["watch"] and (as_json or not quiet):
                _show_change(item["report"], as_json=as_json)
    finally:
        signal.signal(signal.SIGINT, before)
        line.clear()
    if report is not None and as_json and not params["watch"]:
        print_json(report)
    elif report is not None and not as_json and not quiet:
        _show_report(report)
    if interrupts:
        return INTERRUPTED
    if report is None or params["watch"]:
        from shiftlog.link.client import DaemonUnreachable

        raise DaemonUnreachable("The daemon stopped before the import was done", hint="Run the import again")
    return 0 if report["ok"] else FAILED


def _draw(line: ProgressLine, progress: Shown) -> None:
    passed = line.passed_s
    if passed is None:
        return
    done, total = progress["bytes_done"], max(progress["bytes"], 1)
    share = min(done / total, 1.0)
    full = int(share * BAR_CHARS)
    left_s = passed / share - passed if share > 0.01 else 0.0
    left = f"{left_s:.0f} s" if left_s < 90 else f"{left_s / 60:.0f} min"
    line.draw(
        f"[{'█' * full}{'·' * (BAR_CHARS - full)}] {share:4.0%}  {progress['files_done']}/{progress['files']} files"
        f"  {done / 1e6 / passed:.1f} MB/s  {left} left"
    )


def _show_change(report: Shown, *, as_json: bool) -> None:
    if as_json:
        print_json(report, indent=None)
        return
    for file in report["files"]:
        if file["status"] not in ("unchanged", "skipped"):
            name = terminal_line(file["path"])
            click.echo(f"{file['status']:9}  {file['entries']:>6} entries  {file['turns']:>3} turns  {name}")
    sys.stdout.flush()


def _added(before: Shown, now: Shown) -> Shown:
    """Add up two reports of one watch: work is summed, file counts come from the later report."""
    made: Shown = {**before, **now}
    for name, old in before.items():
        new = now.get(name, old)
        if isinstance(old, dict) and isinstance(new, dict):
            made[name] = new if name == "skipped" else _added(cast(Shown, old), cast(Shown, new))
        elif isinstance(old, bool) and isinstance(new, bool):
            made[name] = old and new
        elif name in now and name not in ("files", "skipped"):
            if isinstance(old, int | float):
                made[name] = old + new
            elif isinstance(old, list):
                made[name] = (cast(list[Any], old) + new)[-MOST_KEPT:]
    return made


def _show_report(report: Shown) -> None:
    printer = Printer()
    by_agent: dict[str, Shown] = report["by_agent"]
    if by_agent:
        columns = _columns(report["duration_s"])
        printer.table(columns, [{"agent": agent, **figures} for agent, figures in by_agent.items()])
    elif not report["totals"]["files"]:
        printer.line("There is no transcript in the known folders.")
    secrets = sum(report["redactions"].values())
    masked = f"{secrets} ({_listed(report['redactions'])})" if secrets else "–"
    printer.line(
        f"skipped: {_listed({k: v for k, v in report['skipped'].items() if v}) or '–'}     redacted: {masked}"
        f"     usage: {tokens(report['totals']['usage_tokens'])}     {report['duration_s']:.1f} s"
    )
    for error in report["errors"]:
        click.echo(f"{error['code']}: {terminal_line(error['message'])}", err=True)
    for file in report["files"]:
        for warning in file["warnings"]:
            click.echo(
                f"{warning['code']}: {terminal_line(file['path'])}: {terminal_line(warning['message'])}", err=True
            )
    if report["dry_run"]:
        printer.line(("Nothing was stored: this was a dry run.", "dim"))


def _columns(duration_s: float) -> list[Column]:
    figures: list[tuple[str, str | Callable[[Shown], str]]] = [
        ("files", "files"),
        ("changed", "changed"),
        ("sessions (new)", lambda figures: f"{figures['sessions']} ({figures['sessions_new']})"),
        ("children", "child_sessions"),
        ("turns", "turns"),
        ("entries", "entries"),
        ("tools", "tool_calls"),
        ("unknown", "unknown_records"),
        ("bad", "bad_lines"),
        ("skipped", "skipped"),
        ("read", lambda figures: f"{figures['bytes_read'] / 1e6:.1f} MB"),
        ("MB/s", lambda figures: f"{figures['bytes_read'] / 1e6 / duration_s if duration_s else 0.0:.1f}"),
    ]
    return [Column("agent", "agent"), *(Column(title, cell, right=True) for title, cell in figures)]


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
