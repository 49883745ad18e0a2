"""Finds what `find` and `fd` would start, also where a dynamic word may hide an `-exec`."""

from __future__ import annotations

from shiftlog.guard.bash.words import HOLE, Arg, may_become
from shiftlog.guard.policy import tables
from shiftlog.guard.policy.found import Unwrapped

FIND_STARTS = ("-exec", "-execdir", "-ok", "-okdir")


def with_hole(arg: Arg, mark: str) -> Arg:
    """Return an argument with a hole in place of each mark, such as `{}`."""
    if mark not in arg.text:
        return arg
    return Arg(None, arg.text.replace(mark, HOLE), arg.at, arg.word)


def find(args: list[Arg]) -> Unwrapped:
    """Return what `find` would start."""
    answer = Unwrapped(splitting=[arg for arg in args if arg.splits and HOLE in arg.text])
    outside: list[Arg] = []  # what is no part of a program's arguments
    index = 0
    while index < len(args):
        outside.append(args[index])
        if args[index].value in FIND_STARTS:
            stop = index + 1
            while stop < len(args) and args[stop].value != ";":
                if args[stop].value == "+" and args[stop - 1].value == "{}":
                    break
                stop += 1
            argv = [with_hole(arg, "{}") for arg in args[index + 1 : stop]]
            if argv:
                answer.argvs.append(argv)
                _follow_clause(args[index + 2 : stop], answer)
            index = stop
            outside += args[stop : stop + 1]
        index += 1
    answer.hidden = answer.hidden or _hides_start(outside)
    return answer


def _follow_clause(words: list[Arg], answer: Unwrapped) -> None:
    """Note what starts a further program if a dynamic argument of `-exec` is the sign that ends it."""
    for index, arg in enumerate(words):
        if arg.value is None and (may_become(arg, ";") or may_become(arg, "+")):
            rest = words[index + 1 :]
            answer.hidden = answer.hidden or any(each.value in FIND_STARTS for each in rest)
            answer.splitting += [each for each in rest if _may_start(each)]
            break


def _may_start(arg: Arg) -> bool:
    return arg.value is None and any(may_become(arg, start) for start in FIND_STARTS)


def _hides_start(args: list[Arg]) -> bool:
    """Return True if a dynamic word may expand to `-exec`."""
    ends = [index for index, arg in enumerate(args) if arg.value in (";", "+") or arg.text.startswith(HOLE)]
    return any(
        _may_start(arg)
        and (not index or args[index - 1].value not in tables.FIND_VALUES)
        and not args[index + 1].text.startswith(("-", "(", "!"))
        for index, arg in enumerate(args[: ends[-1]] if ends else [])
    )


def fd(args: list[Arg]) -> Unwrapped:
    """Return what `fd` would start."""
    for index, arg in enumerate(args):
        if arg.value in ("-x", "-X", "--exec", "--exec-batch"):
            stop = next((at for at in range(index, len(args)) if args[at].value == ";"), len(args))
            return Unwrapped(argvs=[[with_hole(each, "{}") for each in args[index + 1 : stop]]])
    return Unwrapped()
