"""`shiftlog mcp`: copies JSON-RPC lines between stdio and the daemon, and tracks unanswered requests.

Standard library only, one thread, every buffer bounded. A line is forwarded first and parsed afterwards, so that the
imports for parsing run while the daemon already works. What happens when the daemon goes away is in `recovery`, which
is loaded only then.
"""

import os
import select
import time

from shiftlog.link import processes, wire
from shiftlog.link.build import build_id
from shiftlog.link.limits import ANSWER_WAIT_S, RECOVERY_ATTEMPTS, REFUSAL_WAIT_S, STEADY_S, SUCCESSOR_S

CHUNK_BYTES = 65536
QUEUE_BYTES = 1 << 20
LINE_BYTES = 64 << 20
EDGE_BYTES = 4096


class Stopped(Exception):
    """SIGTERM: the client ends the bridge."""


class SocketLines:
    """Cuts a byte stream into lines; keeps only both ends of a line that is too long, in `overlong`."""

    def __init__(self) -> None:
        self.partial = bytearray()
        self.overlong: list[tuple[bytes, bytes]] = []
        self._head: bytes | None = None

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that this piece completes, each with its newline."""
        if self._head is not None:
            end = piece.find(b"\n")
            self.partial = (self.partial + piece[: end if end >= 0 else len(piece)])[-EDGE_BYTES:]
            if end < 0:
                return []
            self.overlong.append((self._head, bytes(self.partial)))
            self._head = None
            self.partial = bytearray()
            piece = piece[end + 1 :]
        whole, newline, rest = piece.rpartition(b"\n")
        if not newline:
            self.partial += piece
            if len(self.partial) > LINE_BYTES:
                self._head = bytes(self.partial[:EDGE_BYTES])
            return []
        whole = bytes(self.partial) + whole
        self.partial = bytearray(rest)
        return [line + b"\n" for line in whole.split(b"\n") if line.strip()]


class Unanswered:
    """The requests in flight in both directions, and the client's handshake.

    `daemon_requests` are the daemon's requests to the client, `former_requests` those of a daemon that is gone.
    """

    def __init__(self) -> None:
        self.in_flight: dict[str, tuple[str, bytes]] = {}
        self.refusals = 0
        self.daemon_requests: set[str] = set()
        self.former_requests: set[str] = set()
        self.initialize: bytes | None = None
        self.initialize_id = ""
        self.initialized: bytes | None = None

    def note_sent(self, line: bytes) -> None:
        """Record a line that was sent to the daemon."""
        message = read_message(line)
        method, given = message.get("method"), message.get("id")
        # An answer can only name an id that is a string or an integer.
        if isinstance(method, str) and isinstance(given, str | int) and not isinstance(given, bool):
            self.in_flight[id_text(message)] = (method, line)
            if method == "initialize":
                self.initialize, self.initialize_id, self.initialized = line, id_text(message), None
        elif method == "notifications/initialized":
            self.initialized = line
        elif method == "notifications/cancelled":
            self.in_flight.pop(id_text(as_object(message.get("params")), "requestId"), None)
        elif is_answer(message):
            self.daemon_requests.discard(id_text(message))
        elif "id" in message or not isinstance(method, str):
            self.refusals += 1

    def note_received(self, line: bytes) -> None:
        """Record a line that came from the daemon."""
        message = read_message(line)
        if "id" not in message:
            return
        key = id_text(message)
        if "method" in message:
            self.daemon_requests.add(key)
            self.former_requests.discard(key)
        elif (request := self.in_flight.pop(key, None)) is not None:
            if request[0] == "initialize" and "error" in message:
                self.initialize = None
        elif self.refusals:
            self.refusals -= 1

    def answers_former_daemon(self, line: bytes) -> bool:
        """Return True if a line answers a request of a daemon that is gone; the present daemon must not see it."""
        message = read_message(line)
        if not is_answer(message) or id_text(message) not in self.former_requests:
            return False
        self.former_requests.discard(id_text(message))
        return True


def read_message(line: bytes) -> dict[str, object]:
    """Return a JSON-RPC object, or an empty one for a line that the daemon would reject: not UTF-8, NaN."""
    import json

    try:
        return as_object(json.loads(line.decode("utf-8"), parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return {}


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def as_object(value: object) -> dict[str, object]:
    """Return the value if it is a JSON object, else an empty object."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def id_text(message: dict[str, object], key: str = "id") -> str:
    """Return an id as JSON text, in which 1 and "1" differ."""
    import json

    return json.dumps(message.get(key))


def is_answer(message: dict[str, object]) -> bool:
    """Return True if a message answers a request."""
    return "id" in message and "method" not in message and ("result" in message or "error" in message)


