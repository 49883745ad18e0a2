"""The files of our plugins for agents: hook events and file contents.

`scripts/generate_plugins.py` writes them into `plugins/`, `shiftlog setup` into the state directory.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftlog import __version__
from shiftlog.link.cursor_events import EVENTS as CURSOR_EVENTS
from shiftlog.link.hook import SAME_EVENTS
from shiftlog.model.agents import BY_NAME, OWN_CALLS

NAME = "shiftlog"
DESCRIPTION = "Session journal, hand-over and history for coding agents"
HOOKS_DESCRIPTION = "Shiftlog session journal"
TIMEOUT_S = 5
# A client that ends a hook at its limit goes ahead with the call. Ours answers within three seconds of its start, but
# an overloaded machine may take longer to start it.
GATE_TIMEOUT_S = 60
_TEXTS = Path(__file__).with_name("plugin_texts")

Document = dict[str, Any]
Files = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """An event with a hook; `per_call` events come with every tool call and need --per-call.

    An event about tools may be restricted to those that `tools`, a regular expression, names for each agent. Where the
    guard judges these, `is_gate` makes the hook refuse the call in `enforce` mode if our program is gone.
    """

    name: str
    per_call: bool = False
    timeout_s: int = TIMEOUT_S
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    is_gate: bool = False


# The state directory as a shell finds it.
STATE = "${SHIFTLOG_HOME:-${XDG_STATE_HOME:-$HOME/.local/state}/shiftlog}"
# The tools of each agent that may change files.
CHANGING_TOOLS = {
    "claude": "Bash|PowerShell|Edit|MultiEdit|Write|NotebookEdit",
    "codex": "Bash|apply_patch|Edit|Write",
    "gemini": "^(run_shell_command|write_file|replace)$",
    "cursor": "^(Shell|Write|Delete)$",
}
# The clients' own names of events, and the unit of time of Gemini CLI.
OWN_NAMES: Mapping[str, Mapping[str, str]] = {
    "gemini": {ours: theirs for theirs, ours in SAME_EVENTS.items()},
    "cursor": {ours: theirs for theirs, ours in CURSOR_EVENTS.items()},
}
_MS = 1_000
# The version of the format of Cursor's file of hooks, without which it refuses the file.
CURSOR_VERSION = 1
HOOK_EVENTS = (
    HookEvent(name="SessionStart"),
    HookEvent(name="UserPromptSubmit"),
    HookEvent(name="PreToolUse", tools=CHANGING_TOOLS, timeout_s=GATE_TIMEOUT_S, is_gate=True),
    # A subagent of Claude Code shares its parent's connection: only the hook before the call says whose call it is.
    HookEvent(name="PreToolUse", tools={"claude": OWN_CALLS}),
    HookEvent(name="PostToolUse", per_call=True),
    HookEvent(name="PostToolUseFailure", per_call=True),
    HookEvent(name="SubagentStart"),
    HookEvent(name="SubagentStop"),
    HookEvent(name="PreCompact"),
    HookEvent(name="PostCompact"),
    HookEvent(name="Stop"),
    HookEvent(name="StopFailure"),
    HookEvent(name="SessionEnd", timeout_s=3),
)


def _closing(command: str, agent: str, state: str) -> str:
    """Return the command of a hook before tool calls; where our program is gone, the guard's `enforce` mode refuses."""
    way_out = f"Shiftlog guard: shiftlog-hook does not run. Repair it, or remove {state}/guard.{agent}"
    line = f'{command} before-tool || [ ! -e {state}/guard.{agent} ] || {{ echo "{way_out}" >&2; exit 2; }}'
    # Cursor may append a here-document with the event, which must reach the first program and not the last.
    return f"{{ {line}; }}" if agent == "cursor" else line


def hook_groups(agent: str, command: str, *, per_call: bool = False, state: str = STATE) -> Document:
    """Return the hook of each event in the format of the agent's hook file."""
    known = [event for event in HOOK_EVENTS if event.name in BY_NAME[agent].hooks and (per_call or not event.per_call)]
    events = [event for event in known if not event.tools or agent in event.tools]
    groups: Document = {}
    for event in events:
        line = _closing(command, agent, state) if event.is_gate else command
        hook: Document = {"type": "command", "command": line, "timeout": event.timeout_s}
        if agent == "gemini":
            hook |= {"name": NAME, "timeout": event.timeout_s * _MS}
        name = OWN_NAMES.get(agent, {}).get(event.name, event.name)
        matcher = {"matcher": event.tools[agent]} if agent in event.tools else {}
        groups.setdefault(name, []).append({**hook, **matcher} if agent == "cursor" else {**matcher, "hooks": [hook]})
    return groups


