"""The import service of an app: readers and workers joined with the journal that they write to.

It is apart from `app`, because most starts of a daemon need no import.
"""

import shutil
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from shiftlog.app.import_worker import WorkerSettings, composer_for
from shiftlog.ingest.importing.ports import ImportJournal, IngestSettings
from shiftlog.ingest.importing.run import SMALL_BYTES, Importer, MakeReaders
from shiftlog.ingest.importing.service import Imports
from shiftlog.ingest.importing.workers import FileReaders, InProcessReaders, Workers
from shiftlog.journal.intake.service import BatchIntake, import_key
from shiftlog.link.import_workers import WORKER, default_jobs, take_prestarted
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.limits import DRY_RUN_COPIES_KEPT_S
from shiftlog.store.sqlite import SqliteStore
from shiftlog.store.sqlite.connections import copy_database

if TYPE_CHECKING:
    from shiftlog.app.app import App

KEY_FILE = "import.key"
COPY_PREFIX = "dry-run-"


def worker_settings(app: "App") -> WorkerSettings:
    """Return the settings that workers need: the operator's redaction rules, also those of a policy."""
    redaction, policy = app.config.redaction, app.policy
    rules = [(rule.name, rule.pattern, rule.kind) for rule in redaction.rules]
    rules += [(rule.id, rule.pattern, rule.id) for rule in (policy.redaction_add if policy else ())]
    return WorkerSettings(
        mac_key=import_key(app.home / "keys" / KEY_FILE),
        rules=rules,
        silenced=[*redaction.silenced, *(policy.redaction_disable if policy else ())],
        test_clock=app.clock.is_test,
    )


def build_imports(app: "App") -> Imports:
    """Build the import service over an app's store."""
    settings = worker_settings(app)

    def readers(jobs: int | None) -> MakeReaders:
        def make(size: int) -> FileReaders:
            count = 0 if size < SMALL_BYTES else default_jobs() if jobs is None else jobs
            ahead = take_prestarted(count)
            if count < 1:
                return InProcessReaders(lambda: composer_for(settings))
            return Workers(WORKER, msgspec.msgpack.encode(settings), count, ahead)

        return make

    @asynccontextmanager
    async def scratch() -> AsyncGenerator[ImportJournal]:
        if not isinstance(app.store, SqliteStore):
            raise InvalidParameter.invalid("dry_run", "only with the embedded store, which can be copied", value=True)
        _forget_old_copies(app.home)
        with tempfile.TemporaryDirectory(prefix=COPY_PREFIX, dir=app.home) as folder:
            copy = Path(folder) / "copy.db"
            copy_database(app.store.path, copy)
            async with SqliteStore(copy, durability="process") as store:
                yield BatchIntake(store, app.clock, settings.mac_key)

    return Imports(
        importer=Importer(journal=BatchIntake(app.store, app.clock, settings.mac_key)),
        readers=readers,
        scratch=scratch,
        settings=IngestSettings(
            roots=tuple(app.config.ingest.roots),
            max_line_mb=app.config.ingest.max_line_mb,
            project_aliases=app.config.ingest.project_aliases,
        ),
        environ=app.environ,
        now=app.clock.now,
        home=Path(app.environ.get("HOME") or Path.home()),
    )


def _forget_old_copies(home: Path) -> None:
    """Remove the copies that killed dry runs left."""
    for folder in home.glob(f"{COPY_PREFIX}*"):
        if time.time() - folder.stat().st_mtime > DRY_RUN_COPIES_KEPT_S:
            shutil.rmtree(folder, ignore_errors=True)
