"""The daemon's log goes on in the file of its name after that file was emptied, deleted or moved away."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon.disks import UNPRIVILEGED

PROGRAM = """
import logging, os, pathlib, sys
from shiftlog.daemon.log import open_log
path, how = pathlib.Path(sys.argv[1]), sys.argv[2]
open_log(str(path), "info", foreground=False)
log = logging.getLogger("shiftlog.test")
log.info("before")
if how == "emptied":
    os.truncate(path, 0)
elif how == "deleted":
    path.unlink()
elif how == "locked away":
    path.parent.chmod(0)
elif how == "a pipe":
    path.rename(path.with_suffix(".away"))
    os.mkfifo(path)
else:
    path.rename(path.with_suffix(".away"))
log.info("after")
os.write(2, b"said on stderr\\n")
"""


@pytest.mark.parametrize("how", ["emptied", "deleted", "moved"])
def test_what_comes_after_a_change_of_the_file_is_in_the_file(tmp_path: Path, how: str) -> None:
    path = tmp_path / "daemon.log"
    subprocess.run([sys.executable, "-c", PROGRAM, str(path), how], check=True, timeout=60)
    text = path.read_text("utf-8")
    assert text.endswith("shiftlog.test: after\nsaid on stderr\n")
    assert "\0" not in text
    assert "before" not in text


def test_a_named_pipe_in_the_place_of_the_log_stops_no_caller(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    subprocess.run([sys.executable, "-c", PROGRAM, str(path), "a pipe"], check=True, timeout=60)
    assert path.with_suffix(".away").read_text("utf-8").endswith("shiftlog.test: after\nsaid on stderr\n")


def test_a_log_that_cannot_be_opened_again_goes_on_in_the_old_file_and_breaks_no_caller(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    try:
        command = [*UNPRIVILEGED, sys.executable, "-c", PROGRAM, str(folder / "daemon.log"), "locked away"]
        subprocess.run(command, check=True, timeout=60)
    finally:
        folder.chmod(0o700)
    text = (folder / "daemon.log").read_text("utf-8")
    assert text.endswith("shiftlog.test: after\nsaid on stderr\n")
