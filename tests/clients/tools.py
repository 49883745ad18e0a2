"""The tools that each client brings, as the scripted model calls them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.script import Step, calls

HOOKED = ("claude", "codex", "gemini", "opencode")
KINDS = {"claude": "ClaudeCode", "codex": "Codex", "gemini": "GeminiCli", "opencode": "OpenCode"}
TRANSCRIPTS = {
    "claude": ".claude/projects",
    "codex": ".codex/sessions",
    "gemini": ".gemini/tmp",
    "opencode": ".local/share/opencode",
}
# The shell tool of each client, and its argument for the command.
SHELLS = {
    "claude": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
    "opencode": ("bash", "command"),
}
# Clients whose shell tool wants a description besides.
DESCRIBED = ("gemini", "opencode")
WRITES: dict[str, Callable[[Path, str], Step]] = {
    "claude": lambda path, text: calls("Write", file_path=str(path), content=text),
    "gemini": lambda path, text: calls("write_file", file_path=str(path), content=text),
    "opencode": lambda path, text: calls("write", filePath=str(path), content=text),
}


def shell(agent: str, command: str, **more: Any) -> Step:
    """Return a call of the client's own shell tool."""
    tool, argument = SHELLS[agent]
    described = {"description": "run"} if agent in DESCRIBED else {}
    return calls(tool, **{argument: command}, **described, **more)


def write(agent: str, path: Path, text: str) -> Step:
    """Return a call of the client's own tool that writes a file."""
    return WRITES[agent](path, text)
