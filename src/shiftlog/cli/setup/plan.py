"""The plan for connecting an agent: edits of the user's files, and the files of our plugin."""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from shiftlog.cli.setup.agents import AGENT_FILES, AgentFile, SetupFailed, executable, server_entry
from shiftlog.cli.setup.edit_json import (
    CannotEdit,
    Entry,
    Merge,
    with_json_entry,
    with_json_item,
    with_json_number,
    without_json_entry,
    without_json_items,
    without_json_member,
)
from shiftlog.cli.setup.edit_toml import with_toml_table, without_toml_table
from shiftlog.cli.setup.files import Edit, Edited, EditRefused, SetupRecord
from shiftlog.cli.setup.plugin_files import CURSOR_VERSION, NAME, claude_files, hook_groups, opencode_plugin
from shiftlog.link import wire
from shiftlog.model.agents import AGENTS
from shiftlog.text.json_comments import plain_json

HOOK = "shiftlog-hook"
PRINTED = "printed"
PLUGIN = f"{NAME}@{NAME}"
NOTES = {
    "codex": "Codex asks once whether to trust the hooks; say yes, or they do not run.",
    "cursor": "The hooks follow Cursor's documentation; they were not tried with Cursor itself.",
}
HOOKED = tuple(agent.name for agent in AGENTS.values() if agent.hooks)
PER_CALL = tuple(agent.name for agent in AGENTS.values() if "PostToolUse" in agent.hooks)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupPlan:
    """Edits of the user's files and the files of our plugin, for one agent."""

    agent_file: AgentFile
    path: Path
    entry: Entry
    text: str
    edits: tuple[Edit, ...]
    added: Path
    folder: Path
    files: Mapping[str, str]
    note: str = ""

    @classmethod
    def of(
        cls, agent: str, *, toolsets: str | None, dialect: str | None, per_call: bool, watch: bool, home: str | None
    ) -> "SetupPlan":
        """Return the plan for an agent and its options."""
        agent_file = AGENT_FILES[agent]
        path = agent_file.path(Path.home(), os.environ)
        program = executable()
        entry = server_entry(agent_file, program, toolsets, dialect, home)
        state = Path(home).expanduser().absolute() if home else Path(wire.home_path())
        hook = _hook_command(agent, program, home)
        files: Mapping[str, str] = {}
        if agent == "claude":
            server = {name: value for name, value in entry.items() if name != "type"}
            files = claude_files(hook=hook, server=server, per_call=per_call, state=shlex.quote(str(state)))
            edits = [_claude_settings(path, state / "plugins")]
            text = edits[0].add("")
        else:
            edits = [_server_entry(agent_file, path, entry)]
            text = agent_file.edited(path, "", lambda _: entry)
            if agent == "codex":
                edits.append(_hooks(agent, path.with_name("hooks.json"), hook, str(state), per_call=per_call))
            elif agent == "cursor":
                edits.append(_versioned(_hooks(agent, path.with_name("hooks.json"), hook, str(state), comments=True)))
            elif agent == "gemini":
                edits = [_both(edits[0], _hooks(agent, path, hook, str(state), comments=True))]
                text = edits[0].add("")
            elif agent == "opencode":
                plugin = opencode_plugin(_hook_program(program), str(state))
                edits.append(_whole_file(path.with_name("plugins") / "shiftlog.js", plugin))
        if watch:
            edits.append(_watching(state / "config.toml"))
        return cls(
            agent_file=agent_file,
            path=path,
            entry=entry,
            text=text,
            edits=tuple(edits),
            added=state / "plugins" / f"setup-{agent}.json",
            folder=state / "plugins",
            files=files,
            note=NOTES.get(agent, ""),
        )

    def contents(self) -> Iterator[tuple[Path, str]]:
        """Yield every file of the plan as it would be, whole."""
        for edit in self.edits:
            try:
                present = edit.path.read_text(encoding="utf-8-sig") if edit.path.exists() else ""
                yield edit.path, edit.add(present)
            except (CannotEdit, OSError, UnicodeError):
                yield edit.path, edit.add("")  # the present content cannot be edited, so only our part is shown
        for name, text in self.files.items():
            yield self.folder / name, text

    def put(self) -> list[Edited]:
        """Make the edits and write the plugin; raise SetupFailed, with nothing changed."""
        added = SetupRecord.load(self.added)
        try:
            if self.files:
                wire.open_home(str(self.folder.parent))
            done = added.put(self.edits)
            if self.files and added.put_files(self.folder, self.files):
                done.append(Edited(path=self.folder, state="written"))
            if added.edits or added.files:
                wire.open_home(str(self.folder.parent))
                added.save()
        except EditRefused as error:
            hint = "Nothing was changed. Without --write the command prints what to put there by hand."
            raise SetupFailed(str(error), hint) from None
        except (OSError, wire.WireError) as error:
            raise SetupFailed(f"{self.folder} cannot be written: {error}", "Name another place with --home.") from None
        return done

    def take(self) -> list[Edited]:
        """Remove the edits and the plugin; raise SetupFailed if a file cannot be edited safely."""
        added = SetupRecord.load(self.added)
        try:
            done = added.take(self.edits)
            added.save()
        except EditRefused as error:
            added.save()
            raise SetupFailed(str(error), "Take our entries out by hand; their names begin with shiftlog.") from None
        return done

    def report(self, agent: str, state: str, done: list[Edited], command: str | None) -> dict[str, Any]:
        """Return the report for --json."""
        backups = {one.path: str(one.backup) if one.backup else None for one in done}
        return {
            "agent": agent,
            "state": state,
            "path": str(self.path),
            "backup": backups.get(self.path),
            "entry": self.entry,
            "text": self.text,
            "command": command,
            "plugin": str(self.folder) if self.files else None,
            "files": [
                {"path": str(one.path), "state": one.state, "backup": backups[one.path], "lines": list(one.lines)}
                for one in done
            ],
            "contents": {str(path): text for path, text in self.contents()} if state == PRINTED else None,
            "note": self.note or None,
        }


