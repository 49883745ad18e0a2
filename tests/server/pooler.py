"""A pgbouncer for tests, in transaction mode, with fewer connections to PostgreSQL than its clients have."""

import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.daemon.support import eventually
from tests.postgres_server import OWNERS, ROLE, PostgresServer

PORT = 6432
SERVERS = 3


def program() -> str | None:
    """Return the path of pgbouncer, None if there is none."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def pooled(server: PostgresServer, database: str) -> Generator[str]:
    """Run a pooler before a database and yield the address of that database through it."""
    folder = Path(tempfile.mkdtemp(prefix="shiftlog-bouncer-"))
    known = {entry.pw_name for entry in pwd.getpwall()}
    owner = next(name for name in OWNERS if name in known) if os.geteuid() == 0 else getpass.getuser()
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n{database} = host={server.folder} dbname={database} user={ROLE}\n"
        "[pgbouncer]\npool_mode = transaction\n"
        f"listen_addr =\nlisten_port = {PORT}\nunix_socket_dir = {folder}\n"
        f"auth_type = any\ndefault_pool_size = {SERVERS}\nmax_client_conn = 200\n"
        f"logfile = {folder}/log\npidfile = {folder}/pid\n",
        encoding="utf-8",
    )
    if os.geteuid() == 0:
        for path in (folder, settings):
            shutil.chown(path, owner)
    process = subprocess.Popen(
        [str(program()), "-q", str(settings)],
        user=owner if os.geteuid() == 0 else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"postgresql://{ROLE}@/{database}?host={folder}&port={PORT}"
    try:
        eventually((folder / f".s.PGSQL.{PORT}").exists)
        with psycopg.connect(url) as db:
            db.execute("SELECT 1")
        yield url
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)
