"""The state of one local shell as the next server finds it: what is recorded, and the memory that holds it.

All of it is in memory files that the shell's holder keeps open, never on disk: it contains output before masking. A
server that is killed between any two instructions leaves a whole record, because the kernel does each step at once:
a record is written beside the last one, and output is moved from its pipe into memory by one call (`splice`), so that
the size of the memory tells what was taken from the pipe.
"""

from __future__ import annotations

import ctypes
import os
import struct
from zlib import crc32

import msgspec

from shiftlog.shell.ports import EndedReason, Signal, Stream

#: Raised with every change of this module, of the holder's messages or of what the service adds to a record.
VERSION = 3
READ_BYTES = 256 * 1024
#: Output that no record covers yet is at most this much, unless a secret may go on for longer.
MARK_BYTES = 1 << 20
RAW_MOST_BYTES = 32 << 20
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02
_PAGE = 4096
_HEADER = struct.Struct("<QII")
_SLOT_BYTES = 1 << 32
_libc = ctypes.CDLL(None, use_errno=True)


class KeptPipe(msgspec.Struct):
    """One output pipe; its bytes are in the memory of the same name until `marked`."""

    stream: Stream
    path: str
    command: int = 0
    marked: int = 0
    mark: bytes = b""
    lingers: bool = False
    is_torn: bool = False
    ended: bool = False


class KeptEnd(msgspec.Struct):
    """The end of a command that the service has not recorded yet."""

    exit_code: int | None
    cwd: bytes
    shell_ended: EndedReason | None
    streams_open: tuple[Stream, ...]


class KeptCommand(msgspec.Struct):
    """One command that runs, or that ended and is not recorded; `note` is the service's."""

    number: int
    in_shell: bool
    since: int
    note: bytes
    pipes: tuple[str, ...]
    files: tuple[str, ...] = ()
    mark: str = ""
    root: int | None = None
    sent_signal: Signal | None = None
    stdin: str = ""
    eof: bool = False
    terminal: tuple[int, int] | None = None
    end: KeptEnd | None = None
    is_recorded: bool = False


class KeptShell(msgspec.Struct):
    """The state of the engine for one shell."""

    directory: str
    bash: str
    script: str
    own_terminals: bool
    cwd: bytes  # names of files need not be text
    careful: bool
    kind: str = "bash"
    pid: int | None = None
    ways: str = ""
    last_status: int = 0
    traced: bool = False
    may_trap_exit: bool = False
    shaken: bool = False
    number: int = 0
    reported: int | None = None
    foreground: int = 0
    copying: int = 0
    copy_key: int = 0
    is_sending: bool = False
    due: dict[int, int] = {}
    taken: list[int] = []
    gates: dict[int, str] = {}
    pipes: dict[str, KeptPipe] = {}
    commands: dict[int, KeptCommand] = {}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KeptShell).decode


class Ledger:
    """The records of one shell in a memory file: the engine's, written for every command, and the service's."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.memfd_create("shiftlog-ledger", os.MFD_CLOEXEC) if fd is None else fd
        self._turns = [0, 0]

    def write(self, state: KeptShell) -> None:
        """Record the engine's state."""
        self._write(0, _encode(state))

    def note(self, note: bytes) -> None:
        """Record what the service needs to know of the shell."""
        self._write(1, note)

    def read(self) -> tuple[KeptShell | None, bytes]:
        """Return the newest records; None and nothing if there are none, or of a form that is not known."""
        state, note = self._read(0), self._read(1)
        try:
            return (_decode(state) if state else None), note
        except msgspec.DecodeError:
            return None, b""

    def close(self) -> None:
        """Close the memory; the holder's own descriptor stays."""
        os.close(self.fd)

    def _write(self, kind: int, data: bytes) -> None:
        turn = self._turns[kind] = self._turns[kind] + 1
        os.pwrite(self.fd, _HEADER.pack(turn, len(data), crc32(data)) + data, _place(kind, turn))

    def _read(self, kind: int) -> bytes:
        best, found = 0, b""
        for slot in (0, 1):
            head = os.pread(self.fd, _HEADER.size, _place(kind, slot))
            if len(head) < _HEADER.size:
                continue
            turn, size, check = _HEADER.unpack(head)
            data = os.pread(self.fd, size, _place(kind, slot) + _HEADER.size)
            if turn > best and crc32(data) == check:
                best, found = turn, data
        self._turns[kind] = best
        return found


def _place(kind: int, turn: int) -> int:
    return (2 * kind + turn % 2) * _SLOT_BYTES


class RawMemory:
    """The bytes of one pipe from where they were last marked, in a memory file."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.memfd_create("shiftlog-raw", os.MFD_CLOEXEC) if fd is None else fd
        self.size = os.fstat(self.fd).st_size
        self._freed = 0

    def take(self, pipe: int) -> bytes:
        """Move bytes from a pipe into the memory and return them, nothing at its end; raises `BlockingIOError`."""
        size = os.splice(pipe, self.fd, READ_BYTES, offset_dst=self.size)
        if not size:
            return b""
        data = os.pread(self.fd, size, self.size)
        self.size += size
        return data

    def read(self, start: int) -> bytes:
        """Return the next bytes from an offset on."""
        return os.pread(self.fd, READ_BYTES, start)

    def free(self, until: int) -> None:
        """Give back the memory before an offset."""
        until -= until % _PAGE
        if until - self._freed >= MARK_BYTES // 4:
            length = ctypes.c_long(until - self._freed)
            _libc.fallocate(self.fd, _KEEP_SIZE_PUNCH_HOLE, ctypes.c_long(self._freed), length)
            self._freed = until

    def close(self) -> None:
        """Close the memory; the holder's own descriptor stays."""
        os.close(self.fd)


class PendingInput:
    """Input on its way to a command, in a memory file whose position tells what the command's pipe has taken."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.memfd_create("shiftlog-input", os.MFD_CLOEXEC) if fd is None else fd
        self._size = os.fstat(self.fd).st_size

    def add(self, data: bytes) -> None:
        """Add input."""
        while data:
            done = os.pwrite(self.fd, data, self._size)
            self._size, data = self._size + done, data[done:]

    @property
    def left(self) -> int:
        """Return how many bytes the pipe has not taken."""
        return self._size - os.lseek(self.fd, 0, os.SEEK_CUR)

    def move(self, pipe: int) -> None:
        """Move what fits into a pipe; raises `BlockingIOError` if nothing does."""
        os.splice(self.fd, pipe, self.left)

    def close(self) -> None:
        """Close the memory; the holder's own descriptor stays."""
        os.close(self.fd)
