"""Runs one command of an agent's own shell tool in the daemon's sandbox: `python -I -S guarded.py SOCKET TOKEN [FD]`.

The guard rewrites a call into this program, so it stands where the command stood: its streams, its environment, its
directory and its place among the client's processes are the command's, and so are the definitions of the client's
shell, which it reads from FD. The daemon judges and confines, the reaper below this program holds the processes, and
all of them end when this program or the daemon ends. It imports nothing of the package. When it ends it writes the
directory in which the command ended to descriptor 3.
"""

import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

TYPE_CHECKING = False  # of `typing`, which would take as long as everything else here
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # `signal` makes enumerations, which takes half as long as a bare interpreter's start

FAILED = 126
MOST_FDS = 64
DIRECTORY_FD = 3
# Where the command has the aliases and functions of the client's shell, if that tells them.
DEFINITIONS_FD = 197


def main() -> int:
    """Run the command and return its exit status."""
    # An interrupt must end this program as it would have ended the command, without a traceback.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    daemon = socket(AF_UNIX, SOCK_STREAM)
    try:
        daemon.connect(sys.argv[1])
        parts = [os.fsencode(sys.argv[2]), os.fsencode(os.getcwd())]
        parts += [name + b"=" + value for name, value in os.environb.items()]
        _send(daemon, parts)
        definitions = _definitions()
        answer, descriptors = _receive_start(daemon)
    except OSError as error:
        return _fail(f"the guard cannot run this command: its daemon does not answer ({error.strerror or error})")
    if answer[0] != b"run":
        return _fail(os.fsdecode(answer[1]) if len(answer) > 1 else "the guard's daemon closed the connection")
    _start(daemon, answer, descriptors, definitions)
    ended = _receive(daemon)
    if len(ended) < 3:
        return _fail("the guard's daemon ended while the command ran; all its processes were ended")
    status, directory, said = ended[:3]
    if said:
        os.write(2, said)
    try:
        os.write(DIRECTORY_FD, directory)
    except OSError:
        pass  # run by hand
    return int(status)


def _fail(reason: str) -> int:
    hint = "Run `shiftlog doctor`, or switch the guard off: shiftlog guard off"
    os.write(2, f"shiftlog: {reason}\nhint: {hint}\n".encode("utf-8", "surrogateescape"))
    return FAILED


def _send(daemon: socket, parts: list[bytes]) -> None:
    text = b"\0".join(parts)
    daemon.sendall(len(text).to_bytes(4, "big") + text)


def _receive_start(daemon: socket) -> tuple[list[bytes], list[int]]:
    """Receive the first message, which brings the descriptors of the sandbox."""
    data, ancillary, _, _ = daemon.recvmsg(4, MOST_FDS * 4 + 64)
    descriptors: list[int] = []
    for level, kind, found in ancillary:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            numbers = memoryview(found).cast("i")
            descriptors += list(numbers)
    return _rest(daemon, data), descriptors


def _receive(daemon: socket) -> list[bytes]:
    return _rest(daemon, b"")


def _rest(daemon: socket, data: bytes) -> list[bytes]:
    """Receive a message whose beginning is here already; an empty part stands for a closed connection."""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = daemon.recv(1 << 16)
        if not more:
            return [b""]
        data += more
    return data[4:].split(b"\0")


def _start(daemon: socket, answer: list[bytes], descriptors: list[int], definitions: list[int]) -> None:
    """Start the reaper with the sandbox below it; its descriptors get the numbers that the plan names."""
    count = int(answer[1])
    numbers = [int(number) for number in answer[2 : 2 + count]] + [DEFINITIONS_FD] * len(definitions)
    descriptors = descriptors + definitions
    words = answer[2 + count :]
    cut = words.index(b"")
    argv, environment = words[:cut], dict(word.split(b"=", 1) for word in words[cut + 1 :])
    if os.fork():
        for descriptor in descriptors:
            os.close(descriptor)
        return
    import fcntl

    try:
        os.setsid()  # a signal to the client's process group ends this program, and the reaper then ends the tree
        above = max([*numbers, *descriptors, daemon.fileno(), 9]) + 1
        moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, above) for descriptor in descriptors]
        for number in {*range(3, above)} - {0, 1, 2}:
            try:
                os.close(number)
            except OSError:
                pass
        for descriptor, number in zip(moved, numbers, strict=True):
            os.dup2(descriptor, number, inheritable=True)
            os.close(descriptor)
        os.execve(argv[0], argv, environment)
    except OSError as error:
        os.write(2, f"shiftlog: {error}\n".encode())
    os._exit(FAILED)


def _definitions() -> list[int]:
    """Return a descriptor with what the client's shell told of its definitions; an empty list for nothing."""
    if len(sys.argv) < 4:
        return []
    told = int(sys.argv[3])
    parts: list[bytes] = []
    while part := os.read(told, 1 << 16):
        parts.append(part)
    os.close(told)
    text = b"".join(parts)
    if not text.strip():
        return []
    kept = os.memfd_create("shiftlog-definitions", 0)  # a file: a pipe may be too small for them
    os.write(kept, text)
    os.lseek(kept, 0, os.SEEK_SET)
    return [kept]


if __name__ == "__main__":
    sys.exit(main())
