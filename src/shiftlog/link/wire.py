"""Find the daemon and greet it: state directory, socket, hello lines, versions.

Standard library only and few imports, because the bridge starts in milliseconds: `_socket` replaces `socket`, hello
lines are written and compared as bytes, and `json` is imported for rare answers only. Starting a daemon is in `launch`;
the lines after the hello are read by the bridge and `client`.
"""

import _socket
import os
import sys
import time

from shiftlog import __version__
from shiftlog.link import processes
from shiftlog.link.build import build_id, is_later
from shiftlog.link.files import read_regular

WIRE = 1
# What agents tell the processes that they start about their own session, by variable.
SESSION_VARIABLES = {"CLAUDE_CODE_SESSION_ID": "ClaudeCode", "CODEX_THREAD_ID": "Codex"}
DATABASE = "shiftlog.db"
SOCKET_PATH_BYTES = 100
HELLO_BYTES = 1 << 20
OUT_OF_BAND = b'{"shiftlog":'
RETIRE = b'{"shiftlog":{"retire":1}}\n'
# Passes the policy files of a client to the daemon that it starts, as a JSON list.
POLICY_FILES_VARIABLE = "SHIFTLOG_ASKED_POLICY_FILES"
RETRY_S = 0.005
# A stopping daemon loses a client's hello once; one that dies as it starts loses every hello.
LOST_HELLOS = 3

_HELLO_SAME = f'{{"shiftlog":{{"hello":{WIRE},"version":"{__version__}","pid":'.encode("ascii")


class WireError(Exception):
    """No daemon can be reached; the faces show `code` and `hint`."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class Connection:
    """A connection after the hello: its socket, the daemon's version and pid, and bytes read beyond a line."""

    __slots__ = ("daemon_build", "daemon_pid", "daemon_version", "rest", "sock")

    def __init__(self, sock: _socket.socket, version: str, pid: int, rest: bytes) -> None:
        self.sock = sock
        self.daemon_version = version
        self.daemon_build = ""
        self.daemon_pid = pid
        self.rest = bytearray(rest)

    def read_line(self, timeout_s: float | None) -> bytes | None:
        """Return the next line with its newline, None if the daemon has closed; raise TimeoutError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        looked = 0
        while (end := self.rest.find(b"\n", looked)) < 0:
            looked = len(self.rest)
            self.sock.settimeout(None if deadline is None else max(deadline - time.monotonic(), 0.001))
            try:
                piece = self.sock.recv(65536)
            except ConnectionError:
                return None
            if not piece:
                return None
            self.rest += piece
        line = bytes(self.rest[: end + 1])
        del self.rest[: end + 1]
        return line

    def wait_beside(self, output: int) -> None:
        """Wait until there is something to read; raise BrokenPipeError once the reader of `output` has gone."""
        if b"\n" in self.rest:
            return
        import select

        poller = select.poll()
        poller.register(self.sock, select.POLLIN)
        poller.register(output, 0)  # poll reports a closed reader without being asked
        if output in dict(poller.poll()):
            raise BrokenPipeError

    def send(self, line: bytes, timeout_s: float | None = 30.0) -> None:
        """Send one whole line; raise OSError if the daemon is gone or stops reading."""
        self.sock.settimeout(timeout_s)
        self.sock.sendall(line)

    def close(self) -> None:
        """Close the socket; closing again does nothing."""
        self.sock.close()


def home_path() -> str:
    """Return the state directory: `SHIFTLOG_HOME`, else where platformdirs puts the state of `shiftlog`."""
    chosen = os.environ.get("SHIFTLOG_HOME")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    base = os.environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        under = "Library/Application Support" if sys.platform == "darwin" else ".local/state"
        base = os.path.join(_user_home(), under)
    return os.path.join(base, "shiftlog")


def _user_home() -> str:
    home = os.environ.get("HOME", "")
    if home.startswith("/"):
        return home.rstrip("/")
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir.rstrip("/")
    except KeyError:
        raise WireError(
            "storage_error", f"uid {os.getuid()} has no home directory", "Set HOME or SHIFTLOG_HOME"
        ) from None


def open_home(path: str | None = None) -> str:
    """Create the state directory if needed, check that it is private (0700), and return its path."""
    home = home_path() if path is None else os.path.abspath(os.path.expanduser(path))
    try:
        home.encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(home).decode("utf-8", "replace")
        message = f"The name of the state directory {shown} is not UTF-8"
        raise WireError("storage_error", message, "Set SHIFTLOG_HOME to a directory whose name is") from None
    try:
        os.makedirs(home, 0o700, exist_ok=True)
        info = os.stat(home)
        if info.st_uid != os.geteuid():
            message = f"The state directory {home} belongs to another user (uid {info.st_uid})"
            raise WireError("unauthorized", message, "Set SHIFTLOG_HOME to a directory of your own")
        if info.st_mode & 0o077:
            os.chmod(home, 0o700)
    except OSError as error:
        message = f"The state directory {home} cannot be used: {error.strerror}"
        raise WireError("storage_error", message, "Set SHIFTLOG_HOME to a directory that you can write") from error
    return home


def is_read_only(home: str) -> bool:
    """Return True if a state directory holds a database and cannot, or should not, be written."""
    try:
        is_closed = not os.stat(home).st_mode & 0o200 or not os.access(home, os.W_OK)
        return is_closed and os.path.exists(os.path.join(home, DATABASE))
    except OSError:
        return False


def http_port_path(home: str) -> str:
    """Return the file that names the port at which the daemon serves HTTP."""
    return os.path.join(home, "http.port")


def lock_path(home: str) -> str:
    """Return the lock file of the daemon; its text is the daemon's pid and socket path."""
    return os.path.join(home, "daemon.lock")


