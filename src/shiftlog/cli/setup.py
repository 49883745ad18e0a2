"""`shiftlog setup AGENT`: connects an agent to Shiftlog by entries in the agent's own configuration files.

Here are where each agent keeps its MCP servers and hooks, and what we put there. The editing of the text itself is in
`splice`, its safe writing and taking away in `setup_files`, what the plugins hold in `plugin_files`.
"""

import json
import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import click

from shiftlog import wire
from shiftlog.cli.plugin_files import NAME, claude_files, hook_groups
from shiftlog.cli.setup_files import Added, Edit, Edited, EditRefused
from shiftlog.cli.splice import (
    Entry,
    Merge,
    with_json_entry,
    with_json_item,
    with_toml_table,
    without_json_entry,
    without_json_items,
    without_toml_table,
)

if TYPE_CHECKING:
    from rich.console import Console

HOOK = "shiftlog-hook"
PLUGIN = f"{NAME}@{NAME}"
TRUST = "Codex asks once whether to trust the hooks; say yes, or they do not run."


class SetupFailed(click.ClickException):
    """A refusal that changed nothing, with the way out."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        super().show(file)
        click.echo(f"Hint: {self.hint}", err=True, file=file)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """Where an agent lists its MCP servers, and in which form."""

    title: str
    path: Callable[[Path, Mapping[str, str]], Path]
    section: str
    typed: bool = False
    comments: bool = False
    command: Callable[[Entry], list[str]] | None = None

    def snippet(self, path: Path, entry: Entry) -> str:
        """Return what a person would paste into an empty file."""
        return self.edited(path, "", lambda _: entry)

    def edited(self, path: Path, text: str, merge: Merge) -> str:
        """Return the text of the file with the entry in it."""
        if path.suffix == ".toml":
            return with_toml_table(text, (self.section, NAME), merge)
        return with_json_entry(text, (self.section, NAME), merge, comments=self.comments)


def _claude_path(home: Path, environ: Mapping[str, str]) -> Path:
    moved = environ.get("CLAUDE_CONFIG_DIR", "").split(",")[0].strip()
    return (Path(moved).expanduser() if moved else home / ".claude") / "settings.json"


def _codex_path(home: Path, environ: Mapping[str, str]) -> Path:
    moved = environ.get("CODEX_HOME", "")
    return (Path(moved).expanduser() if moved else home / ".codex") / "config.toml"


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
    # Its servers, hooks and skills come with a plugin, which its settings name.
    "claude": AgentFile(
        title="Claude Code", path=_claude_path, section="extraKnownMarketplaces", typed=True, command=_claude_command
    ),
    "codex": AgentFile(title="Codex", path=_codex_path, section="mcp_servers", command=_codex_command),
    "cursor": AgentFile(
        title="Cursor",
        path=lambda home, _: home / ".cursor" / "mcp.json",
        section="mcpServers",
        typed=True,
    ),
    "gemini": AgentFile(
        title="Gemini CLI",
        path=lambda home, _: home / ".gemini" / "settings.json",
        section="mcpServers",
        comments=True,
    ),
    "vscode": AgentFile(title="VS Code", path=_vscode_path, section="servers", typed=True, comments=True),
}


@click.command()
@click.argument("agent", type=click.Choice(list(AGENT_FILES)))
@click.option(
    "--write/--print-only",
    default=False,
    help="Edit the files, keeping backups, instead of printing what belongs in them (the default).",
)
@click.option("--remove", is_flag=True, help="Take away exactly what --write added, keeping backups.")
@click.option("--toolsets", metavar="NAMES", help="Toolsets that the agent sees, separated by commas.")
@click.option("--dialect", metavar="NAMES", help="Dialects that the agent sees, separated by commas.")
@click.option("--per-call", is_flag=True, help="Hooks for every tool call too, not only for turns (claude, codex).")
@click.option("--watch", is_flag=True, help="Let the daemon import transcripts as they grow.")
@click.option(
    "--home",
    metavar="DIR",
    envvar="SHIFTLOG_HOME",
    show_envvar=True,
    help="State directory to name in the entry; only needed when it is not the usual one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def setup(
    agent: str,
    write: bool,
    remove: bool,
    toolsets: str | None,
    dialect: str | None,
    per_call: bool,
    watch: bool,
    home: str | None,
    as_json: bool,
) -> None:
    """Connect AGENT to Shiftlog.

    Prints the configuration that AGENT needs and where it goes. With --write, puts it there: everything
    else in the files stays as it is, a copy of each file as it was is kept beside it, and a file that already
    says the right thing is left alone. Claude Code gets a plugin with hooks and skills, Codex gets hooks.
    With --remove, everything that --write added goes away again.

    \b
    Examples:
      shiftlog setup claude
      shiftlog setup codex --write
      shiftlog setup claude --remove
    """
    if write and remove:
        raise click.UsageError("--write and --remove do not go together")
    if per_call and agent not in HOOKED:
        raise click.UsageError(f"--per-call is for {' and '.join(HOOKED)}")
    plan = Plan.of(agent, toolsets=toolsets, dialect=dialect, per_call=per_call, watch=watch or remove, home=home)
    done: list[Edited] = []
    state = "printed"
    if write or remove:
        done = plan.put() if write else plan.take()
        changed = any(one.state != "unchanged" for one in done)
        state = ("written" if write else "removed") if changed else "unchanged"
    command = shlex.join(plan.agent_file.command(plan.entry)) if plan.agent_file.command else None
    if as_json:
        click.echo(json.dumps(plan.report(agent, state, done, command), indent=2, ensure_ascii=False))
    elif write or remove:
        _say_done(plan, done, removed=remove)
    else:
        _say_how(agent, plan, command)


HOOKED = ("claude", "codex")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What connecting an agent comes to: edits of others' files, and files of a plugin of our own."""

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
    ) -> "Plan":
        """Plan for an agent with the options that were given."""
        agent_file = AGENT_FILES[agent]
        path = agent_file.path(Path.home(), os.environ)
        program = executable()
        entry = _entry(agent_file, program, toolsets, dialect, home)
        state = Path(home).expanduser().absolute() if home else Path(wire.home_path())
        hook = _hook_command(agent, program, home)
        files: Mapping[str, str] = {}
        if agent == "claude":
            server = {name: value for name, value in entry.items() if name != "type"}
            files = claude_files(hook=hook, server=server, per_call=per_call)
            edits = [_claude_settings(path, state / "plugins")]
            text = edits[0].add("")
        else:
            edits = [_server_entry(agent_file, path, entry)]
            text = agent_file.snippet(path, entry)
            if agent == "codex":
                edits.append(_codex_hooks(path.with_name("hooks.json"), hook, per_call=per_call))
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
            note=TRUST if agent == "codex" else "",
        )

    def put(self) -> list[Edited]:
        """Make the edits and write the plugin; raise SetupFailed, having changed nothing."""
        added = Added.load(self.added)
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
        """Take away what was put; raise SetupFailed where a file cannot be edited safely."""
        added = Added.load(self.added)
        try:
            done = added.take(self.edits)
            added.save()
        except EditRefused as error:
            added.save()
            raise SetupFailed(str(error), "Take our entries out by hand; their names begin with shiftlog.") from None
        return done

    def report(self, agent: str, state: str, done: list[Edited], command: str | None) -> dict[str, Any]:
        """Return what programs are told."""
        main = next((one for one in done if one.path == self.path), None)
        return {
            "agent": agent,
            "state": state,
            "path": str(self.path),
            "backup": str(main.backup) if main and main.backup else None,
            "entry": self.entry,
            "text": self.text,
            "command": command,
            "plugin": str(self.folder) if self.files else None,
            "files": [one.as_dict() for one in done],
            "note": self.note or None,
        }


