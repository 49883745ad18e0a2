"""`shiftlog setup claude|codex` with hooks: what is installed, and that `--remove` takes exactly that away again."""

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftlog.cli.setup.plugin_files import HOOK_EVENTS, hook_groups, repository_files
from shiftlog.model.agents import AGENTS, CODEX
from shiftlog.text.json_comments import plain_json
from tests.cli.setup.setup_runs import report, run

ROOT = Path(__file__).parent.parent.parent.parent
OTHER_HOOKS = """{
    "permissions": {"allow": ["Bash(git diff:*)"]},
    "hooks": {
        "Stop": [
            {"hooks": [{"type": "command", "command": "say done"}]}
        ]
    },
    "model": "opus"
}"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("shiftlog", "shiftlog-hook"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(sys, "argv", [str(folder / "shiftlog")])
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    for name in ("SHIFTLOG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def hooks_of(plugins: Path) -> dict[str, Any]:
    return json.loads((plugins / "shiftlog" / "hooks" / "hooks.json").read_text())["hooks"]


def test_removing_the_plugin_of_claude_leaves_its_settings_byte_equal_and_a_backup(home: Path) -> None:
    """Case 52."""
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(OTHER_HOOKS)
    written = report("claude", "--write")
    after = json.loads(path.read_text())
    plugins = home / ".local" / "state" / "shiftlog" / "plugins"
    assert after["extraKnownMarketplaces"]["shiftlog"] == {"source": {"source": "directory", "path": str(plugins)}}
    assert after["enabledPlugins"] == {"shiftlog@shiftlog": True}
    assert after["hooks"] == json.loads(OTHER_HOOKS)["hooks"]
    assert Path(written["backup"]).read_text() == OTHER_HOOKS
    assert report("claude", "--write")["state"] == "unchanged"
    run("claude", "--remove")
    assert path.read_text() == OTHER_HOOKS
    assert Path(written["backup"]).read_text() == OTHER_HOOKS
    assert files_below(plugins) == {}
    assert report("claude", "--remove")["state"] == "unchanged"


def test_the_plugin_holds_what_claude_needs(home: Path) -> None:
    run("claude", "--write")
    plugins = home / ".local" / "state" / "shiftlog" / "plugins"
    assert sorted(name for name in files_below(plugins) if not name.startswith("setup-")) == [
        ".claude-plugin/marketplace.json",
        "shiftlog/.claude-plugin/plugin.json",
        "shiftlog/.mcp.json",
        "shiftlog/hooks/hooks.json",
        "shiftlog/lib/repl-invoke.sh",
        "shiftlog/skills/handover/SKILL.md",
        "shiftlog/skills/session/SKILL.md",
    ]
    server = json.loads((plugins / "shiftlog" / ".mcp.json").read_text())["mcpServers"]["shiftlog"]
    assert server == {"command": str(home.parent / "bin" / "shiftlog"), "args": ["mcp"]}
    hooks = hooks_of(plugins)
    assert hooks["SessionStart"] == [{"hooks": [{"type": "command", "command": "shiftlog-hook claude", "timeout": 5}]}]
    assert "PostToolUse" not in hooks
    run("claude", "--write", "--per-call")
    assert {"PostToolUse", "PostToolUseFailure"} < set(hooks_of(plugins))
    assert (plugins.stat().st_mode & 0o077) == 0


def test_a_hook_that_is_not_on_the_path_is_named_by_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    run("claude", "--write", "--home", str(home / "a state"))
    command = hooks_of(home / "a state" / "plugins")["Stop"][0]["hooks"][0]["command"]
    named = [f"SHIFTLOG_HOME={home / 'a state'}", str(home.parent / "bin" / "shiftlog-hook"), "claude"]
    assert shlex.split(command) == named


def test_a_hook_of_an_activated_environment_is_named_by_its_path(home: Path) -> None:
    (home.parent / "pyvenv.cfg").write_text("home = /usr/bin\n")
    run("claude", "--write")
    command = hooks_of(home / ".local" / "state" / "shiftlog" / "plugins")["Stop"][0]["hooks"][0]["command"]
    assert shlex.split(command) == [str(home.parent / "bin" / "shiftlog-hook"), "claude"]
    run("codex", "--write")
    hooks = json.loads((home / ".codex" / "hooks.json").read_text())["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["command"] == f"{home.parent / 'bin' / 'shiftlog-hook'} codex"


def test_codex_gets_hooks_beside_those_that_are_there(home: Path) -> None:
    folder = home / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text('model = "gpt-x"\n')
    (folder / "hooks.json").write_text('{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}')
    before = files_below(folder)
    run("codex", "--write")
    hooks = json.loads((folder / "hooks.json").read_text())["hooks"]
    assert set(hooks) == {
        event.name for event in HOOK_EVENTS if event.name in AGENTS[CODEX].hooks and not event.per_call
    }
    assert [group["hooks"][0]["command"] for group in hooks["Stop"]] == ["say done", "shiftlog-hook codex"]
    assert hooks["SessionEnd"][0]["hooks"][0]["timeout"] == 3
    assert tomllib.loads((folder / "config.toml").read_text())["mcp_servers"]["shiftlog"]["args"] == ["mcp"]
    assert "trust" in run("codex", "--write", "--per-call").stdout
    hooks = json.loads((folder / "hooks.json").read_text())["hooks"]
    assert len(hooks["Stop"]) == 2
    assert "PostToolUse" in hooks
    run("codex", "--remove")
    assert {name: text for name, text in files_below(folder).items() if not name.endswith(".bak")} == before


def test_files_that_setup_made_go_away_again(home: Path) -> None:
    run("codex", "--write", "--watch")
    state = home / ".local" / "state" / "shiftlog"
    assert tomllib.loads((state / "config.toml").read_text()) == {"ingest": {"watch": True}}
    run("codex", "--remove")
    assert [name for name in files_below(home) if not name.endswith(".bak")] == []


def test_what_its_owner_changed_since_is_kept(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(OTHER_HOOKS)
    run("claude", "--write")
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))
    assert report("claude", "--remove")["files"][0]["state"] == "edited"
    assert json.loads(path.read_text()) == {**json.loads(OTHER_HOOKS), "model": "sonnet"}
    (home / ".codex").mkdir()
    toml = home / ".codex" / "config.toml"
    toml.write_text('model = "gpt-x" # mine\n')
    run("codex", "--write")
    toml.write_text(toml.read_text() + "\n[tools]\nweb = true\n")
    run("codex", "--remove")
    assert toml.read_text() == 'model = "gpt-x" # mine\n\n[tools]\nweb = true\n'


def test_a_setting_that_was_there_survives_the_removal(home: Path) -> None:
    config = home / ".local" / "state" / "shiftlog" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[ingest]\nmax_line_mb = 64\n")
    run("cursor", "--write", "--watch")
    assert tomllib.loads(config.read_text()) == {"ingest": {"max_line_mb": 64, "watch": True}}
    run("cursor", "--remove")
    assert config.read_text() == "[ingest]\nmax_line_mb = 64\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.dictionaries(
        st.sampled_from(["hooks", "enabledPlugins", "extraKnownMarketplaces", "a", "b"]),
        st.dictionaries(st.text(max_size=4), st.booleans() | st.text(max_size=3), max_size=3),
        max_size=4,
    ),
    st.sampled_from([None, 2, 4]),
    st.booleans(),
)
def test_any_settings_come_back_as_they_were(
    home: Path, document: dict[str, Any], indent: int | None, touched: bool
) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    original = json.dumps(document, indent=indent)
    path.write_text(original)
    run("claude", "--write")
    if touched:  # then only what is ours is cut out
        path.write_text(path.read_text() + "\n")
    run("claude", "--remove")
    if touched:
        assert json.loads(path.read_text()) == document
    else:
        assert path.read_text() == original


SETTINGS_FILES = {"gemini": ".gemini/settings.json", "opencode": ".config/opencode/opencode.json"}
NAMES = st.sampled_from(["hooks", "mcp", "mcpServers", "BeforeTool", "SessionStart", "other", "a // b", "/* c */"])
COMMENTED = st.sampled_from(["", " ", "\n", "\r\n\t", " // mine, {\n", "/* mine: ] */"])


@st.composite
def commented_documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return a settings file with comments, odd white space and trailing commas, and what it means."""

    def value(depth: int) -> tuple[str, Any]:
        if depth == 0 or draw(st.booleans()):
            leaf = draw(st.booleans() | st.integers(-9, 9) | st.text('ab"\\/*,{}', max_size=5))
            return json.dumps(leaf), leaf
        return mapping(depth - 1)

    def mapping(depth: int) -> tuple[str, dict[str, Any]]:
        parts: list[str] = []
        meant: dict[str, Any] = {}
        for name in draw(st.lists(NAMES, max_size=3, unique=True)):
            is_section = depth == 1 and name in ("hooks", "mcp", "mcpServers")
            text, meaning = mapping(0) if is_section else value(depth)
            if depth == 0 and name in ("BeforeTool", "SessionStart"):
                text, meaning = '[ {"hooks" : []} ]', list[Any]([{"hooks": []}])
            parts.append(
                f"{draw(COMMENTED)}{json.dumps(name)}{draw(COMMENTED)}:{draw(COMMENTED)}{text}{draw(COMMENTED)}"
            )
            meant[name] = meaning
        last = draw(st.sampled_from(["", ","])) if parts else ""
        return "{" + ",".join(parts) + last + draw(COMMENTED) + "}", meant

    text, meant = mapping(1)
    return draw(COMMENTED) + text + draw(COMMENTED), meant