class Bridge:
    """One client on `stdin` and `stdout`; `connection` leads to the daemon and is None while there is none."""

    def __init__(self, options: dict[str, object], *, stdin: int = 0, stdout: int = 1) -> None:
        self.client_id = os.urandom(16).hex()
        self.unanswered = Unanswered()
        self.connection: wire.Connection | None = None
        self.home = ""
        self.queue: list[bytes] = []
        self.out = bytearray()
        self.failure: wire.WireError | None = None
        self._hello = wire.hello_line(
            role="mcp", face="mcp", client_id=self.client_id, options=options, build=build_id()
        )
        self._stdin = stdin
        self._stdout = stdout
        self._from_client = SocketLines()
        self._from_daemon = SocketLines()
        self._sent_bytes = 0
        self._failed_at = 0.0
        self._connected_at = 0.0
        # How many daemons went away in a row, soon and without having sent a line.
        self._lost_daemons = 0
        self.farewell = b""
        self._ended_at: float | None = None
        self._is_warm = False

    def run(self) -> int:
        """Copy until the client is done; return the exit status."""
        if self.dial():
            self.take_rest()
        while True:
            if self.queue and self.connection is None:
                self._recover()
            left_s = self._left_s()
            if left_s is not None and left_s <= 0:
                return 0
            if not self._step(left_s):
                return 0

    def _left_s(self) -> float | None:
        """Return how long the bridge still waits after the client closed its side; None while it has not."""
        if self._ended_at is None:
            return None
        if self.queue or self.out or self.unanswered.in_flight:
            return self._ended_at + ANSWER_WAIT_S - time.monotonic()
        return self._ended_at + REFUSAL_WAIT_S - time.monotonic() if self.unanswered.refusals else 0.0

    def dial(self, patience_s: float = 0.0) -> bool:
        """Connect, starting a daemon if needed; on failure store the reason in `failure` and return False."""
        try:
            self.home = wire.open_home()
            self.connection = wire.open_connection(self.home, self._hello, patience_s=patience_s)
        except wire.WireError as error:
            self.failure = error
            self._failed_at = time.monotonic()
            return False
        self._connected_at = time.monotonic()
        self._sent_bytes = 0
        self._from_daemon = SocketLines()
        self.failure = None
        self.farewell = b""
        return True

    def take_rest(self) -> None:
        """Process the bytes that were read from the daemon beyond the awaited line."""
        if self.connection is not None and self.connection.rest:
            self._take_from_daemon(bytes(self.connection.rest))
            self.connection.rest.clear()

    def answer(self, line: bytes) -> None:
        """Send the client a line that does not come from the daemon."""
        self.out += line

    def hang_up(self) -> None:
        """Close the connection to the daemon, if there is one."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _step(self, left_s: float | None) -> bool:
        """Wait for input or output and handle it; return False when the client has closed its output."""
        connection = self.connection
        poll = select.poll()
        poll.register(self._stdout, select.POLLOUT if self.out else 0)
        if self._ended_at is None and sum(map(len, self.queue)) < QUEUE_BYTES:
            poll.register(self._stdin, select.POLLIN)
        if connection is not None:
            wanted = select.POLLOUT if self.queue else 0
            if len(self.out) < QUEUE_BYTES:
                wanted |= select.POLLIN
            if wanted:
                connection.sock.setblocking(False)
                poll.register(connection.sock.fileno(), wanted)
        wait_ms = None if left_s is None else int(left_s * 1000) + 1
        ready = dict(poll.poll(wait_ms if self._is_warm else 0))
        if ready.pop(self._stdout, 0) and not (self.out and self._flush_to_client()):
            return False
        if self._stdin in ready:
            del ready[self._stdin]
            self._read_client()
        if connection is not None and self.queue:
            self._flush_to_daemon(connection)
        if not self._is_warm:
            self._warm_up()
        if connection is not None and ready:
            self._read_daemon(connection)
        return True

    def _warm_up(self) -> None:
        """Load what forwarding the first line did not need."""
        import signal

        read_message(b"{}")  # loads json now, so that the first answer does not wait for it

        def stop(_signal: int, _frame: object) -> None:
            raise Stopped

        signal.signal(signal.SIGTERM, stop)
        self._is_warm = True

    def _flush_to_client(self) -> bool:
        # A pipe that polls as writable takes PIPE_BUF bytes without blocking; more could block on a client that
        # waits for us.
        size = select.PIPE_BUF if os.get_blocking(self._stdout) else CHUNK_BYTES
        try:
            written = os.write(self._stdout, self.out[:size])
        except BlockingIOError:
            return True
        except OSError:
            return False
        del self.out[:written]
        return True

    def _read_client(self) -> None:
        try:
            piece = os.read(self._stdin, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._ended_at = time.monotonic()
            piece = b"\n"  # completes a last line without a newline
        for line in self._from_client.feed(piece):
            if not self.unanswered.former_requests or not self.unanswered.answers_former_daemon(line):
                self.queue.append(line)
        self._refuse_overlong(self._from_client)

    def _refuse_overlong(self, lines: SocketLines) -> None:
        while lines.overlong:
            from shiftlog.link.recovery import refuse_overlong

            refuse_overlong(self, *lines.overlong.pop())

    def _flush_to_daemon(self, connection: wire.Connection) -> None:
        while self.queue:
            line = self.queue[0]
            try:
                self._sent_bytes += connection.sock.send(memoryview(line)[self._sent_bytes :])
            except BlockingIOError:
                return
            except OSError:  # lines that the daemon sent before it closed are still to be read
                return
            if self._sent_bytes == len(line):
                self._sent_bytes = 0
                self.unanswered.note_sent(self.queue.pop(0))

    def _read_daemon(self, connection: wire.Connection) -> None:
        try:
            piece = connection.sock.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if piece:
            self._take_from_daemon(piece)
        elif self.connection is connection:
            self._lose_daemon()

    def _take_from_daemon(self, piece: bytes) -> None:
        for line in self._from_daemon.feed(piece):
            if line.startswith(wire.OUT_OF_BAND):
                self.farewell = line
                continue
            self.out += line
            self._lost_daemons = 0
            self.unanswered.note_received(line)
        self._refuse_overlong(self._from_daemon)

    def _lose_daemon(self) -> None:
        """Look for another daemon now, or at the client's next request; give up if each one goes away at once."""
        is_steady = time.monotonic() - self._connected_at >= STEADY_S
        self._lost_daemons = 1 if is_steady else self._lost_daemons + 1
        stopped = b'"bye":"stop"' in self.farewell
        if (stopped or not (self.farewell or is_steady)) and not self.unanswered.in_flight and not self.queue:
            self.hang_up()
        elif self._lost_daemons > RECOVERY_ATTEMPTS:
            self._give_up()
        else:
            self._recover()

    def _give_up(self) -> None:
        from shiftlog.link.recovery import give_up

        self._lost_daemons = 0
        self._failed_at = time.monotonic()
        give_up(self)

    def _recover(self) -> None:
        from shiftlog.link.recovery import recover, refuse_queue

        if self.failure is not None and time.monotonic() - self._failed_at < STEADY_S:
            refuse_queue(self)
            return
        recover(self, patience_s=SUCCESSOR_S if b'"bye":"retire"' in self.farewell else 0.0)


