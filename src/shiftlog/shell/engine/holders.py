"""The held shells of a state directory: where the next server finds them, and how it claims one.

Each has a directory of its own there with the holder's door, a socket, and `holder.json`. The holder lets in processes
of this user that are not inside a shell; this side checks that the process at the door is the holder of the record, and
by its mark that it is no process inside a shell.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import struct
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shiftlog.link import processes
from shiftlog.link.files import read_regular
from shiftlog.shell.engine.kept import VERSION, KeptShell, Ledger
from shiftlog.shell.engine.links import ClaimedLink, ReaperChannel, kill_tree
from shiftlog.shell.engine.reaper import remove_tree

log = logging.getLogger(__name__)

RECORD, DOOR = "holder.json", "door"
OWN_PREFIX = "shiftlog-"  # of temporary directories; the record of a dead holder can name no others
_CLAIM_S = 5.0
_LOOK_AGAIN_S = 0.01
_FDS_AT_ONCE = 128
_MESSAGE_BYTES = 65536
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderRecord:
    """The holder of one shell: its process, and the version of what it keeps."""

    directory: Path
    pid: int
    started: str
    version: int
    mark: tuple[int, int]
    directories: tuple[str, ...]


class ClaimFailed(Exception):
    """A held shell cannot be taken over; its holder was told to end it, or was killed with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedShell:
    """A held shell with all that its holder kept."""

    directory: Path
    link: ClaimedLink
    state: KeptShell
    note: bytes
    ledger: Ledger
    descriptors: dict[str, int]
    exits: dict[int, int]

    def refuse(self) -> None:
        """End the shell instead of using it."""
        self.link.close()
        self.link.leave()
        for fd in self.descriptors.values():
            os.close(fd)
        self.ledger.close()


class ShellHolders:
    """The directory of held shells; `hold_s` is how long a shell waits for the next server."""

    def __init__(self, folder: Path, hold_s: float) -> None:
        self._folder = folder
        self._hold_s = hold_s

    def prepare(self) -> tuple[Path, socket.socket]:
        """Make the directory and the door of a new shell."""
        directory = self._folder / secrets.token_hex(6)
        directory.mkdir(mode=0o700, parents=True)
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with _opened(directory) as fd:
                door.bind(f"/proc/self/fd/{fd}/{DOOR}")
        except BaseException:
            door.close()
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return directory, door

    def begin(self, directory: Path, link: ReaperChannel, pid: int) -> None:
        """Let a shell that is ready outlive this server."""
        record = {
            "version": VERSION,
            "pid": pid,
            "started": processes.started(pid),
            "mark": processes.mark_of(pid),
            "directories": link.directories,
        }
        written = directory / "holder.new"
        written.write_text(json.dumps(record))
        written.rename(directory / RECORD)
        link.hold(self._hold_s, directory)

    def listed(self, *, prune: bool = False) -> list[HolderRecord]:
        """Return the records of the holders that live; a new server prunes what the others left."""
        found: list[HolderRecord] = []
        for directory in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            record = _record(directory)
            if record is not None and processes.alive(record.pid, record.started):
                found.append(record)
            elif prune:
                for left in record.directories if record is not None else ():
                    if Path(left).name.startswith(OWN_PREFIX):
                        remove_tree(left)
                shutil.rmtree(directory, ignore_errors=True)
        return found

    def claim(self, record: HolderRecord) -> ClaimedShell:
        """Take over a held shell; raise `ClaimFailed` if that cannot be, and end the shell.

        A holder that does not answer, because a program stopped it or blocked its door, is killed with its shell.
        """
        if not processes.serves_shells(record.pid):
            raise ClaimFailed("the process that claims to hold it is inside a shell, or not of this daemon's kind")
        os.kill(record.pid, signal.SIGCONT)
        try:
            ours = _connect(record.directory, record.pid)
        except OSError as error:
            kill_tree(record.pid)
            raise ClaimFailed(f"its door is closed: {error.strerror or error}") from None
        link = ClaimedLink(ours, record.pid, record.started)
        received: dict[str, int] = {}
        try:
            ours.settimeout(_CLAIM_S)
            if record.version != VERSION:
                raise ClaimFailed(f"it was opened by another version ({record.version}, this one is {VERSION})")
            exits = _receive(ours, received, link)
            ledger = Ledger(received.pop("ledger"))
            state, note = ledger.read()
            if state is None or not note:
                raise ClaimFailed("its record cannot be read")
        except (OSError, KeyError, ValueError, IndexError, ClaimFailed) as error:
            ours.setblocking(False)
            link.close()
            link.leave()
            if isinstance(error, TimeoutError):
                kill_tree(record.pid)
            for fd in received.values():
                os.close(fd)
            raise error if isinstance(error, ClaimFailed) else ClaimFailed(str(error)) from None
        ours.setblocking(False)
        return ClaimedShell(
            directory=record.directory,
            link=link,
            state=state,
            note=note,
            ledger=ledger,
            descriptors=received,
            exits=exits,
        )

    def end_all(self) -> int:
        """End all held shells without taking them over; return how many there were."""
        records = self.listed()
        with ThreadPoolExecutor(max(1, len(records))) as at_once:
            return sum(at_once.map(_end, records))

    def holds_this_process(self) -> bool:
        """Return True if this process is inside one of the held shells, as far as marks tell."""
        own = processes.own_mark()
        if own is None:
            return False
        marks = [record.mark for record in self.listed()]
        return any(own[0] <= limit and (os.geteuid() != 0 or own[1] >= filters) for limit, filters in marks)


