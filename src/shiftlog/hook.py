"""`shiftlog-hook claude|codex`: takes one event of an agent from standard input and appends it to the spool.

Standard library only and few imports: it runs inside every turn of an agent. It exits 0 whatever happens and prints
nothing, because a hook that fails would disturb the agent; an event that cannot be spooled is the only loss.
"""

import sys

AGENTS = {"claude": "ClaudeCode", "codex": "Codex"}
EVENT_BYTES = 8 << 20
LOCK_WAIT_S = 0.05


def main() -> int:
    """Spool the event at standard input; return 0."""
    try:
        agent = AGENTS.get(sys.argv[1] if len(sys.argv) > 1 else "")
        if agent is not None:
            _spool(agent, sys.stdin.buffer.read(EVENT_BYTES + 1))
    except BaseException:  # noqa: BLE001, S110 - the agent must never notice us
        pass
    return 0


def _spool(agent: str, data: bytes) -> None:
    import json
    import os
    import time

    from shiftlog import processes, wire

    seconds = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"
    parent = os.getppid()
    line = {
        "v": 1,
        "id": os.urandom(16).hex(),
        "at": at,
        "agent": agent,
        "event": _event(data),
        "pid": os.getpid(),
        "ppid": parent,
        "ppid_started": processes.started(parent),
    }
    folder = os.path.join(wire.open_home(), "spool")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    _append(folder, f"hooks-{at[:10].replace('-', '')}", text + b"\n")


def _event(data: bytes) -> object:
    import json

    if len(data) <= EVENT_BYTES:
        try:
            event: object = json.loads(data)
        except (ValueError, RecursionError):
            pass
        else:
            if isinstance(event, dict):
                return event  # pyright: ignore[reportUnknownVariableType]
    import hashlib

    # Too large or no JSON object: what it was can still be told.
    more = len(sys.stdin.buffer.read()) if len(data) > EVENT_BYTES else 0
    return {"unreadable": True, "bytes": len(data) + more, "sha256_of_start": hashlib.sha256(data).hexdigest()}


def _append(folder: str, name: str, line: bytes) -> None:
    """Write one line under the file's lock; a file that stays locked is left alone for one of our own."""
    import os

    path = os.path.join(folder, name + ".jsonl")
    handle = _locked(path)
    if handle is None:
        own = os.path.join(folder, f"{name}-{os.getpid()}-{os.urandom(4).hex()}.jsonl")
        handle = os.open(own, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def _locked(path: str) -> int | None:
    import fcntl
    import os
    import time

    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        handle = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever drained the file may have removed it while we waited.
            if os.fstat(handle).st_ino == os.stat(path).st_ino:
                return handle
        except OSError:
            pass
        os.close(handle)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.002)
