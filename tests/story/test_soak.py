"""Mixed load while something breaks every few seconds: nothing acknowledged is lost, and every call is answered.

`make soak` runs it for an hour; `make soak SOAK_S=300 ARGS=tests/story/test_soak.py` for five minutes.
"""

import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from shiftlog.link import processes, wire
from tests.daemon.disks import fill, needs_root, small_disk
from tests.daemon.support import end_daemon, environment, eventually, lock_holder
from tests.story.agents import CLI_S, Agent, Answer, Refused, read_record, shiftlog_json
from tests.story.writers import MARK, Booked, Writer

SOAK_S = float(os.environ.get("SOAK_S", "3600"))
FAULT_EVERY_S = 10.0
FAULT_S = 1.0
ANSWER_S = 30.0
PAUSE_S = 0.1
PACE_S = 0.05  # between the calls of a writer, so that an hour fits the disk and can be verified
LONG_LINE = "head -c 300000 /dev/zero | tr '\\0' x"
WRITERS = 3
MEMORY_BYTES = 200 << 20
DISK_MB = 3_000
DESCRIPTORS = 200
MEMORY_LEFT_BYTES = (-(50 << 20), 0, 1 << 16, 1 << 18, 1 << 20, 4 << 20)
HOOK = [
    sys.executable,
    "-c",
    "import sys; sys.argv = ['shiftlog-hook', 'claude']; from shiftlog.link.hook import main; main()",
]


class PatientAgent(Agent):
    """An agent that repeats a handshake which a fault met."""

    def __enter__(self) -> Self:
        deadline = time.monotonic() + ANSWER_S
        while "result" not in self.bridge.shake_hands():
            assert time.monotonic() < deadline, "no daemon takes the handshake"
            time.sleep(PAUSE_S)
        return self


class PatientWriter(Writer):
    """A writer that books a refused write as not applied, or as unknown if the file itself was gone."""

    agent = PatientAgent

    def _write(self, agent: Agent) -> None:
        super()._write(agent)
        time.sleep(PACE_S)

    def booked(self, mark: str, answer: Answer) -> Booked:
        try:
            booked = super().booked(mark, answer)
            if not booked.acknowledged:
                time.sleep(PAUSE_S)
            return booked
        except Refused as refused:
            if refused.error["code"] != "storage_error":
                raise
            time.sleep(PAUSE_S)
            details = refused.error["details"]
            is_open = "deleted" in refused.error["message"] or "deleted" in str(details) or "applied" in details
            return Booked(mark=mark, applied=None if is_open else False, acknowledged=False)


