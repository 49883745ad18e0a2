"""A state directory of its own for each test, with no daemon left behind."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.daemon.support import REAL, end_daemon, start_daemon


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    path = tmp_path_factory.mktemp("h")
    yield path
    end_daemon(path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Give a state directory with a daemon, for tests that only send what is refused."""
    path = tmp_path_factory.mktemp("served")
    start_daemon(path, program=REAL)
    yield path
    end_daemon(path)
