"""Editing the user's files and undoing it: a record of each edit is kept, so that it can be removed.

A file that was not changed since gets its old bytes back; from a changed file only our entries are removed. Every file
is copied before it is changed. `plan` decides the edits.
"""

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from shiftlog.cli.setup.edit_json import CannotEdit
from shiftlog.link.files import read_regular
from shiftlog.model.times import compact
from shiftlog.text.json_comments import plain_json

_BOM = "\ufeff"
_OURS = re.compile(r"\bshiftlog-hook\b|\bshiftlog\b.*\bmcp\b|mcp_servers\.shiftlog|shiftlog@shiftlog")
Change = Callable[[str], str]


class EditRefused(Exception):
    """A file cannot be edited, and was not changed; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An edit of a file and its removal; `take` also gets the sections that the file had before."""

    path: Path
    add: Change
    take: Callable[[str, frozenset[str]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The outcome for a file: `state` is written, unchanged, restored, removed, edited or left.

    A file is left if what we wrote in it was edited since; `lines` are those of it that still name us.
    """

    path: Path
    state: str
    backup: Path | None = None
    lines: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class SetupRecord:
    """The record of the changes for one agent, kept in the state directory."""

    file: Path
    edits: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    files: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def load(cls, file: Path) -> "SetupRecord":
        """Read the record; an unreadable file counts as an empty record."""
        try:
            document: Any = json.loads(read_regular(file))
            return cls(file=file, edits=dict(document["edits"]), files=dict(document["files"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(file=file)

    def save(self) -> None:
        """Write the record, or remove its file if it is empty."""
        if not self.edits and not self.files:
            self.file.unlink(missing_ok=True)
            return
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"edits": self.edits, "files": self.files}, indent=2)
        with os.fdopen(os.open(self.file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as out:
            out.write(text + "\n")

    # Adding

    def put(self, edits: Iterable[Edit]) -> list[Edited]:
        """Make all edits, or none if one is impossible; raise EditRefused."""
        planned = [(edit, *_planned(edit.path, edit.add)) for edit in edits]
        done: list[Edited] = []
        for edit, before, after in planned:
            if after == before:
                done.append(Edited(path=edit.path, state="unchanged"))
                continue
            backup = _written(edit.path, before, after)
            self._remember(edit.path, before, after, backup)
            done.append(Edited(path=edit.path, state="written", backup=backup))
        return done

    def _remember(self, path: Path, before: bytes | None, after: bytes, backup: Path | None) -> None:
        known = self.edits.get(str(path))
        # Removing a second edit right after the first restores the state before the first.
        if known is not None and before is not None and known["after"] == _digest(before):
            self.edits[str(path)] = {**known, "after": _digest(after)}
            return
        self.edits[str(path)] = {
            "before": None if before is None else _digest(before),
            "after": _digest(after),
            "backup": str(backup) if backup else None,
            "sections": sorted(_sections(before)),
        }

    def put_files(self, folder: Path, files: Mapping[str, str]) -> bool:
        """Write our own files below a folder; return True if anything changed."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        changed = False
        for name, text in files.items():
            path = folder / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                changed = True
            self.files[str(path)] = _digest(text.encode())
        return changed

    # Taking away

    def take(self, edits: Iterable[Edit]) -> list[Edited]:
        """Remove our entries from all files, and name those that stay; raise EditRefused if that is not safe."""
        edits = list(edits)
        done = [found for edit in edits if (found := self._taken(edit)) is not None]
        for name, digest in list(self.files.items()):
            path = Path(name)
            if path.is_file() and _digest(path.read_bytes()) == digest:
                path.unlink()
                folder, top = path.parent, self.file.parent
                while folder != top and folder.is_relative_to(top) and not any(folder.iterdir()):
                    folder.rmdir()
                    folder = folder.parent
                done.append(Edited(path=path, state="removed"))
            elif path.exists():
                done.append(Edited(path=path, state="left"))
            del self.files[name]
        return [*done, *_left(edit.path for edit in edits)]

    def _taken(self, edit: Edit) -> Edited | None:
        known = self.edits.pop(str(edit.path), None)
        current = _read(edit.path)
        if current is None:
            return None
        if known is not None and known["after"] == _digest(current):
            if known["before"] is None:
                return _removed(edit.path, current)
            before = _read(Path(known["backup"])) if known["backup"] else None
            if before is not None and _digest(before) == known["before"]:
                return Edited(path=edit.path, state="restored", backup=_written(edit.path, current, before))
        sections = frozenset(known["sections"]) if known is not None else _sections(current)
        before, after = _planned(edit.path, lambda text: edit.take(text, sections))
        if after == before:
            return None
        if known is not None and known["before"] is None and not after.strip():
            return _removed(edit.path, current)  # it was ours but for what was edited in it; empty it is no valid file
        return Edited(path=edit.path, state="edited", backup=_written(edit.path, before, after))


def _removed(path: Path, current: bytes) -> Edited:
    """Remove a file that was not there before, keeping a backup."""
    real = Path(os.path.realpath(path))
    descriptor, backup = _open_backup(real)
    _fill(descriptor, current, real.stat())
    real.unlink()
    return Edited(path=path, state="removed", backup=backup)


def _left(paths: Iterable[Path]) -> Iterator[Edited]:
    """Yield the files that still name our programs: their lines were edited, so they are not ours to remove."""
    for path in dict.fromkeys(paths):
        text = (_read(path) or b"").decode("utf-8", "replace")
        lines = [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if _OURS.search(line)]
        if lines:
            yield Edited(path=path, state="left", lines=tuple(lines))


def _planned(path: Path, change: Change) -> tuple[bytes | None, bytes]:
    """Return the present and the planned content of a file; raise EditRefused."""
    with _refusing(path):
        before = _read(path)
        text = (before or b"").decode("utf-8")
        bom = _BOM if text.startswith(_BOM) else ""
        return before, (bom + change(text.removeprefix(bom))).encode("utf-8")


def _written(path: Path, before: bytes | None, after: bytes) -> Path | None:
    with _refusing(path):
        return write_atomically(Path(os.path.realpath(path)), before, after)


@contextmanager
def _refusing(path: Path) -> Generator[None]:
    """Turn a failure into EditRefused."""
    try:
        yield
    except (CannotEdit, UnicodeError, OSError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if isinstance(error, UnicodeError):
            reason = "not everything in it is valid UTF-8"
        raise EditRefused(f"{path} cannot be edited: {reason}.") from None


def _read(path: Path) -> bytes | None:
    real = Path(os.path.realpath(path))
    return read_regular(real) if real.exists() else None


def _sections(content: bytes | None) -> frozenset[str]:
    """Return the top-level names of a JSON document."""
    try:
        document: Any = json.loads(plain_json((content or b"{}").decode("utf-8-sig")))
    except ValueError:
        return frozenset()
    return frozenset(cast("dict[str, Any]", document)) if isinstance(document, dict) else frozenset()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_atomically(path: Path, before: bytes | None, after: bytes) -> Path | None:
    """Back up a file and replace its content atomically; return the path of the backup.

    Raises CannotEdit, and leaves nothing behind, if the file no longer holds `before` (None: does not exist).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    status = None if before is None else path.stat()
    made: list[Path] = []
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        made.append(Path(name))
        _fill(descriptor, after, status)
        if before is not None:
            descriptor, backup = _open_backup(path)
            made.append(backup)
            _fill(descriptor, before, status)
        # Agents write these files too; their changes must not be lost.
        if (path.read_bytes() if path.exists() else None) != before:
            raise CannotEdit("it changed just now; run the command again")
        made[0].replace(path)
    except BaseException:
        for leftover in made:
            leftover.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return made[1] if before is not None else None


def _open_backup(path: Path) -> tuple[int, Path]:
    name = f"{path.name}.{compact(datetime.now(UTC))}"
    backup, number = path.with_name(f"{name}.bak"), 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{name}-{number}.bak")
    return os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), backup


def _fill(descriptor: int, content: bytes, status: os.stat_result | None) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if status is not None:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            if os.geteuid() == 0:  # under sudo the file must keep its owner
                os.fchown(descriptor, status.st_uid, status.st_gid)
        file.flush()
        os.fsync(descriptor)
