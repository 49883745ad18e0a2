"""Reads the options of a wrapper, to find where the program that it starts begins.

One reader for all wrappers, driven by option tables. An option that is not in its table hides the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from shiftlog.guard.bash.words import Arg, with_holes

NAME_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?(?:%%|\(\))?=")


@dataclass(frozen=True, slots=True)
class OptionTable:
    """The options of one program: letters with no value, with a value; long names, `=` for a value; attached values."""

    flags: str = ""
    takes: str = ""
    long: str = ""
    attached: str = ""
    assignments: bool = False


@dataclass(slots=True)
class GivenOptions:
    """The options found and the operands after them; `hidden` if an unknown option may take the next word."""

    given: list[tuple[str, Arg | None]] = field(default_factory=list[tuple[str, "Arg | None"]])
    rest: list[Arg] = field(default_factory=list[Arg])
    hidden: bool = False

    def value(self, *names: str) -> Arg | None:
        """Return the value of the last given option with one of these names."""
        for name, value in reversed(self.given):
            if name in names:
                return value
        return None

    def has(self, *names: str) -> bool:
        """Return True if one of these options was given."""
        return any(name in names for name, _ in self.given)


def read_options(args: list[Arg], spec: OptionTable, *, stop: tuple[str, ...] = ()) -> GivenOptions:
    """Read options up to the first operand or the first option in `stop`."""
    found = GivenOptions()
    index = 0
    while index < len(args):
        arg = args[index]
        text = arg.text
        if arg.value is None and _may_be_anything(arg, spec):
            found.hidden = True
            break
        if text == "--":
            index += 1
            break
        if spec.assignments and "=" in arg.prefix and not text.startswith("-"):
            found.given.append(("=", arg))
            index += 1
            continue
        if not text.startswith("-") or text == "-":
            if text == "-" and "-" in spec.flags:
                index += 1
                continue
            break
        following = args[index + 1] if index + 1 < len(args) else None
        read = _read_long if text.startswith("--") else _read_short
        step = read(arg, following, spec, found)
        if not step:
            found.hidden = True
            break
        index += step
        if stop and found.given[-1][0] in stop:
            break
    found.rest = args[index:]
    return found


def _may_be_anything(arg: Arg, spec: OptionTable) -> bool:
    if arg.splits:
        return True
    prefix = arg.prefix
    if spec.assignments and "=" in prefix and not prefix.startswith("-"):
        return False
    return not prefix or prefix == "-" or prefix == "--"


def _read_long(arg: Arg, following: Arg | None, spec: OptionTable, found: GivenOptions) -> int:
    name, equals, value = arg.text[2:].partition("=")
    names = spec.long.split()
    matching = [known for known in names if known.rstrip("=") == name]
    matching = matching or [known for known in names if known.startswith(name)]
    if not matching:
        found.given.append(("--" + name, with_holes(value, arg.at, arg.word)))
        return 1 if equals else 0
    known = matching[0]
    if equals:
        found.given.append(("--" + known.rstrip("="), with_holes(value, arg.at, arg.word)))
        return 1
    if not known.endswith("="):
        found.given.append(("--" + known, None))
        return 1
    if following is None or following.splits:
        return 0
    found.given.append(("--" + known.rstrip("="), following))
    return 2


def _read_short(arg: Arg, following: Arg | None, spec: OptionTable, found: GivenOptions) -> int:
    letters = arg.text[1:]
    for index, letter in enumerate(letters):
        attached = letters[index + 1 :]
        if letter in spec.takes:
            if attached:
                found.given.append(("-" + letter, with_holes(attached, arg.at, arg.word)))
                return 1
            if following is None or following.splits:
                return 0
            found.given.append(("-" + letter, following))
            return 2
        if letter in spec.attached:
            found.given.append(("-" + letter, with_holes(attached, arg.at, arg.word)))
            return 1
        if letter not in spec.flags:
            return 0
        found.given.append(("-" + letter, None))
    return 1
