"""The table of known agents: names, folders, hook events and resume commands.

Plain data, so that every package can use it. How transcripts are recognised and read is `ingest/readers/formats.py`;
how an agent is connected is `cli/setup/agents.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shiftlog.model.errors import InvalidParameter

CLAUDE, CODEX = "ClaudeCode", "Codex"
GEMINI, COPILOT, OPENCODE, CURSOR = "GeminiCli", "CopilotCli", "OpenCode", "Cursor"

# Our tools, as agents name them, that work in the caller's own session or turn if they name none; a regular expression.
OWN_CALLS = "mcp__.*shiftlog.*__(open_session|resume_session|open_shell|run_command|(sessionlog_)?begin_turn)"
_HOOKS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SessionEnd")
_SUBAGENT_HOOKS = ("SubagentStart", "SubagentStop")
_CODEX_HOOKS = (*_HOOKS, *_SUBAGENT_HOOKS, "PostToolUse", "PreCompact", "PostCompact")
_ROLLOUTS = ("**/rollout-*.jsonl", "**/rollout-*.jsonl.zst")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPlace:
    """A folder with settings, below the folder that a variable names, else below `default` in the user's home."""

    variable: str
    default: str
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentKind:
    """A kind of agent. `transcripts` maps folders below its home to the patterns of transcript files in them."""

    kind: str
    short: str
    title: str
    default_homes: tuple[str, ...]
    transcripts: Mapping[str, tuple[str, ...]]
    home_variable: str | None = None
    several_homes: bool = False
    """True if the variable may hold several folders, separated by commas."""
    resume: str | None = None
    hooks: tuple[str, ...] = ()
    """The events that our hooks take, by the names of Claude Code; a client may have other names for them."""
    keeps_directory: bool = False
    """True if its shell tool stays in the directory in which a command ended."""
    has_definitions: bool = False
    """True if its shell tool runs commands with the user's aliases and functions."""
    has_prompt: bool = False
    """True if a hook can make the client ask its user about a tool call."""
    stop_tells_answer: bool = True
    """True if the event of a turn's end has the model's last message."""
    has_times: bool = True
    """False if its transcripts may have no times."""
    settings: SettingsPlace | None = None
    """The place of its settings, if they are not in its home folder."""

    @property
    def name(self) -> str:
        """Return the name used on command lines."""
        return self.short.lower()

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """Return the agent's home folders; a `~` in the environment variable is not expanded."""
        given = environ.get(self.home_variable, "") if self.home_variable else ""
        parts = [part.strip() for part in given.split(",")] if self.several_homes else [given]
        return [Path(part) for part in parts if part] or [home / path for path in self.default_homes]

    def settings_folders(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """Return the folders with the agent's settings."""
        if self.settings is None:
            return self.homes(environ, home)
        given = environ.get(self.settings.variable)
        return [(Path(given) if given else home / self.settings.default) / self.settings.folder]


AGENTS: Mapping[str, AgentKind] = {
    agent.kind: agent
    for agent in (
        AgentKind(
            kind=CLAUDE,
            short="Claude",
            title="Claude Code",
            home_variable="CLAUDE_CONFIG_DIR",
            several_homes=True,
            default_homes=(".claude", ".config/claude"),
            transcripts={"projects": ("*/*.jsonl", "*/*/subagents/**/agent-*.jsonl")},
            resume="claude --resume",
            hooks=(*_CODEX_HOOKS, "PostToolUseFailure", "StopFailure"),
            keeps_directory=True,
            has_definitions=True,
            has_prompt=True,
        ),
        AgentKind(
            kind=CODEX,
            short="Codex",
            title="Codex",
            home_variable="CODEX_HOME",
            default_homes=(".codex",),
            transcripts={"sessions": _ROLLOUTS, "archived_sessions": _ROLLOUTS},
            resume="codex resume",
            hooks=_CODEX_HOOKS,
            keeps_directory=True,
        ),
        AgentKind(
            kind=GEMINI,
            short="Gemini",
            title="Gemini CLI",
            home_variable="GEMINI_CLI_HOME",
            default_homes=("",),
            transcripts={".gemini/tmp": ("*/chats/session-*.jsonl", "*/chats/session-*.json", "*/chats/*/*.jsonl")},
            # Its event before a compaction comes before every request, and its tool calls have no id.
            hooks=_HOOKS,
            settings=SettingsPlace(variable="GEMINI_CLI_HOME", default="", folder=".gemini"),
        ),
        AgentKind(
            kind=COPILOT,
            short="Copilot",
            title="Copilot CLI",
            default_homes=(".copilot",),
            transcripts={"session-state": ("*/events.jsonl", "*.jsonl")},
        ),
        AgentKind(
            kind=OPENCODE,
            short="OpenCode",
            title="OpenCode",
            home_variable="XDG_DATA_HOME",
            default_homes=(".local/share",),
            transcripts={"opencode": ("opencode.db", "storage/session/**/*.json")},
            # The events that our plugin reports.
            hooks=(*_HOOKS, *_SUBAGENT_HOOKS, "PostCompact"),
            settings=SettingsPlace(variable="XDG_CONFIG_HOME", default=".config", folder="opencode"),
        ),
        AgentKind(
            kind=CURSOR,
            short="Cursor",
            title="Cursor",
            default_homes=(".cursor",),
            transcripts={"projects": ("*/agent-transcripts/**/*.jsonl",)},
            hooks=(*_HOOKS, *_SUBAGENT_HOOKS, "PreCompact"),
            keeps_directory=True,
            stop_tells_answer=False,
            has_times=False,
        ),
    )
}
BY_NAME: Mapping[str, AgentKind] = {agent.name: agent for agent in AGENTS.values()}


def find_kind(name: str) -> str | None:
    """Return the agent kind with this kind or command-line name, ignoring case."""
    folded = name.casefold()
    return next((kind for kind, agent in AGENTS.items() if folded in (kind.casefold(), agent.name)), None)


def agent_named(name: str, argument: str = "agent") -> str:
    """Return the agent kind with this name; raise InvalidParameter for the named argument."""
    kind = find_kind(name)
    if kind is not None:
        return kind
    raise InvalidParameter.invalid(argument, "one of " + ", ".join(BY_NAME), name, allowed=[*BY_NAME, *AGENTS])
