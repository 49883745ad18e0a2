"""The pager: on a terminal, long output is read in `less` or another program of the user's choice, as with git.

SHIFTLOG_PAGER, else PAGER, names the program; `cat` or nothing means none. `less` gets the options FRX unless LESS is
set: it ends by itself if one screen is enough, shows colours, and leaves the text on the screen.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import click

from shiftlog.cli.screen import NO_PAGER
from shiftlog.cli.screen.output import Printer

VARIABLES = ("SHIFTLOG_PAGER", "PAGER")
DEFAULT = "less"
LESS_OPTIONS = "FRX"
NONE = ("", "cat")


@contextmanager
def paged() -> Generator[Printer]:
    """Give a printer whose output goes through the pager if standard output is a terminal.

    A reader who leaves the pager before the end ends the block.
    """
    printer = Printer()
    command = pager_command() if printer.is_terminal else None
    if command is None:
        yield printer
        return
    printer.console.width = printer.console.width  # the width of the terminal, which standard output will not be
    sys.stdout.flush()
    terminal = os.dup(sys.stdout.fileno())
    pager = _started(command)
    try:
        yield printer
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # the reader has seen enough
    finally:
        _end(pager, terminal)


def pager_command() -> str | None:
    """Return the command of the pager, None if none is wanted or there is none."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(NO_PAGER):
        return None
    for name in VARIABLES:
        chosen = os.environ.get(name)
        if chosen is not None:
            return None if chosen.strip() in NONE else chosen
    return DEFAULT if shutil.which(DEFAULT) and os.environ.get("TERM", "dumb") != "dumb" else None


def _started(command: str) -> "subprocess.Popen[bytes]":
    """Start the pager and connect standard output to it."""
    environment = {"LESS": LESS_OPTIONS, **os.environ}
    pager = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, env=environment)
    assert pager.stdin is not None
    os.dup2(pager.stdin.fileno(), sys.stdout.fileno())
    pager.stdin.close()
    return pager


def _end(pager: "subprocess.Popen[bytes]", terminal: int) -> None:
    """Give the pager the end of its input, wait for it, and connect standard output to the terminal again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(nowhere, sys.stdout.fileno())  # text that the pager did not read must not appear after it
        sys.stdout.flush()
    os.dup2(terminal, sys.stdout.fileno())
    os.close(terminal)
    os.close(nowhere)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)
