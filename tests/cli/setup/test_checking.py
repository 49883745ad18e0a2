"""`shiftlog doctor` tells of each agent whether it is connected, and the one next step."""

import json
from pathlib import Path
from typing import Any

import pytest

from shiftlog.cli.setup.checking import Finding, findings
from shiftlog.cli.setup.plan import SetupPlan


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with `claude` and `codex` on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("claude", "codex"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} 1.2.3\n")
        (programs / name).chmod(0o755)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def found(machine: Path, **seen: Any) -> dict[str, Finding]:
    return {each.agent: each for each in findings(machine, {"PATH": f"{machine / 'bin'}:/usr/bin:/bin"}, seen)}


def set_up(machine: Path, agent: str) -> None:
    options = {"toolsets": None, "dialect": None, "home": str(machine / "state")}
    SetupPlan.of(agent, per_call=False, watch=False, **options).put()


def test_an_agent_that_is_not_connected_gets_the_command_that_connects_it(machine: Path) -> None:
    shown = found(machine)
    assert set(shown) == {"claude", "codex"}
    assert "Codex 1.2.3: not connected" in shown["codex"].message
    assert shown["claude"].hint == "Run: shiftlog setup claude --write"


def test_a_program_that_names_itself_beside_its_version_is_named_once(machine: Path) -> None:
    for name, says in (("claude", "2.1.327 (Claude Code)"), ("codex", "codex-cli 0.169.0-alpha.1"), ("opencode", "?")):
        (machine / "bin" / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (machine / "bin" / name).chmod(0o755)
    told = [found(machine)[name].message.partition(":")[0] for name in ("claude", "codex", "opencode")]
    assert told == ["Claude Code 2.1.327", "Codex 0.169.0-alpha.1", "OpenCode (version unknown)"]


def test_claude_is_well_with_its_plugin_and_not_without_the_plugins_files(machine: Path) -> None:
    set_up(machine, "claude")
    assert (found(machine)["claude"].state, found(machine)["claude"].hint) == ("ok", "")
    (machine / "state" / "plugins" / "shiftlog" / "hooks" / "hooks.json").unlink()
    assert found(machine)["claude"].state == "warn"
    assert "files are missing" in found(machine)["claude"].message


def test_claude_whose_hooks_are_switched_off_is_told_how_to_switch_them_on(machine: Path) -> None:
    set_up(machine, "claude")
    file = machine / ".claude" / "settings.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"disableAllHooks": True}))
    assert "hooks are switched off (disableAllHooks)" in found(machine)["claude"].message
    assert found(machine)["claude"].hint == f"Remove disableAllHooks from {file}"


def test_a_hook_of_an_older_release_is_named(machine: Path) -> None:
    set_up(machine, "claude")
    file = machine / "state" / "plugins" / "shiftlog" / "hooks" / "hooks.json"
    document = json.loads(file.read_text())
    del document["hooks"]["PreToolUse"]
    file.write_text(json.dumps(document))
    assert "hooks are missing: PreToolUse" in found(machine)["claude"].message


def test_codex_hooks_that_are_not_trusted_are_counted_until_they_are(machine: Path) -> None:
    set_up(machine, "codex")
    shown = found(machine)["codex"]
    assert shown.state == "warn"
    assert "hooks are not trusted" in shown.message
    assert "trust the hooks" in shown.hint
    folder = machine / ".codex"
    events = json.loads((folder / "hooks.json").read_text())["hooks"]
    names = {"".join(f"_{s.lower()}" if s.isupper() else s for s in event).lstrip("_") for event in events}
    states = "".join(
        f'\n[hooks.state."{folder / "hooks.json"}:{name}:0:0"]\ntrusted_hash = "sha256:1"\n' for name in sorted(names)
    )
    config = folder / "config.toml"
    config.write_text(config.read_text() + states)
    assert found(machine)["codex"].state == "ok"
    config.write_text(config.read_text() + "enabled = false\n")
    assert "1 of" in found(machine)["codex"].message


def seen(**more: Any) -> dict[str, Any]:
    event = {"name": "Stop", "at": "2026-01-02T03:04:05.000Z"}
    guard: dict[str, Any] = {"mode": "enforce", "changed": [], "hooks_installed": True}
    return {"last_event": event, "mcp_connections": 1, "guard": guard, "unknown": [], **more}


def test_what_the_daemon_saw_is_told_with_the_one_next_step(machine: Path) -> None:
    set_up(machine, "claude")
    well = found(machine, claude=seen())["claude"]
    assert (well.state, well.hint) == ("ok", "")
    assert "; last event Stop " in well.message
    assert well.message.endswith(" d ago; tools connected (1); guard enforce")
    quiet = found(machine, claude=seen(last_event=None, mcp_connections=0))["claude"]
    assert "no event seen yet; tools not connected now" in quiet.message
    assert (quiet.state, quiet.hint) == ("ok", "Start claude once; its first event shows that the hooks run")
    unknown = [{"kind": "new-record", "count": 3, "version": "9.9.9"}]
    told = found(machine, claude=seen(unknown=unknown))["claude"]
    assert told.state == "warn"
    assert "records of unknown kinds: new-record (3, version 9.9.9)" in told.message
    assert "Update Shiftlog" in told.hint
    changed = {"mode": "enforce", "changed": ["/home/x/settings.json"], "hooks_installed": True}
    both = found(machine, claude=seen(unknown=unknown, guard=changed))["claude"]
    assert "guard_changed: /home/x/settings.json" in both.message
    assert "shiftlog guard on" in both.hint


def test_cursor_is_found_under_either_name_and_its_missing_hooks_are_named(machine: Path) -> None:
    program = machine / "bin" / "cursor-agent"
    program.write_text("#!/bin/sh\necho 2026.09.10-fd3934a\n")
    program.chmod(0o755)
    assert found(machine)["cursor"].message == "Cursor 2026.09.10-fd3934a: not connected"
    set_up(machine, "cursor")
    assert (found(machine)["cursor"].state, found(machine)["cursor"].hint) == ("ok", "")
    file = machine / ".cursor" / "hooks.json"
    document = json.loads(file.read_text())
    del document["hooks"]["stop"]
    file.write_text(json.dumps(document))
    assert "hooks are missing: Stop" in found(machine)["cursor"].message
    assert found(machine)["cursor"].hint == "Run: shiftlog setup cursor --write"


def test_a_guard_of_an_agent_that_is_not_connected_is_a_problem(machine: Path) -> None:
    guard: dict[str, Any] = {"mode": "enforce", "changed": [], "hooks_installed": False}
    told = found(machine, codex=seen(guard=guard))["codex"]
    assert told.state == "warn"
    assert told.message == "Codex 1.2.3: not connected, so its guard (enforce) holds nothing"
    assert told.hint == "Run: shiftlog setup codex --write"
