"""Makes a terminal the controlling one of a new session and becomes bash on it.

Run by path (`python -I -S terminal_helper.py TTY BASH STATE SCRIPT`) from a copy of the shell; standard library only.
"""

import os
import signal
import sys
from typing import NoReturn

_READ_STATE = '{ \\builtin . "$1"; } >/dev/null 2>&1 </dev/null; \\builtin . "$2"'


def main(argv: list[str]) -> NoReturn:
    """Take the terminal and run the script with the saved state of the shell."""
    tty, bash, state, script = argv
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    fd = os.open(tty, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(fd, number)
    if fd > 2:
        os.close(fd)
    os.execv(bash, ["bash", "--norc", "--noprofile", "-c", _READ_STATE, "bash", state, script])


if __name__ == "__main__":
    main(sys.argv[1:])
