"""Keeps the outputs of commands on disk: where their spools are, how much is kept and for how long.

A folder per shell, in it `<n>.stdout` and `<n>.stderr` for outputs that are not small, and the index of finished
commands. Outputs of an earlier server are found on disk. Finished outputs are removed by age, and the oldest first when
all together are too large; running ones never.

The index is append-only, with a line per command, and the last line counts. A small text is stored in its line, so that
a command with little output costs one append and no file of its own. Lines that a crash left incomplete are skipped.
"""

import contextlib
import heapq
import math
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.guard.secrets.scan import ScanRules
from shiftlog.link.files import read_regular
from shiftlog.model import times
from shiftlog.model.errors import ShiftlogError, StorageError
from shiftlog.model.limits import OUTPUT_COMMAND_BYTES, OUTPUT_KEPT_DAYS, OUTPUT_SWEEP_EVERY_S, OUTPUT_TOTAL_BYTES
from shiftlog.model.shell_errors import CommandNotFound
from shiftlog.shell.outputs.command_output import CommandOutput, expired
from shiftlog.shell.outputs.disk_room import DiskRoom
from shiftlog.shell.outputs.proof import is_as_recorded
from shiftlog.shell.outputs.spool import OutputSpool, open_private
from shiftlog.shell.outputs.stream import StreamOutput
from shiftlog.shell.ports import STREAMS, Stream

_COMMAND_ID = re.compile(r"(?P<shell>[A-Za-z0-9][A-Za-z0-9._@:-]{0,199})#(?P<number>[1-9][0-9]{0,9})", re.ASCII)
_FILE = re.compile(r"(?P<number>[1-9][0-9]{0,9})\.(?:stdout|stderr)", re.ASCII)
_LOG_NAME = "finished.log"
_LINE = re.compile(rb'^\{"n":(?P<number>[0-9]+),"at":(?P<at>[0-9.]+),"size":(?P<size>[0-9]+),.*\}$', re.MULTILINE)
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_REMEMBERED = 1000
_UNRECORDED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """The operator's limits on kept output."""

    command_bytes: int = OUTPUT_COMMAND_BYTES
    total_bytes: int = OUTPUT_TOTAL_BYTES
    days: int = OUTPUT_KEPT_DAYS


class _Finished(NamedTuple):
    """A finished output: the command's number in its shell, its end time, and the size of its text in bytes."""

    number: int
    at: float
    size: int


class _Oldest(NamedTuple):
    """The end times of the oldest finished output of a shell, and of its oldest one that is not empty."""

    at: float
    sized_at: float

    @classmethod
    def of(cls, outputs: Iterable[_Finished]) -> "_Oldest":
        known = list(outputs)
        return cls(
            min((one.at for one in known), default=math.inf),
            min((one.at for one in known if one.size), default=math.inf),
        )

    def with_one(self, one: _Finished) -> "_Oldest":
        return _Oldest(min(self.at, one.at), min(self.sized_at, one.at) if one.size else self.sized_at)