def log_path(home: str) -> str:
    """Return the daemon's log."""
    return os.path.join(home, "daemon.log")


def socket_path(home: str) -> str:
    """Return where the daemon of this state directory listens, or will listen.

    A long path moves to a runtime directory. Those differ between logins, so the path in the lock file is preferred.
    """
    path = os.path.join(home, "daemon.sock")
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
        return path
    return _recorded_socket(home) or short_socket_path(home)


def short_socket_path(home: str) -> str:
    """Return a short path in a private directory; its name is derived from the state directory."""
    import hashlib

    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16] + ".sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    for directory in (os.path.join(runtime, "shiftlog"), f"/tmp/shiftlog-{os.geteuid()}"):
        path = os.path.join(directory, name)
        if not path.startswith("/") or len(os.fsencode(path)) > SOCKET_PATH_BYTES:
            continue
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass
        except OSError:
            continue
        if _is_private(directory):
            return path
    message = f"No private directory for the socket of {home}: other users can write to those tried"
    raise WireError(
        "unauthorized", message, f"Set SHIFTLOG_HOME to a shorter path, or remove /tmp/shiftlog-{os.geteuid()}"
    )


def _recorded_socket(home: str) -> str | None:
    try:
        _, path, *_ = read_regular(lock_path(home)).decode("utf-8", "surrogateescape").split("\n")
    except (OSError, ValueError):
        return None
    return path if path and _is_private(os.path.dirname(path)) else None


def _is_private(directory: str) -> bool:
    try:
        info = os.lstat(directory)
    except OSError:
        return False
    return info.st_mode & 0o170077 == 0o040000 and info.st_uid == os.geteuid()


