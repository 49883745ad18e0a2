"""`shiftlog-hook AGENT`: appends one event of an agent, from standard input, to the spool.

Standard library only and few imports: it runs inside every turn of an agent. A failing hook would disturb the agent, so
it always exits 0. It prints only what the daemon says: the hand-over brief at the start of a session, and the guard's
answer before a tool call.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

AGENTS = {
    "claude": "ClaudeCode",
    "codex": "Codex",
    "cursor": "Cursor",
    "gemini": "GeminiCli",
    "opencode": "OpenCode",
}
CURSOR, GEMINI = "Cursor", "GeminiCli"
CURSOR_MARK = "cursor_version"
# Only Claude Code asks its user when a hook wants that: the others go ahead, or wait for ever without a terminal.
ASKING = "ClaudeCode"
PROMPT = "UserPromptSubmit"
# Names of Gemini CLI for events that the others have too.
SAME_EVENTS = {"BeforeAgent": PROMPT, "BeforeTool": "PreToolUse", "AfterAgent": "Stop"}
EVENT_BYTES = 8 << 20
LOCK_WAIT_S = 0.05
ANSWER_S = 0.45
# How long an event waits for the checkpoint that it asks for, and a tool call that may change files for a late one.
CHECKPOINT_S = 0.15
READY_S = 2.5
START_S = 0.02
SAVED_AT = frozenset({PROMPT, "Stop", "StopFailure"})
BRIEFED_SOURCES = frozenset({"startup", "clear", "compact"})
# Agents start hooks through a shell, which ends with the hook.
SHELLS = frozenset({b"sh", b"bash", b"dash", b"zsh", b"fish", b"ksh"})
MOST_SHELLS = 4
DATABASE = "shiftlog.db"
GUARD = "guard.json"
BEFORE_TOOL = "before-tool"
# The guard judges no tools of MCP servers, ours included, so it refuses none of them either.
MCP_TOOLS = "mcp__"


def main() -> "NoReturn":
    """Append the event at standard input to the spool, print what it asks for; exit with 0.

    Before a tool call (`shiftlog-hook AGENT before-tool`) the guard may refuse the call, and does so in `enforce` mode
    if anything fails here.
    """
    try:
        agent = AGENTS.get(sys.argv[1] if len(sys.argv) > 1 else "")
        if agent is not None:
            _record(agent)
    except BaseException:  # noqa: BLE001 - a hook must never disturb its agent; a slow daemon is no news to it either
        if sys.argv[2:3] == [BEFORE_TOOL]:
            _refuse_after_failure()
    os._exit(0)  # the agent waits: nothing is buffered, and tidying up the interpreter takes a tenth of a bare start


def _refuse_after_failure() -> None:
    """Refuse the tool call in `enforce` mode; name on standard error what keeps the hook from doing even that."""
    try:
        _print_closed(AGENTS[sys.argv[1]], "its hook failed")
    except BaseException as error:  # noqa: BLE001
        try:
            sys.stderr.write(f"shiftlog-hook: the call could not be judged: {type(error).__name__}: {error}\n")
        except (AttributeError, OSError, ValueError):
            return  # standard error is closed: nothing is left to tell it to


def _record(agent: str) -> None:
    from shiftlog.link import processes, wire

    event, text = _event(_read())
    if agent == CURSOR:
        event, text = _told_by_cursor(event, text)
    elif CURSOR_MARK in event:
        return  # Cursor also runs hooks that it finds in the settings of Claude Code: its own hook tells of it
    parent = _agent_process(os.getppid())
    home = wire.open_home()
    name: object = event.get("hook_event_name")
    name = SAME_EVENTS.get(str(name), name)
    if (name == "PreToolUse" or sys.argv[2:3] == [BEFORE_TOOL]) and _is_answered(home, agent, event, text):
        return  # the record gets the call itself, from the transcript or from PostToolUse
    problem: OSError | None = None
    try:
        _spool(home, agent, text, parent, processes.started(parent))
    except OSError as error:
        problem = error
    if name == "SessionStart" and event.get("source") in BRIEFED_SOURCES:
        _print_brief(home, agent, event, parent)
    elif name in SAVED_AT:
        _ask_for_checkpoint(home, agent, event, waits=name != PROMPT or _guard_mode(agent) != "off")
    if problem is not None:
        raise problem


def _told_by_cursor(event: "dict[str, Any]", text: str) -> "tuple[dict[str, Any], str]":
    """Return an event of Cursor and its text in the words of Claude Code."""
    if "unreadable" in event:
        return event, text
    from shiftlog.link.cursor_events import told

    said = told(event)
    return said, _json_line(said)


def _is_answered(home: str, agent: str, event: "dict[str, Any]", text: str) -> bool:
    """Return True if the daemon answered before a tool call; print what it says, or what the guard's mode demands."""
    from shiftlog.link import wire

    if "unreadable" in event:
        _print_closed(agent, "the tool call cannot be read")
        return False
    try:
        answer = _ask(home, "hook_event", f'"agent":"{agent}","event":{text}', READY_S)
    except (OSError, wire.WireError):
        answer = {}
    said = answer.get("print")
    if not isinstance(said, str):
        if not str(event.get("tool_name")).startswith(MCP_TOOLS):
            _print_closed(agent, "its daemon does not answer; shiftlog daemon start starts it")
        return False
    _print(said)
    return True


