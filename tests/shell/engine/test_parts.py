"""The engine's parts that need no shell: words, environment, screen."""

import asyncio
import base64
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
from anyio.abc import TaskGroup
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.shell.engine import protocol
from shiftlog.shell.engine.directory import PipeDirectory
from shiftlog.shell.engine.links import ReaperChannel
from shiftlog.shell.engine.local import LocalTarget, base_environment
from shiftlog.shell.engine.streams import InputPipe, OutputPoll
from shiftlog.shell.engine.terminal import TerminalScreen
from shiftlog.shell.ports import ShellSpec, Terminal
from tests.shell.engine.probe import run, start


def test_the_base_environment_leaves_secrets_and_own_settings_out() -> None:
    environ = {
        "PATH": "/bin",
        "GITHUB_TOKEN": "x",
        "my_secret_thing": "x",
        "PGPASSWORD": "x",
        "SSH_KEY": "x",
        "KEYBOARD": "us",
        "AWS_CREDENTIALS": "x",
        "SHIFTLOG_HOME": "/h",
        "SHIFTLOG_LOG": "x",
        "TERM": "xterm",
    }
    env = base_environment(environ)
    assert env.keys() & environ.keys() == {"PATH", "KEYBOARD", "SHIFTLOG_HOME", "TERM"}
    assert (env["TERM"], env["PAGER"], env["GIT_PAGER"], env["GIT_TERMINAL_PROMPT"]) == ("dumb", "cat", "cat", "0")
    assert base_environment(environ, ["GITHUB_TOKEN"])["GITHUB_TOKEN"] == "x"


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_quoted_text_is_read_back_unchanged(text: str) -> None:
    said = subprocess.run(["bash", "-c", f"printf %s {protocol.quote(text)}"], capture_output=True, check=True).stdout
    assert said.decode() == text


def test_a_token_is_128_random_bits_in_signs_that_no_shell_reads_anything_into() -> None:
    tokens = {protocol.draw_token() for _ in range(1000)}
    bits = {int.from_bytes(base64.b64decode(f"{token.replace('.', '+').replace('_', '/')}==")) for token in tokens}
    assert len(bits) == 1000
    assert [sum(number >> bit & 1 for number in bits) in range(300, 700) for bit in range(128)] == [True] * 128
    assert all(re.fullmatch(protocol.TOKEN, token.encode()) for token in tokens)


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=4), st.data())
def test_reports_survive_any_cut_and_any_noise(ends: list[tuple[int, bytes]], data: st.DataObject) -> None:
    expected: list[tuple[str, int, bytes]] = []
    stream = b""
    for status, cwd in ends:
        token = protocol.draw_token()
        expected.append((token, status, b"/" + cwd))
        stream += b"noise\n%s end %d /%s/%s\n" % (token.encode(), status, cwd, token.encode())
    reader, found = protocol.ReportReader(), list[protocol.ShellReport]()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert [(report.token, *report.end()) for report in found] == expected


@pytest.mark.parametrize(
    ("fed", "shown"),
    [
        (b"one\r\ntwo", "one\ntwo"),
        (b"abcdefghijk", "abcdefghij\nk"),
        (b"x\x1b[2;3Hy\x1b[1;1Hz", "z\n  y"),
        (b"abc\x1b[1D\x1b[K", "ab"),
        (b"abc\x1b[2J", ""),
        (b"1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5"),
        (b"main\x1b[?1049hfull\x1b[?1049l", "main"),
        (b"main\x1b[?1049h\x1b[Hfull", "full"),
        (b"\x1b[2;3r\x1b[1;1Htop\x1b[3;1Ha\nb", "top\na\n b"),
        (b"a\x1b[31;1mred\x1b[0m\x1b]0;title\x07b", "aredb"),
        (b"abcdef\x1b[3G\x1b[2P", "abef"),
        (b"abcd\x1b[2G\x1b[1@", "a bcd"),
        (b"a\tb", "a       b"),
        ("漢字".encode(), "漢字"),
        (b"\xff\xfe", "��"),
    ],
)
def test_the_screen_shows_what_a_terminal_would(fed: bytes, shown: str) -> None:
    screen = TerminalScreen(10, 4)
    screen.feed(fed)
    assert screen.text() == shown
    pieces = TerminalScreen(10, 4)
    for byte in fed:
        pieces.feed(bytes([byte]))
    assert pieces.text() == shown


