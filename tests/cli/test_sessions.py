"""`sessions`, `search` and `tail`: finding sessions, finding text, following what is written."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from shiftlog.cli.sessions import KINDS
from shiftlog.journal.history import requests as history_requests
from shiftlog.model.ids import short_id
from tests.cli.support import PROGRAM, Terminal, on_terminal, recorded_session, shiftlog, write
from tests.daemon.support import DEADLINE_S, environment, eventually, lock_holder

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [red]bold[/red] \u202egnp"


def test_a_new_state_directory_has_no_sessions(home: Path) -> None:
    assert shiftlog(home, "sessions").out == "There is no session yet.\n"
    assert shiftlog(home, "sessions", "--json").json() == {"items": [], "total": 0}


def test_the_list_shows_what_there_is(demo: Path) -> None:
    header, row = shiftlog(demo, "sessions").out.splitlines()
    assert header.split() == ["TITLE", "STATE", "AGENT", "PROJECT", "MODEL", "TURNS", "COST", "ACTIVE", "ID"]
    pattern = r"Some orders are charged twice +closed +demo +webshop +demo-model +3 +\d+ (s|min) ago +[0-9a-f]{8,}"
    assert re.fullmatch(pattern, row)


def test_the_id_of_the_list_is_known_to_every_command(demo: Path) -> None:
    full = shiftlog(demo, "sessions", "--json").json()["items"][0]["session_id"]
    short = shiftlog(demo, "sessions").out.split()[-1]
    assert short == short_id(full)
    for name in (short, short[:5], "some-orders", "DemoAgent-2", "demoagent", "1", "last"):
        assert shiftlog(demo, "show", name, "--json").json()["session"]["session_id"] == full, name
    assert shiftlog(demo, "tail", short, "-n", "1").out
    assert "Some orders" in shiftlog(demo, "lineage", short).out
    assert "intact" in shiftlog(demo, "verify", short).out
    assert shiftlog(demo, "search", "charge", "--session", short, "--json").json()["total"]


def test_filters_narrow_the_list(demo: Path) -> None:
    for given in (
        ["--agent", "DemoAgent"],
        ["--agent-id", "demo"],
        ["--status", "closed"],
        ["--project", "webshop"],
        ["--from", "2020-01-01"],
        ["--since", "7d"],
        ["--since", "today"],
        ["--to", "2999-01-01"],
    ):
        assert shiftlog(demo, "sessions", "--json", *given).json()["total"] == 1, given
    for given in (["--agent", "Other"], ["--status", "open"], ["--project", "shop"], ["--to", "2020-01-01"]):
        assert shiftlog(demo, "sessions", *given).out == "No session matches these filters.\n", given


def test_an_agent_may_be_named_as_it_is_to_import(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    write(home, "open_session", agent="Codex", title="One")
    for name in ("Codex", "codex"):
        assert shiftlog(home, "sessions", "--json", "--agent", name).json()["total"] == 1, name
    assert shiftlog(home, "sessions", "--json", "--agent", "claude").json()["total"] == 0
    refused = shiftlog(home, "sessions", "--agent", "demo", status=2)
    assert "an agent kind begins with a capital letter" in refused.err


def test_the_list_says_when_there_is_more(home: Path) -> None:
    recorded_session(home, title="One")
    recorded_session(home, title="Two")
    shown = shiftlog(home, "sessions", "--limit", "1").out
    assert "Two" in shown
    assert "One" not in shown
    assert shown.endswith("1 of 2 sessions; --limit shows more\n")


def test_the_list_fits_a_narrow_terminal_without_cutting_ids(demo: Path) -> None:
    name = short_id(shiftlog(demo, "sessions", "--json").json()["items"][0]["session_id"])
    for width in (60, 140):
        lines = on_terminal(demo, "sessions", width=width).plain.splitlines()
        assert max(map(len, lines)) <= width
        assert any(line.endswith(name) for line in lines)


def test_the_kinds_are_those_of_the_history() -> None:
    assert KINDS == history_requests.KINDS


def test_search_shows_where_the_words_are(demo: Path) -> None:
    shown = shiftlog(demo, "search", "idempotency", "order").out
    title, place, snippet = shown.splitlines()
    assert title == "Some orders are charged twice"
    assert re.fullmatch(r"  [0-9a-f]{8,}  #\d+  closed  .* ago", place)
    assert "«" in snippet


def test_search_marks_matches_in_colour_on_a_terminal(demo: Path) -> None:
    terminal = on_terminal(demo, "search", "timeout*", "--kind", "entry")
    assert "«" not in terminal.text
    assert "\x1b[1;33mtimeout\x1b[0m" in terminal.text


@pytest.mark.parametrize("words", [("",), (" ",), ("", "")])
def test_a_search_for_nothing_is_refused(demo: Path, words: tuple[str, ...]) -> None:
    refused = shiftlog(demo, "search", *words, status=2)
    assert "Parameter 'text' cannot be null or empty" in refused.err
    assert "Traceback" not in refused.err


def test_search_in_one_session_finds_its_entries(demo: Path) -> None:
    found = shiftlog(demo, "search", "charge", "--session", "last", "--json").json()
    assert {item["kind"] for item in found["items"]} == {"entry"}
    assert found["total"] > 5
    shown = shiftlog(demo, "search", "charge", "--session", "last", "--limit", "2").out
    assert shown.endswith(f"2 of {found['total']} hits; --limit shows more\n")


def test_a_search_that_finds_nothing_says_where_words_are_looked_for(demo: Path) -> None:
    assert shiftlog(demo, "search", "nowhere").out == "Nothing found.\n"
    several = shiftlog(demo, "search", "retry", "nowhere").out
    assert several.startswith("Nothing found.\nAll words must be in one entry;")


def test_hits_beyond_the_largest_limit_are_not_promised_by_a_larger_one(home: Path) -> None:
    item = {"role": "model", "category": "observation", "content": "the same word"}
    recorded_session(home, dialog=[item] * 201)
    shown = shiftlog(home, "search", "word", "--session", "last", "--limit", "200").out
    assert shown.endswith("200 of 201 hits; more words or filters bring the others up\n")


def test_search_finds_turns_files_and_decisions(demo: Path) -> None:
    assert "Make the retry idempotent" in shiftlog(demo, "search", "retry", "--kind", "turn").out
    assert "tests/payments/test_retry.py" in shiftlog(demo, "search", "retry", "--kind", "file").out
    assert "#20" in shiftlog(demo, "search", '"idempotency key"', "--kind", "decision").out
    assert shiftlog(demo, "search", "zebra").out == "Nothing found.\n"


def test_the_secret_of_the_demo_is_nowhere(demo: Path) -> None:
    shown = shiftlog(demo, "search", "PAYMENTS_TOKEN", "--session", "last").out
    assert "[REDACTED:" in shown
    assert b"ghp_" not in (demo / "shiftlog.db").read_bytes() + (demo / "shiftlog.db-wal").read_bytes()


def test_tail_shows_the_newest_entries(demo: Path) -> None:
    heading, *lines = shiftlog(demo, "tail", "-n", "2").out.splitlines()
    short = shiftlog(demo, "sessions", "--json").json()["items"][0]["session_id"]
    assert re.fullmatch(r"==> [0-9a-f]{8}  Some orders are charged twice <==", heading)
    named = heading.split()[1]
    assert shiftlog(demo, "show", named, "--json").json()["session"]["session_id"] == short
    assert [line.split()[3] for line in lines] == ["capsule.saved", "session.closed"]
    assert len(shiftlog(demo, "tail", "last", "-n", "3").out.splitlines()) == 3


def test_tail_as_json_gives_one_line_for_each_entry(demo: Path) -> None:
    lines = shiftlog(demo, "tail", "last", "-n", "4", "--json").out.splitlines()
    seqs = [json.loads(line)["seq"] for line in lines]
    assert seqs == list(range(seqs[-1] - 3, seqs[-1] + 1))


def test_following_shows_what_is_written_and_ends_with_ctrl_c(home: Path) -> None:
    session_id = recorded_session(home)
    with Terminal(home, "tail", "-f", "-n", "1") as terminal:
        terminal.wait_for("It is done")
        write(home, "begin_turn", session_id=session_id, query_title="One more", query_text="x")
        terminal.wait_for("One more")
        terminal.interrupt()
        assert terminal.end() == 130
    assert "Traceback" not in terminal.text


def test_following_in_a_pipe_gives_each_line_at_once(home: Path) -> None:
    session_id = recorded_session(home)
    command = [*PROGRAM, "tail", session_id, "-f", "-n", "1", "--json"]
    with subprocess.Popen(command, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        try:
            assert json.loads(tail.stdout.readline())["entry_kind"] == "turn.completed"
            write(home, "begin_turn", session_id=session_id, query_title="One more", query_text="x")
            assert json.loads(tail.stdout.readline())["summary"] == "One more"
            tail.send_signal(signal.SIGINT)
            assert tail.wait(DEADLINE_S) == 130
            assert b"Traceback" not in tail.stderr.read()
        finally:
            tail.kill()


@pytest.mark.parametrize("is_daemon_there", [True, False])
def test_following_ends_when_its_reader_went_away_though_nothing_is_written(home: Path, is_daemon_there: bool) -> None:
    recorded_session(home)
    command = [*PROGRAM, "tail", "-f", "-n", "1", "--json"]
    with subprocess.Popen(command, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        try:
            assert tail.stdout.readline()
            if not is_daemon_there:
                shiftlog(home, "daemon", "stop")
            tail.stdout.close()
            assert tail.wait(DEADLINE_S) == 141
            assert tail.stderr.read() == b""
        finally:
            tail.kill()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_following_goes_on_with_the_next_daemon_and_shows_nothing_twice(home: Path, how: signal.Signals) -> None:
    session_id = recorded_session(home)
    with Terminal(home, "tail", "-f", "-n", "1") as terminal:
        terminal.wait_for("It is done")
        before = lock_holder(home)
        assert before is not None
        os.kill(before, how)
        eventually(lambda: lock_holder(home) is None)
        shiftlog(home, "daemon", "start")
        for title in ("One more", "And another"):
            write(home, "begin_turn", session_id=session_id, query_title=title, query_text="x")
            terminal.wait_for(title)
        terminal.interrupt()
        assert terminal.end() == 130
    assert terminal.text.count("It is done") == terminal.text.count("turn.begun") - 1 == 1


def test_hostile_text_harms_no_terminal(home: Path) -> None:
    recorded_session(
        home,
        title="A hostile title: \u202etxt.exe",
        dialog=[{"role": "tool", "category": "tool_result", "content": f"boo {HOSTILE}"}],
        actions=[{"type": "edit", "status": "completed", "description": HOSTILE, "file_path": "a[b].py"}],
        design_decisions=[HOSTILE],
    )
    for arguments in (["show", "last"], ["tail"], ["search", "boo", "--kind", "entry"], ["sessions"]):
        shown = on_terminal(home, *arguments).plain
        assert "\x1b" not in shown, arguments
        assert "\x07" not in shown, arguments
        assert "\u202e" not in shown, arguments
        assert "\x1b" not in shiftlog(home, *arguments).out
    shown = on_terminal(home, "show", "last", width=200).plain
    assert "␛[2J␛]0;owned␇ [red]bold[/red] <U+202E>gnp" in shown
    assert "a[b].py" in shown
