"""Makes a terminal the controlling one of a new session and becomes bash on it.

Run by path (`python -I -S terminal_helper.py TTY BASH STATE SCRIPT`) from a copy of the shell; standard library only.
"""

import os
import signal
import sys

_READ_STATE = '{ \\builtin . "$1"; } >/dev/null 2>&1 </dev/null; \\builtin . "$2"'


def main(argv: list[str]) -> int:
    """Take the terminal and run the script with the saved state of the shell."""
    tty, bash, state, script = argv
    try:
        os.setsid()
    except PermissionError:  # the leader of a group cannot lead a session; its child can
        pid = os.fork()
        if pid:
            return _follow(pid)
        os.setsid()
    fd = os.open(tty, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(fd, number)
    if fd > 2:
        os.close(fd)
    os.execv(bash, ["bash", "--norc", "--noprofile", "-c", _READ_STATE, "bash", state, script])


def _follow(pid: int) -> int:
    """End as the child ends, so that whoever waits for this process learns it."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
