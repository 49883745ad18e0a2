"""Printing the events of shells as a terminal session, for `watch` and `replay`.

All text comes from agents and programs, so none of it reaches the terminal as a control sequence.
"""

import sys
from typing import Any

import click

from shiftlog.cli.screen.output import Part, Printer
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_line, terminal_text

Item = dict[str, Any]

STATES = {"finished": "", "timed_out": "timed out", "syntax_error": "syntax error"}


class ShellView:
    """Prints events of shells; headings separate the outputs of several commands."""

    def __init__(self, *, several: bool) -> None:
        self._screen = Printer()
        self._several = several
        self._shown = ""
        self._in_line = False

    def shell(self, item: Item) -> None:
        """Print the heading of a shell."""
        place = item.get("target") or item.get("transport") or "local"
        about = [str(place), str(item.get("sandbox") or ""), str(item.get("name") or "")]
        facts = " · ".join(fact for fact in about if fact)
        self._line((f"==> {item['shell_id']} ", "bold cyan"), (f"{facts} <==", "cyan"))

    def command(self, item: Item) -> None:
        """Print a command after its prompt."""
        self._shown = str(item.get("command_id", ""))
        number = self._shown if self._several else f"#{self._shown.rpartition('#')[2]}"
        self._end_line()
        self._print(f"{number} ", "dim")
        self._print(terminal_line(item.get("cwd") or ""), "blue")
        self._print("$ ", "bold blue")
        self._print(terminal_text(str(item.get("command", "(erased)")).rstrip("\n")), "bold")
        self._print(" &\n" if item.get("background") else "\n", "dim")
        if item.get("skipped_lines"):
            self._line((f"… {count(item['skipped_lines'], 'earlier line')} left out", "dim"))

    def output(self, item: Item) -> None:
        """Print output of a command; standard error has another colour."""
        if item["command_id"] != self._shown:
            self._shown = str(item["command_id"])
            self._line((f"--- {self._shown}", "dim"))
        text = terminal_text(str(item["text"]))
        self._print(text, "red" if item["stream"] == "stderr" else "")
        self._in_line = not text.endswith("\n")

    def finished(self, item: Item) -> None:
        """Print how a command ended."""
        state, code = str(item.get("state")), item.get("exit_code")
        if item.get("message"):
            self._line((terminal_line(item["message"]), "red"))
        words = [STATES.get(state, state.replace("_", " "))] if state != "finished" else []
        if code is not None:
            words.append(f"exit {code}")
        duration = float(item.get("duration_ms") or 0)
        if duration >= 100:
            words.append(f"{duration / 1000:.1f} s")
        several = f"{item['command_id']} " if self._several or item["command_id"] != self._shown else ""
        good = state == "finished" and code == 0
        self._line((f"{several}{', '.join(words)}", "dim green" if good else "yellow"))

    def asked(self, item: Item) -> None:
        """Print that a command needs approval or that a program asks for a password, and how to answer."""
        asks = item.get("kind") == "prompt"
        self._line(
            (f"{terminal_line(item['program'])} asks: " if asks else "needs approval: ", "bold yellow"),
            (terminal_line(item["prompt"] if asks else item["command"]), "bold"),
            (f"  (shiftlog approve {item['approval_id']})", "yellow"),
        )

    def ended(self, item: Item) -> None:
        """Print the end of a shell."""
        self._line((f"==> {item['shell_id']} {item.get('state')}: {item.get('reason')} <==", "cyan"))

    def note(self, text: str) -> None:
        """Print a note."""
        self._line((terminal_line(text), "dim"))

    def _line(self, *parts: Part) -> None:
        self._end_line()
        self._screen.line(*parts)
        sys.stdout.flush()

    def _end_line(self) -> None:
        if self._in_line:
            click.echo()
            self._in_line = False

    def _print(self, text: str, style: str) -> None:
        if self._screen.colours and style:
            from rich.text import Text

            self._screen.console.print(Text(text, style=style), end="", soft_wrap=True)
        else:
            sys.stdout.write(text)
        sys.stdout.flush()
