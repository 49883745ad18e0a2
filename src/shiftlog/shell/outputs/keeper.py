"""Keeps the outputs of commands on disk: where their spools are, how much is kept and for how long.

A folder per shell, in it `<n>.stdout` and `<n>.stderr` for outputs that are not small, and the index of finished
commands. Outputs of an earlier server are found on disk. Finished outputs are removed by age, and the oldest first when
all together are too large; running ones never.
"""

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.guard.secrets.scan import ScanRules
from shiftlog.model import times
from shiftlog.model.limits import OUTPUT_COMMAND_BYTES, OUTPUT_KEPT_DAYS, OUTPUT_SWEEP_EVERY_S, OUTPUT_TOTAL_BYTES
from shiftlog.model.shell_errors import CommandNotFound
from shiftlog.shell.outputs.command_output import CommandOutput, expired
from shiftlog.shell.outputs.index import IndexEntry, OutputIndex
from shiftlog.shell.outputs.spool import OutputSpool
from shiftlog.shell.outputs.stream import StreamOutput
from shiftlog.shell.ports import STREAMS, Stream

_COMMAND_ID = re.compile(r"(?P<shell>[A-Za-z0-9][A-Za-z0-9._@:-]{0,199})#(?P<number>[1-9][0-9]{0,9})", re.ASCII)
_FILE = re.compile(r"(?P<number>[1-9][0-9]{0,9})\.(?:stdout|stderr)", re.ASCII)
_REMEMBERED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """How much output is kept, set by the operator."""

    command_bytes: int = OUTPUT_COMMAND_BYTES
    total_bytes: int = OUTPUT_TOTAL_BYTES
    days: int = OUTPUT_KEPT_DAYS


@dataclass(slots=True, kw_only=True)
class _StoredOutput:
    """A finished output on disk."""

    size: int = 0
    ended_at: float = 0.0


