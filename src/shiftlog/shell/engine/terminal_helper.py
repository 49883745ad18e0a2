"""Makes a terminal the controlling one of a new session and becomes bash on it.

Run by path (`python -I -S terminal_helper.py TTY BASH`) from a copy of the shell; standard library only. The state of
the shell and the text to run come on standard input, divided by a NUL. Bash reads them from sealed memory: a named file
could be changed before it is read.
"""

import fcntl
import os
import signal
import sys
from typing import NoReturn

_STATE, _TEXT = 8, 9
_RUN = f"{{ \\builtin . /dev/fd/{_STATE}; }} >/dev/null 2>&1 </dev/null; \\builtin . /dev/fd/{_TEXT}"
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


def main(argv: list[str]) -> NoReturn:
    """Take the terminal and run the text with the state of the shell."""
    tty, bash = argv
    with open(0, "rb") as given:
        state, _, text = given.read().partition(b"\0")
    _seal(state, _STATE)
    _seal(b"\\builtin exec %d<&- %d<&-\n%b" % (_STATE, _TEXT, text), _TEXT)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    fd = os.open(tty, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(fd, number)
    if fd > 2:
        os.close(fd)
    os.execv(bash, ["bash", "--norc", "--noprofile", "-c", _RUN, "bash"])


def _seal(data: bytes, number: int) -> None:
    """Put a text into memory that nothing can change, as a descriptor of this number."""
    made = os.memfd_create("shiftlog", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    while data:
        data = data[os.write(made, data) :]
    fcntl.fcntl(made, fcntl.F_ADD_SEALS, _SEALS)
    os.dup2(made, number)


if __name__ == "__main__":
    main(sys.argv[1:])
