"""The standard input of `shiftlog exec`: read whole, or passed on to the command as it comes."""

import codecs
import os
import select
import stat
import sys
from threading import Thread
from typing import BinaryIO

import click

from shiftlog.cli.connecting import open_client
from shiftlog.model.errors import ShiftlogError

INPUT_BYTES = 1 << 20
_PIECE_BYTES = 1 << 18
_NOT_TEXT = "Standard input is not UTF-8. Put it in a file that the command reads."


def is_piped() -> bool:
    """Return True if standard input is a pipe, a file or a socket with something to come."""
    try:
        given = os.fstat(0)
    except OSError:  # it is closed
        return False
    if stat.S_ISREG(given.st_mode):
        return os.lseek(0, 0, os.SEEK_CUR) < given.st_size
    return (stat.S_ISFIFO(given.st_mode) or stat.S_ISSOCK(given.st_mode)) and not _has_ended()


def _has_ended() -> bool:
    """Return True if the writer of standard input is gone and has left nothing."""
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    return any(events & select.POLLHUP and not events & select.POLLIN for _, events in waiting.poll(0))


def whole_input() -> str:
    """Return all of standard input as text."""
    stdin: BinaryIO | None = getattr(sys.stdin, "buffer", None)  # standard input may be closed
    data = stdin.read(INPUT_BYTES + 1) if stdin is not None else b""
    if len(data) > INPUT_BYTES:
        raise click.UsageError("Standard input is longer than 1 MiB. Put it in a file that the command reads.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.UsageError(_NOT_TEXT) from None


def pass_on(command_id: str) -> None:
    """Pass standard input on to a running command, on a connection of its own, until either ends."""
    Thread(target=_pass_on, args=(command_id,), daemon=True).start()


def _pass_on(command_id: str) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open_client() as client:
            ended = False
            while not ended:
                data = os.read(0, _PIECE_BYTES)
                ended = not data
                text = decoder.decode(data, final=ended)
                sent: dict[str, object] = {"command_id": command_id, "eof": ended, **({"text": text} if text else {})}
                if text or ended:
                    client.call("send_input", sent)
    except UnicodeDecodeError:
        click.echo(_NOT_TEXT, err=True)
        _end_input(command_id)
    except (ShiftlogError, OSError):
        pass  # the command has ended, or has closed its input


def _end_input(command_id: str) -> None:
    try:
        with open_client() as client:
            client.call("send_input", {"command_id": command_id, "eof": True})
    except (ShiftlogError, OSError):
        pass