def hello_line(
    *,
    role: str,
    client_id: str,
    face: str,
    options: dict[str, object] | None = None,
    version: str = __version__,
    build: str = "",
) -> bytes:
    """Return the first line that a client sends; with its build, it may take the place of an earlier one."""
    try:
        cwd = _quoted(os.getcwd())
    except OSError:
        cwd = "null"
    started_at = processes.started() if sys.platform.startswith("linux") else None
    fields = (
        f'"hello":{WIRE},"version":{_quoted(version)},"build":{_quoted(build)},"role":{_quoted(role)},"face":{_quoted(face)},'
        f'"client_id":{_quoted(client_id)},"pid":{os.getpid()},'
        f'"pid_started":{"null" if started_at is None else _quoted(started_at)},"cwd":{cwd}'
    )
    named = {agent: os.environ[name] for name, agent in SESSION_VARIABLES.items() if os.environ.get(name)}
    if named:
        ids = ",".join(f"{_quoted(agent)}:{_quoted(given)}" for agent, given in named.items())
        fields += f',"vendor_ids":{{{ids}}}'
    if options:
        import json

        fields += f',"options":{json.dumps(options)}'
    else:
        fields += ',"options":{}'
    return f'{{"shiftlog":{{{fields}}}}}\n'.encode("ascii")


