"""A yard on this machine, and one that is reached by command lines alone."""

from pathlib import Path

import pytest

from tests.workspace.yard import Yard, local_runner, shell_runner

RUNNERS = {"local": local_runner, "shell": shell_runner}


@pytest.fixture(params=list(RUNNERS))
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    return make_yard(tmp_path, request.param)


@pytest.fixture
def local_yard(tmp_path: Path) -> Yard:
    return make_yard(tmp_path, "local")


def make_yard(tmp_path: Path, kind: str) -> Yard:
    workspace = tmp_path / "app"
    workspace.mkdir()
    return Yard(path=workspace, data=tmp_path / "data", runner=RUNNERS[kind](tmp_path / "home"))
