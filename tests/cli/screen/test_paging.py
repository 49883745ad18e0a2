"""Colours and the pager: only on a terminal, as the user chose, and never in the way."""

from pathlib import Path

import pytest

from shiftlog.cli.screen.paging import pager_command
from tests.cli.support import Terminal, on_terminal, shiftlog

MARKING = {"SHIFTLOG_PAGER": "sed s/^/PAGED:/"}


def test_output_on_a_terminal_goes_through_the_pager_with_its_colours(demo: Path) -> None:
    shown = on_terminal(demo, "sessions", env={**MARKING, "PAGER": "false"}).text
    assert all(line.startswith("PAGED:") for line in shown.splitlines())
    assert "\x1b[1m" in shown


@pytest.mark.parametrize(
    ("env", "command"),
    [
        ({}, "less"),
        ({"PAGER": "more"}, "more"),
        ({"PAGER": "more", "SHIFTLOG_PAGER": "less -S"}, "less -S"),
        ({"PAGER": "more", "SHIFTLOG_PAGER": ""}, None),
        ({"PAGER": " cat "}, None),
        ({"TERM": "dumb"}, None),
    ],
)
def test_the_pager_is_the_one_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], command: str | None
) -> None:
    for name in ("SHIFTLOG_PAGER", "PAGER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **env}.items():
        monkeypatch.setenv(name, value)
    assert pager_command() == command


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (("sessions", "--no-pager"), MARKING),
        (("--no-pager", "sessions"), MARKING),
        (("sessions",), {"SHIFTLOG_PAGER": "cat", "PAGER": "false"}),
        (("sessions", "--json"), MARKING),
    ],
)
def test_no_pager_where_none_is_wanted(demo: Path, arguments: tuple[str, ...], env: dict[str, str]) -> None:
    shown = on_terminal(demo, *arguments, env=env).plain
    assert "PAGED:" not in shown
    assert "Some orders" in shown


def test_a_pipe_gets_no_pager_and_colours_only_if_asked(demo: Path) -> None:
    plain = shiftlog(demo, "sessions", env=MARKING).out
    assert "PAGED:" not in plain
    assert "\x1b" not in plain
    for arguments in (("sessions", "--color"), ("--color", "always", "sessions"), ("sessions", "--color=always")):
        coloured = shiftlog(demo, *arguments, env={"NO_COLOR": "1", "TERM": "dumb"}).out
        assert "\x1b[36m" in coloured, arguments


@pytest.mark.parametrize(
    ("arguments", "env"), [(("--color=never",), {}), (("--color", "never"), {}), ((), {"NO_COLOR": "1"})]
)
def test_a_terminal_gets_no_colours_if_none_are_wanted(
    demo: Path, arguments: tuple[str, ...], env: dict[str, str]
) -> None:
    shown = on_terminal(demo, "show", "last", *arguments, width=60, env=env).text
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines()[2:])) <= 60


def test_a_reader_who_leaves_the_pager_ends_the_command(demo: Path) -> None:
    with Terminal(demo, "show", "last", "--full", env={"SHIFTLOG_PAGER": "head -n 1"}) as terminal:
        assert terminal.end() == 0
    assert terminal.plain == "Some orders are charged twice\n"


def test_a_long_text_is_read_in_less(demo: Path) -> None:
    with Terminal(demo, "show", "last", height=10, env={"SHIFTLOG_PAGER": "less"}) as terminal:
        terminal.wait_for("Some orders are charged twice")
        terminal.press("q")
        assert terminal.end() == 0
    assert "Turn 3" not in terminal.plain