def _server_entry(agent_file: AgentFile, path: Path, entry: Entry) -> Edit:
    def take(text: str, sections: frozenset[str]) -> str:
        if path.suffix == ".toml":
            return without_toml_table(text, (agent_file.section, NAME))
        own = agent_file.section not in sections
        return without_json_entry(text, (agent_file.section, NAME), comments=agent_file.comments, section_too=own)

    merge = _merged(entry, agent_file.env_name)
    return Edit(path=path, add=lambda text: agent_file.edited(path, text, merge), take=take)


def _both(first: Edit, second: Edit) -> Edit:
    """Return two edits of one file as one."""
    return Edit(
        path=first.path,
        add=lambda text: second.add(first.add(text)),
        take=lambda text, sections: first.take(second.take(text, sections), sections),
    )


def _versioned(hooks: Edit) -> Edit:
    """Return the edit of a file of hooks that must also name the version of its format."""

    def take(text: str, sections: frozenset[str]) -> str:
        left = hooks.take(text, sections)
        return left if "version" in sections else without_json_member(left, "version", comments=True)

    def add(text: str) -> str:
        return hooks.add(with_json_number(text, "version", CURSOR_VERSION, comments=True))

    return Edit(path=hooks.path, add=add, take=take)


def _whole_file(path: Path, content: str) -> Edit:
    """Return the edit that makes a file which is ours alone; one that was edited since is left to its editor."""
    return Edit(path=path, add=lambda _: content, take=lambda text, _: text)


def _claude_settings(path: Path, folder: Path) -> Edit:
    marketplace: Entry = {"source": {"source": "directory", "path": str(folder)}}

    def add(text: str) -> str:
        text = with_json_entry(text, ("extraKnownMarketplaces", NAME), lambda _: marketplace)
        return with_json_entry(text, ("enabledPlugins", PLUGIN), lambda _: cast("Entry", True))

    def take(text: str, sections: frozenset[str]) -> str:
        for section, name in (("enabledPlugins", PLUGIN), ("extraKnownMarketplaces", NAME)):
            text = without_json_entry(text, (section, name), section_too=section not in sections)
        return text

    return Edit(path=path, add=add, take=take)


