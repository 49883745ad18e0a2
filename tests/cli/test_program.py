"""The edge of the command line: help, errors, exit statuses, and readers that go away."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from shiftlog import __version__
from shiftlog.cli.program import SECTIONS, program
from shiftlog.model.ids import short_id
from tests.cli.support import PROGRAM, on_terminal, shiftlog, write
from tests.daemon.support import DEADLINE_S, environment

COLOUR = re.compile(r"\x1b\[(?:\d+;)*[349]\d")
NOWHERE = "Tester-20260131T090000Z-nothing"


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(program)
    found: list[tuple[str, click.Command]] = []
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None, name
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {inner}", each) for inner, each in command.commands.items()]
    return found


@pytest.mark.parametrize("command", [command for _, command in commands()], ids=[n for n, _ in commands()])
def test_every_command_says_what_it_does_and_gives_an_example(command: click.Command) -> None:
    assert command.help
    assert len(command.get_short_help_str(200)) <= 80
    assert "shiftlog " in command.help.partition("\b")[2]
    for param in command.params:
        assert not isinstance(param, click.Option) or param.help, param.name


def test_the_help_fits_a_terminal_and_lists_every_command(home: Path) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        shown = shiftlog(home, *arguments).out
        assert max(map(len, shown.splitlines())) <= 80
        for section in SECTIONS.values():
            assert all(f"  {name} " in shown for name in section)
    assert not (home / "daemon.log").exists()


def test_the_version_is_told(home: Path) -> None:
    assert shiftlog(home, "--version").out == f"shiftlog {__version__}\n"


def test_the_package_can_be_run_as_a_module(home: Path) -> None:
    command = [sys.executable, "-m", "shiftlog", "--version"]
    shown = subprocess.run(command, env=environment(home), capture_output=True, timeout=DEADLINE_S, check=True).stdout
    assert shown.decode() == f"shiftlog {__version__}\n"


def test_a_command_that_does_not_exist_names_the_nearest(home: Path) -> None:
    done = shiftlog(home, "shwo", status=2)
    assert done.out == ""
    assert done.err == ("error: There is no command 'shwo'. Did you mean 'show'?\nhint: shiftlog --help explains it\n")


@pytest.mark.parametrize("group", [name for name, command in commands() if isinstance(command, click.Group)])
def test_a_group_without_a_command_shows_its_help_line_by_line(home: Path, group: str) -> None:
    done = shiftlog(home, group, status=2)
    assert done.out == ""
    assert done.err == shiftlog(home, group, "--help").out
    assert "\nCommands:\n" in done.err
    assert shiftlog(home, group, "--json", status=2).json()["error"]["code"] == "invalid_parameter"


def test_a_wrong_option_points_at_the_help_of_its_command(home: Path) -> None:
    done = shiftlog(home, "sessions", "--limit", "0", status=2)
    assert done.err.startswith("error: Invalid value for '--limit'")
    assert done.err.endswith("hint: shiftlog sessions --help explains it\n")


def test_misuse_with_json_is_the_object_that_agents_get_too(home: Path) -> None:
    done = shiftlog(home, "show", "--json", status=2)
    assert done.err == ""
    error = done.json()["error"]
    assert set(error) == {"code", "message", "details", "hint", "retryable"}
    assert error["code"] == "invalid_parameter"
    assert "SESSION" in error["message"]


def test_words_after_two_dashes_are_no_options(home: Path) -> None:
    done = shiftlog(home, "show", "--", "--json", status=2)
    assert done.out == ""
    assert done.err.startswith("error: ")


def test_an_unknown_session_is_an_error_with_a_way_out(demo: Path) -> None:
    done = shiftlog(demo, "show", NOWHERE, status=1)
    assert done.out == ""
    assert done.err == (
        f"error: Session not found: {NOWHERE}\n"
        "hint: shiftlog sessions lists the ids; 4 characters of one are enough, and `last` is the newest\n"
    )
    error = shiftlog(demo, "show", NOWHERE, "--json", status=1).json()["error"]
    assert error["code"] == "session_not_found"
    assert error["details"] == {"session_id": NOWHERE}


def test_an_id_that_cannot_be_one_is_misuse(demo: Path) -> None:
    assert "canonical format" in shiftlog(demo, "show", "no sense", status=2).err
    assert "Session not found: nonsense" in shiftlog(demo, "show", "nonsense", status=1).err


def test_an_agents_own_id_that_fits_two_sessions_is_misuse_that_names_both(home: Path) -> None:
    """Case 15 of the native tools, for people."""
    vendor = "e4ee2456-8a54-4492-9915-1904d6b2966a"
    shiftlog(home, "daemon", "start")
    both = [
        write(home, "open_session", agent=agent, title="Fix", vendor_session_id=vendor)["session_id"]
        for agent in ("Codex", "ClaudeCode")
    ]
    done = shiftlog(home, "show", vendor, status=2)
    said, *named, hint = done.err.splitlines()
    assert said == f"error: '{vendor}' fits 2 sessions"
    assert sorted(named) == sorted(f"  {short_id(name)}  Fix" for name in both)
    assert hint == "hint: Type more of it, or one of these ids"


def test_a_date_that_is_none_is_misuse(demo: Path) -> None:
    said = "Invalid value for '--since' / '--from': '5q' is neither a date or time nor an age such as 7d"
    assert said in shiftlog(demo, "sessions", "--since", "5q", status=2).err


def test_a_mistake_in_the_settings_is_named_by_every_command(home: Path) -> None:
    (home / "config.toml").write_text('durabilty = "full"\n')
    done = shiftlog(home, "sessions", status=1)
    assert "unknown key 'durabilty'; the nearest valid key is 'durability'" in done.err
    error = shiftlog(home, "sessions", "--json", status=1).json()["error"]
    assert error["code"] == "invalid_config"
    assert "durabilty" in error["message"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[polcy]\n", "config.toml: unknown key 'polcy'; the nearest valid key is 'policy'"),
        ("[policy]\nalow = []\n", "config.toml [policy]: unknown key 'alow'; the nearest valid key is 'allow'"),
        ("[policy.limits]\nshels = 1\n", "config.toml [policy]: unknown key 'limits.shels'"),
    ],
)
def test_a_mistake_in_the_policy_of_the_settings_is_named_with_its_table(home: Path, text: str, said: str) -> None:
    (home / "config.toml").write_text(text)
    assert said in shiftlog(home, "policy", "check", "ls", status=1).err


def test_a_state_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    done = shiftlog(place / "home", "status", status=1)
    assert done.err.startswith("error: The state directory")
    assert "Traceback" not in done.err
    for command in (["serve"], ["mcp", "--in-process"], ["daemon", "start"]):
        again = shiftlog(place / "home", *command, status=1)
        assert again.err == done.err


@pytest.mark.parametrize("arguments", [("show", "last"), ("show", "--help"), ("--help",), ("--version",), ()])
def test_a_reader_that_went_away_ends_the_command_quietly(demo: Path, arguments: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            env=environment(demo),
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=DEADLINE_S,
            check=False,
        )
    finally:
        os.close(write_end)
    assert done.returncode == 141
    assert done.stderr == b""


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_output_that_takes_nothing_is_an_error_and_no_defect(demo: Path, options: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, "sessions", *options],
            env=environment(demo),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=DEADLINE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"error: Cannot write: No space left on device\n")


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", [("sessions",), ("verify",), ("exec", "--", "echo said >&2")])
def test_without_its_streams_a_command_still_does_its_work(
    demo: Path, streams: str, arguments: tuple[str, ...]
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *PROGRAM, *arguments],
        check=False,
        env=environment(demo),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
    )
    told = b"said\n" if arguments[0] == "exec" and "2>" not in streams else b""
    assert (done.returncode, done.stderr) == (0, told)
    assert b"Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("streams", "told"),
    [
        (("--json", ">/dev/full"), b"error: Session ID does not conform to canonical format\n"),
        (("--json", ">/dev/full", "2>/dev/full"), b""),
        (("2>/dev/full",), b""),
    ],
)
def test_an_error_that_cannot_be_told_as_asked_keeps_its_status(
    demo: Path, streams: tuple[str, ...], told: bytes
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {" ".join(streams)}', "sh", *PROGRAM, "show", "no id"],
        check=False,
        env=environment(demo),
        capture_output=True,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.partition(b"hint: ")[0] == told


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("exec", "--", "pwd"), 1),
        (("exec", "--cwd", "/", "--", "pwd"), 0),
        (("checkpoints",), 1),
        (("import", "."), 1),
        (("sessions",), 0),
        (("mcp", "--in-process"), 0),
    ],
)
def test_in_a_directory_that_was_removed_a_command_works_or_says_so(
    home: Path, tmp_path: Path, arguments: tuple[str, ...], status: int
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(
        ["sh", "-c", f'cd "{place}" && rmdir "{place}" && exec "$@"', "sh", *PROGRAM, *arguments],
        check=False,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    if status:
        assert done.stderr == "error: The working directory was removed\nhint: Change to one that exists\n"


def test_colours_are_for_terminals_and_for_those_who_want_them(demo: Path) -> None:
    assert COLOUR.search(on_terminal(demo, "show", "last").text)
    assert not COLOUR.search(on_terminal(demo, "show", "last", env={"NO_COLOR": "1"}).text)
    assert "\x1b" not in shiftlog(demo, "show", "last", env={"FORCE_COLOR": "1"}).out
    assert COLOUR.search(on_terminal(demo, "show", NOWHERE, status=1).text)
    assert not COLOUR.search(on_terminal(demo, "show", NOWHERE, status=1, env={"NO_COLOR": "1"}).text)
    assert "\x1b" not in shiftlog(demo, "show", NOWHERE, status=1).err


def test_a_shell_is_told_how_to_complete(demo: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_SHIFTLOG_COMPLETE" in shiftlog(demo, "completion", shell).out
    words = {"_SHIFTLOG_COMPLETE": "bash_complete", "COMP_WORDS": "shiftlog ver", "COMP_CWORD": "1"}
    assert shiftlog(demo, env=words).out == "plain,verify\n"
    words["COMP_WORDS"] = "shiftlog show Demo"
    words["COMP_CWORD"] = "2"
    assert shiftlog(demo, env=words).out.startswith("plain,DemoAgent-")


def test_completing_a_word_starts_no_daemon(home: Path) -> None:
    words = {"_SHIFTLOG_COMPLETE": "bash_complete", "COMP_WORDS": "shiftlog show D", "COMP_CWORD": "2"}
    assert shiftlog(home, env=words).out.strip() == ""
    assert not (home / "daemon.lock").exists()
