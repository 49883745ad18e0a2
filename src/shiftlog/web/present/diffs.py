"""Unified diffs for the page: line numbers, syntax and the words that changed.

Pure. Lines beyond a limit are only counted. A text that is no diff gives lines without numbers.
"""

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from shiftlog.text.printable import page_text
from shiftlog.web.present.code import Piece, coloured_lines, language_of

DIFF_LINES = 400
LINE_CHARS = 2_000
WORD_CHARS = 400
ALIKE = 0.35

_HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,[0-9]+)? \+([0-9]{1,9})(?:,[0-9]+)? @@")
_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
_BEGIN = re.compile(r"^(?:diff --git .*|--- [^\n]+\n\+\+\+ [^\n]+(?=\n@@ ))$", re.MULTILINE)
_NOTES = (
    "index ",
    "new file",
    "deleted file",
    "old mode",
    "new mode",
    "similarity",
    "dissimilarity",
    "rename ",
    "copy ",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRow:
    """One line of a diff: its kind (`add`, `del`, `same`, `hunk`), its numbers and its HTML without the sign."""

    kind: str
    old: int | None
    new: int | None
    html: Markup

    @property
    def sign(self) -> str:
        """Return the character that stands before the line in a unified diff."""
        return {"add": "+", "del": "-", "same": " "}.get(self.kind, "")


@dataclass(slots=True, kw_only=True)
class DiffOfFile:
    """The changes of one file."""

    path: str = ""
    rows: list[DiffRow] = field(default_factory=list[DiffRow])
    added: int = 0
    removed: int = 0
    left: int = 0


@dataclass(slots=True, kw_only=True)
class _Raw:
    kind: str
    text: str
    old: int | None = None
    new: int | None = None


def is_diff(text: str) -> bool:
    """Return True if a text is, or holds from some line on, a unified diff."""
    return _BEGIN.search(text[:20_000]) is not None and "\n@@ " in text[:40_000]


def split_diff(text: str) -> tuple[str, str]:
    """Return what stands before the first diff of a text, and the rest."""
    found = _BEGIN.search(text)
    return (text[: found.start()], text[found.start() :]) if found else (text, "")


def diffs(text: object, path: str | None = None, most: int = DIFF_LINES) -> list[DiffOfFile]:
    """Split a unified diff into files; `path` names the file if the diff does not."""
    files: list[DiffOfFile] = []
    room = most
    for name, lines in _files(str(text or "")):
        shown = name or path or ""
        one = DiffOfFile(
            path=shown,
            added=sum(line.kind == "add" for line in lines),
            removed=sum(line.kind == "del" for line in lines),
            left=max(0, len(lines) - room),
        )
        kept = lines[: max(0, room)]
        room -= len(kept)
        one.rows = _rows(kept, language_of(shown))
        files.append(one)
    return files


def _files(text: str) -> Iterator[tuple[str, list[_Raw]]]:
    """Yield the path and the numbered lines of each file."""
    name, lines = "", list[_Raw]()
    old = new = 0
    in_hunk = False
    every = page_text(text).split("\n")
    if every and not every[-1]:
        every.pop()
    for line in every:
        if line.startswith("diff --git "):
            if lines:
                yield name, lines
            name, lines, in_hunk = _git_name(line), [], False
        elif not in_hunk and line.startswith(("--- ", "+++ ")):
            told = line[4:].partition("\t")[0].removeprefix("a/").removeprefix("b/")
            if line.startswith("--- ") and any(one.kind != "hunk" for one in lines):
                yield name, lines
                name, lines = "", []
            name = told if told != "/dev/null" and (line.startswith("+") or not name) else name
        elif (found := _HUNK.match(line)) is not None:
            old, new, in_hunk = int(found[1]), int(found[2]), True
            lines.append(_Raw(kind="hunk", text=line))
        elif not in_hunk and line.startswith(_NOTES):
            continue
        else:
            kind = {"+": "add", "-": "del", "@": "hunk", "\\": "hunk"}.get(line[:1], "same")
            if in_hunk and kind == "del" and line.startswith("--- "):
                kind = "del"
            raw = _Raw(kind=kind, text=line[1:] if line[:1] in "+- " else line)
            if in_hunk and kind in ("add", "same"):
                raw.new, new = new, new + 1
            if in_hunk and kind in ("del", "same"):
                raw.old, old = old, old + 1
            lines.append(raw)
    if lines or name:
        yield name, lines


def _git_name(line: str) -> str:
    return line.rpartition(" b/")[2] or line.removeprefix("diff --git ")


def _rows(lines: Sequence[_Raw], language: str | None) -> list[DiffRow]:
    # Old and new side are coloured apart, each as one text, so that strings over several lines stay right.
    sides = {side: [line for line in lines if line.kind in (side, "same")] for side in ("del", "add")}
    coloured: dict[int, list[Piece]] = {}
    for of_side in filter(None, sides.values()):
        found = coloured_lines("\n".join(line.text[:LINE_CHARS] for line in of_side), language)
        coloured |= {id(line): pieces for line, pieces in zip(of_side, found, strict=True)}
    changed = _changed_words(lines)
    rows: list[DiffRow] = []
    for line in lines:
        pieces = coloured.get(id(line), [("", line.text[:LINE_CHARS])])
        html = _marked(pieces, changed.get(id(line), []))
        rows.append(DiffRow(kind=line.kind, old=line.old, new=line.new, html=html))
    return rows


def _changed_words(lines: Sequence[_Raw]) -> dict[int, list[tuple[int, int]]]:
    """Return the changed ranges of each removed and added line that has a counterpart."""
    found: dict[int, list[tuple[int, int]]] = {}
    at = 0
    while at < len(lines):
        gone: list[_Raw] = []
        come: list[_Raw] = []
        while at < len(lines) and lines[at].kind == "del":
            gone.append(lines[at])
            at += 1
        while at < len(lines) and lines[at].kind == "add":
            come.append(lines[at])
            at += 1
        for before, after in zip(gone, come, strict=False):
            pair = _changes(before.text, after.text)
            if pair is not None:
                found[id(before)], found[id(after)] = pair
        if not gone and not come:
            at += 1
    return found


def _changes(before: str, after: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]] | None:
    if max(len(before), len(after)) > WORD_CHARS:
        return None
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < ALIKE:
        return None
    gone: list[tuple[int, int]] = []
    come: list[tuple[int, int]] = []
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if tag == "equal":
            continue
        gone.append((len("".join(old[:old_from])), len("".join(old[:old_to]))))
        come.append((len("".join(new[:new_from])), len("".join(new[:new_to]))))
    return gone, come


def _marked(pieces: Sequence[Piece], ranges: Sequence[tuple[int, int]]) -> Markup:
    """Return the pieces of a line as HTML, the ranges of changed characters marked."""
    parts: list[Markup] = []
    at = 0
    edges = sorted({edge for pair in ranges for edge in pair})
    for name, text in pieces:
        cuts = [at, *(edge for edge in edges if at < edge < at + len(text)), at + len(text)]
        for first, last in itertools.pairwise(cuts):
            inner = text[first - at : last - at]
            classes = [f"h-{name}"] if name else []
            if any(start <= first and last <= end for start, end in ranges):
                classes.append("w")
            shown = escape(inner)
            parts.append(Markup('<span class="{}">{}</span>').format(" ".join(classes), shown) if classes else shown)
        at += len(text)
    return Markup("").join(parts)
