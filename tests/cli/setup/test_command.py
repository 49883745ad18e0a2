"""`shiftlog setup`: what it prints for each agent, and that --write is safe with files it does not own."""

import json
import shlex
import stat
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftlog.cli.setup.agents import AGENT_FILES
from shiftlog.cli.setup.edit_json import CannotEdit
from shiftlog.cli.setup.files import write_atomically
from tests.cli.setup.setup_runs import report, run

FILES = {
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "vscode": ".config/Code/User/mcp.json",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "shiftlog"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(home))
    for name in ("SHIFTLOG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def servers(agent: str, path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return document[AGENT_FILES[agent].section]


def program_of(home: Path) -> str:
    return str(home.parent / "bin" / "shiftlog")


@pytest.mark.parametrize("agent", FILES)
def test_printing_names_the_file_and_the_program_and_writes_nothing(home: Path, agent: str) -> None:
    output = run(agent).stdout
    assert str(home / FILES[agent]) in output
    assert program_of(home) in output
    assert list(home.iterdir()) == []
    assert "\x1b" not in output


@pytest.mark.parametrize("agent", FILES)
def test_what_is_printed_is_what_is_written(home: Path, agent: str) -> None:
    printed = report(agent)["text"]
    assert report(agent, "--write")["state"] == "written"
    path = home / FILES[agent]
    assert path.read_text(encoding="utf-8") == printed
    entry = servers(agent, path)["shiftlog"]
    assert (entry["command"], entry["args"], "env" in entry) == (program_of(home), ["mcp"], False)
    assert entry.get("type", "stdio") == "stdio"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_vs_code_wants_servers_of_type_stdio(home: Path) -> None:
    text = json.loads(report("vscode")["text"])
    assert text["servers"]["shiftlog"] == {"type": "stdio", "command": program_of(home), "args": ["mcp"]}


def test_vs_code_on_a_mac_keeps_its_file_in_the_library(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    expected = home / "Library" / "Application Support" / "Code" / "User" / "mcp.json"
    assert report("vscode")["path"] == str(expected)


def test_the_agents_own_variables_move_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "cx"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "cl"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert report("codex")["path"] == str(home / "cx" / "config.toml")
    assert report("claude")["path"] == str(home / "cl" / "settings.json")
    assert report("vscode")["path"] == str(home / "xdg" / "Code" / "User" / "mcp.json")


def test_claude_and_codex_get_a_command_to_run_that_a_shell_reads_back(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFTLOG_HOME", str(home / "a state"))
    program, env = program_of(home), f"SHIFTLOG_HOME={home / 'a state'}"
    claude = ["claude", "mcp", "add", "--env", env, "--scope", "user", "shiftlog", "--", program, "mcp"]
    assert shlex.split(report("claude")["command"]) == claude
    codex = ["codex", "mcp", "add", "shiftlog", "--env", env, "--", program, "mcp"]
    assert shlex.split(report("codex")["command"]) == codex
    assert report("cursor")["command"] is None
    assert report("claude")["command"] in run("claude").stdout


@pytest.mark.parametrize("agent", FILES)
def test_the_state_directory_is_named_only_where_it_is_not_the_usual_one(
    home: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / FILES[agent]
    monkeypatch.setenv("SHIFTLOG_HOME", str(home / "state"))
    run(agent, "--write")
    assert servers(agent, path)["shiftlog"]["env"] == {"SHIFTLOG_HOME": str(home / "state")}
    run(agent, "--write", "--home", str(home / "other"))
    assert servers(agent, path)["shiftlog"]["env"] == {"SHIFTLOG_HOME": str(home / "other")}
    monkeypatch.delenv("SHIFTLOG_HOME")
    run(agent, "--write")
    assert "env" not in servers(agent, path)["shiftlog"]


@pytest.mark.parametrize("agent", FILES)
def test_toolsets_and_dialect_are_passed_on(home: Path, agent: str) -> None:
    run(agent, "--write", "--toolsets", "journal, shell", "--dialect", "nexo")
    entry = servers(agent, home / FILES[agent])["shiftlog"]
    assert entry["args"] == ["mcp", "--toolsets", "journal,shell", "--dialect", "nexo"]


@pytest.mark.parametrize("names", ["", "journal,", "journal shell", "--read-only", "$(x)", "journl"])
def test_names_that_are_none_are_a_usage_error(home: Path, names: str) -> None:
    said = run("cursor", "--write", f"--toolsets={names}", status=2).stderr
    assert "--toolsets" in said
    assert "journal, shell, workspace, ingest, all, default" in said
    assert "nexo, mcpserver, execkit" in run("cursor", "--write", "--dialect=delx", status=2).stderr
    assert not (home / FILES["cursor"]).exists()


def test_an_unknown_agent_is_a_usage_error_that_lists_the_known_ones() -> None:
    assert all(agent in run("emacs", status=2).stderr for agent in FILES)


@pytest.mark.parametrize("agent", FILES)
def test_a_file_that_is_right_is_left_alone(home: Path, agent: str) -> None:
    run(agent, "--write")
    path = home / FILES[agent]
    before = path.stat()
    assert "already right" in run(agent, "--write").stdout
    assert report(agent, "--write")["state"] == "unchanged"
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list(path.parent.glob("*.bak")) == []


def test_an_entry_that_the_agent_wrote_itself_counts_as_right(home: Path) -> None:
    entry: dict[str, Any] = {"type": "stdio", "command": program_of(home), "args": ["mcp"], "env": {}}
    path = home / FILES["vscode"]
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"servers": {"shiftlog": entry}}))
    assert report("vscode", "--write")["state"] == "unchanged"


def test_an_entry_of_another_transport_is_replaced_and_an_own_variable_is_kept(home: Path) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"shiftlog": {"url": "http://127.0.0.1:7437/mcp"}}}')
    run("cursor", "--write")
    assert "url" not in servers("cursor", path)["shiftlog"]
    entry = servers("cursor", path)["shiftlog"] | {"env": {"SHIFTLOG_AGENT": "Cursor"}, "disabled": True}
    path.write_text(json.dumps({"mcpServers": {"shiftlog": entry}}))
    run("cursor", "--write", "--home", "/state")
    assert servers("cursor", path)["shiftlog"] == entry | {
        "env": {"SHIFTLOG_AGENT": "Cursor", "SHIFTLOG_HOME": "/state"}
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=4))
def test_writing_keeps_everything_else_and_a_backup_of_the_file_as_it_was(home: Path, document: dict[str, Any]) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir(exist_ok=True)
    original = json.dumps(document, indent=2).encode()
    path.write_bytes(original)
    backup = Path(report("cursor", "--write")["backup"])
    after = json.loads(path.read_bytes())
    assert after.pop("mcpServers")["shiftlog"]["args"] == ["mcp"]
    assert after == document
    assert (backup.parent, backup.read_bytes()) == (path.parent, original)
    assert report("cursor", "--remove")["state"] == "removed"
    assert path.read_bytes() == original


