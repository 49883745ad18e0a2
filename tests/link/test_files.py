"""Only regular files are read: a named pipe or a device never keeps a program waiting."""

import os
import py_compile
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shiftlog.app.guard_state import FILE as GUARD_FILE
from shiftlog.app.guard_state import GuardState
from shiftlog.config.loading import ConfigError, load
from shiftlog.daemon.http import open_token
from shiftlog.daemon.lock import take_lock
from shiftlog.journal.signing.keys import KEY_FILE, Keys
from shiftlog.link import wire
from shiftlog.link.files import NOT_REGULAR, open_regular, read_regular, run_by_path
from shiftlog.link.launch import start_daemon
from shiftlog.model.errors import StorageError
from shiftlog.store.sqlite import SqliteStore

pytestmark = pytest.mark.timeout(20)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "socket": make_socket,
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    return KINDS[request.param]


def test_a_file_of_another_kind_is_refused_at_once(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "file"
    make(path)
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT):
        with pytest.raises(OSError, match=r"Not a regular file|No such device"):
            open_regular(path, flags)


def test_a_regular_file_is_read_and_a_missing_one_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text\n" * 100_000)
    assert read_regular(tmp_path / "file") == b"text\n" * 100_000
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "other")
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)


def test_settings_name_the_file(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "config.toml")
    with pytest.raises(ConfigError, match=r"config\.toml: (Not a regular file|No such device)"):
        load(tmp_path, {})


def test_settings_of_a_senseless_size_are_refused_at_once(tmp_path: Path) -> None:
    with (tmp_path / "config.toml").open("wb") as file:
        file.truncate(1 << 30)
    began = time.process_time()
    with pytest.raises(ConfigError, match=r"config\.toml: File too large"):
        load(tmp_path, {})
    with pytest.raises(OSError, match="File too large"):
        read_regular(tmp_path / "config.toml")
    assert time.process_time() - began < 1


def test_a_link_to_nothing_is_not_taken_for_no_settings(tmp_path: Path) -> None:
    (tmp_path / "config.toml").symlink_to(tmp_path / "unmounted" / "config.toml")
    with pytest.raises(ConfigError, match=r"config\.toml: No such file or directory: .*unmounted"):
        load(tmp_path, {})


def test_a_key_names_the_file(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / KEY_FILE)
    with pytest.raises(StorageError) as caught:
        Keys.load(tmp_path)
    assert f"{tmp_path / KEY_FILE} cannot be read" in str(caught.value.details["reason"])


def test_a_key_that_was_replaced_by_a_pipe_is_written_again(tmp_path: Path) -> None:
    keys = Keys.load(tmp_path)
    (tmp_path / KEY_FILE).unlink()
    os.mkfifo(tmp_path / KEY_FILE)
    keys.keep()
    assert Keys.load(tmp_path).key_id == keys.key_id


async def test_a_database_names_the_file(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "shiftlog.db")
    with pytest.raises(StorageError) as caught:
        async with SqliteStore(tmp_path / "shiftlog.db"):
            pass
    assert "not a regular file" in str(caught.value.details["reason"])


def test_a_lock_and_a_log_name_the_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "daemon.lock")
    with pytest.raises(OSError, match=NOT_REGULAR):
        take_lock(str(tmp_path))
    assert wire.connect(str(tmp_path)) is None
    os.mkfifo(tmp_path / "daemon.log")
    with pytest.raises(wire.WireError, match=NOT_REGULAR):
        start_daemon(str(tmp_path), deadline=time.monotonic() + 10)


def test_the_strictest_mode_holds_if_the_guards_file_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / GUARD_FILE)
    assert GuardState(tmp_path).of("ClaudeCode").mode == "enforce"


def test_a_token_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "http.token")
    with pytest.raises(OSError, match=NOT_REGULAR):
        open_token(tmp_path)


def test_a_program_runs_compiled_where_that_is_its_source_of_now(tmp_path: Path) -> None:
    """A compiled file is not compared with its source when it runs by its path."""
    source = tmp_path / "program.py"

    def said() -> tuple[str, str]:
        words = run_by_path(str(source))
        return Path(words[-1]).suffix, subprocess.run(words, capture_output=True, text=True, check=True).stdout

    source.write_text("print('one')")
    assert said() == (".py", "one\n")
    py_compile.compile(str(source))
    assert said() == (".pyc", "one\n")
    source.write_text("print('three')")
    assert said() == (".py", "three\n")
