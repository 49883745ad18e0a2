"""Terminals for commands, and the text that a full-screen program shows on one.

The screen is a plain grid of characters: cursor moves, erasing, scrolling regions, wrapping and the alternate screen
are followed, colours are not. Input goes to the program unchanged.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import termios
import unicodedata
from pathlib import Path

from shiftlog.shell.ports import OutputSink, Stream, Terminal

#: The program that takes over a terminal and becomes bash.
HELPER = str(Path(__file__).with_name("terminal_helper.py").resolve())

_TOKENS = re.compile(
    r"\x1b\[(?P<params>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b[\]PX^_](?:[^\x07\x1b]|\x1b(?!\\))*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b(?P<single>[0-OQ-WYZ\\`-~])"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
    r"|(?P<text>[^\x00-\x1f\x7f]+)"
)
_LONGEST_SEQUENCE = 4096
_UNLOCK, _OPEN_PEER, _NUMBER = 0x40045431, 0x5441, 0x80045430  # TIOCSPTLCK, TIOCGPTPEER, TIOCGPTN
_TAB = 8
#: Rows and columns that a letter moves the cursor by.
_STEPS = {"A": (-1, 0), "k": (-1, 0), "B": (1, 0), "e": (1, 0), "C": (0, 1), "a": (0, 1), "D": (0, -1), "j": (0, -1)}


def end_of_file(typed: bytes) -> bytes:
    """Return the keys that end the input; on an unfinished line the first one only submits the line."""
    return b"\x04" if typed[-1:] in (b"", b"\n", b"\r", b"\x04") else b"\x04\x04"


def open_terminal(size: Terminal, root: str = "") -> tuple[int, int]:
    """Open a terminal of that size; return our non-blocking end and the program's.

    `root` is the root directory of a process that has terminals of its own.
    """
    ours, theirs = _open_below(root) if root else pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.cols, 0, 0))
    os.set_blocking(ours, False)
    return ours, theirs


def _open_below(root: str) -> tuple[int, int]:
    ours = os.open(f"{root}/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(ours, _UNLOCK, struct.pack("i", 0))
        return ours, fcntl.ioctl(ours, _OPEN_PEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        os.close(ours)
        raise


def name_of(ours: int, theirs: int, root: str = "") -> str:
    """Return the path of a terminal, as programs below that root know it."""
    if not root:
        return os.ttyname(theirs)
    (number,) = struct.unpack("I", fcntl.ioctl(ours, _NUMBER, bytes(4)))
    return f"/dev/pts/{number}"


class ScreenSink(OutputSink):
    """Passes a terminal's output to its screen and to the command's sink."""

    def __init__(self, screen: TerminalScreen, sink: OutputSink) -> None:
        self._screen = screen
        self._sink = sink

    def write(self, stream: Stream, data: bytes) -> None:
        self._screen.feed(data)
        self._sink.write(stream, data)

    def close(self, stream: Stream) -> None:
        self._sink.close(stream)

    @property
    def is_behind(self) -> bool:
        return self._sink.is_behind

    def mark(self, stream: Stream) -> bytes | None:
        return self._sink.mark(stream)

    def tear(self, stream: Stream) -> None:
        self._sink.tear(stream)


class TerminalScreen:
    """The characters that a terminal of this size would show now."""

    def __init__(self, cols: int, rows: int) -> None:
        self.cols = cols
        self.rows = rows
        self.row = 0
        self.col = 0
        self._lines = self._blank(rows)
        self._top, self._bottom = 0, rows - 1
        self._saved = (0, 0)
        self._main: list[list[str]] | None = None
        self._wraps = True
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def text(self, *, unfinished: bool = True, joined: bool = False) -> str:
        """Return the screen as lines without trailing blanks.

        Without `unfinished`, blanks replace the word that ends at the cursor, over several rows if necessary; `joined`
        joins a full row and the next one into one line.
        """
        lines = ["".join(line) for line in self._lines]
        row, end = (self.row, self.col) if not unfinished else (-1, 0)
        while row >= 0:
            before = lines[row][:end]
            start = len(before) - len(before.split(" ")[-1])
            lines[row] = before[:start] + " " * (end - start) + lines[row][end:]
            row, end = (row - 1, self.cols) if start == 0 else (-1, 0)
        ends = ("" if joined and line[-1:].strip() else "\n" for line in lines)
        return "".join(line.rstrip() + end for line, end in zip(lines, ends, strict=True)).rstrip("\n")

    def feed(self, data: bytes) -> None:
        """Take the next output; an incomplete sequence waits for its rest."""
        text = self._rest + self._decoder.decode(data)
        position = 0
        while position < len(text):
            match = _TOKENS.match(text, position)
            if match is None:
                if len(text) - position < _LONGEST_SEQUENCE:
                    break
                position += 1
                continue
            self._take(match)
            position = match.end()
        self._rest = text[position:]

    def _take(self, match: re.Match[str]) -> None:
        if match["text"] is not None:
            for character in match["text"]:
                self._put(character)
        elif match["control"] is not None:
            self._control(match["control"])
        elif match["single"] is not None:
            self._escape(match["single"])
        elif match["final"] is not None:
            self._sequence(match["params"], match["final"])

    def _put(self, character: str) -> None:
        if unicodedata.combining(character):
            return
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if self.col + width > self.cols:
            if not self._wraps:
                self.col = self.cols - width
            else:
                self.col = 0
                self._line_feed()
        self._lines[self.row][self.col] = character
        if width == 2 and self.col + 1 < self.cols:
            self._lines[self.row][self.col + 1] = ""
        self.col += width

    def _control(self, character: str) -> None:
        if character == "\r":
            self.col = 0
        elif character in "\n\x0b\x0c":
            self._line_feed()
        elif character == "\b":
            self.col = max(0, min(self.col, self.cols - 1) - 1)
        elif character == "\t":
            self.col = min(self.cols - 1, (self.col // _TAB + 1) * _TAB)

    def _escape(self, character: str) -> None:
        if character == "7":
            self._saved = (self.row, self.col)
        elif character == "8":
            self.row, self.col = self._saved
        elif character == "D":
            self._line_feed()
        elif character == "E":
            self.col = 0
            self._line_feed()
        elif character == "M":
            self._reverse_line_feed()
        elif character == "c":
            self.__init__(self.cols, self.rows)

    def _sequence(self, params: str, final: str) -> None:
        if params.startswith("?"):
            if final in "hl":
                self._mode(params[1:].split(";"), on=final == "h")
            return
        numbers = [int(one) if one.isdigit() else 0 for one in params.split(";")] if params else [0]
        if final == "J":
            self._erase_display(numbers)
        elif final == "K":
            self._erase_line(numbers)
        elif final == "@":
            self._insert_characters(numbers)
        elif final == "P":
            self._delete_characters(numbers)
        elif final == "r":
            self._region(numbers)
        else:
            self._move_or_scroll(final, numbers)

    def _mode(self, modes: list[str], *, on: bool) -> None:
        if "7" in modes:
            self._wraps = on
        if not {"1049", "1047", "47"} & set(modes):
            return
        if on and self._main is None:
            self._main, self._lines = self._lines, self._blank(self.rows)
            self._saved = (self.row, self.col)
        elif not on and self._main is not None:
            self._lines, self._main = self._main, None
            self.row, self.col = self._saved

    def _line_feed(self) -> None:
        if self.row == self._bottom:
            self._scroll(1)
        elif self.row < self.rows - 1:
            self.row += 1

    def _reverse_line_feed(self) -> None:
        if self.row == self._top:
            self._scroll(-1)
        elif self.row > 0:
            self.row -= 1

    def _scroll(self, count: int, top: int | None = None) -> None:
        """Move the lines from `top` to the bottom of the region up by `count`, or down when it is negative."""
        first = self._top if top is None else top
        region = self._lines[first : self._bottom + 1]
        size = min(abs(count), len(region))
        blank = self._blank(size)
        self._lines[first : self._bottom + 1] = (
            region[size:] + blank if count > 0 else blank + region[: len(region) - size]
        )

    def _move(self, row: int, col: int) -> None:
        self.row = max(0, min(self.rows - 1, row))
        self.col = max(0, min(self.cols - 1, col))

    def _erase_display(self, numbers: list[int]) -> None:
        self._erase_line(numbers)
        if numbers[0] == 0:
            self._lines[self.row + 1 :] = self._blank(self.rows - self.row - 1)
        elif numbers[0] == 1:
            self._lines[: self.row] = self._blank(self.row)
        else:
            self._lines = self._blank(self.rows)

    def _erase_line(self, numbers: list[int]) -> None:
        first, last = (self.col, self.cols) if numbers[0] == 0 else (0, self.col + 1 if numbers[0] == 1 else self.cols)
        self._fill(first, min(last, self.cols))

    def _fill(self, first: int, last: int) -> None:
        if last > first:
            self._lines[self.row][first:last] = [" "] * (last - first)

    def _insert_characters(self, numbers: list[int]) -> None:
        line, count = self._lines[self.row], min(max(1, numbers[0]), self.cols - min(self.col, self.cols - 1))
        self._lines[self.row] = (line[: self.col] + [" "] * count + line[self.col :])[: self.cols]

    def _delete_characters(self, numbers: list[int]) -> None:
        line, count = self._lines[self.row], min(max(1, numbers[0]), self.cols)
        kept = line[: self.col] + line[self.col + count :]
        self._lines[self.row] = kept + [" "] * (self.cols - len(kept))

    def _region(self, numbers: list[int]) -> None:
        top = max(1, numbers[0])
        bottom = numbers[1] if len(numbers) > 1 and numbers[1] else self.rows
        if top < bottom <= self.rows:
            self._top, self._bottom = top - 1, bottom - 1
            self._move(0, 0)

    def _blank(self, count: int) -> list[list[str]]:
        return [[" "] * self.cols for _ in range(count)]

    def _move_or_scroll(self, letter: str, numbers: list[int]) -> None:
        count = max(1, numbers[0])
        if letter in _STEPS:
            rows, cols = _STEPS[letter]
            self._move(self.row + rows * count, min(self.col, self.cols - 1) + cols * count)
        elif letter in "EF":
            self._move(self.row + (count if letter == "E" else -count), 0)
        elif letter in "G`":
            self._move(self.row, count - 1)
        elif letter == "d":
            self._move(count - 1, self.col)
        elif letter in "Hf":
            self._move(count - 1, (numbers[1] if len(numbers) > 1 else 1) - 1)
        elif letter in "ST":
            self._scroll(count if letter == "S" else -count)
        elif letter in "LM" and self._top <= self.row <= self._bottom:
            self._scroll(-count if letter == "L" else count, self.row)
        elif letter == "X":
            self._fill(self.col, min(self.cols, self.col + count))
        elif letter == "s":
            self._saved = (self.row, self.col)
        elif letter == "u":
            self.row, self.col = self._saved
