"""Keeping outputs: where the spools of commands lie, how much may be kept and for how long, and reading them again.

A folder per shell; in it `<n>.stdout` and `<n>.stderr` (only where something was written) and `<n>.json`, written at
the command's end. What an earlier server left is found on disk. Finished outputs go by age, or oldest first when all
together are too large; running ones never.
"""

import json
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from shiftlog.guard.redact_scan import Rules
from shiftlog.guard.redaction import Redactor
from shiftlog.model import times
from shiftlog.model.shell_errors import CommandNotFound
from shiftlog.shell.output import CommandOutput, expired
from shiftlog.shell.output_spool import Spool, read_record
from shiftlog.shell.output_stream import StreamOutput
from shiftlog.shell.ports import Stream

COMMAND_BYTES = 2 << 30
TOTAL_BYTES = 20 << 30
KEPT_DAYS = 14
SWEEP_S = 3600.0

_COMMAND_ID = re.compile(r"(?P<shell>[A-Za-z0-9][A-Za-z0-9._@:-]{0,199})#(?P<number>[1-9][0-9]{0,9})", re.ASCII)
_FILE = re.compile(r"(?P<number>[1-9][0-9]{0,9})\.(?:stdout|stderr|json)", re.ASCII)
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
_REMEMBERED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """How much output is kept, set by the operator."""

    command_bytes: int = COMMAND_BYTES
    total_bytes: int = TOTAL_BYTES
    days: int = KEPT_DAYS


@dataclass(slots=True, kw_only=True)
class _Kept:
    """A finished output on disk."""

    size: int = 0
    ended_at: float = 0.0


class _Room:
    """What both streams of a command may still store."""

    def __init__(self, size: int, claim: Callable[[int], int]) -> None:
        self._left = size
        self._claim_of_all = claim

    def claim(self, size: int) -> int:
        granted = self._claim_of_all(min(size, self._left))
        self._left -= granted
        return granted


