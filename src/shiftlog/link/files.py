"""Opens files that must be regular files: a named pipe would keep its reader waiting for ever."""

import errno
import os
import stat

NOT_REGULAR = "Not a regular file"


def open_regular(path: "str | os.PathLike[str]", flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a regular file and return its descriptor; raise OSError, without waiting, for any other kind of file."""
    try:
        # Without O_NONBLOCK the open itself would wait for the other end of a pipe.
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
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


def read_regular(path: "str | os.PathLike[str]") -> bytes:
    """Return the content of a regular file; raise OSError, without waiting, for any other kind of file."""
    with open(open_regular(path), "rb") as file:
        return file.read()
