"""Images that stand in for those of a registry: PostgreSQL and Caddy as this machine has them."""

import os
import shutil
from pathlib import Path

from tests.shell.remote.docker.engine import Engine, archived, copy_libraries, laid_out

POSTGRES_TREES = ("/usr/lib/postgresql/15", "/usr/share/postgresql/15", "/usr/share/zoneinfo")
USER = 999
DATA = "/var/lib/postgresql/data"
# As much of the official image's start as the compose file asks for.
ENTRYPOINT = f"""#!/bin/sh
set -e
if [ ! -s {DATA}/PG_VERSION ]; then
    echo "$POSTGRES_PASSWORD" > /tmp/password
    initdb --pgdata={DATA} --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust \\
        --auth-host=scram-sha-256 --encoding=UTF8 --no-locale
    echo "host all all all scram-sha-256" >> {DATA}/pg_hba.conf
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D {DATA} postgres
fi
exec postgres -D {DATA} -c listen_addresses='*' -c unix_socket_directories=/tmp -c jit=off
"""


def import_postgres(engine: Engine, folder: Path, name: str) -> None:
    """Make an image of PostgreSQL that starts as the official one does."""
    laid_out(folder, ["sh", "cat", "mkdir", "rm"])
    for tree in POSTGRES_TREES:
        shutil.copytree(
            tree, folder / tree.lstrip("/"), symlinks=True, ignore=shutil.ignore_patterns("llvmjit*", "bitcode")
        )
    for program in (*Path("/usr/lib/postgresql/15/bin").iterdir(), *Path("/usr/lib/postgresql/15/lib").glob("*.so")):
        copy_libraries(folder, program)
    with (folder / "etc/passwd").open("a", encoding="utf-8") as users:
        users.write(f"postgres:x:{USER}:{USER}::{DATA}:/bin/sh\n")
    own = folder / DATA.lstrip("/")
    own.mkdir(parents=True, mode=0o700)
    os.chown(own, USER, USER)
    (folder / "start").write_text(ENTRYPOINT, encoding="utf-8")
    (folder / "start").chmod(0o755)
    changes = (
        f"USER {USER}",
        'ENTRYPOINT ["/bin/sh", "/start"]',
        "ENV PATH=/usr/lib/postgresql/15/bin:/bin PGHOST=/tmp",
    )
    engine.docker("import", *(f"--change={change}" for change in changes), "-", name, data=archived(folder))


def import_caddy(engine: Engine, folder: Path, name: str) -> None:
    """Make an image of Caddy that starts as the official one does."""
    laid_out(folder, ["sh", "caddy"])
    command = 'CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]'
    changes = (command, "ENV PATH=/bin XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data")
    engine.docker("import", *(f"--change={change}" for change in changes), "-", name, data=archived(folder))