class _Room:
    """The space that both streams of a command may still use."""

    def __init__(self, size: int, claim: Callable[[int], int]) -> None:
        self._left = size
        self._claim_of_all = claim

    def claim(self, size: int) -> int:
        granted = self._claim_of_all(min(size, self._left))
        self._left -= granted
        return granted


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
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._index = OutputIndex(folder)
        self._redactor = redactor
        self._limits = limits or OutputLimits()
        self._now = now
        self._clock = clock
        self._live: dict[str, CommandOutput] = {}
        self._next_sweep = clock()
        self._kept: dict[str, _StoredOutput] | None = None
        self._kept_bytes = 0  # finished outputs and the claims of live ones
        self._removed: OrderedDict[str, str] = OrderedDict()
        self._rules: OrderedDict[frozenset[str], ScanRules] = OrderedDict()

    def begin(self, command_id: str, learned: Iterable[str] = ()) -> CommandOutput:
        """Make the output of a command that is about to run; `learned` are secret values of its shell."""
        if self._clock() >= self._next_sweep:
            self.sweep()
        rules = self.rules(learned)
        room = _Room(self._limits.command_bytes, self._claim)
        streams = [
            StreamOutput(OutputSpool(self._path(command_id, name), room.claim), rules, self._clock) for name in STREAMS
        ]
        output = CommandOutput(command_id, *streams, clock=self._clock, on_end=self._record_end)
        self._live[command_id] = output
        return output

    def reopen(self, command_id: str) -> CommandOutput:
        """Return the output of a command that runs or ran; raises `OutputExpired` once it was removed."""
        if live := self._live.get(command_id):
            return live
        record = self._index.find(*_parts(command_id))
        if record is None and not any(Path(self._path(command_id, name)).exists() for name in STREAMS):
            raise expired(command_id, self._removed.get(command_id))
        streams = [self._recall(command_id, name, record) for name in STREAMS]
        return CommandOutput(command_id, *streams, clock=self._clock, on_end=lambda _: None, finished=True)

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

    def sweep(self) -> int:
        """Remove outputs that are too old, then the oldest while the total is too large; return how many."""
        kept = self._load()
        self._next_sweep = self._clock() + OUTPUT_SWEEP_EVERY_S
        oldest = (self._now() - timedelta(days=self._limits.days)).timestamp()
        old = [command_id for command_id, one in kept.items() if one.ended_at <= oldest]
        self._remove(old)
        return len(old) + self._make_room(0)

    def forget(self, command_ids: Iterable[str]) -> int:
        """Remove the outputs of finished commands; return how many had one."""
        wanted = list(dict.fromkeys(command_ids))
        for held in [self._live[command_id] for command_id in wanted if command_id in self._live]:
            if held.finished:  # later output of a leftover child is not kept
                held.close("stdout")
                held.close("stderr")
        going = [command_id for command_id in wanted if command_id in self._load()]
        self._remove(going)
        return len(going)

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
        self._kept_bytes += granted
        return granted

    def _make_room(self, size: int) -> int:
        """Remove the oldest finished outputs until `size` more bytes fit; return how many were removed."""
        kept = self._load()
        missing = self._kept_bytes + size - self._limits.total_bytes
        going: list[str] = []
        for command_id, one in sorted(kept.items(), key=lambda item: item[1].ended_at) if missing > 0 else ():
            if missing <= 0:
                break
            if one.size:
                going.append(command_id)
                missing -= one.size
        self._remove(going)
        return len(going)

    def _record_end(self, output: CommandOutput) -> None:
        """Record a command that ended, and again when a leftover child has added to it."""
        for name in STREAMS:
            spool = output.stream(name).spool
            spool.finish()
            if not output.stream(name).open:
                spool.close_file()
        shell, number = _parts(output.command_id)
        size = output.stdout.spool.size + output.stderr.spool.size
        ended_at = self._now().timestamp()
        try:
            record = {name: _record(output.stream(name)) for name in STREAMS}
            self._index.add(shell, IndexEntry(number, ended_at, size), record)
        except OSError:
            pass  # on a full disk; the text is counted again when it is reopened
        if output.over:
            self._live.pop(output.command_id, None)
            self._load()[output.command_id] = _StoredOutput(size=size, ended_at=ended_at)

    def _recall(self, command_id: str, name: Stream, record: dict[str, object] | None) -> StreamOutput:
        noted = cast(dict[str, object] | None, record.get(name)) if record is not None else None
        spool = OutputSpool.reopen(
            self._path(command_id, name), cast(dict[str, object] | None, (noted or {}).get("spool"))
        )
        return StreamOutput.recall(
            spool,
            raw_bytes=cast(int, noted["bytes"]) if noted else spool.size,
            binary=cast(bool, noted["binary"]) if noted else False,
            redactions=cast(int, noted["redactions"]) if noted else 0,
        )

    def _load(self) -> dict[str, _StoredOutput]:
        """Return the finished outputs; the first call finds those of earlier servers on disk."""
        if self._kept is not None:
            return self._kept
        self._kept = {}
        for shell in _scan(self._folder):
            if not shell.is_dir(follow_symlinks=False):
                continue
            noted = {f"{shell.name}#{one.number}": one for one in self._index.list(shell.name)}
            sizes = {command_id: (one.size, one.at) for command_id, one in noted.items()}
            for file in _scan(Path(shell.path)):
                match = _FILE.fullmatch(file.name)
                command_id = f"{shell.name}#{match['number']}" if match else ""
                if match is not None and command_id not in noted and file.is_file(follow_symlinks=False):
                    stat = file.stat(follow_symlinks=False)
                    size, at = sizes.get(command_id, (0, 0.0))
                    sizes[command_id] = (size + stat.st_size, max(at, stat.st_mtime))
            for command_id, (size, at) in sizes.items():
                if command_id not in self._live:
                    self._kept[command_id] = _StoredOutput(size=size, ended_at=at)
                    self._kept_bytes += size
        return self._kept

    def _remove(self, command_ids: list[str]) -> None:
        """Remove finished outputs, and the folders of shells that have none left."""
        kept, shells = self._load(), dict[str, set[int]]()
        for command_id in command_ids:
            self._kept_bytes -= kept.pop(command_id).size
            shell, number = _parts(command_id)
            shells.setdefault(shell, set()).add(number)
            for name in STREAMS:
                Path(self._path(command_id, name)).unlink(missing_ok=True)
            self._removed[command_id] = times.precise(self._now())
            if len(self._removed) > _REMEMBERED:
                self._removed.popitem(last=False)
        for shell, numbers in shells.items():
            self._index.drop(shell, frozenset(numbers))
            if not _scan(self._folder / shell):
                (self._folder / shell).rmdir()

    def _path(self, command_id: str, name: Stream) -> str:
        shell, number = _parts(command_id)
        return f"{self._folder}/{shell}/{number}.{name}"


def _parts(command_id: str) -> tuple[str, int]:
    """Return shell and number of a command; both become file names, so any other form is rejected."""
    match = _COMMAND_ID.fullmatch(command_id)
    if match is None:
        raise CommandNotFound(f"unknown command_id '{command_id[:300]}'", details={"command_id": command_id[:300]})
    return match["shell"], int(match["number"])


def _record(stream: StreamOutput) -> dict[str, object]:
    return {
        "bytes": stream.raw_bytes,
        "binary": stream.binary,
        "redactions": stream.redactions,
        "spool": stream.spool.as_dict(),
    }


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
