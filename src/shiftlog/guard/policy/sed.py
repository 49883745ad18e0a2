"""Reads scripts of `sed` as far as it takes to say whether they run a program: the command `e`, or the flag of `s`."""

from __future__ import annotations

import re

from shiftlog.guard.bash.words import Arg
from shiftlog.guard.policy.options import Options, read_options

OPTIONS = Options("nErsuzbd", "efl", "i", ("quiet", "silent", "regexp-extended", "separate", "unbuffered", "null-data",
                  "posix", "debug", "sandbox", "follow-symlinks", "zero-terminated", "binary", "in-place",
                  "expression=", "file=", "line-length="))  # fmt: skip
ADDRESSES = frozenset("0123456789$,~+! \t\n;{}IM")
TO_LINE_END = frozenset("aicrRwW#v")
COMMAND_END = re.compile(r"[;\n]")
TO_NEXT = frozenset(":btTqQlL")


def sed_runs(args: list[Arg]) -> bool:
    """Say whether one of the scripts that `sed` is given runs a program."""
    given: list[tuple[str, Arg | None]] = []
    operands: list[Arg] = []
    rest = args
    while rest:
        found = read_options(rest, OPTIONS)
        given += found.given
        operands += found.rest[:1]
        rest = found.rest[1:]
    scripts = [value.text for option, value in given if option in ("-e", "--expression") and value is not None]
    if not scripts and not any(option in ("-f", "--file") for option, _ in given):
        scripts = [arg.text for arg in operands[:1]]
    return any(_runs(script) for script in scripts)


def _runs(script: str) -> bool:
    place = 0
    while place < len(script):
        sign = script[place]
        if sign in ADDRESSES:
            place += 1
        elif sign == "/":
            place = _after(script, place + 1, sign)
        elif sign == "\\":
            place = _after(script, place + 2, script[place + 1 : place + 2])
        elif sign == "e":
            return True
        elif sign in "sy":
            mark = script[place + 1 : place + 2]
            place = _after(script, _after(script, place + 2, mark), mark)
            flags = place
            while place < len(script) and script[place] in "gpiImMe0123456789":
                place += 1
            if sign == "s" and "e" in script[flags:place]:
                return True
            if script[place : place + 1] == "w":
                place = _line_end(script, place)
        elif sign in TO_LINE_END:
            place = _line_end(script, place)
        elif sign in TO_NEXT:
            ends = COMMAND_END.search(script, place)
            place = ends.start() if ends else len(script)
        else:
            place += 1
    return False


def _after(script: str, place: int, mark: str) -> int:
    """Return the place behind the next `mark` that no backslash hides."""
    while place < len(script) and script[place] != mark:
        place += 2 if script[place] == "\\" else 1
    return place + 1


def _line_end(script: str, place: int) -> int:
    """Return the end of the line, which a backslash before it continues."""
    while place < len(script) and script[place] != "\n":
        place += 2 if script[place] == "\\" else 1
    return place
