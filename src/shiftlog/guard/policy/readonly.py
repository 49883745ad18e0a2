"""Proves from the tree that a command changes no file, so that no checkpoint is needed before it.

Only programs whose every effect is known from their arguments count; whatever runs hooks, drivers or other programs
(`git`, `make`, an interpreter) is never proven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftlog.guard.policy.found import Start
from shiftlog.guard.policy.tables import LOOKUP
from shiftlog.guard.policy.words import is_process

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
WRITING_OPTIONS: dict[str, tuple[str, ...]] = {
    "sort": ("-o", "--output"),
    "tree": ("-o",),
    "date": ("-s", "--set"),
    "less": ("-o", "-O", "--log-file", "--LOG-FILE"),
    "file": ("-C", "--compile"),
    "rg": ("--pre",),
    "hexdump": (),
    "diff": ("--output",),
    "tail": ("--pid",),
}
FIND_WRITERS = ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")


def proves_read_only(survey: Survey) -> bool:
    """Say whether nothing that the survey found can change a file."""
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
        return not any((arg.value is None and arg.splits) or arg.text.startswith(FIND_WRITERS) for arg in start.args)
    if base not in READERS:
        return base == "sort" and not _has_writing_option(start)
    if base == "uniq":
        return sum(not arg.text.startswith("-") for arg in start.args) < 2
    return not _has_writing_option(start)


def _has_writing_option(start: Start) -> bool:
    options = WRITING_OPTIONS.get(start.name.rsplit("/", 1)[-1])
    if options is None:
        return False
    return any(
        (arg.value is None and not arg.prefix and not is_process(arg)) or arg.text.startswith(options)
        for arg in start.args
    )