def _server_entry(agent_file: AgentFile, path: Path, entry: Entry) -> Edit:
    def take(text: str, sections: frozenset[str]) -> str:
        if path.suffix == ".toml":
            return without_toml_table(text, (agent_file.section, NAME))
        own = agent_file.section not in sections
        return without_json_entry(text, (agent_file.section, NAME), comments=agent_file.comments, section_too=own)

    return Edit(path=path, add=lambda text: agent_file.edited(path, text, _merged(entry)), take=take)


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


def _codex_hooks(path: Path, command: str, *, per_call: bool) -> Edit:
    wanted = hook_groups("codex", command, per_call=per_call)

    def take(text: str, sections: frozenset[str]) -> str:
        return without_json_items(text, "hooks", _is_our_hook)

    def add(text: str) -> str:
        if not _has_exactly(text, wanted):
            text = take(text, frozenset())
        for event, groups in wanted.items():
            for group in groups:
                text = with_json_item(text, ("hooks", event), group)
        return text

    return Edit(path=path, add=add, take=take)


def _has_exactly(text: str, wanted: Mapping[str, Any]) -> bool:
    """Tell whether the hooks of ours in a file are these and no others."""
    try:
        document: Any = json.loads(text or "{}")
    except ValueError:
        return True  # not ours to change; adding says what is wrong with it
    lists: Any = cast("Entry", document).get("hooks") if isinstance(document, dict) else None
    if not isinstance(lists, dict):
        return True
    found = {
        event: ours
        for event, items in cast("Entry", lists).items()
        if isinstance(items, list) and (ours := [one for one in cast("list[Any]", items) if _is_our_hook(one)])
    }
    return all(groups == wanted.get(event) for event, groups in found.items())


def _is_our_hook(group: Any) -> bool:
    hooks: Any = cast("Entry", group).get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list) or not hooks:
        return False
    commands = [
        cast("Entry", one).get("command") if isinstance(one, dict) else None for one in cast("list[Any]", hooks)
    ]
    return all(isinstance(command, str) and f"{HOOK} codex" in command.replace("'", "") for command in commands)


