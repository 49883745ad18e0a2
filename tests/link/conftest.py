"""A state directory of its own for each test, with no daemon left behind."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.daemon.support import end_daemon


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    path = tmp_path_factory.mktemp("h")
    yield path
    end_daemon(path)
