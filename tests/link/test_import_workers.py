"""Workers that a daemon starts while it loads, because it was started for an import."""

from pathlib import Path

from shiftlog.link import processes
from shiftlog.link.import_workers import default_jobs
from shiftlog.link.wire import DATABASE
from tests.daemon.support import REAL, eventually, start_daemon


def workers_of(daemon: int) -> list[int]:
    """Return the workers that a daemon has."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and processes.parent(int(entry.name)) == daemon:
            words = entry.joinpath("cmdline").read_bytes().split(b"\0")
            found += [int(entry.name)] if b"shiftlog.app.import_worker" in words else []
    return found


def test_workers_wait_for_a_first_import_and_are_ended_when_none_comes(home: Path) -> None:
    daemon = start_daemon(home, "--for", "import", program=REAL)
    assert len(workers_of(daemon.pid)) == default_jobs()
    eventually(lambda: not workers_of(daemon.pid))
    assert daemon.poll() is None


def test_a_daemon_that_has_a_journal_already_starts_none_before_it_knows_what_has_changed(home: Path) -> None:
    (home / DATABASE).touch(mode=0o600)
    daemon = start_daemon(home, "--for", "import", program=REAL)
    assert workers_of(daemon.pid) == []