def with_environment(options: dict[str, object]) -> dict[str, object]:
    """Add the options that environment variables set; they hold for this client, not for the daemon."""
    merged = {**options}
    for name in ("toolsets", "tools", "exclude_tools", "dialects"):
        value = os.environ.get(f"SHIFTLOG_MCP_{name.upper().replace('DIALECTS', 'DIALECT')}", "")
        words = [word.strip() for word in value.split(",") if word.strip()]
        if words and name == "exclude_tools":
            merged[name] = [*words, *merged.get(name, [])]  # pyright: ignore[reportGeneralTypeIssues]
        elif words:
            merged.setdefault(name, words)
    if os.environ.get("SHIFTLOG_MCP_READ_ONLY"):
        merged.setdefault("read_only", os.environ["SHIFTLOG_MCP_READ_ONLY"])
    return merged


def with_policy(options: dict[str, object]) -> dict[str, object]:
    """Add the policy of this process. A daemon that does not apply it must refuse the connection.

    A daemon that this process starts gets the policy from the environment; a running one checks it at the hello.
    """
    given: list[str] = options.get("policy_files", [])  # pyright: ignore[reportAssignmentType]
    files = [os.path.abspath(os.path.expanduser(name)) for name in given]
    if files:
        import json

        os.environ[wire.POLICY_FILES_VARIABLE] = json.dumps(files)
    own = os.environ.get("SHIFTLOG_POLICY_FILE")
    if own:
        files.append(os.path.abspath(os.path.expanduser(own)))
    variables = {name: os.environ[name] for name in os.environ if name.startswith("EXECKIT_MCP_")}
    merged: dict[str, object] = {**options}
    if files:
        merged["policy_files"] = files
    if variables:
        merged["policy_variables"] = variables
    return merged


def run(options: dict[str, object]) -> int:
    """Run the bridge on this process's stdin and stdout; return the exit status."""
    processes.open_missing_streams()
    try:
        return Bridge(with_policy(with_environment(options))).run()
    except Stopped:
        return 0
    except KeyboardInterrupt:
        return 130
