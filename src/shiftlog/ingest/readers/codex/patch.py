"""Codex patches: the files a patch changes, from an event's `changes` or from the text of `apply_patch`.

Pure text work; the reader knows whether the patch was applied.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from shiftlog.ingest.readers.actions import diff_header, diff_of_created, diff_of_deleted

ChangeKind = Literal["create", "edit", "delete"]

BEGIN = "*** Begin Patch"

_KINDS: dict[str, ChangeKind] = {"add": "create", "update": "edit", "delete": "delete"}
_LETTERS: dict[str, ChangeKind] = {"A": "create", "M": "edit", "D": "delete"}
_SECTIONS: dict[str, ChangeKind] = {
    "*** Add File:": "create",
    "*** Update File:": "edit",
    "*** Delete File:": "delete",
}
_MOVE = "*** Move to:"
_PROGRAM = re.compile(r"(?:^|[\s;&|(/])apply_?patch\b")
_DOCUMENT = re.compile(r"<<-?[ \t]*['\"]?([A-Za-z_][A-Za-z0-9_]{0,63})")
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\s\S]))")
_LETTER_OF = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file of a patch, with its hunks, or its content if it was created or deleted.

    `approximate` marks hunks without true line numbers.
    """

    kind: ChangeKind
    path: str
    moved_from: str | None = None
    hunks: str | None = None
    content: str | None = None
    approximate: bool = False

    def diff(self, path: str, moved_from: str | None = None) -> str | None:
        """Return the unified diff under the given names; None if the change shows no lines."""
        if self.hunks:
            if self.hunks.startswith(("--- ", "diff ")):
                return self.hunks
            head = diff_header(
                path, created=self.kind == "create", deleted=self.kind == "delete", moved_from=moved_from
            )
            return head + self.hunks
        if self.content is None or self.kind == "edit":
            return None
        return diff_of_created(path, self.content) if self.kind == "create" else diff_of_deleted(path, self.content)


def changes_of_event(changes: object, stdout: object) -> tuple[FileChange, ...]:
    """Read `changes` of an applied patch, or the `A|M|D <path>` lines of its output."""
    if isinstance(changes, dict) and changes:
        given = cast(dict[str, Any], changes)
        return tuple(_of_event(path, given[path]) for path in given if path)
    if isinstance(changes, list):
        listed = [cast(dict[str, Any], item) for item in cast(list[Any], changes) if isinstance(item, dict)]
        paths = [(item.get("path"), item) for item in listed]
        return tuple(_of_event(path, item) for path, item in paths if isinstance(path, str) and path)
    return tuple(
        FileChange(kind=_LETTERS[line[0]], path=line[2:].strip())
        for line in (stdout.splitlines() if isinstance(stdout, str) else ())
        if line[:1] in _LETTERS and line[1:2] == " " and line[2:].strip()
    )


def changes_in_patch(text: str) -> tuple[FileChange, ...]:
    """Read the files of a patch text."""
    found: list[FileChange] = []
    kind: ChangeKind | None = None
    path, moved, lines = "", None, list[str]()

    def close() -> None:
        if kind is not None and path:
            found.append(_of_section(kind, path, moved, lines))

    for line in _lines(text):
        mark = next((mark for mark in _SECTIONS if line.startswith(mark)), None)
        if mark is not None:
            close()
            kind, path, moved, lines = _SECTIONS[mark], line[len(mark) :].strip(), None, []
        elif line.startswith(_MOVE):
            moved = line[len(_MOVE) :].strip() or None
        elif line.startswith("*** End Patch"):
            close()
            kind = None
        elif kind is not None and not line.startswith("*** "):
            lines.append(line)
    close()
    return tuple(found)


