"""Detects `awk` programs that may start another program: by `system`, a pipe, an indirect call or code from a file."""

from __future__ import annotations

import re

from shiftlog.guard.bash.words import Arg
from shiftlog.guard.policy.options import OptionTable, read_options

LONG_OPTIONS = (
    "field-separator= assign= source= file= exec= include= load= lint posix traditional re-interval sandbox optimize "
    "no-optimize non-decimal-data use-lc-numeric characters-as-bytes version csv"
)
OPTIONS = OptionTable("bcCghIkMnNOPrsStV", "fFveilE", LONG_OPTIONS, "dDoLp")
FROM_FILES = ("-f", "-i", "-l", "-E", "--file", "--include", "--load", "--exec")
TOKEN = re.compile(
    r"(?P<skip>[ \t]+|\\\r?\n|\#[^\n]*)|(?P<text>\"(?:[^\"\\\n]|\\.)*\")|(?P<starts>system\b|\|&|\|(?!\|)|@)|"
    r"(?P<keyword>(?:print|printf|return)\b)|(?P<operand>[\w.]+|[)\]$]|\+\+|--)|(?P<other>\|\||[^/\"])",
    re.S,
)
REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\\n])*\])*/")


def awk_runs(args: list[Arg]) -> bool:
    """Return True unless the program given to `awk` is literal and starts nothing."""
    found = read_options(args, OPTIONS)
    if found.hidden or found.has(*FROM_FILES):
        return True
    given = [value for option, value in found.given if option in ("-e", "--source")] or found.rest[:1]
    return any(program is None or program.value is None or _runs(program.value) for program in given)


def _runs(program: str) -> bool:
    index, operand = 0, False
    while index < len(program):
        found = REGEX.match(program, index) if program[index] == "/" and not operand else TOKEN.match(program, index)
        if found is None:  # a division, or an open string or regular expression
            if program[index] != "/" or not operand:
                return True
            index, operand = index + 1, False
            continue
        index = found.end()
        kind = found.lastgroup
        if kind == "starts":
            return True
        if kind != "skip":
            operand = kind in ("text", "operand", None)
    return False
