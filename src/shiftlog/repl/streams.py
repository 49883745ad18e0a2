"""The REPL's standard streams as they are handed over: closed, full or with nobody at their other end."""

import os


class CannotWrite(Exception):
    """Why an output takes nothing more."""


def read(most: int, stdin: int = 0) -> bytes:
    """Return the input up to its end, or as much of it as asked for."""
    with open(stdin, "rb", closefd=False) as stream:
        return stream.read(most)


def write(data: bytes, stdout: int = 1) -> None:
    """Write all of some bytes at once; raise BrokenPipeError when nobody reads them, else CannotWrite."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(stdout, left) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotWrite(error.strerror) from error