@pytest.mark.parametrize("agent", SETTINGS_FILES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=commented_documents(), touched=st.booleans())
def test_settings_with_comments_come_back_as_they_were(
    agent: str, home: Path, made: tuple[str, dict[str, Any]], touched: bool
) -> None:
    original, meant = made
    path = home / SETTINGS_FILES[agent]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(original.encode())
    run(agent, "--write")
    written = json.loads(plain_json(path.read_bytes().decode()))
    assert {name: value for name, value in written.items() if name not in ("hooks", "mcp", "mcpServers")} == {
        name: value for name, value in meant.items() if name not in ("hooks", "mcp", "mcpServers")
    }
    if touched:  # then only what is ours is cut out
        path.write_bytes(path.read_bytes() + b"\n// later\n")
    run(agent, "--remove")
    if touched:
        left = path.read_bytes().decode()
        assert json.loads(plain_json(left)) == meant
        assert left.count("mine") == original.count("mine")
    else:
        assert path.read_bytes().decode() == original
    assert not (home / ".config/opencode/plugins/shiftlog.js").exists()


def test_gemini_and_opencode_get_what_they_need(home: Path) -> None:
    run("gemini", "--write")
    document = json.loads((home / ".gemini/settings.json").read_text())
    (gate,) = document["hooks"]["BeforeTool"]
    assert gate["matcher"] == "^(run_shell_command|write_file|replace)$"
    assert "shiftlog-hook gemini before-tool ||" in gate["hooks"][0]["command"]
    assert gate["hooks"][0]["timeout"] == 60_000  # milliseconds
    assert set(document["hooks"]) == {"SessionStart", "BeforeAgent", "BeforeTool", "AfterAgent", "SessionEnd"}
    assert document["mcpServers"]["shiftlog"]["args"] == ["mcp"]
    run("opencode", "--write")
    entry = json.loads((home / ".config/opencode/opencode.json").read_text())["mcp"]["shiftlog"]
    assert (entry["type"], entry["command"][1:], entry["enabled"]) == ("local", ["mcp"], True)
    plugin = (home / ".config/opencode/plugins/shiftlog.js").read_text()
    assert "@" not in plugin.replace("@opencode", "")
    assert json.dumps(str(home / ".local" / "state" / "shiftlog")) in plugin
    assert "--per-call" in run("gemini", "--per-call", status=2).stderr


