"""Standard input and output of the REPL, which may be closed or full.

Separate from `loop`, whose imports would slow down the start of a one-shot call.
"""

import os


class CannotWrite(Exception):
    """Standard output cannot be written; the text is the reason."""


def read(most: int, stdin: int = 0) -> bytes:
    """Read the input up to its end, but at most `most` bytes."""
    with open(stdin, "rb", closefd=False) as stream:
        return stream.read(most)


def write(data: bytes, stdout: int = 1) -> None:
    """Write all bytes; raise BrokenPipeError if the reader has gone, CannotWrite for another failure."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(stdout, left) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotWrite(error.strerror) from error
