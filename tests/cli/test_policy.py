"""`policy check` and `policy suggest`: the verdicts of the contract, explained by the word, and a list from history."""

import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest

from scripts.policy_table import ROWS
from shiftlog.guard.policy.operator import LIMITS, READERS
from shiftlog.shell.sandbox.detect import detect
from tests.cli.support import on_terminal, shiftlog
from tests.daemon.support import end_daemon

needs_broker = pytest.mark.skipif(not detect().exec_broker, reason="this kernel offers no exec broker")

POLICY = """
[policy]
deny = ["curl"]
ask = ["git push --force"]
deny_patterns = ['(?i)drop\\s+table']
"""


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Give a state directory with rules."""
    path = tmp_path_factory.mktemp("ruled")
    (path / "config.toml").write_text(POLICY)
    (path / "config.toml").chmod(0o600)
    shiftlog(path, "daemon", "start")
    yield path
    end_daemon(path)


def test_a_verdict_is_explained_token_by_token(ruled: Path) -> None:
    shown = shiftlog(ruled, "policy", "check", "echo $(curl -s x) > out", status=1).out.splitlines()
    assert shown[0] == "denied: it would be refused"
    assert shown[1] == "  blocked by operator policy: 'curl' is denylisted"
    rows = {line.split()[0]: line for line in shown[4:] if line}
    assert rows["1:1"].split(None, 3)[1:] == ["echo", "program", "is the builtin 'echo'"]
    assert rows["1:8"].endswith("starts 'curl'; blocked by operator policy: 'curl' is denylisted")
    assert rows["1:19"].split()[-1] == "redirection"


@pytest.mark.parametrize(
    ("command", "options", "verdict", "status"),
    [
        ("git status", [], "allowed", 0),
        ("git push --force origin", [], "asked", 1),
        ("git push origin", [], "allowed", 0),
        ("rm -rf /", [], "denied", 1),
        ('psql -c "DROP  TABLE x"', [], "denied", 1),
        ("ls", ["--deny", "ls"], "denied", 1),
        ("cat f", ["--allow", "git", "--allow", "echo"], "denied", 1),
        ("git log", ["--allow", "git"], "allowed", 0),
        ("x=ls; $x /", ["--transport", "ssh"], "allowed", 0),
        ("x=$(cat name); $x /", ["--transport", "ssh"], "undecidable", 1),
        ('echo "abc', [], "syntax_error", 1),
        pytest.param("x=ls; $x /", [], "deferred", 0, marks=needs_broker),
    ],
)
def test_the_verdict_and_the_exit_status_agree(
    ruled: Path, command: str, options: list[str], verdict: str, status: int
) -> None:
    found = shiftlog(ruled, "policy", "check", "--json", *options, "--", command, status=status).json()
    assert found["verdict"] == verdict
    assert (found["message"] is None) == (verdict in ("allowed", "deferred"))


def test_checking_runs_nothing_and_shows_text_as_data(ruled: Path, tmp_path: Path) -> None:
    place = tmp_path / "f"
    found = shiftlog(ruled, "policy", "check", "--json", f"touch {place}").json()
    assert (found["programs"], found["read_only"]) == (["touch"], False)
    assert not place.exists()
    assert "\x1b]0;" not in on_terminal(ruled, "policy", "check", "echo '\x1b]0;x\x07'").text


def test_a_list_is_suggested_from_what_was_run(home: Path) -> None:
    assert "No command was run in a shell yet." in shiftlog(home, "policy", "suggest").out
    shiftlog(home, "exec", "--", "cat /dev/null | sort; sort /dev/null")
    shiftlog(home, "exec", "--", "/bin/cat /dev/null; x=true; $x")
    text = shiftlog(home, "policy", "suggest").out
    assert tomllib.loads(text)["policy"]["allow"] == ["cat", "sort"]
    assert "# 1 command cannot be decided by their text alone" in text
    found = shiftlog(home, "policy", "suggest", "--least", "2", "--json").json()
    assert (found["allow"], found["commands"], found["uses"]) == (["cat"], 2, {"cat": 2})
    newest = shiftlog(home, "policy", "suggest", "--limit", "1", "--json").json()
    assert newest["allow"] == ["cat"]


def test_every_key_of_the_policy_is_in_the_reference_and_none_is_made_up() -> None:
    keys = {row.key for row in ROWS}
    assert {key.partition(".")[0] for key in keys} == set(READERS)
    assert {key.removeprefix("limits.") for key in keys if key.startswith("limits.")} == LIMITS
