"""Fixtures of the dialect's tests: a log with its clock at noon, one for every test or one for a module."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon.support import end_daemon
from tests.dialects.mcpserver.log import NOON, Log, Tools


@contextmanager
def open_log(folder: Path) -> Generator[Log]:
    home, workspace = folder / "home", folder / "work"
    workspace.mkdir()
    log = Log(home=home, workspace=workspace, clock=folder / "clock")
    log.set_time(NOON)
    yield log
    if home.exists():
        end_daemon(home)


@pytest.fixture
def log(tmp_path: Path) -> Generator[Log]:
    with open_log(tmp_path) as log:
        yield log


@pytest.fixture(scope="module")
def begun_log(tmp_path_factory: pytest.TempPathFactory) -> Generator[Log]:
    """A log with an open turn, for the tests of a module that change nothing."""
    with open_log(tmp_path_factory.mktemp("begun")) as log:
        log.open()
        log.begin()
        yield log


@pytest.fixture(scope="module")
def tools_log(begun_log: Log) -> Generator[tuple[Log, Tools]]:
    """A client of the tools over the log of the module."""
    with Tools(begun_log) as tools:
        yield begun_log, tools