def _end(record: HolderRecord) -> bool:
    """End one held shell; return True once its holder is gone."""
    try:
        with _connect(record.directory, record.pid) as door:
            door.settimeout(_CLAIM_S)
            door.send(b"close\n")
            while door.recv(_MESSAGE_BYTES):
                pass
        return True
    except OSError as error:
        log.warning("A held shell (pid %s) could not be ended: %s", record.pid, error)
        return False


def _receive(ours: socket.socket, received: dict[str, int], link: ClaimedLink) -> dict[int, int]:
    """Receive the descriptors and the exits that the holder kept; return the latter."""
    exits: dict[int, int] = {}
    while True:
        data, fds, _, _ = socket.recv_fds(ours, _MESSAGE_BYTES, _FDS_AT_ONCE, socket.MSG_CMSG_CLOEXEC)
        if not data:
            raise ClaimFailed("its holder refused")
        word, *values = data.decode().strip().split("\t")
        if word == "held":
            received.update(zip(values, fds, strict=True))
        elif word == "all":
            return exits
        else:
            kind, *numbers = word.split()
            if kind == "started":
                link.child = int(numbers[0])
            elif kind == "exit":
                exits[int(numbers[0])] = int(numbers[1])


def _connect(directory: Path, holder: int) -> socket.socket:
    """Connect to the door of a holder; raises `OSError` if it stays closed, or if another process is behind it."""
    until = time.monotonic() + _CLAIM_S
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.setblocking(False)  # a full queue of connections must not block
        try:
            with _opened(directory) as fd:
                sock.connect(f"/proc/self/fd/{fd}/{DOOR}")
            told = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
            if told[:2] == (holder, os.geteuid()):
                return sock
            raise PermissionError(errno.EPERM, "another process is at its door")
        except BlockingIOError:
            sock.close()
            if time.monotonic() > until:
                raise
            time.sleep(_LOOK_AGAIN_S)
        except OSError:
            sock.close()
            raise


def _record(directory: Path) -> HolderRecord | None:
    try:
        given = json.loads(read_regular(directory / RECORD))
        return HolderRecord(
            directory=directory,
            pid=int(given["pid"]),
            started=str(given["started"]),
            version=int(given["version"]),
            mark=(int(given["mark"][0]), int(given["mark"][1])),
            directories=tuple(map(str, given["directories"])),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


@contextmanager
def _opened(path: Path) -> Generator[int]:
    """Open a directory for a moment: a path through its descriptor is never too long for a socket."""
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