@pytest.mark.parametrize(("agent", "minute"), [("claude", 60), ("codex", 60), ("cursor", 60), ("gemini", 60_000)])
def test_the_guards_hook_has_a_minute_because_a_client_that_ends_it_goes_ahead(agent: str, minute: int) -> None:
    """On an overloaded machine a hook needed more than five seconds, and Codex ran the command as it was."""
    hooks = [
        hook
        for groups in hook_groups(agent, f"shiftlog-hook {agent}").values()
        for group in groups
        for hook in group.get("hooks", [group])
    ]
    gates = [hook["timeout"] for hook in hooks if "before-tool" in hook["command"]]
    others = [hook["timeout"] for hook in hooks if "before-tool" not in hook["command"]]
    assert gates == [minute]
    assert max(others) * 12 == minute


def test_cursor_gets_hooks_whose_event_reaches_our_program_however_it_is_given(home: Path) -> None:
    run("cursor", "--write")
    document = json.loads((home / ".cursor/hooks.json").read_text())
    assert document["version"] == 1
    (gate,) = document["hooks"]["preToolUse"]
    assert (gate["matcher"], gate["timeout"]) == ("^(Shell|Write|Delete)$", 60)
    assert gate["command"].startswith("{ ")
    assert gate["command"].endswith("; }")  # a here-document behind it is the group's
    assert "shiftlog-hook cursor before-tool ||" in gate["command"]
    assert set(document["hooks"]) == {
        "sessionStart", "beforeSubmitPrompt", "preToolUse", "subagentStart", "subagentStop", "preCompact", "stop",
        "sessionEnd",
    }  # fmt: skip
    assert report("cursor", "--write")["state"] == "unchanged"


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize(
    "original",
    [
        None,
        '{"version": 1, "hooks": {"stop": [{"command": "say done"}]}}',
        '// mine\n{\n  "version": 1, // one\n  "hooks": {\n    "preToolUse": [{"command": "x"}]\n  }\n}\n',
        '{"hooks":{}}',
        "{}\n",
    ],
)
def test_cursors_hooks_come_back_as_they_were(home: Path, original: str | None, touched: bool) -> None:
    path = home / ".cursor" / "hooks.json"
    path.parent.mkdir()
    if original is not None:
        path.write_text(original)
    run("cursor", "--write")
    assert "shiftlog-hook cursor" in path.read_text()
    if touched:
        path.write_text(path.read_text() + "\n")
    run("cursor", "--remove")
    if original is None:
        assert not path.exists() or path.read_text().strip() in ("", "{}")
    elif touched:
        assert json.loads(plain_json(path.read_text())) == json.loads(plain_json(original))
    else:
        assert path.read_text() == original