def patches_in_argv(argv: list[str]) -> tuple[str, ...]:
    """Return the patch texts that a command line hands to `apply_patch`, as an argument or a here-document."""
    if argv and argv[0].rpartition("/")[2] in ("apply_patch", "applypatch"):
        return tuple(word for word in argv[1:] if BEGIN in word)
    found: list[str] = []
    for word in argv:
        if word.lstrip().startswith(BEGIN):
            found.append(word)
        elif BEGIN in word:
            found.extend(_heredocs(word))
    return tuple(found)


def patches_in_script(text: str) -> tuple[str, ...]:
    """Return the patch texts in a script of code mode, with the escapes of quoted strings undone."""
    if "apply_patch" not in text:
        return ()
    found: list[str] = []
    start = text.find(BEGIN)
    while start >= 0:
        end = text.find("*** End Patch", start)
        stop = len(text) if end < 0 else end
        body = text[start:stop]
        found.append(_unescaped(body) if body[len(BEGIN) :].startswith(("\\n", "\\r")) else body)
        start = text.find(BEGIN, stop)
    return tuple(found)


def _lines(text: str) -> list[str]:
    """Return the lines of a text; only a line feed separates lines, not form feeds or U+2028."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _heredocs(script: str) -> Iterator[str]:
    mark: str | None = None
    wanted = False
    body: list[str] = []
    for line in _lines(script):
        if mark is None:
            program = _PROGRAM.search(line)
            opening = _DOCUMENT.search(line, program.end() if program else 0)
            if opening is not None:
                mark, wanted, body = opening[1], program is not None, []
        elif line.strip() == mark:
            if wanted:
                yield "\n".join(body)
            mark = None
        elif wanted:
            body.append(line)
    if mark is not None and wanted:
        yield "\n".join(body)


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else _LETTER_OF.get(match[3], match[3])

    return _ESCAPED.sub(one, text)


def _of_event(path: str, change: object) -> FileChange:
    details = cast(dict[str, Any], change) if isinstance(change, dict) else {}
    named = details.get("type", details.get("kind"))
    if named is None:  # older releases wrap the details in the kind
        named = next((word for word in _KINDS if isinstance(details.get(word), dict)), None)
        details = cast(dict[str, Any], details[named]) if named else details
    if isinstance(named, dict):  # items of newer releases nest the kind
        details = {**details, **cast(dict[str, Any], named)}
        named = details.get("type")
    kind = _KINDS.get(named, "edit") if isinstance(named, str) else "edit"
    diff, content, moved = details.get("unified_diff", details.get("diff")), details.get("content"), None
    target = details.get("move_path")
    if isinstance(target, str) and target and target != path:
        path, moved = target, path
    return FileChange(
        kind=kind,
        path=path,
        moved_from=moved,
        hunks=diff if isinstance(diff, str) and diff else None,
        content=content if isinstance(content, str) else None,
    )


def _of_section(kind: ChangeKind, path: str, moved: str | None, lines: list[str]) -> FileChange:
    target = moved or path
    if kind == "create":
        added = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))
        return FileChange(kind=kind, path=target, content=added)
    if kind == "delete":
        return FileChange(kind=kind, path=target)
    source = path if moved else None
    return FileChange(kind=kind, path=target, moved_from=source, hunks=_hunks(lines), approximate=True)


def _hunks(lines: list[str]) -> str | None:
    """Return the hunks in order; a patch text has no line numbers, so they count from 1."""
    out: list[str] = []
    hunk: list[str] = []
    heading, old, new = "", 1, 1

    def close() -> None:
        nonlocal old, new
        if not hunk:
            return
        before = sum(line[:1] != "+" for line in hunk)
        after = sum(line[:1] != "-" for line in hunk)
        out.append(f"@@ -{old},{before} +{new},{after} @@{heading}")
        out.extend(hunk)
        old, new = old + before, new + after

    for line in lines:
        if line.startswith("@@"):
            close()
            hunk = []
            heading = line[2:].rstrip().removesuffix("@@").rstrip()
        else:
            hunk.append(line if line[:1] in ("+", "-", " ") else f" {line}")
    close()
    return "\n".join(out) + "\n" if out else None
