"""Proves that a command changes no file, so that it needs no checkpoint.

Only programs count whose arguments show every effect. A program that runs hooks, drivers or other programs (`git`,
`make`, an interpreter) is never proven read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftlog.guard.bash.words import HOLE, Arg, is_process
from shiftlog.guard.policy.found import Start
from shiftlog.guard.policy.tables import FIND_VALUES, LOOKUP

if TYPE_CHECKING:
    from shiftlog.guard.policy.programs import Survey

READERS = frozenset(
    "arch b2sum base32 base64 basename cat cksum cmp comm cut date df diff dir dirname du echo egrep expand "
    "expr factor "
    "false fgrep file fmt fold free getconf grep groups head hexdump hostid id join last less locale logname ls lsblk "
    "lscpu lsof lspci lsusb md5sum more nl nproc numfmt od paste pathchk pgrep pidof pinky pr printenv printf "
    "ps ptx pwd "
    "readlink realpath rev rg seq sha1sum sha224sum sha256sum sha384sum sha512sum sleep stat strings sum tac "
    "tail test tr "
    "tree true tsort tty uname unexpand uniq uptime users vdir vmstat w wc whereis which who whoami zcat zgrep "
    "bzcat xzcat zless".split()
)
SHELL_READERS = frozenset(
    ": [ break caller cd command continue declare dirs echo exit export false getopts hash help jobs let local popd "
    "printf pushd pwd read readonly return set shift shopt test times true type typeset ulimit umask unalias "
    "unset wait".split()
)
# Options that write or start something: letters, also in clusters (`sort -uo f`), and long names, also abbreviated.
WRITING_OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sort": ("o", ("output",)),
    "tree": ("oR", ()),
    "date": ("s", ("set",)),
    "less": ("oO", ("log-file", "LOG-FILE")),
    "file": ("C", ("compile",)),
    "rg": ("", ("pre", "hostname-bin")),
    "diff": ("", ("output",)),
    "ptx": ("G", ("traditional",)),
}
FIND_WRITERS = ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")


def proves_read_only(survey: Survey) -> bool:
    """Return True if none of the survey's findings can change a file."""
    if survey.writes_something or survey.doubts or survey.dangers:
        return False
    if any(LOOKUP.fullmatch(name) for name, _ in survey.assigned):
        return False
    return all(_reads_only(start) for start in survey.starts)


def _reads_only(start: Start) -> bool:
    if start.kind == "function" or ("/" in start.name and not start.name.startswith(("/bin/", "/usr/bin/"))):
        return False
    base = start.name.rsplit("/", 1)[-1]
    if start.kind == "builtin":
        return base in SHELL_READERS
    if base == "find":
        return not _find_may_write(start.args)
    if base not in READERS and base != "sort":
        return False
    if base == "uniq":
        return not any(arg.splits for arg in start.args) and _operands(start.args) < 2
    return not _may_write(start.args, *WRITING_OPTIONS[base]) if base in WRITING_OPTIONS else True


def _find_may_write(args: list[Arg]) -> bool:
    values = {index + 1 for index, arg in enumerate(args) if arg.value in FIND_VALUES}
    for index, arg in enumerate(args):
        if arg.splits and HOLE in arg.text:
            return True
        may_be_any = arg.value is None and (not arg.prefix or arg.prefix[0] in "-(!,")
        if index not in values and (may_be_any or arg.text.startswith(FIND_WRITERS)):
            return True
    return False


def _operands(args: list[Arg]) -> int:
    words = [arg.text for arg in args]
    ends = words.index("--") if "--" in words else len(words)
    return len(words[ends + 1 :]) + sum(word == "-" or not word.startswith("-") for word in words[:ends])


def _may_write(args: list[Arg], letters: str, names: tuple[str, ...]) -> bool:
    """Return True if one of the options is given, or a dynamic argument may be one."""
    for arg in args:
        if arg.value is None and not is_process(arg) and (not arg.prefix or arg.prefix.startswith("-")):
            return True
        name, text = arg.text[2:].partition("=")[0], arg.text
        if text.startswith("--"):
            if name and any(known.startswith(name) for known in names):
                return True
        elif text.startswith("-") and set(text) & set(letters):
            return True
    return False
