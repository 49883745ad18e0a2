"""The agents that can be connected: the file and format of their MCP servers, and our entry."""

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click

from shiftlog.cli.setup.edit_json import Entry, Merge, with_json_entry
from shiftlog.cli.setup.edit_toml import with_toml_table
from shiftlog.cli.setup.plugin_files import NAME
from shiftlog.config.tool_names import DIALECTS, GROUPS, TOOLSETS
from shiftlog.model.agents import AGENTS, CLAUDE, CODEX, CURSOR, GEMINI, OPENCODE


class SetupFailed(click.ClickException):
    """Setup failed and changed nothing; the hint says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        super().show(file)
        click.echo(f"Hint: {self.hint}", err=True, file=file)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """The file in which an agent lists its MCP servers, and its format."""

    title: str
    path: Callable[[Path, Mapping[str, str]], Path]
    section: str
    typed: bool = False
    comments: bool = False
    command: Callable[[Entry], list[str]] | None = None
    shape: Callable[[Entry], Entry] | None = None
    """Gives our entry the form that the agent wants, if that is another than that of the others."""
    env_name: str = "env"

    def command_line(self, entry: Entry) -> str | None:
        """Return the agent's own command that adds our server, None if it has none."""
        return shlex.join(self.command(entry)) if self.command else None

    def edited(self, path: Path, text: str, merge: Merge) -> str:
        """Return the text of the file with the entry."""
        if path.suffix == ".toml":
            return with_toml_table(text, (self.section, NAME), merge)
        return with_json_entry(text, (self.section, NAME), merge, comments=self.comments)


def _below_home(agent: str, name: str) -> Callable[[Path, Mapping[str, str]], Path]:
    """Return a function for the path of a file in the first home folder of an agent."""

    def path(home: Path, environ: Mapping[str, str]) -> Path:
        return AGENTS[agent].homes(environ, home)[0].expanduser() / name

    return path


def _in_settings(agent: str, *names: str) -> Callable[[Path, Mapping[str, str]], Path]:
    """Return a function for the path of a settings file: the first name that exists, else the last one."""

    def path(home: Path, environ: Mapping[str, str]) -> Path:
        folder = AGENTS[agent].settings_folders(environ, home)[0].expanduser()
        return next((folder / name for name in names if (folder / name).exists()), folder / names[-1])

    return path


def _opencode_entry(entry: Entry) -> Entry:
    made: Entry = {"type": "local", "command": [entry["command"], *entry["args"]], "enabled": True}
    return made | ({"environment": entry["env"]} if "env" in entry else {})


def _vscode_path(home: Path, environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return folder / "Code" / "User" / "mcp.json"


def _env_options(entry: Entry) -> list[str]:
    env: Mapping[str, str] = entry.get("env", {})
    return [part for name, value in env.items() for part in ("--env", f"{name}={value}")]


def _claude_command(entry: Entry) -> list[str]:
    # --env takes every word up to the next option, so --scope has to stand between it and the name.
    options = [*_env_options(entry), "--scope", "user"]
    return ["claude", "mcp", "add", *options, NAME, "--", entry["command"], *entry["args"]]


def _codex_command(entry: Entry) -> list[str]:
    return ["codex", "mcp", "add", NAME, *_env_options(entry), "--", entry["command"], *entry["args"]]


AGENT_FILES: dict[str, AgentFile] = {
    # Its servers, hooks and skills come with a plugin that its settings name.
    "claude": AgentFile(
        title=AGENTS[CLAUDE].title,
        path=_below_home(CLAUDE, "settings.json"),
        section="extraKnownMarketplaces",
        typed=True,
        command=_claude_command,
    ),
    "codex": AgentFile(
        title=AGENTS[CODEX].title, path=_below_home(CODEX, "config.toml"), section="mcp_servers", command=_codex_command
    ),
    "cursor": AgentFile(
        title=AGENTS[CURSOR].title,
        path=_below_home(CURSOR, "mcp.json"),
        section="mcpServers",
        typed=True,
    ),
    "gemini": AgentFile(
        title=AGENTS[GEMINI].title,
        path=_in_settings(GEMINI, "settings.json"),
        section="mcpServers",
        comments=True,
    ),
    "opencode": AgentFile(
        title=AGENTS[OPENCODE].title,
        path=_in_settings(OPENCODE, "opencode.jsonc", "opencode.json"),
        section="mcp",
        comments=True,
        shape=_opencode_entry,
        env_name="environment",
    ),
    "vscode": AgentFile(title="VS Code", path=_vscode_path, section="servers", typed=True, comments=True),
}


def server_entry(
    agent_file: AgentFile, executable: Path, toolsets: str | None, dialect: str | None, home: str | None
) -> Entry:
    """Return our entry in an agent's list of servers."""
    args = ["mcp"]
    for option, names, known in (
        ("--toolsets", toolsets, (*TOOLSETS, *GROUPS)),
        ("--dialect", dialect, DIALECTS),
    ):
        if names is not None:
            args += [option, _checked_names(option, names, known)]
    entry: Entry = {"type": "stdio"} if agent_file.typed else {}
    entry |= {"command": str(executable), "args": args}
    if home:
        entry["env"] = {"SHIFTLOG_HOME": str(Path(home).expanduser().absolute())}
    return agent_file.shape(entry) if agent_file.shape else entry


def _checked_names(option: str, names: str, known: tuple[str, ...]) -> str:
    """Return the names as one argument; an unknown name would keep the agent from being served."""
    parts = [part.strip() for part in names.split(",")]
    unknown = [part for part in parts if part not in known]
    if unknown:
        says = f"'{unknown[0]}' is not one of {', '.join(known)}; names are separated by commas"
        raise click.BadParameter(says, param_hint=option)
    return ",".join(parts)


def executable() -> Path:
    """Find the `shiftlog` program in use; links are not resolved, so that an upgrade takes effect."""
    started = sys.argv[0] if Path(sys.argv[0]).name == NAME and os.sep in sys.argv[0] else None
    installed = Path(sysconfig.get_path("scripts")) / NAME
    for candidate in (started, installed, shutil.which(NAME)):
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate).absolute()
    raise SetupFailed("The shiftlog program is not found.", "Install Shiftlog, or put it on your PATH.")