def _ask_for_checkpoint(home: str, agent: str, event: "dict[str, Any]", *, waits: bool) -> None:
    """Ask for the checkpoint of the workspace, which the daemon makes when it takes the event; wait a moment for it.

    A prompt waits only for what the guard may have to say: its first tool call that changes files waits for the
    checkpoint.
    """
    names = ("hook_event_name", "session_id", "agent_id", "cwd")
    params = f'"agent":"{agent}","event":{{"v":1{_fields(event, names)}}}'
    _print(_ask(home, "hook_event", params, CHECKPOINT_S if waits else START_S, waits=waits).get("print"))


def _print(said: object) -> None:
    if isinstance(said, str) and said:
        os.write(1, f"{said}\n".encode("utf-8", "surrogatepass"))


def _print_closed(agent: str, why: str) -> None:
    """Refuse a tool call that the guard cannot judge, or ask about it, as its mode demands."""
    mode = _guard_mode(agent)
    if mode not in ("ask", "enforce"):
        return
    decision = "ask" if mode == "ask" and agent == ASKING else "deny"
    reason = _json_line(f"Shiftlog guard ({mode}): {why}. A person switches the guard off: shiftlog guard off")
    if agent in (CURSOR, GEMINI):
        names = ("decision", "reason") if agent == GEMINI else ("permission", "user_message")
        more = f',"agent_message":{reason}' if agent == CURSOR else ""
        _print(f'{{"{names[0]}":"{decision}","{names[1]}":{reason}{more}}}')
        return
    said = f'"permissionDecision":"{decision}","permissionDecisionReason":{reason}'
    _print(f'{{"hookSpecificOutput":{{"hookEventName":"PreToolUse",{said}}}}}')


def _guard_mode(agent: str) -> object:
    """Return the mode that the person chose; of a file that cannot be read, the strictest one."""
    from shiftlog.link import wire
    from shiftlog.link.files import read_regular

    try:
        document = _parsed(read_regular(os.path.join(wire.home_path(), GUARD)).decode("utf-8").strip()) or {}
        agents: dict[str, Any] = document["agents"]
        own: dict[str, Any] = agents.get(agent) or {"mode": "off"}
        return own["mode"]
    except FileNotFoundError:
        return "off"
    except (OSError, ValueError, RecursionError, StopIteration, KeyError, TypeError, AttributeError):
        return "enforce"


def _read() -> bytes:
    """Read standard input, at most one byte more than an event may have."""
    parts: list[bytes] = []
    size = 0
    try:
        if os.isatty(0):
            return b""
        while size <= EVENT_BYTES:
            part = os.read(0, min(1 << 20, EVENT_BYTES + 1 - size))
            if not part:
                break
            parts.append(part)
            size += len(part)
    except OSError:  # standard input is closed
        pass
    return b"".join(parts)


def _event(data: bytes) -> "tuple[dict[str, Any], str]":
    """Return the event and its text on one line; for unreadable input, its size and digest."""
    if len(data) <= EVENT_BYTES:
        try:
            text = data.decode("utf-8").strip().lstrip("\ufeff")
            event = _parsed(text)
        except (ValueError, RecursionError, StopIteration):
            event = None
        else:
            if event is not None:
                return event, _json_line(event) if "\n" in text or "\r" in text else text
    import hashlib

    digest, size = hashlib.sha256(data), len(data)
    if size > EVENT_BYTES:
        while part := os.read(0, 1 << 20):
            digest.update(part)
            size += len(part)
    stub: dict[str, Any] = {"unreadable": True, "bytes": size, "sha256": digest.hexdigest()}
    return stub, _json_line(stub)


