"""`shiftlog setup AGENT`: connects an agent to Shiftlog by an entry in the agent's own configuration file.

Here are where each agent keeps its MCP servers, what the entry says, and the safe writing of the file. The
editing of the text itself is in `splice`.
"""

import json
import os
import shlex
import shutil
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import click

from shiftlog.cli.splice import CannotEdit, Entry, Merge, with_json_entry, with_toml_table
from shiftlog.model.times import compact

if TYPE_CHECKING:
    from rich.console import Console

NAME = "shiftlog"
_BOM = "\ufeff"


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
    return (Path(moved).expanduser() if moved else home) / ".claude.json"


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
    "claude": AgentFile(
        title="Claude Code", path=_claude_path, section="mcpServers", typed=True, command=_claude_command
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
    help="Edit the file, keeping a backup, instead of printing what belongs in it (the default).",
)
@click.option("--toolsets", metavar="NAMES", help="Toolsets that the agent sees, separated by commas.")
@click.option("--dialect", metavar="NAMES", help="Dialects that the agent sees, separated by commas.")
@click.option(
    "--home",
    metavar="DIR",
    envvar="SHIFTLOG_HOME",
    show_envvar=True,
    help="State directory to name in the entry; only needed when it is not the usual one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def setup(agent: str, write: bool, toolsets: str | None, dialect: str | None, home: str | None, as_json: bool) -> None:
    """Connect AGENT to Shiftlog.

    Prints the configuration that AGENT needs and where it goes. With --write, puts it there: everything
    else in the file stays as it is, a copy of the file as it was is kept beside it, and a file that already
    says the right thing is left alone.

    \b
    Examples:
      shiftlog setup claude
      shiftlog setup codex --write
    """
    agent_file = AGENT_FILES[agent]
    path = agent_file.path(Path.home(), os.environ)
    entry = _entry(agent_file, executable(), toolsets, dialect, home)
    backup, state = None, "printed"
    if write:
        changed, backup = _write(agent_file, path, entry)
        state = "written" if changed else "unchanged"
    command = shlex.join(agent_file.command(entry)) if agent_file.command else None
    if as_json:
        report = {
            "agent": agent,
            "state": state,
            "path": str(path),
            "backup": str(backup) if backup else None,
            "entry": entry,
            "text": agent_file.snippet(path, entry),
            "command": command,
        }
        click.echo(json.dumps(report, indent=2, ensure_ascii=False))
    elif write:
        _say_written(agent_file, path, backup, changed=state == "written")
    else:
        _say_how(agent, agent_file, path, entry, command)


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


def _write(agent_file: AgentFile, path: Path, entry: Entry) -> tuple[bool, Path | None]:
    """Bring the entry into the file; tell whether it changed, and where the copy of the old one is."""
    real = Path(os.path.realpath(path))
    try:
        before = real.read_bytes() if real.exists() else None
        text = (before or b"").decode("utf-8")
        bom = _BOM if text.startswith(_BOM) else ""
        after = (bom + agent_file.edited(real, text.removeprefix(bom), _merged(entry))).encode("utf-8")
        if after == before:
            return False, None
        return True, write_atomically(real, before, after)
    except CannotEdit as error:
        reason = str(error)
    except UnicodeError:
        reason = "not everything in it is valid UTF-8"
    except OSError as error:
        reason = error.strerror or str(error)
    hint = "Nothing was changed. Without --write the command prints what to put there by hand."
    raise SetupFailed(f"{path} cannot be edited: {reason}.", hint)


def write_atomically(path: Path, before: bytes | None, after: bytes) -> Path | None:
    """Put new content in place in one step, after a copy of the old; return the path of the copy.

    Raises CannotEdit, and leaves nothing behind, when the file no longer holds `before` (None: is absent).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    status = None if before is None else path.stat()
    made: list[Path] = []
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        made.append(Path(name))
        _fill(descriptor, after, status)
        if before is not None:
            descriptor, backup = _open_backup(path)
            made.append(backup)
            _fill(descriptor, before, status)
        # Agents write these files too; what one wrote meanwhile must not be lost.
        if (path.read_bytes() if path.exists() else None) != before:
            raise CannotEdit("it changed just now; run the command again")
        made[0].replace(path)
    except BaseException:
        for leftover in made:
            leftover.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return made[1] if before is not None else None


def _open_backup(path: Path) -> tuple[int, Path]:
    name = f"{path.name}.{compact(datetime.now(UTC))}"
    backup, number = path.with_name(f"{name}.bak"), 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{name}-{number}.bak")
    return os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), backup


def _fill(descriptor: int, content: bytes, status: os.stat_result | None) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if status is not None:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            if os.geteuid() == 0:  # under sudo the file must stay its owner's
                os.fchown(descriptor, status.st_uid, status.st_gid)
        file.flush()
        os.fsync(descriptor)


def _say_how(agent: str, agent_file: AgentFile, path: Path, entry: Entry, command: str | None) -> None:
    console = _console()
    if command:
        console.print(f"Run this to connect {agent_file.title}:\n", style="bold")
        console.print(command, style="cyan")
        console.print(f"\nOr put this into {path}:\n", style="bold")
    else:
        console.print(f"To connect {agent_file.title}, put this into {path}:\n", style="bold")
    console.print(agent_file.snippet(path, entry), style="cyan")
    console.print(f"`shiftlog setup {agent} --write` does it for you and keeps what is there.")


def _say_written(agent_file: AgentFile, path: Path, backup: Path | None, *, changed: bool) -> None:
    console = _console()
    if not changed:
        console.print(f"{path} is already right; nothing was changed.")
        return
    console.print(f"{agent_file.title} is connected: {path}", style="green")
    if backup:
        console.print(f"The file as it was: {backup}")
    console.print(f"Start {agent_file.title} anew to load it.")


def _console() -> "Console":
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
