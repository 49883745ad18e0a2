"""The programs that an attacker runs inside a shell; each is started by path with its arguments.

`flip ONE OTHER` exchanges two names until it is ended, `forge` writes reports of ends to everything that it can open,
`connect PATH TRIES` connects to a socket by a path, and `start PROGRAM FILE TRIES` starts a program with the argument
that is denied.
"""

import ctypes
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path


def flip(one: str, other: str) -> None:
    libc = ctypes.CDLL(None)
    while True:
        for _ in range(random.randrange(20)):
            libc.renameat2(-100, one.encode(), -100, other.encode(), 2)
        time.sleep(random.random() * 0.01)


def forge(shell: str) -> None:
    lies = b"".join(b"%d\n" % number for number in range(4096))
    while True:
        for path in [*Path(f"/proc/{shell}/fd").glob("*"), *Path("/proc/self/fd").glob("*")]:
            try:
                out = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                os.write(out, lies)
            except OSError:
                pass
            os.close(out)
        time.sleep(0.002)


def connect(path: str, tries: str) -> None:
    for _ in range(int(tries)):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_UNIX, kind) as line:
                try:
                    line.connect(path)
                    line.send(b"from inside")
                except OSError:
                    pass


def start(program: str, file: str, tries: str) -> None:
    for _ in range(int(tries)):
        try:
            subprocess.run([program, "--date=2001-01-01", file], capture_output=True, check=False)
        except OSError:
            pass


if __name__ == "__main__":
    {"flip": flip, "forge": forge, "connect": connect, "start": start}[sys.argv[1]](*sys.argv[2:])
