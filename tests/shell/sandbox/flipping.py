"""A program that exchanges two names in a directory as fast as it can, as an attacker's background job does.

Run as `python flipping.py ONE OTHER PAUSE_S`; it prints one line when it has begun, and goes on until it is ended.
"""

import ctypes
import random
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_EXCHANGE = 2
_HERE = -100


def flip(one: str, other: str, pause_s: float) -> None:
    libc = ctypes.CDLL(None)
    names = one.encode(), other.encode()
    print("begun", flush=True)
    while True:
        for _ in range(random.randrange(20)):
            libc.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)
        time.sleep(random.random() * pause_s)


@contextmanager
def flipped(one: Path, other: Path, pause_s: float) -> Generator[None]:
    """Exchange two names all the time of a with block, in bursts with pauses of up to this length."""
    command = [sys.executable, "-I", __file__, str(one), str(other), str(pause_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"begun\n"
        try:
            yield
        finally:
            attacker.kill()


if __name__ == "__main__":
    flip(sys.argv[1], sys.argv[2], float(sys.argv[3]))
