"""Real daemons and bridges for tests: start one, talk to it, and never wait without a deadline."""

import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from shiftlog.link import processes, wire
from shiftlog.link.client import Client, connect
from shiftlog.shell.engine.holders import ShellHolders
from shiftlog.shell.engine.reaper import remove_tree
from tests.postgres_server import store_environ
from tests.warm.handing_over import WarmChild, warm_child

T = TypeVar("T")

ECHO = [sys.executable, str(Path(__file__).with_name("echo_daemon.py"))]
REAL = [sys.executable, "-m", "shiftlog.daemon"]
BRIDGE = [sys.executable, "-c", "import sys; from shiftlog.entry import main; sys.exit(main())", "mcp"]
DEADLINE_S = 30.0
STARTS_WITHIN_S = 5.0

Spawned = subprocess.Popen[bytes] | WarmChild
_spawned: dict[Path, list[Spawned]] = {}

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
INITIALIZED: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def eventually(look: Callable[[], T | None], *, within_s: float = DEADLINE_S) -> T:
    """Return what `look` returns as soon as that is true; fail when it never is."""
    deadline = time.monotonic() + within_s
    while True:
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"nothing within {within_s} s"
        time.sleep(0.005)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a program that uses this state directory, the suite's store and no other setting."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHIFTLOG_")}
    return kept | {"SHIFTLOG_HOME": str(home)} | store_environ(home) | more


def lock_holder(home: Path) -> int | None:
    """Return the pid in the lock file, if that process lives."""
    try:
        pid = int(Path(wire.lock_path(str(home))).read_text().partition("\n")[0])
    except (OSError, ValueError):
        return None
    return pid if processes.alive(pid) else None


def end_daemon(home: Path) -> None:
    """Kill every daemon of a state directory, whoever started it, also one that has not come up yet."""
    for daemon in _spawned.pop(home, []):
        daemon.kill()
        daemon.wait(DEADLINE_S)
    with _once_started(home):
        # Again, because one that is on its way may become another process meanwhile.
        while found := {lock_holder(home), *daemons(home)} - {None, os.getpid()}:
            for pid in found:
                assert pid is not None
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                eventually(lambda pid=pid: not processes.alive(pid))
    _end_held_shells(home)
    for link in (home / "temps").iterdir() if (home / "temps").is_dir() else ():
        remove_tree(str(link.readlink()))  # of a session that is still open


def _end_held_shells(home: Path) -> None:
    """End the shells that outlived the daemons of a state directory, as its owner: they answer to no one else."""
    if not ShellHolders(home / "held", 0).listed():
        return
    if home.stat().st_uid == os.geteuid():
        ShellHolders(home / "held", 0).end_all()
        return
    code = "import pathlib, sys; from shiftlog.shell.engine.holders import ShellHolders"
    code += "; ShellHolders(pathlib.Path(sys.argv[1]), 0).end_all()"
    owner = home.stat()
    command = [sys.executable, "-c", code, str(home / "held")]
    subprocess.run(command, user=owner.st_uid, group=owner.st_gid, extra_groups=[], cwd="/", check=True, timeout=60)


@contextmanager
def _once_started(home: Path) -> Generator[None]:
    """Wait until nobody starts a daemon any more and keep it so; not for long, as a test may hold the lock itself."""
    try:
        lock = os.open(home / "start.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while time.monotonic() < deadline:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.005)
        yield
    finally:
        os.close(lock)


def daemons(home: Path) -> list[int]:
    """Return the pids of all daemon processes of a state directory."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = entry.joinpath("cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"shiftlog.daemon" in words and os.fsencode(home) in words and processes.alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def start_daemon(home: Path, *arguments: str, program: list[str] = ECHO, **more: str) -> Spawned:
    """Start a daemon in the foreground and return when it has answered a hello."""
    given, environ = ["--home", str(home), *arguments], environment(home, **more)
    daemon = warm_child(program, given, environ) or subprocess.Popen(
        [*program, *given], env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _spawned.setdefault(home, []).append(daemon)
    hello = wire.hello_line(role="control", face="test", client_id="0" * 32)

    def greeted() -> bool:
        assert daemon.poll() is None, "the daemon ended"
        sock = wire.connect(str(home))
        if sock is None:
            return False
        connection = wire.greet(sock, hello, DEADLINE_S)
        if connection is None:
            return False
        connection.close()
        return connection.daemon_pid == daemon.pid

    eventually(greeted)
    return daemon


def control(home: Path) -> Client:
    """Connect to a daemon that runs."""
    return connect(str(home), start=False)


@contextmanager
def nobody_may_start(home: Path) -> Generator[None]:
    """Hold the start lock, so that clients wait for a daemon instead of spawning one."""
    lock = os.open(home / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


class Bridge:
    """A `shiftlog mcp` process and the client's side of it."""

    def __init__(self, home: Path, *arguments: str, program: list[str] = BRIDGE, stdout: int = -1, **more: str) -> None:
        self.process = subprocess.Popen(
            [*program, *arguments],
            env=environment(home, **more),
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._partial = b""

    def __enter__(self) -> "Bridge":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, message: dict[str, Any]) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def read(self, within_s: float = DEADLINE_S) -> dict[str, Any]:
        line = self.read_line(within_s)
        assert line is not None, "the bridge closed its output"
        return json.loads(line)

    def read_line(self, within_s: float = DEADLINE_S) -> bytes | None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + within_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._partial:
                left = deadline - time.monotonic()
                assert left > 0, "the bridge said nothing"
                if selector.select(left):
                    piece = os.read(self.process.stdout.fileno(), 65536)
                    if not piece:
                        return None
                    self._partial += piece
        line, _, self._partial = self._partial.partition(b"\n")
        return line

    def request(self, number: int | str, method: str, **params: Any) -> dict[str, Any]:
        """Send one request and return its answer."""
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer = self.read()
        assert answer["id"] == number
        return answer

    def shake_hands(self) -> dict[str, Any]:
        self.send(INITIALIZE)
        answer = self.read()
        self.send(INITIALIZED)
        return answer

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, within_s: float = DEADLINE_S) -> int:
        return self.process.wait(within_s)

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        if self.process.stderr is not None:
            said = self.process.stderr.read()
            self.process.stderr.close()
            assert b"Traceback" not in said, said.decode()