class _Index:
    """The index files of all shells in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, shell: str, one: _Finished, record: Mapping[str, object]) -> bool:
        """Add a command that ended; a later entry for it replaces this one. Return False if the disk takes no more."""
        line = {"n": one.number, "at": round(one.at, 3), "size": one.size, **record}
        data = b"\n" + msgspec.json.encode(line)
        try:
            fd = open_private(f"{self._folder}/{shell}/{_LOG_NAME}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                return os.write(fd, data) == len(data)
            finally:
                os.close(fd)
        except OSError:
            return False

    def find(self, shell: str, number: int) -> dict[str, Any] | None:
        """Return the newest entry of a command."""
        data, mark = self._read(shell), b'\n{"n":%d,' % number
        position = data.rfind(mark)
        while position >= 0:
            end = data.find(b"\n", position + 1)
            try:
                return _decode(data[position + 1 : end if end >= 0 else len(data)])
            except msgspec.DecodeError:
                position = data.rfind(mark, 0, position)
        return None

    def list(self, shell: str) -> Iterator[_Finished]:
        """Yield the entries of a shell, oldest first; a command may appear again."""
        for match in _LINE.finditer(self._read(shell)):
            yield _Finished(int(match["number"]), float(match["at"]), int(match["size"]))

    def drop(self, shell: str, numbers: frozenset[int]) -> None:
        """Remove the entries of some commands."""
        path = self._folder / shell / _LOG_NAME
        lines = [match[0] for match in _LINE.finditer(self._read(shell)) if int(match["number"]) not in numbers]
        if not lines:
            path.unlink(missing_ok=True)
            return
        data, rewritten = b"".join(b"\n" + line for line in lines), path.with_suffix(".new")
        rewritten.unlink(missing_ok=True)
        try:
            with os.fdopen(open_private(str(rewritten), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(data)
            rewritten.replace(path)
        except OSError:  # the disk is full: in its own place the shorter text needs no room
            rewritten.unlink(missing_ok=True)
            with path.open("r+b") as file:
                file.write(data)
                file.truncate()

    def _read(self, shell: str) -> bytes:
        try:
            return read_regular(self._folder / shell / _LOG_NAME)
        except (FileNotFoundError, NotADirectoryError):
            return b""


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        reason = f"{folder} is not a directory"
        hint = "Move it away: a new one is made"
        raise StorageError(f"Storage error: {reason}", details={"reason": reason}, hint=hint) from None


class OutputKeeper:
    """All outputs of a state directory; one per server. Used only on the event loop."""

    def __init__(
        self,
        folder: Path,
        redactor: Redactor,
        *,
        limits: OutputLimits | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _make_folder(folder)
        self._folder = folder
        self._index = _Index(folder)
        self._redactor = redactor
        self._limits = limits or OutputLimits()
        self._now = now
        self._clock = clock
        self._live: dict[str, CommandOutput] = {}
        # Commands whose end could not be recorded, as on a full disk; the newest of them are recorded later.
        self._unrecorded: dict[str, CommandOutput] = {}
        self._next_sweep = clock()
        # By shell: the outputs of fourteen days would be millions of objects. They are found on disk when needed.
        self._kept: dict[str, _Oldest] | None = None
        self._kept_bytes = 0  # finished outputs and the claims of live ones
        self._disk = DiskRoom(folder)
        self._removed: OrderedDict[str, str] = OrderedDict()
        self._rules: OrderedDict[frozenset[str], ScanRules] = OrderedDict()

    def begin(self, command_id: str, learned: Iterable[str] = ()) -> CommandOutput:
        """Make the output of a command that is about to run; `learned` are secret values of its shell."""
        if self._clock() >= self._next_sweep:
            with contextlib.suppress(OSError):  # the next command tries again
                self.sweep()
        rules = self.rules(learned)
        left = self._limits.command_bytes  # both streams together

        def claim(size: int) -> int:
            nonlocal left
            granted = self._claim(min(size, left))
            left -= granted
            return granted

        streams = [
            StreamOutput(OutputSpool(self._path(command_id, name), claim), rules, self._clock) for name in STREAMS
        ]
        output = CommandOutput(command_id, *streams, clock=self._clock, on_end=self._record_end)
        self._live[command_id] = output
        return output

    def resume(self, command_id: str, learned: Iterable[str], marks: Mapping[Stream, bytes]) -> CommandOutput:
        """Go on with the output of a command that an earlier server began; an empty mark begins a stream anew.

        Streams without a mark are over, and are read from the index.
        """
        output = self.begin(command_id, learned)
        record = self._index.find(*_parts(command_id)) or {}
        for name in STREAMS:
            if marks.get(name):
                output.resume(name, marks[name])
            elif name in marks:
                Path(self._path(command_id, name)).unlink(missing_ok=True)
            else:
                output.replace(name, StreamOutput.reopen(self._path(command_id, name), record.get(name, {})))
        return output

    def reopen(self, command_id: str) -> CommandOutput:
        """Return the output of a command that runs or ran; raises `OutputExpired` once it was removed."""
        if live := self._live.get(command_id) or self._unrecorded.get(command_id):
            return live
        record = self._index.find(*_parts(command_id))
        if record is None and not any(Path(self._path(command_id, name)).exists() for name in STREAMS):
            raise expired(command_id, self._removed.get(command_id))
        streams = [StreamOutput.reopen(self._path(command_id, name), (record or {}).get(name, {})) for name in STREAMS]
        return CommandOutput(command_id, *streams, clock=self._clock, on_end=lambda _: None, finished=True)

    def changed_streams(self, command_id: str, recorded: Mapping[str, Any]) -> list[Stream]:
        """Name the streams of a finished command whose kept text is not the one that the journal recorded."""
        try:
            output = self.reopen(command_id)
        except ShiftlogError:
            return []  # removed by age or size, which is no secret
        if not output.finished or self._index.find(*_parts(command_id)) is None:
            return []  # it goes on, or its daemon was killed before it could keep the end
        try:
            return [
                name
                for name in STREAMS
                if name in recorded and not is_as_recorded(output.stream(name).spool, recorded[name])
            ]
        finally:
            for name in STREAMS:
                output.stream(name).spool.close_file()

    def rules(self, learned: Iterable[str]) -> ScanRules:
        """Return the masking rules for a shell that has learned these values."""
        values = frozenset(learned)
        rules = self._rules.get(values)
        if rules is None:
            redactor = self._redactor.learning(values) if values else self._redactor
            rules = self._rules[values] = redactor.rules(by_rule=True)
            if len(self._rules) > 64:
                self._rules.popitem(last=False)
        return rules

    def flush(self) -> None:
        """Write buffered output of running commands to disk; called once a second, so that a crash loses little."""
        for output in self._live.values():
            output.stdout.spool.flush()
            output.stderr.spool.flush()
        if self._unrecorded:
            self._record_again()

    def _record_again(self) -> None:
        """Record the commands that ended while the disk was full."""
        waiting, self._unrecorded = self._unrecorded, {}
        for output in waiting.values():
            self._record_end(output)

    def sweep(self) -> int:
        """Remove outputs that are too old, then the oldest while the total is too large for the limit or the disk.

        Return how many were removed.
        """
        kept = self._load()
        self._next_sweep = self._clock() + OUTPUT_SWEEP_EVERY_S
        oldest = (self._now() - timedelta(days=self._limits.days)).timestamp()
        removed = 0
        for shell in [shell for shell, known in kept.items() if known.at <= oldest]:
            if old := [one for one in self._finished(shell) if one.at <= oldest]:
                self._remove(shell, old)
            removed += len(old)
        return removed + self._make_room(0)

    def forget(self, command_ids: Iterable[str]) -> int:
        """Remove the outputs of finished commands; return how many had one."""
        wanted = list(dict.fromkeys(command_ids))
        for held in [self._live[command_id] for command_id in wanted if command_id in self._live]:
            if held.finished:  # later output of a leftover child is not kept
                held.close("stdout")
                held.close("stderr")
        numbers: dict[str, set[int]] = {}
        for match in filter(None, map(_COMMAND_ID.fullmatch, wanted)):
            if match["shell"] in self._load():
                numbers.setdefault(match["shell"], set()).add(int(match["number"]))
        going = {shell: [one for one in self._finished(shell) if one.number in numbers[shell]] for shell in numbers}
        for shell, outputs in going.items():
            if outputs:
                self._remove(shell, outputs)
        return sum(map(len, going.values()))

    @property
    def kept_bytes(self) -> int:
        """The total size of all outputs in bytes."""
        self._load()
        return self._kept_bytes

    def _claim(self, size: int) -> int:
        """Claim space for a running command, removing finished outputs if necessary; return how much it gets."""
        self._load()
        if self._kept_bytes + size > self._limits.total_bytes:
            self._make_room(size)
        granted = min(size, max(0, self._limits.total_bytes - self._kept_bytes))
        if granted > 0:
            granted = self._disk.take(granted)
        self._kept_bytes += granted
        return granted

    def _make_room(self, size: int) -> int:
        """Remove the oldest finished outputs until `size` more bytes fit; return how many were removed."""
        kept = self._load()
        missing = max(self._kept_bytes + size - self._limits.total_bytes, size - self._disk.free())
        going: dict[str, list[_Finished]] = {}
        for shell, one in self._oldest_first() if missing > 0 and kept else ():
            if missing <= 0:
                break
            going.setdefault(shell, []).append(one)
            missing -= one.size
        for shell, outputs in going.items():
            self._remove(shell, outputs)
        return sum(map(len, going.values()))

    def _oldest_first(self) -> Iterator[tuple[str, _Finished]]:
        """Yield the finished outputs that are not empty by age, reading no more shells than needed."""
        shells = sorted((known.sized_at, shell) for shell, known in self._load().items() if known.sized_at < math.inf)
        read: list[tuple[float, str, _Finished]] = []
        for at, shell in shells:
            while read and read[0][0] <= at:
                yield heapq.heappop(read)[1:]
            for one in self._finished(shell):
                if one.size:
                    heapq.heappush(read, (one.at, shell, one))
        while read:
            yield heapq.heappop(read)[1:]

    def _record_end(self, output: CommandOutput) -> None:
        """Record a command that ended, and again when a leftover child has added to it."""
        for name in STREAMS:
            spool = output.stream(name).spool
            spool.finish()
            if not output.stream(name).open:
                spool.close_file()
        shell, number = _parts(output.command_id)
        size = output.stdout.spool.size + output.stderr.spool.size
        finished = _Finished(number, self._now().timestamp(), size)
        is_recorded = self._index.add(shell, finished, {name: output.stream(name).as_dict() for name in STREAMS})
        if not is_recorded:
            self._unrecorded[output.command_id] = output
            if len(self._unrecorded) > _UNRECORDED:
                self._unrecorded.pop(next(iter(self._unrecorded)))
        if output.over:
            kept = self._load()
            self._live.pop(output.command_id, None)
            kept[shell] = kept.get(shell, _Oldest.of(())).with_one(finished)

    def _load(self) -> dict[str, _Oldest]:
        """Return the shells with finished outputs; the first call finds those of earlier servers on disk."""
        if self._kept is not None:
            return self._kept
        self._kept = {}
        for folder in _scan(self._folder):
            if folder.is_dir(follow_symlinks=False) and (found := self._finished(folder.name)):
                self._kept[folder.name] = _Oldest.of(found)
                self._kept_bytes += sum(one.size for one in found)
        return self._kept

    def _finished(self, shell: str) -> list[_Finished]:
        """Return the finished outputs of a shell, as its index and its files tell of them."""
        noted = {one.number: one for one in self._index.list(shell)}
        found = dict(noted)
        for file in _scan(self._folder / shell):
            match = _FILE.fullmatch(file.name)
            number = int(match["number"]) if match else 0
            if match is not None and number not in noted and file.is_file(follow_symlinks=False):
                stat = file.stat(follow_symlinks=False)
                _, at, size = found.get(number, (number, 0.0, 0))
                found[number] = _Finished(number, max(at, stat.st_mtime), size + stat.st_size)
        for command_id, output in self._unrecorded.items():
            owner, number = _parts(command_id)
            if owner == shell:  # a small text is nowhere else
                size = output.stdout.spool.size + output.stderr.spool.size
                found[number] = _Finished(number, self._now().timestamp(), size)
        return [one for number, one in found.items() if f"{shell}#{number}" not in self._live]

    def _remove(self, shell: str, outputs: list[_Finished]) -> None:
        """Remove finished outputs of a shell, and its folder if none is left."""
        for one in outputs:
            command_id = f"{shell}#{one.number}"
            self._kept_bytes -= one.size
            for name in STREAMS:
                Path(self._path(command_id, name)).unlink(missing_ok=True)
            self._unrecorded.pop(command_id, None)
            self._removed[command_id] = times.precise(self._now())
            if len(self._removed) > _REMEMBERED:
                self._removed.popitem(last=False)
        self._index.drop(shell, frozenset(one.number for one in outputs))
        if not _scan(self._folder / shell):
            with contextlib.suppress(FileNotFoundError):
                (self._folder / shell).rmdir()
        kept = self._load()
        if left := self._finished(shell):
            kept[shell] = _Oldest.of(left)
        else:
            kept.pop(shell, None)

    def _path(self, command_id: str, name: Stream) -> str:
        shell, number = _parts(command_id)
        return f"{self._folder}/{shell}/{number}.{name}"


def _parts(command_id: str) -> tuple[str, int]:
    """Return shell and number of a command; both become file names, so any other form is rejected."""
    match = _COMMAND_ID.fullmatch(command_id)
    if match is None:
        raise CommandNotFound(f"unknown command_id '{command_id[:300]}'", details={"command_id": command_id[:300]})
    return match["shell"], int(match["number"])


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