def claude_files(
    *,
    hook: str = "shiftlog-hook claude",
    server: Document | None = None,
    per_call: bool = False,
    state: str = STATE,
) -> Files:
    """Return the files of the marketplace with our plugin for Claude Code, by path."""
    owner = {"name": "The Shiftlog contributors"}
    plugin = {"name": NAME, "version": __version__, "description": DESCRIPTION}
    marketplace = {
        "name": NAME,
        "owner": owner,
        "plugins": [{"name": NAME, "source": f"./{NAME}", "description": DESCRIPTION, "version": __version__}],
    }
    hooks = {"description": HOOKS_DESCRIPTION, "hooks": hook_groups("claude", hook, per_call=per_call, state=state)}
    return {
        ".claude-plugin/marketplace.json": _json(marketplace),
        f"{NAME}/.claude-plugin/plugin.json": _json({**plugin, "author": owner, "license": "Apache-2.0"}),
        f"{NAME}/hooks/hooks.json": _json(hooks),
        f"{NAME}/.mcp.json": _json({"mcpServers": {NAME: server or {"command": NAME, "args": ["mcp"]}}}),
        f"{NAME}/skills/handover/SKILL.md": _text("handover.md"),
        f"{NAME}/skills/session/SKILL.md": _text("session.md"),
        f"{NAME}/lib/repl-invoke.sh": _text("repl-invoke.sh"),
    }


def codex_files() -> Files:
    """Return the files for Codex by their paths in its home folder."""
    return {
        "hooks.json": _json({"hooks": hook_groups("codex", "shiftlog-hook codex")}),
        "config.toml": f'[mcp_servers.{NAME}]\ncommand = "{NAME}"\nargs = ["mcp"]\n',
        "skills/handover/SKILL.md": _text("handover.md"),
        "skills/session/SKILL.md": _text("session.md").replace(
            "${CLAUDE_PLUGIN_ROOT:?}/lib", "${CODEX_HOME:-$HOME/.codex}/skills/session/lib"
        ),
        "skills/session/lib/repl-invoke.sh": _text("repl-invoke.sh"),
    }


def gemini_files() -> Files:
    """Return the files for Gemini CLI by their paths in its folder."""
    server = {NAME: {"command": NAME, "args": ["mcp"]}}
    return {"settings.json": _json({"mcpServers": server, "hooks": hook_groups("gemini", "shiftlog-hook gemini")})}


def cursor_files() -> Files:
    """Return the files for Cursor by their paths in its folder."""
    server = {NAME: {"type": "stdio", "command": NAME, "args": ["mcp"]}}
    hooks = {"version": CURSOR_VERSION, "hooks": hook_groups("cursor", "shiftlog-hook cursor")}
    return {"mcp.json": _json({"mcpServers": server}), "hooks.json": _json(hooks)}


def opencode_plugin(program: str = "shiftlog-hook", state: str = "") -> str:
    """Return our plugin for OpenCode; without a state directory it finds it as other programs do."""
    text = _text("opencode.js")
    for name, value in (("@HOOK@", program), ("@STATE@", state)):
        text = text.replace(f'"{name}"', json.dumps(value))
    return text


def opencode_files() -> Files:
    """Return the files for OpenCode by their paths in its folder."""
    server = {NAME: {"type": "local", "command": [NAME, "mcp"], "enabled": True}}
    return {"opencode.json": _json({"mcp": server}), "plugins/shiftlog.js": opencode_plugin()}


def registry_entry() -> Document:
    """Return our entry for the registry of MCP servers."""
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.shiftlog/shiftlog",
        "title": "Shiftlog",
        "description": "Session layer for AI agents: tamper-evident journal, guarded shells, hand-over.",
        "version": __version__,
        "packages": [
            {
                "registryType": "pypi",
                "identifier": NAME,
                "version": __version__,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [{"type": "positional", "value": "mcp"}],
                "environmentVariables": [
                    {
                        "name": "SHIFTLOG_HOME",
                        "description": "State directory; only needed when it is not the usual one",
                        "isRequired": False,
                        "isSecret": False,
                    }
                ],
            }
        ],
    }


def repository_files() -> Files:
    """Return every generated file of the repository, by path."""
    return {
        **{f"plugins/claude-code/{path}": text for path, text in claude_files().items()},
        **{f"plugins/codex/{path}": text for path, text in codex_files().items()},
        **{f"plugins/gemini/{path}": text for path, text in gemini_files().items()},
        **{f"plugins/opencode/{path}": text for path, text in opencode_files().items()},
        **{f"plugins/cursor/{path}": text for path, text in cursor_files().items()},
        "server.json": _json(registry_entry()),
    }


def _text(name: str) -> str:
    return (_TEXTS / name).read_text(encoding="utf-8")


def _json(document: Document) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
