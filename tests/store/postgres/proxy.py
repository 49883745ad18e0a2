"""A TCP proxy before a PostgreSQL server that cuts connections: before, in or after a message of the client."""

import random
import selectors
import socket
import threading
from contextlib import suppress
from pathlib import Path

HOST = "127.0.0.1"


class CuttingProxy:
    """Passes bytes on between loopback and a server's socket until it is told to cut; the server can be changed."""

    def __init__(self, folder: Path, *, seed: int = 0) -> None:
        self.folder = folder
        self.cuts = 0
        self._random = random.Random(seed)
        self._wanted: bytes | None = None
        # Protects it: one message is cut for each request.
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database behind the proxy."""
        return f"postgresql://shiftlog@{HOST}:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def cut(self, holding: bytes = b"") -> None:
        """Cut the connection whose client sends the next message with some bytes in it."""
        with self._lock:
            self._wanted = holding

    def cut_all(self) -> None:
        """Cut every connection."""
        for pair in list(self._pairs):
            _close(*pair)

    def close(self) -> None:
        """Stop listening, and cut every connection."""
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self.folder / ".s.PGSQL.5432"))
            except OSError:
                _close(client, server)
                continue
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        pair = client, server
        self._pairs.add(pair)
        try:
            with selectors.DefaultSelector() as ready:
                ready.register(client, selectors.EVENT_READ, server)
                ready.register(server, selectors.EVENT_READ, client)
                while True:
                    for key, _ in ready.select():
                        source = client if key.fileobj is client else server
                        data = source.recv(1 << 16)
                        if not data or (source is client and self._cuts(data, server)):
                            return
                        key.data.sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            self._pairs.discard(pair)
            _close(*pair)

    def _cuts(self, data: bytes, server: socket.socket) -> bool:
        """Return True if this message is to be cut; nothing, a part or all of it reaches the server then."""
        with self._lock:
            if self._wanted is None or self._wanted not in data:
                return False
            self._wanted = None
            self.cuts += 1
            reached = self._random.choice((0, self._random.randrange(len(data)), len(data)))
        server.sendall(data[:reached])
        return True


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