def test_options_that_do_not_go_together_are_a_usage_error() -> None:
    assert "--remove" in run("claude", "--write", "--remove", status=2).stderr
    assert "--per-call" in run("cursor", "--per-call", status=2).stderr


def test_a_settings_file_that_cannot_be_parsed_is_refused_and_nothing_is_written(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"a": 1,}')
    assert "Nothing was changed" in run("claude", "--write", status=1).stderr
    assert path.read_text() == '{"a": 1,}'
    assert not (home / ".local" / "state" / "shiftlog" / "plugins").exists()


def test_the_plugins_of_the_repository_are_those_of_the_table() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate_plugins.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name, text in repository_files().items():
        if name.endswith(".json"):
            json.loads(text)
        elif name.endswith(".toml"):
            tomllib.loads(text)
        elif name.endswith("SKILL.md"):
            assert text.startswith("---\nname: ")


def test_lines_that_were_edited_are_left_and_named(home: Path) -> None:
    path = home / ".codex" / "hooks.json"
    run("codex", "--write")
    document = json.loads(path.read_text())
    document["hooks"]["Stop"][0]["hooks"][0]["command"] = "env LANG=C shiftlog-hook  codex --loud"
    document["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    path.write_text(json.dumps(document, indent=2))
    said = report("codex", "--remove")
    (left,) = [one for one in said["files"] if one["state"] == "left"]
    assert left["path"] == str(path)
    assert len(left["lines"]) == 1
    assert "shiftlog-hook  codex --loud" in left["lines"][0]
    assert "shiftlog-hook  codex --loud" in run("codex", "--remove").output
    assert list(json.loads(path.read_text())["hooks"]) == ["Stop"]


def test_a_file_that_was_not_there_before_goes_also_if_our_entries_in_it_were_edited(home: Path) -> None:
    path = home / ".codex" / "hooks.json"
    run("codex", "--write")
    path.write_text(path.read_text().replace('"timeout": 5', '"timeout": 99', 1))
    said = report("codex", "--remove")
    assert {one["path"]: one["state"] for one in said["files"]}[str(path)] == "removed"
    assert not path.exists()


def test_an_edited_file_of_the_plugin_is_left_and_named(home: Path) -> None:
    run("claude", "--write")
    plugin = Path(report("claude")["plugin"]) / "shiftlog" / "skills" / "session" / "SKILL.md"
    plugin.write_text(plugin.read_text() + "\nMine.\n")
    said = report("claude", "--remove")
    assert [one["path"] for one in said["files"] if one["state"] == "left"] == [str(plugin)]
    assert plugin.exists()


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_every_file_is_shown_whole_before_it_is_written(agent: str, home: Path) -> None:
    settings = home / (".claude/settings.json" if agent == "claude" else ".codex/hooks.json")
    settings.parent.mkdir()
    settings.write_text(OTHER_HOOKS)
    shown = report(agent)["contents"]
    printed = run(agent).output
    run(agent, "--write")
    assert set(shown) >= {str(settings)}
    for path, text in shown.items():
        assert Path(path).read_text() == text
        assert path in printed
        assert text.rstrip("\n") in printed
