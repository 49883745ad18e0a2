"""Detects code that may start a program: of `sed` by `e`, of `awk` by `system`, a pipe, an indirect call or a file."""

from __future__ import annotations

import re

from shiftlog.guard.bash.words import Arg
from shiftlog.guard.policy.options import OptionTable, read_options
from shiftlog.guard.policy.tables import SEDS

SED_LONG = (
    "quiet silent regexp-extended separate unbuffered null-data posix debug sandbox follow-symlinks zero-terminated "
    "binary in-place expression= file= line-length="
)
SED_OPTIONS = OptionTable("nErsuzbd", "efl", SED_LONG, "i")
ADDRESSES = frozenset("0123456789$,~+! \t\n;{}IM")
TO_LINE_END = frozenset("aicrRwW#v")
COMMAND_END = re.compile(r"[;\n]")
TO_NEXT = frozenset(":btTqQlL")
AWK_LONG = (
    "field-separator= assign= source= file= exec= include= load= lint posix traditional re-interval sandbox optimize "
    "no-optimize non-decimal-data use-lc-numeric characters-as-bytes version csv"
)
AWK_OPTIONS = OptionTable("bcCghIkMnNOPrsStV", "fFveilE", AWK_LONG, "dDoLp")
AWK_FILES = ("-f", "-i", "-l", "-E", "--file", "--include", "--load", "--exec")
AWK_TOKEN = re.compile(
    r"(?P<skip>[ \t]+|\\\r?\n|\#[^\n]*)|(?P<text>\"(?:[^\"\\\n]|\\.)*\")|(?P<starts>system\b|\|&|\|(?!\|)|@)|"
    r"(?P<keyword>(?:print|printf|return)\b)|(?P<operand>[\w.]+|[)\]$]|\+\+|--)|(?P<other>\|\||[^/\"])",
    re.S,
)
AWK_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\\n])*\])*/")


def sed_runs(args: list[Arg]) -> bool:
    """Return True if one of the scripts given to `sed` runs a program."""
    given, operands = _read_all(args, SED_OPTIONS)
    scripts = [value.text for option, value in given if option in ("-e", "--expression") and value is not None]
    if not scripts and not any(option in ("-f", "--file") for option, _ in given):
        scripts = [arg.text for arg in operands[:1]]
    return any(_sed_runs(script) for script in scripts)


def _sed_runs(script: str) -> bool:
    index = 0
    while index < len(script):
        sign = script[index]
        if sign in ADDRESSES:
            index += 1
        elif sign == "/":
            index = _after(script, index + 1, sign)
        elif sign == "\\":
            index = _after(script, index + 2, script[index + 1 : index + 2])
        elif sign == "e":
            return True
        elif sign in "sy":
            mark = script[index + 1 : index + 2]
            index = _after(script, _after(script, index + 2, mark), mark)
            flags = index
            while index < len(script) and script[index] in "gpiImMe0123456789":
                index += 1
            if sign == "s" and "e" in script[flags:index]:
                return True
            if script[index : index + 1] == "w":
                index = _line_end(script, index)
        elif sign in TO_LINE_END:
            index = _line_end(script, index)
        elif sign in TO_NEXT:
            ends = COMMAND_END.search(script, index)
            index = ends.start() if ends else len(script)
        else:
            index += 1
    return False


def _after(script: str, index: int, mark: str) -> int:
    """Return the index after the next `mark` that is not escaped."""
    while index < len(script) and script[index] != mark:
        index += 2 if script[index] == "\\" else 1
    return index + 1


def _line_end(script: str, index: int) -> int:
    """Return the end of the line; a backslash before it continues the line."""
    while index < len(script) and script[index] != "\n":
        index += 2 if script[index] == "\\" else 1
    return index


def _read_all(args: list[Arg], options: OptionTable) -> tuple[list[tuple[str, Arg | None]], list[Arg]]:
    """Return the options, also those between operands, and the operands."""
    given: list[tuple[str, Arg | None]] = []
    operands: list[Arg] = []
    rest = args
    while rest:
        found = read_options(rest, options)
        given += found.given
        operands += found.rest[:1]
        rest = found.rest[1:]
    return given, operands


def filter_files(base: str, args: list[Arg]) -> list[str]:
    """Return the files of code that the options of `sed` or `awk` name."""
    table, names = (SED_OPTIONS, ("-f", "--file")) if base in SEDS else (AWK_OPTIONS, AWK_FILES)
    return [value.value for option, value in _read_all(args, table)[0] if option in names and value and value.value]


def awk_runs(args: list[Arg]) -> bool:
    """Return True unless the program given to `awk` is literal and starts nothing."""
    found = read_options(args, AWK_OPTIONS)
    if found.hidden or found.has(*AWK_FILES):
        return True
    given = [value for option, value in found.given if option in ("-e", "--source")] or found.rest[:1]
    return any(program is None or program.value is None or _awk_runs(program.value) for program in given)


def _awk_runs(program: str) -> bool:
    index, operand = 0, False
    while index < len(program):
        found = (
            AWK_REGEX.match(program, index)
            if program[index] == "/" and not operand
            else AWK_TOKEN.match(program, index)
        )
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