def test_mode_link_byte_order_mark_and_line_ends_are_kept(home: Path) -> None:
    real = home / "dotfiles" / "gemini.json"
    real.parent.mkdir()
    real.write_bytes(b'\xef\xbb\xbf{\r\n  // c\r\n  "a": 1\r\n}\r\n')
    real.chmod(0o640)
    link = home / ".gemini" / "settings.json"
    link.parent.mkdir()
    link.symlink_to("../dotfiles/gemini.json")
    backup = Path(report("gemini", "--write")["backup"])
    assert link.is_symlink()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (real, backup)] == [0o640, 0o640]
    assert real.read_bytes().startswith(b'\xef\xbb\xbf{\r\n  // c\r\n  "a": 1,\r\n  "mcpServers": {\r\n')
    assert backup.read_bytes() == b'\xef\xbb\xbf{\r\n  // c\r\n  "a": 1\r\n}\r\n'
    assert sorted(real.parent.iterdir()) == sorted([real, backup])


@pytest.mark.parametrize(
    ("agent", "content"),
    [
        ("cursor", b"not json"),
        ("vscode", b'{"servers": []}'),
        ("codex", b"a = "),
        ("codex", b"mcp_servers = {}"),
        ("gemini", b'{"a": "\xff"}'),
    ],
)
def test_a_file_that_cannot_be_parsed_is_refused_and_not_touched(home: Path, agent: str, content: bytes) -> None:
    path = home / FILES[agent]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    error = run(agent, "--write", status=1).stderr
    assert f"{path} cannot be edited: " in error
    assert "Hint: Nothing was changed." in error
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_in_the_place_of_the_file_is_an_error_with_a_hint(home: Path) -> None:
    (home / ".claude" / "settings.json").mkdir(parents=True)
    assert "Hint: " in run("claude", "--write", status=1).stderr


def test_two_backups_within_a_second_are_both_kept(home: Path) -> None:
    backups: list[str] = []
    for number in range(3):
        (home / ".cursor").mkdir(exist_ok=True)
        (home / ".cursor" / "mcp.json").write_text(json.dumps({"a": number}))
        backups.append(report("cursor", "--write")["backup"])
    assert [json.loads(Path(name).read_text()) for name in backups] == [{"a": 0}, {"a": 1}, {"a": 2}]


def test_what_another_program_wrote_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file.json"
    path.parent.mkdir()
    path.write_text("newer")
    for before in (b"older", None):
        with pytest.raises(CannotEdit, match="changed just now"):
            write_atomically(path, before, b"ours")
    assert (path.read_text(), list(path.parent.iterdir())) == ("newer", [path])


def test_a_program_that_is_not_found_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setattr(sysconfig, "get_path", str)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "Hint: Install Shiftlog" in run("claude", status=1).stderr


def test_a_program_started_through_a_link_is_named_by_the_link(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = home / "shiftlog"
    link.symlink_to(program_of(home))
    monkeypatch.setattr(sys, "argv", [str(link)])
    assert report("claude")["entry"]["command"] == str(link)