class Load:
    """Writers, a shell, a reader and hooks at work until stopped; what goes wrong in one is raised at the end."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.writers = [PatientWriter(home, f"w{number}") for number in range(WRITERS)]
        self.stopped = threading.Event()
        self.failures: list[BaseException] = []
        self.answered: Counter[str] = Counter()
        works: list[Callable[[], None]] = [self._run_commands, self._read, self._send_hooks]
        self._threads = [threading.Thread(target=one.write_until, args=(self.stopped.is_set,)) for one in self.writers]
        self._threads += [threading.Thread(target=self._guarded, args=(work,)) for work in works]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join()
        failures = [*self.failures, *(one.failure for one in self.writers if one.failure is not None)]
        if failures:
            raise failures[0]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            while not self.stopped.is_set():
                work()
        except BaseException as error:  # noqa: BLE001 - raised when the load ends
            self.failures.append(error)

    def _run_commands(self) -> None:
        with PatientAgent(self.home) as agent:
            while not self.stopped.wait(0.2):
                with suppress(Refused):
                    session = agent.call("open_session", agent="Soak", title="shell")["session_id"]
                    shell = agent.call("open_shell", session_id=session, cwd="/")["shell_id"]
                    for number in range(20):
                        command = "echo hi" if number % 5 else LONG_LINE
                        agent.call("run_command", shell_id=shell, command=command)
                        self.answered["command"] += 1
                with suppress(Refused):  # those that a fault kept from being closed outlived it: they are closed now
                    for shell in agent.call("list_shells")["shells"]:
                        agent.call("close_shell", shell_id=shell["shell_id"])

    def _read(self) -> None:
        with PatientAgent(self.home) as agent:
            while not self.stopped.wait(0.1):
                with suppress(Refused):
                    agent.call("query_history", limit=5)
                    self.answered["read"] += 1

    def _send_hooks(self) -> None:
        event = {"hook_event_name": "UserPromptSubmit", "session_id": os.urandom(8).hex(), "prompt": "go", "cwd": "/"}
        subprocess.run(HOOK, input=json.dumps(event).encode(), env=environment(self.home), check=True, timeout=30)
        self.answered["hook"] += 1
        self.stopped.wait(1)


# Faults: each breaks something, waits where the break must last, and mends what does not mend itself.


def _signal(home: Path, number: int) -> int | None:
    pid = lock_holder(home)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return pid


def kill(home: Path) -> None:
    _signal(home, signal.SIGKILL)


def stop(home: Path) -> None:
    _signal(home, signal.SIGTERM)


def freeze(home: Path) -> None:
    pid = _signal(home, signal.SIGSTOP)
    time.sleep(FAULT_S)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def fill_disk(home: Path) -> None:
    with suppress(OSError):
        fill(home.parent)
    time.sleep(FAULT_S)
    (home.parent / "filler").unlink(missing_ok=True)


def remove_socket(home: Path) -> None:
    (home / "daemon.sock").unlink(missing_ok=True)


def remove_lock(home: Path) -> None:
    (home / "daemon.lock").unlink(missing_ok=True)


def remove_log(home: Path) -> None:
    if lock_holder(home) is not None:  # without a daemon its entries would be lost indeed
        (home / "shiftlog.db-wal").unlink(missing_ok=True)
        time.sleep(FAULT_S)


def move_database(home: Path) -> None:
    (home / "shiftlog.db").rename(home / "away.db")
    time.sleep(FAULT_S)
    (home / "away.db").replace(home / "shiftlog.db")


def kill_and_move(home: Path) -> None:
    """Take the database away until the next daemon has looked for it."""
    kill(home)
    (home / "shiftlog.db").rename(home / "away.db")
    log = home / "daemon.log"
    known = log.stat().st_size
    eventually(lambda: re.search(rb"cannot start|serves", log.read_bytes()[known:]))
    (home / "away.db").replace(home / "shiftlog.db")


def send_poison(home: Path) -> None:
    event = {"hook_event_name": "Stop", "session_id": "x" * 300, "transcript_path": "/" + "y/" * 3_000 + "a.jsonl"}
    subprocess.run(HOOK, input=json.dumps(event).encode(), env=environment(home), check=True, timeout=30)


def flood(home: Path) -> None:
    """Send requests and never read."""
    with socket.socket(socket.AF_UNIX) as sock, suppress(OSError):
        sock.settimeout(1)
        sock.connect(wire.socket_path(str(home)))
        sock.sendall(wire.hello_line(role="mcp", face="mcp", client_id=os.urandom(16).hex()))
        for number in range(100_000):
            sock.sendall(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % number)


def stay_silent(home: Path) -> None:
    socks = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    for sock in socks:
        with suppress(OSError):
            sock.connect(wire.socket_path(str(home)))
    time.sleep(FAULT_S)
    for sock in socks:
        sock.close()


def take_descriptors(home: Path) -> None:
    pid = lock_holder(home)
    if pid is not None:
        with suppress(ProcessLookupError, OSError):
            used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, most))
            time.sleep(FAULT_S)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(4096, most), most))


def take_memory(home: Path) -> None:
    """Let the daemon have only a little more memory than it has taken, or less."""
    pid = lock_holder(home)
    if pid is not None:
        with suppress(ProcessLookupError, OSError, StopIteration):
            status = Path(f"/proc/{pid}/status").read_text()
            size = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmSize")) << 10
            limit = size + random.choice(MEMORY_LEFT_BYTES)
            resource.prlimit(pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
            time.sleep(FAULT_S)
            resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


FAULTS = (
    kill,
    stop,
    freeze,
    fill_disk,
    remove_socket,
    remove_lock,
    remove_log,
    move_database,
    kill_and_move,
    send_poison,
    flood,
    stay_silent,
    take_descriptors,
    take_memory,
)


def check_kept(home: Path, books: list[Booked]) -> None:
    """See that what was acknowledged is there once, and what was refused is not."""
    record = read_record(home)
    hashes = {(line.session_id, line.seq): line.hash for line in record}
    texts = [str(line.body.get(name)) for line in record for name in ("content", "query_title", "title")]
    found = Counter(text for text in texts if MARK.fullmatch(text))
    for booked in books:
        assert found[booked.mark] <= 1, f"{booked} is there twice"
        if booked.applied is not None:
            assert found[booked.mark] == int(booked.applied), booked
        if booked.acknowledged:
            assert hashes[(str(booked.session_id), booked.seq or 0)] == booked.hash, booked


def soak(home: Path, seconds: float, faults: Iterable[Callable[[Path], None]], every_s: float) -> Counter[str]:
    """Break something again and again for some time; return how many calls of each kind were answered."""
    highest: Counter[str] = Counter()
    with Load(home) as load:
        deadline = time.monotonic() + seconds
        eventually(lambda: sum(writer.acknowledged for writer in load.writers) > 10)
        for fault in faults:
            if time.monotonic() >= deadline or load.failures or any(writer.failure for writer in load.writers):
                break
            print(f"{time.strftime('%H:%M:%S')} {fault.__name__}", flush=True)
            fault(home)
            before = sum(writer.acknowledged for writer in load.writers)
            eventually(lambda: sum(writer.acknowledged for writer in load.writers) > before, within_s=60)  # noqa: B023
            pid = lock_holder(home)
            if pid is not None:
                with suppress(OSError):
                    taken = Counter(
                        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())), memory=processes.rss_bytes(pid) or 0
                    )
                    print(f"daemon {pid}: {taken['memory'] >> 20} MiB, {taken['descriptors']} descriptors", flush=True)
                    highest |= taken
            time.sleep(every_s)
    check_kept(home, [booked for writer in load.writers for booked in writer.books])
    assert shiftlog_json(home, "verify", within_s=CLI_S + seconds / 4)["broken"] == []
    assert highest["memory"] < MEMORY_BYTES
    assert highest["descriptors"] < DESCRIPTORS
    return load.answered + Counter(write=sum(writer.acknowledged for writer in load.writers)) + highest


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    """Yield a state directory on a disk of its own, large enough for the load."""
    with small_disk(tmp_path / "disk", DISK_MB) as home:
        try:
            yield home
        finally:
            end_daemon(home)
            shutil.copyfile(home / "daemon.log", tmp_path / "daemon.log")


@pytest.mark.long
@needs_root
def test_a_fault_of_some_kinds_loses_nothing_and_leaves_no_call_unanswered(disk: Path) -> None:
    soak(disk, 60, [fill_disk, remove_log, move_database, kill_and_move, freeze], 0.1)


@pytest.mark.soak
@needs_root
@pytest.mark.timeout(SOAK_S * 2 + 600)
@pytest.mark.usefixtures("cold_starts")  # a forked daemon's memory would count the modules that it never uses
def test_an_hour_of_load_with_a_fault_every_ten_seconds_loses_nothing(disk: Path) -> None:
    chance = random.Random()
    print(soak(disk, SOAK_S, (chance.choice(FAULTS) for _ in itertools.count()), FAULT_EVERY_S))
