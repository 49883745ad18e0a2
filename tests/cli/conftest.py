"""State directories for the tests of the command line, with no daemon left behind."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.support import shiftlog
from tests.daemon.support import end_daemon


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    path = tmp_path_factory.mktemp("h")
    yield path
    end_daemon(path)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Give a state directory with the demo session in it, for tests that only read."""
    path = tmp_path_factory.mktemp("demo")
    shiftlog(path, "run", "--demo")
    yield path
    end_daemon(path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Give a state directory with a daemon and no rules, for tests that do not mind each other's sessions."""
    path = tmp_path_factory.mktemp("served")
    shiftlog(path, "daemon", "start")
    yield path
    end_daemon(path)
