"""A PostgreSQL server for tests: a cluster of its own in a temporary folder, reached by its socket alone.

PostgreSQL refuses to run as root, so there it runs as another user. Durability is off; a test that kills the server
asks for it.
"""

import getpass
import importlib.util
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Where Debian has the programs; elsewhere they are on the path.
DEBIAN = Path("/usr/lib/postgresql/15/bin")
OWNERS = ("postgres", "nobody")
ROLE = "shiftlog"
START_S = 60
FAST = ("fsync=off", "full_page_writes=off", "autovacuum=off")


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, None if there is none."""
    if (DEBIAN / "initdb").exists():
        return DEBIAN
    found = shutil.which("initdb")
    return Path(found).parent if found else None


def reason_to_skip() -> str | None:
    """Return why no server can be started here."""
    if importlib.util.find_spec("psycopg") is None or importlib.util.find_spec("psycopg_pool") is None:
        return "psycopg is not installed: pip install 'shiftlog[postgres]'"
    if programs() is None:
        return "PostgreSQL is not installed: apt-get install postgresql-15"
    return None


class PostgresServer:
    """One running server."""

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: Sequence[str] = (),
        of: "PostgresServer | None" = None,
        backup: Path | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="shiftlog-pg-"))
        self._programs = programs()
        self._owner = next(name for name in OWNERS if _exists(name)) if os.geteuid() == 0 else getpass.getuser()
        self._data = self.folder / "data"
        if os.geteuid() == 0:
            shutil.chown(self.folder, self._owner)
        self._settings = ["listen_addresses=", f"unix_socket_directories={self.folder}", "max_connections=120"]
        self._settings += () if durable else FAST
        self._own_settings = settings
        self._settings += settings
        if of is not None:
            self._run(
                "pg_basebackup", "-h", str(of.folder), "-U", ROLE, "-D", str(self._data), "-R", "--checkpoint=fast",
                "--no-sync",
            )  # fmt: skip
            self.start()
            return
        if backup is not None:
            subprocess.run(["cp", "--archive", backup, self._data], check=True)  # with owners
            (self._data / "recovery.signal").touch()
            self.start()
            return
        self._run(
            "initdb", "--pgdata", str(self._data), "--username", ROLE, "--auth=trust", "--encoding=UTF8",
            "--locale=C.UTF-8", "--no-sync", "--no-instructions",
        )  # fmt: skip
        self.start()

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        options = " ".join(f"-c {shlex.quote(setting)}" for setting in self._settings)
        log = str(self.folder / "server.log")
        self._run("pg_ctl", "start", "--wait", f"--timeout={START_S}", "-D", str(self._data), "-l", log, "-o", options)

    def kill(self) -> None:
        """End the server as a loss of power would."""
        self._run("pg_ctl", "stop", "--mode=immediate", "-D", str(self._data))

    def processes(self) -> list[int]:
        """Return the ids of all processes of the server, the first one first."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children")
        return [first, *(int(each) for each in children.read_text().split())]

    def kill_hard(self) -> None:
        """Kill every process of the server with SIGKILL."""
        processes = self.processes()
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + START_S
        while any(Path(f"/proc/{each}").exists() and not _is_dead(each) for each in processes):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        # Where no process collects the dead, the server would take the killed one for a live one.
        for left in (self._data / "postmaster.pid", self.folder / ".s.PGSQL.5432", self.folder / ".s.PGSQL.5432.lock"):
            left.unlink(missing_ok=True)

    def make_standby(self) -> "PostgresServer":
        """Return a server that follows this one, and takes over when it is told to."""
        return PostgresServer(durable=True, settings=self._own_settings, of=self)

    def back_up(self) -> Path:
        """Copy the running server's files, and return the folder of the copy."""
        folder = self.folder / "backup"
        self._run(
            "pg_basebackup", "-h", str(self.folder), "-U", ROLE, "-D", str(folder), "--checkpoint=fast", "--no-sync"
        )
        return folder

    def promote(self) -> None:
        """Make a standby the primary."""
        self._run("pg_ctl", "promote", "--wait", "-D", str(self._data))

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://{ROLE}@/{database}?host={self.folder}"

    def remove(self) -> None:
        """End the server and remove all that it stored."""
        if (self._data / "postmaster.pid").exists():
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        assert self._programs is not None
        is_root = os.geteuid() == 0
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            timeout=2 * START_S,
            check=False,
            user=self._owner if is_root else None,
            group=pwd.getpwnam(self._owner).pw_gid if is_root else None,
        )
        if done.returncode:
            log = self.folder / "server.log"
            said = (done.stdout or b"").decode(errors="replace") + (log.read_text() if log.exists() else "")
            raise RuntimeError(f"{program} failed ({done.returncode}): {said[-2000:]}")


def _is_dead(process: int) -> bool:
    """Return True if a process has ended and only waits for its parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def empty(url: str) -> None:
    """Remove everything that is stored in a database with our schema, and make the schema where there is none."""
    import psycopg

    from shiftlog.store.postgres.migrate import migrate

    with psycopg.connect(url, autocommit=True) as db:
        migrate(db)
        tables = db.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations'"
        ).fetchall()
        # Deleting a few rows is many times faster than truncating, which makes new files.
        removals = [f"DELETE FROM {name};" for (name,) in tables]
        restart = "ALTER SEQUENCE aliases RESTART; INSERT INTO projection_version VALUES (1)"
        db.execute(f"{' '.join(removals)} {restart}".encode())


class _Homes:
    """The databases of state directories, each a copy of one that has our schema."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._names: dict[Path, str] = {}
        # Clients on threads of their own ask for one directory; a database has its name once it is there.
        self._lock = threading.Lock()

    def url(self, home: Path) -> str:
        with self._lock:
            name = self._names.get(home)
            if name is None:
                name = f"home_{os.urandom(8).hex()}"
                self._copy(name)
                self._names[home] = name
        return self._server.url(name)

    def _copy(self, name: str) -> None:
        import psycopg

        from shiftlog.store.postgres.migrate import migrate

        with psycopg.connect(self._server.url(), autocommit=True) as db:
            if db.execute("SELECT 1 FROM pg_database WHERE datname = 'pattern'").fetchone() is None:
                db.execute("CREATE DATABASE pattern")
                with psycopg.connect(self._server.url("pattern"), autocommit=True) as pattern:
                    migrate(pattern)
            db.execute(f"CREATE DATABASE {name} TEMPLATE pattern STRATEGY file_copy".encode())

    def drop(self) -> None:
        import psycopg

        with psycopg.connect(self._server.url(), autocommit=True) as db:
            for name in self._names.values():
                db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


_homes: _Homes | None = None


@contextmanager
def databases_for_homes(server: PostgresServer) -> Generator[None]:
    """Have `store_environ` name a database for each state directory, until the block ends."""
    global _homes
    before, made = _homes, _Homes(server)
    _homes = made
    try:
        yield
    finally:
        _homes = before
        made.drop()


def store_environ(home: Path) -> dict[str, str]:
    """Return the setting that names the store of a state directory, if it is not the embedded one."""
    return {} if _homes is None else {"SHIFTLOG_STORE_URL": _homes.url(home)}