class _AsIs:
    """Options of the JSON scanner: every value as it is."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _parsed(text: str) -> "dict[str, Any] | None":
    """Return a JSON object, None for another value; raise for invalid JSON."""
    try:
        # Importing `json` would take as long as everything else here together.
        from _json import make_scanner

        scan: Any = make_scanner(_AsIs)  # pyright: ignore[reportArgumentType]
    except (ImportError, AttributeError, TypeError):
        import json

        value = json.loads(text)
    else:
        value, end = scan(text, 0)
        if end != len(text):
            return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _json_line(value: object) -> str:
    """Return a value as JSON in ASCII, on one line."""
    if value is None:
        return "null"
    if isinstance(value, str):
        try:
            from _json import encode_basestring_ascii

            return encode_basestring_ascii(value)
        except ImportError:
            pass
    import json

    return json.dumps(value, separators=(",", ":"))


def _agent_process(pid: int) -> int:
    """Return the nearest ancestor that is not a shell: the agent itself."""
    from shiftlog.link import processes

    for _ in range(MOST_SHELLS):
        try:
            with open(f"/proc/{pid}/comm", "rb") as comm:
                name = comm.read().strip()
        except OSError:
            return pid
        above = processes.parent(pid) if name in SHELLS else None
        if not above or above == 1:
            return pid
        pid = above
    return pid


def _spool(home: str, agent: str, event: str, parent: int, started: str | None) -> None:
    import time

    seconds = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"
    started_text = "null" if started is None else started if started.isdecimal() else _json_line(started)
    line = (
        f'{{"v":1,"id":"{os.urandom(16).hex()}","at":"{at}","agent":"{agent}","event":{event},'
        f'"pid":{os.getpid()},"ppid":{parent},"ppid_started":{started_text}}}\n'
    )
    folder = os.path.join(home, "spool")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _append(folder, f"hooks-{at[:10].replace('-', '')}", line.encode("utf-8"))


def _append(folder: str, name: str, line: bytes) -> None:
    """Write one line under the file's lock; if it stays locked, write to a new file instead."""
    handle = _locked(os.path.join(folder, name + ".jsonl"))
    if handle is None:
        own = os.path.join(folder, f"{name}-{os.getpid()}-{os.urandom(4).hex()}.jsonl")
        handle = os.open(own, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
    try:
        size = os.fstat(handle).st_size
        # An unfinished line of another writer must not swallow this one.
        lead = b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""
        written = os.write(handle, lead + line)
        if written < len(lead) + len(line):  # the disk is full: no event is better than half of one
            os.ftruncate(handle, size)
    finally:
        os.close(handle)


def _locked(path: str) -> int | None:
    import fcntl
    import time

    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        handle = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The daemon may have drained and removed the file while we waited.
            if os.fstat(handle).st_ino == os.stat(path).st_ino:
                return handle
        except OSError:
            pass
        os.close(handle)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.002)


def _has_store(home: str) -> bool:
    """Return True if something may be recorded already: in the database file, or in a database that settings name."""
    if os.path.exists(os.path.join(home, DATABASE)) or os.environ.get("SHIFTLOG_STORE_URL"):
        return True
    from shiftlog.link.files import read_regular

    try:
        return b"postgres" in read_regular(os.path.join(home, "config.toml"))
    except OSError:
        return False


def _print_brief(home: str, agent: str, event: "dict[str, Any]", parent: int) -> None:
    """Ask the daemon for the hand-over brief of a new session, and print it."""
    if not _has_store(home):
        _ask(home, "hook_brief", f'"agent":"{agent}"', START_S)  # nothing is recorded yet: only start the daemon
        return
    names = ("session_id", "source", "cwd")
    params = f'"agent":"{agent}","pid":{parent}{_fields(event, names)}'
    text = _ask(home, "hook_brief", params, ANSWER_S).get("text")
    if not isinstance(text, str) or not text:
        return
    if agent == CURSOR:
        _print(f'{{"additional_context":{_json_line(text)}}}')
        return
    said = f'{{"hookEventName":"SessionStart","additionalContext":{_json_line(text)}}}'
    os.write(1, f'{{"hookSpecificOutput":{said}}}\n'.encode("ascii"))


def _fields(event: "dict[str, Any]", names: "tuple[str, ...]") -> str:
    """Return these fields of an event as members of a JSON object."""
    return "".join(f',"{name}":{_json_line(event.get(name))}' for name in names)


def _ask(home: str, method: str, params: str, limit_s: float, *, waits: bool = True) -> "dict[str, Any]":
    """Ask the daemon and return its result, an empty one for an error; raise WireError or OSError without an answer."""
    import time

    from shiftlog.link import wire

    deadline = time.monotonic() + limit_s
    hello = wire.hello_line(role="control", face="hook", client_id="")
    question = f'{{"id":1,"method":"{method}","params":{{{params}}}}}\n'.encode("utf-8", "surrogatepass")
    # Any version will do: a hook has no time to replace a daemon. Hello and question go together, to wait once.
    sock = wire.connect(home)
    connection = wire.greet(sock, hello + question, limit_s) if sock is not None else None
    if connection is None:
        connection = wire.open_connection(home, hello, version="0", timeout_s=max(deadline - time.monotonic(), 0.001))
        connection.send(question, max(deadline - time.monotonic(), 0.001))
    try:
        line = connection.read_line(max(deadline - time.monotonic(), 0.001)) if waits else None
    finally:
        connection.close()
    answer: dict[str, Any] = _parsed((line or b"{}").decode("utf-8").strip()) or {}
    result: dict[str, Any] = answer.get("result") or {}
    return result
