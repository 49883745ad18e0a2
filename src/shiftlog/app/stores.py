"""The store of a state directory: the file in it, or the PostgreSQL database that its settings name."""

from pathlib import Path
from typing import TYPE_CHECKING

from shiftlog.config.loading import FILE_NAME, Config
from shiftlog.link.wire import DATABASE
from shiftlog.model.errors import ConfigError
from shiftlog.model.extras import install_hint
from shiftlog.store.protocol import Store
from shiftlog.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from shiftlog.store.postgres.state import DatabaseDescription, DatabaseState

# The problem if `has_trigrams` of a database is False, and what to do about it.
WITHOUT_TRIGRAMS = "the database lacks its trigram indexes, so files by path and parts of words are found slower"
MAKE_TRIGRAMS = "Let a role that may run CREATE EXTENSION pg_trgm in it, then run shiftlog store migrate"


def store_of(home: Path, config: Config, *, read_only: bool = False) -> Store:
    """Return the store of a state directory, not open yet. With `read_only` no file and no schema is changed."""
    if not config.store.url:
        return SqliteStore(home / DATABASE, durability=config.durability, read_only=read_only)
    try:
        from shiftlog.store.postgres import PostgresStore
    except ImportError as error:
        raise _not_installed(home, error) from None
    return PostgresStore(
        config.store.url,
        durability=config.durability,
        migrates=config.store.migrate and not read_only,
        connections=config.store.connections,
        statement_s=config.store.statement_timeout_s,
    )


def migrate_store(home: Path, config: Config, *, check: bool = False) -> "DatabaseState":
    """Bring the schema of the configured database up to date; with `check` only name what is missing."""
    if not config.store.url:
        hint = "The file shiftlog.db is migrated when the daemon opens it; set store.url to use PostgreSQL"
        raise needs_database(home, hint)
    try:
        from shiftlog.store.postgres.state import migrated
    except ImportError as error:
        raise _not_installed(home, error) from None
    return migrated(config.store.url, check=check)


def described(home: Path, config: Config) -> "DatabaseDescription | None":
    """Describe the configured database; None for the embedded store. Raises StorageError if none answers."""
    if not config.store.url:
        return None
    try:
        from shiftlog.store.postgres.state import described
    except ImportError as error:
        raise _not_installed(home, error) from None
    return described(config.store.url)


def store_place(home: Path, config: Config) -> str:
    """Return where the configured store is, without passwords."""
    if not config.store.url:
        return str(home / DATABASE)
    from shiftlog.store.postgres.state import place

    return place(config.store.url)


def needs_database(home: Path, hint: str = "Set store.url, or SHIFTLOG_STORE_URL, to postgresql://…") -> ConfigError:
    """Return the error that refuses to go on without a PostgreSQL database."""
    details = {"source": str(home / FILE_NAME), "key": "store.url"}
    return ConfigError(f"{home / FILE_NAME}: store.url is not set", details=details, hint=hint)


def _not_installed(home: Path, error: ImportError) -> ConfigError:
    return ConfigError(
        f"{home / FILE_NAME}: store.url needs the package {error.name}",
        details={"source": str(home / FILE_NAME), "key": "store.url"},
        hint=install_hint(error.name),
    )
