"""Opens files that must be regular files of a sensible size.

A named pipe would keep its reader waiting for ever, a huge file would fill the memory.
"""

import errno
import os
import stat
import sys

NOT_REGULAR = "Not a regular file"
# No file that is read whole is larger.
MOST_BYTES = 64 << 20


def open_regular(path: "str | os.PathLike[str]", flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor; raise OSError, without waiting, for any other kind of file."""
    try:
        # Without O_NONBLOCK the open itself would wait for the other end of a pipe.
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe that nothing reads, a socket
            raise OSError(errno.EINVAL, NOT_REGULAR, os.fspath(path)) from None
        raise
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        error = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        raise OSError(error, os.strerror(error) if stat.S_ISDIR(kind) else NOT_REGULAR, os.fspath(path))
    return descriptor


def read_regular(path: "str | os.PathLike[str]", most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file; raise OSError, at once, for a larger file or one of another kind."""
    with open(open_regular(path), "rb") as file:
        if os.fstat(file.fileno()).st_size > most_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
        return file.read()


def run_by_path(program: str) -> "list[str]":
    """Return the words that run a Python file by its path with the standard library alone.

    A source that runs by its path is compiled at each start, so the compiled file is preferred.
    """
    from importlib.util import cache_from_source

    path = os.path.realpath(program)
    compiled = cache_from_source(path)
    return [sys.executable, "-I", "-S", compiled if _is_compiled_from(path, compiled) else path]


def _is_compiled_from(path: str, compiled: str) -> bool:
    """Return True if a compiled file is that of this interpreter for the file at the path, as it is now."""
    from importlib.util import MAGIC_NUMBER

    try:
        now = os.stat(path)
        with open(open_regular(compiled), "rb") as file:
            head = file.read(16)
    except OSError:
        return False
    facts = (0, int(now.st_mtime) & 0xFFFF_FFFF, now.st_size & 0xFFFF_FFFF)
    return head == MAGIC_NUMBER + b"".join(fact.to_bytes(4, "little") for fact in facts)
