"""`shiftlog replay`: plays back a session's commands and outputs at their original pace.

The journal has the start and the end of a command; its output is spread evenly between them. In a pipe everything is
printed at once.
"""

import os
import select
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from shiftlog.cli.connecting import ask_stream, json_option, number_option, session_argument
from shiftlog.cli.screen.output import print_json
from shiftlog.cli.shells.view import ShellView
from shiftlog.text.printable import terminal_line

Item = dict[str, Any]

SHORTENED_CHARS = 20_000
STEP_S = 0.02
FASTEST = 1000.0
SLOWEST = 0.05
KEYS = "space pauses, + and - change the speed, . goes on at once, q ends"


class StoppedByUser(Exception):
    """The user pressed q."""


@click.command(short_help="Play back a session's commands and outputs.")
@session_argument()
@number_option(
    "--speed", within=click.FloatRange(SLOWEST, FASTEST), metavar="X", default=1.0, help="Speed; 2 is twice as fast."
)
@number_option("--idle", within=click.FloatRange(0), metavar="SECONDS", default=2.0, help="The longest pause.")
@click.option("--full", is_flag=True, help="Show long outputs whole.")
@json_option
def replay(session: str, speed: float, idle: float, full: bool, as_json: bool) -> None:
    """Play back the shells of SESSION: each command, its output and its end, at the original pace.

    SESSION is a session id, a run number, or `last`. On a terminal, space pauses, + and - change the speed, a dot
    skips the pause and q quits. In a pipe everything is printed at once; with --json each event is one line. Of an
    output that is no longer kept, only the journal's excerpt is shown.

    \b
    Examples:
      shiftlog replay last
      shiftlog replay last --speed 4 --idle 0.5
      shiftlog replay last --full > session.txt
    """
    on_terminal = sys.stdout.isatty() and not as_json
    params = {"max_chars": 0 if full else SHORTENED_CHARS}
    with ask_stream("replay", params, session=session) as events, _keyboard(on_terminal) as keys:
        try:
            if as_json:
                for event in events:
                    print_json(event, indent=None)
            else:
                _play(events, Pace(speed=speed, idle=idle, keys=keys, waits=on_terminal))
        except StoppedByUser:
            click.echo()


def _play(events: Iterator[Item], pace: "Pace") -> None:
    view = ShellView(several=False)
    session = next(events)
    view.note(f"{session['session_id']}: {session['title']}")
    if pace.keys is not None:
        view.note(KEYS)
    played = 0
    begun: set[str] = set()
    for event in events:
        kind: str = event["event"]
        if kind == "output":
            # A command with a syntax error never began: its end shows the reason.
            if event["command_id"] not in begun:
                continue
            if event["quoted"]:
                view.note("(the output is no longer kept; the journal quotes:)")
            for line in pace.spread(str(event["text"]).splitlines(keepends=True), event["at"]):
                view.output({**event, "text": line})
            continue
        if kind == "command.started":
            begun.add(event.get("command_id", ""))
        pace.reach(event["at"])
        played += kind in ("command.started", "command.finished")
        _show(view, kind, event)
    if not played:
        view.note("No command was run in this session.")


def _show(view: ShellView, kind: str, event: Item) -> None:
    if event.get("erased"):
        view.note(f"({kind}: erased)")
        return
    match kind:
        case "turn.begun":
            view.note(f"turn: {event.get('query_title') or ''}")
        case "shell.opened":
            view.shell(event)
        case "command.started":
            view.command(event)
        case "command.finished":
            said = _why_not(event)
            if said is not None:
                view.command(event)
            view.finished({**event, "message": said})
        case "command.input":
            said = event.get("text", f"({event['chars']} characters)" if "chars" in event else "")
            view.note(f"input to {event['command_id']}: {terminal_line(said)} {event.get('signal') or ''}")
        case "command.asked":
            view.asked(event)
        case "command.decided":
            view.note(f"{event['state']} by {event.get('by')}: {event['command']}")
        case "checkpoint.restored":
            view.note(f"restored to {str(event.get('checkpoint_id'))[:12]}: {event.get('files_changed')} files changed")
        case _:
            view.ended(event)


def _why_not(event: Item) -> str | None:
    """Return why a command never ran, None if it ran."""
    if event.get("refusal"):
        return str(event["refusal"]["message"])
    fault = event.get("syntax_error")
    return f"syntax error: line {fault['line']}, column {fault['column']}: {fault['message']}" if fault else None


class Pace:
    """Waits as long as the original did, at the chosen speed; keys work during a wait."""

    def __init__(self, *, speed: float, idle: float, keys: int | None, waits: bool) -> None:
        self.keys = keys
        self._speed = speed
        self._idle = idle
        self._waits = waits
        self._at: datetime | None = None

    def reach(self, at: str) -> None:
        """Wait until the playback reaches a time."""
        self._wait(self._until(at))

    def spread(self, lines: list[str], at: str) -> Iterator[str]:
        """Yield lines evenly until the playback reaches a time."""
        pause = self._until(at) / max(1, len(lines))
        owed = 0.0
        for line in lines:
            owed += pause
            if owed >= STEP_S:
                self._wait(owed)
                owed = 0.0
            yield line

    def _until(self, at: str) -> float:
        then = datetime.fromisoformat(at)
        gone = (then - self._at).total_seconds() if self._at is not None else 0.0
        self._at = max(then, self._at) if self._at is not None else then
        return max(0.0, gone)

    def _wait(self, seconds: float) -> None:
        if not self._waits:
            return
        left = min(seconds / self._speed, self._idle)
        paused = False
        while True:
            began = time.monotonic()
            key = self._key(None if paused else left)
            left -= 0 if paused else time.monotonic() - began
            match key:
                case "q":
                    raise StoppedByUser
                case " ":
                    paused = not paused
                case ".":
                    return
                case "+" | "-":
                    factor = 2.0 if key == "+" else 0.5
                    self._speed = min(FASTEST, max(SLOWEST, self._speed * factor))
                    left /= factor
                case _:
                    pass
            if not paused and left <= 0:
                return

    def _key(self, seconds: float | None) -> str:
        if self.keys is None:
            time.sleep(seconds or 0)
            return ""
        ready, _, _ = select.select([self.keys], [], [], seconds)
        return os.read(self.keys, 1).decode("ascii", "ignore") if ready else ""


@contextmanager
def _keyboard(wanted: bool) -> Generator[int | None]:
    """Yield the descriptor of a keyboard in single-key mode, None without one; restore the terminal afterwards."""
    if not wanted or not sys.stdin.isatty():
        yield None
        return
    import termios
    import tty

    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    tty.setcbreak(keys)  # Ctrl-C still interrupts
    try:
        yield keys
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
