"""The program that `SUDO_ASKPASS` and `SSH_ASKPASS` start in a shell: it asks the daemon and waits.

Run by path (`python -I -S helper.py SOCKET PROMPT`); standard library only. It hands its standard output to the daemon,
which writes the answer there, so that the answer passes through no program but the one that asks.
"""

import array
import ctypes
import os
import socket
import sys

_PR_SET_DUMPABLE = 4
_PROMPT_BYTES = 4096


def main(argv: list[str]) -> int:
    """Ask; return 0 once the answer has been written to standard output."""
    path, *words = argv
    prompt = " ".join(words).encode("utf-8", "surrogateescape")[:_PROMPT_BYTES]
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            # By its name alone: the whole path may be longer than the address of a socket can be.
            os.chdir(os.path.dirname(path))  # noqa: PTH120 - importing pathlib would take longer than the rest
            line.connect(os.path.basename(path))  # noqa: PTH119 - as above
            # No other program of this user may open the pipe of the answer through /proc. Not before: where a
            # supervisor connects in this program's place, it must read the address.
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
            line.sendmsg([prompt or b"?"], rights)
            while said := line.recv(4096):
                kind, _, text = said.partition(b" ")
                if kind == b"answered":
                    return 0
                _say(text.decode("utf-8", "replace"))
                if kind == b"refused":
                    return 1
    except OSError as error:
        _say(f"no person can be asked: {error.strerror}")
    return 1


def _say(text: str) -> None:
    sys.stderr.write(f"shiftlog: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
