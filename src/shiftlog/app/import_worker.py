"""The program of a worker that reads transcripts for an import: `python -m shiftlog.app.import_worker`.

It joins the readers with the journal's way to encode and hash; it has no store, and writes to standard output alone.
"""

import sys

import msgspec

from shiftlog.guard.secrets.redactor import Redactor, Rule
from shiftlog.ingest.importing.composer import Composer
from shiftlog.ingest.importing.workers import serve
from shiftlog.journal.encoding import prepare_all, salt_from
from shiftlog.journal.intake.usage import whole_entry


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings by which a worker masks and names as its daemon does."""

    mac_key: bytes
    rules: list[tuple[str, str, str]] = []
    silenced: list[str] = []
    test_clock: bool = False


def composer_for(settings: WorkerSettings) -> Composer:
    """Return the composer that masks with these settings."""
    rules = [Rule(id=name, pattern=pattern, klass=kind) for name, pattern, kind in settings.rules]
    redactor = Redactor(rules, frozenset(settings.silenced))
    return Composer(redactor, prepare_all, salt_from, whole_entry, settings.mac_key, test_clock=settings.test_clock)


def main() -> int:
    """Serve until standard input closes."""
    return serve(lambda data: composer_for(msgspec.msgpack.decode(data, type=WorkerSettings)))


if __name__ == "__main__":
    sys.exit(main())