def _watching(path: Path) -> Edit:
    def add(text: str) -> str:
        return with_toml_table(text, ("ingest",), lambda present: {**(present or {}), "watch": True})

    return Edit(path=path, add=add, take=lambda text, _: without_toml_table(text, ("ingest",), ["watch"]))


def _hook_command(agent: str, program: Path, home: str | None) -> str:
    """Return the command of a hook: by name where the agent finds it, else by its path."""
    beside = program.with_name(HOOK)
    found = shutil.which(HOOK)
    by_name = found is not None and (not beside.exists() or Path(found).absolute() == beside)
    command = HOOK if by_name or not beside.exists() else shlex.quote(str(beside))
    named = f"SHIFTLOG_HOME={shlex.quote(str(Path(home).expanduser().absolute()))} " if home else ""
    return f"{named}{command} {agent}"


def _entry(
    agent_file: AgentFile, executable: Path, toolsets: str | None, dialect: str | None, home: str | None
) -> Entry:
    args = ["mcp"]
    for option, names in (("--toolsets", toolsets), ("--dialect", dialect)):
        if names is not None:
            args += [option, _checked_names(option, names)]
    entry: Entry = {"type": "stdio"} if agent_file.typed else {}
    entry |= {"command": str(executable), "args": args}
    if home:
        entry["env"] = {"SHIFTLOG_HOME": str(Path(home).expanduser().absolute())}
    return entry


def _checked_names(option: str, names: str) -> str:
    parts = [part.strip() for part in names.split(",")]
    if not all(part.replace("_", "").isalnum() for part in parts):
        raise click.BadParameter("names separated by commas are expected", param_hint=option)
    return ",".join(parts)


def connecting_command(agent: str, home: str | None) -> str | None:
    """Return the agent's own command line that connects it, None for an agent that has none."""
    agent_file = AGENT_FILES[agent]
    entry = _entry(agent_file, executable(), None, None, home)
    return shlex.join(agent_file.command(entry)) if agent_file.command else None


def executable() -> Path:
    """Find the `shiftlog` in use; links stay as they are, so that an upgrade behind them is followed."""
    started = sys.argv[0] if Path(sys.argv[0]).name == NAME and os.sep in sys.argv[0] else None
    installed = Path(sysconfig.get_path("scripts")) / NAME
    for candidate in (started, installed, shutil.which(NAME)):
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate).absolute()
    raise SetupFailed("The shiftlog program is not found.", "Install Shiftlog, or put it on your PATH.")


def _merged(entry: Entry) -> Merge:
    """Lay our keys over an entry that is there, leaving what its owner added."""

    def merge(present: Entry | None) -> Entry:
        if present is None or "command" not in present:  # absent, or another transport with keys of its own
            return entry
        wanted = {**present, **entry}
        env: object = present.get("env")
        if isinstance(env, dict):
            others = {name: value for name, value in cast("Entry", env).items() if name != "SHIFTLOG_HOME"}
            wanted["env"] = others | entry.get("env", {})
            if env and not wanted["env"]:
                del wanted["env"]
        return wanted

    return merge


def _say_how(agent: str, plan: Plan, command: str | None) -> None:
    console = _console()
    title = plan.agent_file.title
    if command:
        console.print(f"Run this to give {title} the tools:\n", style="bold")
        console.print(command, style="cyan")
    if plan.files:
        console.print(f"\nOr, with hooks and skills, put our plugin into {plan.folder} and this into {plan.path}:\n")
    elif command:
        console.print(f"\nOr put this into {plan.path}:\n", style="bold")
    else:
        console.print(f"To connect {title}, put this into {plan.path}:\n", style="bold")
    console.print(plan.text, style="cyan")
    for edit in plan.edits[1:]:
        console.print(f"And this into {edit.path}:\n", style="bold")
        console.print(edit.add(""), style="cyan")
    console.print(f"`shiftlog setup {agent} --write` does it for you and keeps what is there.")
    if plan.note:
        console.print(plan.note)


def _say_done(plan: Plan, done: list[Edited], *, removed: bool) -> None:
    console = _console()
    title = plan.agent_file.title
    changed = [one for one in done if one.state != "unchanged"]
    if not changed and removed:
        console.print(f"Nothing of ours is in the files of {title}.")
        return
    if not changed:
        console.print(f"{plan.path} is already right; nothing was changed.")
        return
    if removed:
        console.print(f"{title} is disconnected:", style="green")
    else:
        console.print(f"{title} is connected: {plan.path}", style="green")
    for one in changed:
        console.print(f"  {one.state}: {one.path}")
        if one.backup:
            console.print(f"  The file as it was: {one.backup}")
    console.print(f"Start {title} anew to load it." if not removed else f"Start {title} anew to forget it.")
    if plan.note and not removed:
        console.print(plan.note)


def _console() -> "Console":
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
