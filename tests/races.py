"""Programs that race the guard: a process that exchanges two names again and again until the test ends it.

A race has many tries: `TRIES` of them behind the marker `guard`, `FEW_TRIES` in the suite.
"""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

TRIES = 200
FEW_TRIES = 8

# renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) swaps both names in one step. The pause between two swaps varies,
# so that every step of the raced code meets both states.
_EXCHANGE = """
import ctypes, itertools, os, sys
libc = ctypes.CDLL(None, use_errno=True)
first, second = (os.fsencode(name) for name in sys.argv[1:3])
print("ready", flush=True)
for turn in itertools.count():
    libc.renameat2(-100, first, -100, second, 2)
    for _ in range(turn * 37 % 2000):
        pass
"""


@contextmanager
def exchanging(first: Path, second: Path) -> Generator[None]:
    """Exchange two names as often as possible while the block runs."""
    argv = [sys.executable, "-c", _EXCHANGE, str(first), str(second)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as racer:
        assert racer.stdout is not None
        racer.stdout.readline()
        try:
            yield
        finally:
            racer.kill()
