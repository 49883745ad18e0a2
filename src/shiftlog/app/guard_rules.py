"""The guard's judgement of an agent's tool calls: commands by the operator's policy, files by the workspace's rules.

Nothing here runs, answers or records; `app.guard` does.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread

from shiftlog.guard.directories import real_path
from shiftlog.guard.policy.files import DEFAULT_PATH, LocalFiles
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules
from shiftlog.model.agents import AGENTS
from shiftlog.shell.sandbox.spec import is_below, operators_path

if TYPE_CHECKING:
    from shiftlog.app.app import App

Decision = Literal["allow", "ask", "deny"]

# The tools of all agents in one table: a name means the same in each agent that has it.
COMMANDS = frozenset({"Bash", "PowerShell", "run_shell_command", "bash", "Shell"})
DIRECTORY_FIELDS = ("dir_path", "workdir", "cwd")
FILE_FIELDS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    "write_file": "file_path",
    "replace": "file_path",
    "write": "filePath",
    "edit": "filePath",
    "Delete": "file_path",
}
PATCH = "apply_patch"
# Names in the folders of agents' settings that decide whether hooks run.
SETTINGS = (
    "settings.json",
    "settings.local.json",
    "hooks.json",
    "config.toml",
    "config.json",
    "opencode.json",
    "opencode.jsonc",
    "extensions",
    "plugin",
    "plugins",
    "hooks",
)
_PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+?)\s*$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolVerdict:
    """The operator's verdict on a tool call; `entries` are the `ask` entries that a person would approve."""

    decision: Decision
    reason: str = ""
    rule: str = ""
    entries: tuple[str, ...] = ()
    undecided: bool = False
    """True if the text leaves open which programs would start, so that only the kernel can decide."""


ALLOWED = ToolVerdict(decision="allow")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCall:
    """A tool call that an agent is about to make."""

    agent: str
    name: str
    input: Mapping[str, Any]
    cwd: str
    workspace: str
    sandbox: str

    @property
    def command(self) -> str | None:
        """Return the text of a shell command; None for another tool."""
        given = self.input.get("command")
        return given if self.name in COMMANDS and isinstance(given, str) else None

    @property
    def directory(self) -> str:
        """Return the directory in which a shell command would run."""
        named = next((given for name in DIRECTORY_FIELDS if isinstance(given := self.input.get(name), str)), "")
        return str(Path(self.cwd, named))

    @property
    def paths(self) -> Sequence[str]:
        """Return the files that the call would change."""
        if self.name in FILE_FIELDS:
            given = self.input.get(FILE_FIELDS[self.name])
            return [given] if isinstance(given, str) else []
        texts = [text for text in self.input.values() if isinstance(text, str)] if self.name == PATCH else []
        return [path for text in texts for path in _PATCHED.findall(text)]


class GuardRules:
    """Judges tool calls by the operator's policy."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self.policy = app.policy or OperatorPolicy()
        path = app.environ.get("PATH", DEFAULT_PATH)
        rules = shell_rules(self.policy, allow=(), deny=(), path=path, home=app.environ.get("HOME"))
        self._judge = Judge(rules, kernel=True, files=LocalFiles(path))

    async def judge(self, call: GuardedCall) -> ToolVerdict:
        """Return the verdict on a call."""
        text = call.command
        if text is not None:
            return await anyio.to_thread.run_sync(self._judge_command, text, call.directory)
        if call.name in COMMANDS:
            return ToolVerdict(decision="deny", reason=f"{call.name} without a command")
        if call.name not in FILE_FIELDS and call.name != PATCH:
            return ALLOWED
        if not call.paths:
            return ToolVerdict(decision="deny", reason=f"{call.name} does not say which file it changes")
        return next((found for path in call.paths if (found := self._judge_path(call, path)) is not ALLOWED), ALLOWED)

    def _judge_command(self, text: str, cwd: str) -> ToolVerdict:
        found = self._judge.judge(text, cwd=cwd)
        if found.violations:
            first = found.violations[0]
            rule = f"{first.list} {first.entry}" if first.list and first.entry else str(first.list or "")
            return ToolVerdict(decision="deny", reason=first.message, rule=rule)
        if found.asks:
            entries = tuple(ask.entry.text for ask in found.asks)
            rule = f"ask {entries[0]}"
            return ToolVerdict(decision="ask", reason=found.asks[0].message, rule=rule, entries=entries)
        if found.verdict == "deferred":
            return ToolVerdict(decision="allow", reason="the text does not say which programs start", undecided=True)
        return ALLOWED

    def _judge_path(self, call: GuardedCall, given: str) -> ToolVerdict:
        """Judge a file by where it really is: links are followed, also those above a file that is not there yet."""
        path = real_path(str(Path(call.cwd, Path(given).expanduser())))
        for place, what in self._protected(call):
            if is_below(path, place):
                return ToolVerdict(decision="deny", reason=f"{given} is {what}", rule="guard")
        if call.sandbox == "full-access":
            return ALLOWED
        if call.sandbox == "read-only":
            return ToolVerdict(decision="deny", reason=f"{given}: the sandbox is read-only", rule="sandbox read-only")
        home = self._app.environ.get("HOME") or str(Path.home())
        extra = [real_path(operators_path(one, home)) for one in self.policy.sandbox_write]
        if any(is_below(path, place) for place in (real_path(call.workspace), *extra)):
            return ALLOWED
        reason = f"{given} is outside of the workspace {call.workspace}"
        return ToolVerdict(decision="deny", reason=reason, rule="sandbox workspace-write")

    def _protected(self, call: GuardedCall) -> list[tuple[str, str]]:
        """Return the paths that no file tool may change: our data, the policy, and the settings that make hooks run."""
        from shiftlog.app.policy import policy_files

        app = self._app
        user = Path(app.environ.get("HOME") or Path.home())
        kinds = [kind for kind in AGENTS.values() if kind.hooks]
        settings = [
            folder / name
            for kind in kinds
            for folder in (*kind.settings_folders(app.environ, user), Path(call.workspace) / f".{kind.name}")
            for name in SETTINGS
        ]
        own = [(app.home, "Shiftlog's own data")]
        own += [(Path(path).expanduser(), "a policy file") for path in policy_files(app.home, app.config, app.environ)]
        own += [(path, "a setting that decides whether the guard's hooks run") for path in settings]
        return [(real_path(str(path)), what) for path, what in own]