def _hooks(agent: str, path: Path, command: str, state: str, *, per_call: bool = False, comments: bool = False) -> Edit:
    wanted = hook_groups(agent, command, per_call=per_call, state=shlex.quote(state))

    def is_ours(group: Any) -> bool:
        return is_our_hook(group, agent)

    def take(text: str, sections: frozenset[str]) -> str:
        own = "hooks" not in sections
        left = without_json_items(text, "hooks", is_ours, comments=comments, section_too=own)
        return "" if left.strip() == "{}" and not sections and not comments else left

    def add(text: str) -> str:
        if not _has_exactly(plain_json(text) if comments else text, wanted, is_ours):
            text = without_json_items(text, "hooks", is_ours, comments=comments, section_too=False)
        for event, groups in wanted.items():
            for group in groups:
                text = with_json_item(text, ("hooks", event), group, comments=comments)
        return text

    return Edit(path=path, add=add, take=take)


def _has_exactly(text: str, wanted: Mapping[str, Any], is_ours: Callable[[Any], bool]) -> bool:
    """Return True if our hooks in a file are exactly these."""
    try:
        document: Any = json.loads(text if text.strip() else "{}")
    except ValueError:
        return True  # adding reports what is wrong with it
    lists: Any = cast("Entry", document).get("hooks") if isinstance(document, dict) else None
    if not isinstance(lists, dict):
        return True
    found = {
        event: ours
        for event, items in cast("Entry", lists).items()
        if isinstance(items, list) and (ours := [one for one in cast("list[Any]", items) if is_ours(one)])
    }
    return all(groups == wanted.get(event) for event, groups in found.items())


def is_our_hook(group: Any, agent: str) -> bool:
    """Return True if a group of hooks in an agent's file is ours; Cursor's file has no groups, only hooks."""
    own = cast("Entry", group) if isinstance(group, dict) else {}
    hooks: Any = [own] if agent == "cursor" else own.get("hooks")
    if not isinstance(hooks, list) or not hooks:
        return False
    commands = [
        cast("Entry", one).get("command") if isinstance(one, dict) else None for one in cast("list[Any]", hooks)
    ]
    return all(isinstance(command, str) and f"{HOOK} {agent}" in command.replace("'", "") for command in commands)


def _watching(path: Path) -> Edit:
    def add(text: str) -> str:
        return with_toml_table(text, ("ingest",), lambda present: {**(present or {}), "watch": True})

    return Edit(path=path, add=add, take=lambda text, _: without_toml_table(text, ("ingest",), ["watch"]))


def _hook_command(agent: str, program: Path, home: str | None) -> str:
    """Return the command of a hook."""
    command = shlex.quote(_hook_program(program))
    named = f"SHIFTLOG_HOME={shlex.quote(str(Path(home).expanduser().absolute()))} " if home else ""
    return f"{named}{command} {agent}"


def _hook_program(program: Path) -> str:
    """Return the program of a hook: its name if the agent finds it on its path, else the full path."""
    beside = program.with_name(HOOK)
    found = shutil.which(HOOK)
    by_name = found is not None and (not beside.exists() or Path(found).absolute() == beside)
    # A virtual environment may be on the path of this terminal only.
    by_name = by_name and not (beside.parent.parent / "pyvenv.cfg").exists()
    return HOOK if by_name or not beside.exists() else str(beside)


def _merged(entry: Entry, env_name: str) -> Merge:
    """Return a merge of our keys into an existing entry that keeps the user's own keys."""

    def merge(present: Entry | None) -> Entry:
        if present is None or "command" not in present:  # absent, or another transport with other keys
            return entry
        wanted = {**present, **entry}
        env: object = present.get(env_name)
        if isinstance(env, dict):
            others = {name: value for name, value in cast("Entry", env).items() if name != "SHIFTLOG_HOME"}
            wanted[env_name] = others | entry.get(env_name, {})
            if env and not wanted[env_name]:
                del wanted[env_name]
        return wanted

    return merge