def test_a_word_that_is_being_written_can_be_left_out_of_the_screen_over_all_its_rows() -> None:
    screen = TerminalScreen(10, 4)
    screen.feed(b"one\r\nit is abcdefghijklmnop")
    assert screen.text() == "one\nit is abcd\nefghijklmn\nop"
    assert screen.text(joined=True) == "one\nit is abcdefghijklmnop"
    assert screen.text(unfinished=False) == "one\nit is"
    screen.feed(b" ")
    assert screen.text(unfinished=False) == screen.text()
    screen.feed(b"\x1b[1;1H")
    assert screen.text(unfinished=False) == screen.text()


@given(
    st.lists(
        st.sampled_from(
            [
                b"\x1b[",
                b"\x1b",
                b"9",
                b";",
                b"H",
                b"J",
                b"L",
                b"M",
                b"r",
                b"P",
                b"\n",
                b"ab",
                b"S",
                b"T",
                b"@",
                b"X",
                b"D",
            ]
        )
    )
)
def test_the_screen_keeps_its_size_whatever_comes(pieces: list[bytes]) -> None:
    screen = TerminalScreen(7, 3)
    screen.feed(b"".join(pieces))
    assert 0 <= screen.row < 3
    assert 0 <= screen.col <= 7
    lines = screen.text().split("\n")
    assert len(lines) <= 3
    assert all(len(line) <= 7 for line in lines)


async def test_a_full_screen_program_can_be_seen(tasks: TaskGroup) -> None:
    shell = await LocalTarget().open(ShellSpec(cwd="/"), tasks)
    try:
        await run(shell, "export LESS= LESSOPEN=")
        command, sink = await start(shell, "seq 1 100 | less", terminal=Terminal(cols=40, rows=10))
        await sink.until(b"9\r\n")
        await command.send(b"G")
        await sink.until(b"100")
        screen = getattr(command, "screen", None)
        assert isinstance(screen, TerminalScreen)
        assert screen.text().split("\n")[:9] == [str(number) for number in range(92, 101)]
        await command.send(b"q")
        assert (await command.stop()).exit_code is not None
    finally:
        await shell.close()


async def test_a_pipe_that_is_never_empty_has_one_turn_at_a_time() -> None:
    ours, theirs = os.pipe()
    poll = OutputPoll(asyncio.get_running_loop())
    turns = 0

    def take() -> None:
        nonlocal turns
        turns += 1
        os.read(ours, 1)
        os.write(theirs, b"y")  # as a program that writes without end does between any two reads
        poll.again(ours)

    poll.add(ours, take)
    os.write(theirs, b"yes")
    seen: list[int] = []
    for _ in range(50):
        before = turns
        await asyncio.sleep(0)
        seen.append(turns - before)
    poll.discard(ours)
    poll.close()
    os.close(ours)
    os.close(theirs)
    assert max(seen) == 1
    assert turns > 40


def test_nothing_but_a_pipe_of_its_own_is_opened_in_a_shells_directory(tmp_path: Path) -> None:
    own, file, pipe = tmp_path / "own", tmp_path / "file", tmp_path / "pipe"
    own.mkdir()
    file.write_text("not yours")
    os.mkfifo(pipe)
    directory = PipeDirectory(str(own))
    path = directory.make("i1")
    assert os.close(directory.open(path, os.O_RDONLY)) is None
    for kind in (file, pipe):
        (own / "i1").unlink()
        (own / "i1").symlink_to(kind)
        with pytest.raises(OSError, match="symbolic links"):
            directory.open(path, os.O_RDONLY)
    (own / "i1").unlink()
    (own / "i1").write_text("mine")
    with pytest.raises(OSError, match="not a pipe"):
        directory.open(path, os.O_WRONLY)
    own.rename(tmp_path / "moved")
    own.symlink_to(tmp_path)
    assert directory.make("i2") == f"{own}/i2"
    directory.remove("file")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "moved", "own", "pipe"]
    directory.close()


def test_the_initial_input_is_kept_before_its_command_starts(tmp_path: Path) -> None:
    """A server that is killed before the command has opened its input leaves all of it to the next one."""
    ours, holder = socket.socketpair()
    with ours, holder:
        directory = PipeDirectory(str(tmp_path))
        keyboard = InputPipe(directory, lambda: False, ReaperChannel(ours), "in-1")
        keyboard.prepare(directory.make("i1"), b"all of it")
        _, kept, _, _ = socket.recv_fds(holder, 1_024, 2)
        assert [os.pread(fd, 100, 0) for fd in kept[1:]] == [b"all of it"]
        keyboard.close()
        directory.close()
        for fd in kept:
            os.close(fd)