class OutputKeeper:
    """All outputs of a state directory; one per server. Used on the event loop only."""

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
        self._redactor = redactor
        self._limits = limits or OutputLimits()
        self._now = now
        self._clock = clock
        self._live: dict[str, CommandOutput] = {}
        self._next_sweep = clock()
        self._kept: dict[str, _Kept] | None = None
        self._kept_bytes = 0  # of finished outputs and of what live ones have claimed
        self._removed: OrderedDict[str, str] = OrderedDict()
        self._rules: OrderedDict[frozenset[str], Rules] = OrderedDict()

    def begin(self, command_id: str, learned: Iterable[str] = ()) -> CommandOutput:
        """Make the output of a command that is about to run; `learned` are values that this shell must not show."""
        if self._clock() >= self._next_sweep:
            self.sweep()
        rules = self.rules(learned)
        room = _Room(self._limits.command_bytes, self._claim)
        streams = [
            StreamOutput(Spool(self._path(command_id, name), room.claim), rules, self._clock) for name in _STREAMS
        ]
        output = CommandOutput(command_id, *streams, clock=self._clock, settled=self._settle)
        self._live[command_id] = output
        return output

    def reopen(self, command_id: str) -> CommandOutput:
        """Return the output of a command that runs or ran; raises `OutputExpired` once it was removed."""
        if live := self._live.get(command_id):
            return live
        place = self._place(command_id)
        record = read_record(place.with_suffix(".json"))
        if record is None and not any(self._path(command_id, name).exists() for name in _STREAMS):
            raise expired(command_id, self._removed.get(command_id))
        streams = [self._recall(command_id, name, record) for name in _STREAMS]
        return CommandOutput(command_id, *streams, clock=self._clock, settled=lambda _: None, finished=True)

    def rules(self, learned: Iterable[str]) -> Rules:
        """Return the rules of masking for a shell that has learned some values."""
        values = frozenset(learned)
        rules = self._rules.get(values)
        if rules is None:
            redactor = self._redactor.learning(values) if values else self._redactor
            rules = self._rules[values] = redactor.rules(by_rule=True)
            if len(self._rules) > 64:
                self._rules.popitem(last=False)
        return rules

    def flush(self) -> None:
        """Write what running commands hold in memory to disk; called about once a second, so that a crash loses little."""
        for output in self._live.values():
            output.stdout.spool.flush()
            output.stderr.spool.flush()

    def sweep(self) -> int:
        """Remove outputs that are too old, and the oldest while all are too large; return how many."""
        kept = self._load()
        self._next_sweep = self._clock() + SWEEP_S
        oldest = (self._now() - timedelta(days=self._limits.days)).timestamp()
        removed = 0
        for command_id, one in sorted(kept.items(), key=lambda item: item[1].ended_at):
            if one.ended_at > oldest and self._kept_bytes <= self._limits.total_bytes:
                break
            self._remove(command_id)
            removed += 1
        return removed

    @property
    def kept_bytes(self) -> int:
        """How many bytes all outputs take."""
        self._load()
        return self._kept_bytes

    def _claim(self, size: int) -> int:
        """Make room for more of a running command's output, by removing finished ones; return how much there is."""
        kept = self._load()
        if self._kept_bytes + size > self._limits.total_bytes:
            for command_id, _ in sorted(kept.items(), key=lambda item: item[1].ended_at):
                self._remove(command_id)
                if self._kept_bytes + size <= self._limits.total_bytes:
                    break
        granted = min(size, max(0, self._limits.total_bytes - self._kept_bytes))
        self._kept_bytes += granted
        return granted

    def _settle(self, output: CommandOutput) -> None:
        """Write down a command that ended, and again what a left-over child added to it."""
        for name in _STREAMS:
            spool = output.stream(name).spool
            spool.flush()
            if not output.stream(name).open:
                spool.close_file()
        record = {name: _record(output.stream(name)) for name in _STREAMS}
        path = self._place(output.command_id).with_suffix(".json")
        ended_at = self._now().timestamp()
        try:
            _write(path, json.dumps(record, separators=(",", ":")).encode(), ended_at)
        except OSError:
            pass  # on a full disk the text itself is counted again when it is reopened
        if output.over:
            self._live.pop(output.command_id, None)
            size = output.stdout.spool.size + output.stderr.spool.size
            self._load()[output.command_id] = _Kept(size=size, ended_at=ended_at)

    def _recall(self, command_id: str, name: Stream, record: dict[str, object] | None) -> StreamOutput:
        noted = cast(dict[str, object] | None, record.get(name)) if record is not None else None
        spool = Spool.reopen(self._path(command_id, name), cast(dict[str, object] | None, (noted or {}).get("spool")))
        return StreamOutput.recall(
            spool,
            raw_bytes=cast(int, noted["bytes"]) if noted else spool.size,
            binary=cast(bool, noted["binary"]) if noted else False,
            redactions=cast(int, noted["redactions"]) if noted else 0,
        )

    def _load(self) -> dict[str, _Kept]:
        """Find, once, what an earlier server left."""
        if self._kept is not None:
            return self._kept
        self._kept = {}
        for shell in _scan(self._folder):
            if not shell.is_dir(follow_symlinks=False):
                continue
            for file in _scan(Path(shell.path)):
                match = _FILE.fullmatch(file.name)
                command_id = f"{shell.name}#{match['number']}" if match else ""
                if match is None or command_id in self._live or not file.is_file(follow_symlinks=False):
                    continue
                stat = file.stat(follow_symlinks=False)
                one = self._kept.setdefault(command_id, _Kept())
                one.ended_at = max(one.ended_at, stat.st_mtime)
                if not file.name.endswith(".json"):
                    one.size += stat.st_size
                    self._kept_bytes += stat.st_size
        return self._kept

    def _remove(self, command_id: str) -> None:
        place = self._place(command_id)
        one = self._load().pop(command_id)
        self._kept_bytes -= one.size
        for suffix in (".json", ".stdout", ".stderr"):
            place.with_suffix(suffix).unlink(missing_ok=True)
        try:
            place.parent.rmdir()
        except OSError:
            pass  # other commands of the shell are still kept
        self._removed[command_id] = times.shown(self._now())
        if len(self._removed) > _REMEMBERED:
            self._removed.popitem(last=False)

    def _path(self, command_id: str, name: Stream) -> Path:
        return self._place(command_id).with_suffix(f".{name}")

    def _place(self, command_id: str) -> Path:
        match = _COMMAND_ID.fullmatch(command_id)
        if match is None:
            raise CommandNotFound(f"unknown command_id '{command_id[:300]}'", details={"command_id": command_id[:300]})
        return self._folder / match["shell"] / match["number"]


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


def _write(path: Path, data: bytes, changed_at: float) -> None:
    """Write a small file whole or not at all."""
    aside = path.with_suffix(".new")
    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    os.utime(aside, (changed_at, changed_at))
    aside.replace(path)