def _quoted(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json

    # A file name that is not UTF-8 has no JSON form; a replacement keeps the hello readable.
    return json.dumps(os.fsencode(text).decode("utf-8", "replace"))


def _forbidden(home: str) -> WireError:
    """Return the reason why the socket cannot be reached: it is another user's, or a mode of our own is in the way."""
    try:
        is_own = os.stat(home).st_uid == os.geteuid()
    except OSError:
        is_own = False
    if not is_own:
        message = "The daemon's socket belongs to another user"
        return WireError("unauthorized", message, "Set SHIFTLOG_HOME to your own directory")
    if os.access(home, os.X_OK):
        path = socket_path(home)
        return WireError("storage_error", f"{path}: permission denied", f"chmod 600 {path}")
    return WireError("storage_error", f"The state directory {home}: permission denied", f"chmod 700 {home}")


def connect(home: str) -> _socket.socket | None:
    """Connect to the daemon's socket; None if no daemon listens there."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.settimeout(5.0)
        sock.connect(socket_path(home))
    except PermissionError as error:
        sock.close()
        raise _forbidden(home) from error
    except OSError:
        sock.close()
        return None
    except BaseException:
        sock.close()
        raise
    return sock


def greet(sock: _socket.socket, hello: bytes, timeout_s: float) -> Connection | None:
    """Exchange hello lines; None if the daemon closed the connection, as a stopping one does."""
    connection = Connection(sock, "", 0, b"")
    try:
        try:
            connection.send(hello, timeout_s)
        except ConnectionError:
            pass  # a daemon that refuses may have sent its reason before it closed
        answer = connection.read_line(timeout_s)
    except TimeoutError as error:
        sock.close()
        message = f"The daemon took the connection but did not answer within {timeout_s:.0f} s"
        raise WireError(
            "storage_error",
            message,
            "Look at daemon.log in the state directory; `shiftlog daemon stop` ends a daemon that hangs",
        ) from error
    if answer is None:
        sock.close()
        return None
    if answer.startswith(_HELLO_SAME):
        connection.daemon_version = __version__
        pid, _, build = answer[len(_HELLO_SAME) :].partition(b',"build":"')
        connection.daemon_pid = int(pid.rstrip(b"}\n"))
        connection.daemon_build = build.rstrip(b'"}\n').decode("ascii", "replace")
        return connection
    return _read_greeting(connection, answer)


def _read_greeting(connection: Connection, answer: bytes) -> Connection:
    import json

    try:
        said = json.loads(answer)["shiftlog"]
        if "error" in said:
            error = said["error"]
            raise WireError(str(error["code"]), str(error["message"]), str(error.get("hint") or ""))
        if said["hello"] != WIRE:
            message = f"The other side speaks wire {said['hello']}, this one speaks wire {WIRE}"
            hint = "Run `shiftlog daemon stop` with the version that started the daemon, then restart this client"
            raise WireError("wire_mismatch", message, hint)
        connection.daemon_version = str(said["version"])
        connection.daemon_build = str(said.get("build", ""))
        connection.daemon_pid = int(said["pid"])
    except (ValueError, TypeError, KeyError) as error:
        connection.close()
        message = "Another program answers on the daemon's socket"
        raise WireError(
            "storage_error", message, "Remove daemon.sock from the state directory and try again"
        ) from error
    except WireError:
        connection.close()
        raise
    return connection


def open_connection(
    home: str,
    hello: bytes,
    *,
    start: bool = True,
    version: str = __version__,
    timeout_s: float = 30.0,
    answers_within_s: float | None = None,
    patience_s: float = 0.0,
    purpose: str = "",
) -> Connection:
    """Return a connection after the hello, starting a daemon if needed and replacing one older than `version`.

    A daemon of the same version is replaced if this program's build is later. One that listens already has
    `answers_within_s` to answer, a new one all the time that is left.

    `patience_s` is how long another client may take to start one first; a new daemon is told its `purpose`. Raises
    WireError.
    """
    deadline = time.monotonic() + timeout_s
    may_retire = start
    lost = 0
    while (left := deadline - time.monotonic()) > 0:
        sock = connect(home)
        if sock is not None and answers_within_s is not None:
            left = min(left, answers_within_s)
        if sock is None:
            if not start:
                message = f"No daemon is running for {home}"
                raise WireError("storage_error", message, "Start one with `shiftlog daemon start`")
            from shiftlog.link.launch import start_daemon

            sock = start_daemon(home, deadline=deadline, patience_s=patience_s, purpose=purpose)
        connection = greet(sock, hello, left)
        if connection is None:
            lost += 1
            if lost >= LOST_HELLOS:
                break
            time.sleep(RETRY_S)
        elif may_retire and _takes_over(version, connection):
            may_retire = False  # the daemon that we start ourselves is accepted in any version
            if connection.daemon_version == version and not connection.daemon_build:
                connection.close()
                _stop_unnamed(home, left)
            else:
                retire(connection, left)
        else:
            return connection
    message = f"The daemon of {home} closes every connection before it answers"
    raise WireError("storage_error", message, "Look at daemon.log in the state directory")


def _takes_over(version: str, connection: Connection) -> bool:
    if connection.daemon_version != version:
        return newer(version, connection.daemon_version)
    return version == __version__ and is_later(build_id(), connection.daemon_build)


def _stop_unnamed(home: str, timeout_s: float) -> None:
    """Stop a daemon of this version that does not name its build: it knows no way to make way for another."""
    sock = connect(home)
    connection = None if sock is None else greet(sock, hello_line(role="control", face="cli", client_id=""), timeout_s)
    if connection is None:
        return
    try:
        connection.send(b'{"id":1,"method":"daemon.stop","params":{}}\n', timeout_s)
        while connection.read_line(timeout_s) is not None:
            pass
    except OSError:
        pass
    finally:
        connection.close()


def retire(connection: Connection, timeout_s: float) -> None:
    """Ask an older daemon to finish its work and stop; return when it has closed the connection."""
    try:
        connection.send(RETIRE, timeout_s)
        while connection.read_line(timeout_s) is not None:
            pass
    except OSError:  # gone already, or too slow: the next attempt to connect shows which
        pass
    finally:
        connection.close()


def newer(one: str, other: str) -> bool:
    """Return True if a version is later than another; pre-releases come before their release."""
    return _version_key(one) > _version_key(other)


def _version_key(version: str) -> tuple[list[int], int, str, int]:
    import re

    match = re.match(r"(\d+(?:\.\d+)*)[.-]?([a-z]*)(\d*)", version)
    if match is None:
        return [], 0, "", 0
    release = [int(part) for part in match[1].split(".")]
    while release and release[-1] == 0:
        release.pop()
    rank = {"": 1, "post": 2}.get(match[2], 0)
    # "dev" comes before "a", "b" and "rc".
    return release, rank, "" if match[2] == "dev" else match[2], int(match[3] or 0)
