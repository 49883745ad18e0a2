"""The modes of the guard for agents' own tools, in the state directory: what the person chose, and what was installed.

`guard.json` is read by the daemon at its start and by a hook that gets no answer. Only a switch writes it, in the
daemon or, to switch off, without one. Beside it, `guard.AGENT` exists while an agent's mode is `enforce`: the installed
hook command looks for it when our program is gone.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from shiftlog.link.files import read_regular
from shiftlog.model.agents import AGENTS, CLAUDE, CODEX, CURSOR, GEMINI, find_kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.text.json_comments import plain_json

GuardMode = Literal["off", "watch", "ask", "enforce"]
MODES: tuple[GuardMode, ...] = ("watch", "ask", "enforce")
FILE = "guard.json"
HOOKS_FILE = "shiftlog/hooks/hooks.json"
PLUGIN = "shiftlog@shiftlog"
OPENCODE_PLUGIN = "plugins/shiftlog.js"
ABSENT = "absent"

Digests = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGuard:
    """The guard of one kind of agent; `installed` are the digests of the settings that make its hooks run."""

    mode: GuardMode = "off"
    sandbox: str = "workspace-write"
    since: str = ""
    installed: Digests = field(default_factory=dict[str, str])


class GuardState:
    """The modes of all agents, kept in a file."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._agents: dict[str, AgentGuard] = {}
        try:
            document: Any = json.loads(read_regular(home / FILE))
            self._agents = {kind: AgentGuard(**given) for kind, given in document["agents"].items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            # The modes in an unreadable file are unknown: the strictest one holds until a person switches.
            self._agents = {kind: AgentGuard(mode="enforce") for kind, agent in AGENTS.items() if agent.hooks}

    def of(self, kind: str) -> AgentGuard:
        """Return the guard of a kind of agent."""
        return self._agents.get(kind, AgentGuard())

    def shown(self, environ: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the mode of each agent that has hooks, and the settings that are not as they were installed."""
        return [self._shown(kind, environ) for kind in guarded_kinds(())]

    def _shown(self, kind: str, environ: Mapping[str, str]) -> dict[str, Any]:
        guard, agent = self.of(kind), AGENTS[kind]
        now = installed_settings(kind, self._home, environ, None)
        is_on = guard.mode != "off"
        return {
            "agent": agent.name,
            "title": agent.title,
            "mode": guard.mode,
            "sandbox": guard.sandbox if is_on else None,
            "since": guard.since or None,
            "hooks_installed": any(one != ABSENT for path, one in now.items() if not path.endswith(".toml")),
            "changed": changed_settings(guard, now) if is_on else [],
        }

    def put(self, kind: str, guard: AgentGuard) -> None:
        """Keep the guard of a kind of agent; with `off`, forget it."""
        self._agents.pop(kind, None)
        if guard.mode != "off":
            self._agents[kind] = guard
        path, marker = self._home / FILE, self._home / f"guard.{AGENTS[kind].name}"
        if self._agents:
            text = json.dumps({"v": 1, "agents": {one: asdict(given) for one, given in self._agents.items()}}, indent=2)
            new = path.with_suffix(".new")
            new.write_text(text + "\n", "utf-8")
            new.chmod(0o600)
            new.replace(path)
        else:
            path.unlink(missing_ok=True)
        if guard.mode == "enforce":
            marker.touch(mode=0o600)
        else:
            marker.unlink(missing_ok=True)


def guarded_kinds(names: Iterable[str]) -> list[str]:
    """Return the kinds of the named agents, without names of all agents that have hooks; raise InvalidParameter."""
    hooked = [kind for kind, agent in AGENTS.items() if agent.hooks]
    kinds: list[str] = []
    for name in names:
        kind = find_kind(name)
        if kind not in hooked:
            raise InvalidParameter.invalid("agent", f"one of {', '.join(AGENTS[one].name for one in hooked)}", name)
        kinds.append(kind)
    return kinds or hooked


def installed_settings(kind: str, home: Path, environ: Mapping[str, str], project: str | None) -> Digests:
    """Return a digest of each setting that decides whether an agent's hooks run, by its file."""
    user = Path(environ.get("HOME") or Path.home())
    folders = AGENTS[kind].settings_folders(environ, user)
    if kind == CLAUDE:
        found = dict(_claude(folders, home, project))
    elif kind == CODEX:
        found = dict(_codex(folders[0]))
    elif kind == GEMINI:
        found = dict(_gemini(folders[0], project))
    elif kind == CURSOR:
        path = folders[0] / "hooks.json"
        found = {path: _part_of(path, _our_hooks)}
    else:
        plugin = folders[0] / OPENCODE_PLUGIN
        found = {plugin: _digest_of(plugin)}
    return {str(path): digest for path, digest in found.items()}


def changed_settings(guard: AgentGuard, now: Digests) -> list[str]:
    """Return the files whose settings are not those that were installed."""
    before = guard.installed
    return sorted(path for path, digest in now.items() if digest != before.get(path, ABSENT))


def _claude(folders: list[Path], home: Path, project: str | None) -> Iterator[tuple[Path, str]]:
    own = home / "plugins" / HOOKS_FILE
    yield own, _digest_of(own)
    for folder in folders[:1]:
        for name in ("settings.json", "settings.local.json"):
            yield folder / name, _part_of(folder / name, _claude_part)
        for copy in sorted((folder / "plugins" / "cache").glob("shiftlog/shiftlog/*/hooks/hooks.json")):
            # The client's copy of our file: no change as long as it is one.
            yield copy, ABSENT if _digest_of(copy) == _digest_of(own) else _digest_of(copy)
    for name in ("settings.json", "settings.local.json") if project else ():
        path = Path(project or "", ".claude", name)
        yield path, _part_of(path, _project_part)


def _claude_part(document: Mapping[str, Any]) -> object:
    plugins: Any = document.get("enabledPlugins")
    marketplaces: Any = document.get("extraKnownMarketplaces")
    return [
        document.get("disableAllHooks") or None,
        cast("dict[str, Any]", plugins).get(PLUGIN) if isinstance(plugins, dict) else None,
        cast("dict[str, Any]", marketplaces).get("shiftlog") if isinstance(marketplaces, dict) else None,
    ]


def _codex(folder: Path) -> Iterator[tuple[Path, str]]:
    yield folder / "hooks.json", _part_of(folder / "hooks.json", _our_hooks)
    yield folder / "config.toml", _part_of(folder / "config.toml", _features)


def _gemini(folder: Path, project: str | None) -> Iterator[tuple[Path, str]]:
    yield folder / "settings.json", _part_of(folder / "settings.json", _gemini_part)
    if project:
        path = Path(project, ".gemini", "settings.json")
        yield path, _part_of(path, _hooks_config)


def _gemini_part(document: Mapping[str, Any]) -> object:
    """Return our hooks of each event, and what switches hooks off; None without hooks of ours."""
    ours = cast("dict[str, list[Any]]", _our_hooks(document) or {})
    return [ours, _hooks_config(document)] if any(ours.values()) else None


def _hooks_config(document: Mapping[str, Any]) -> object:
    return document.get("hooksConfig") or None


def _our_hooks(document: Mapping[str, Any]) -> object:
    """Return our hooks of each event."""
    lists: Any = document.get("hooks")
    if not isinstance(lists, dict):
        return None
    return {
        event: [group for group in cast("list[Any]", groups) if "shiftlog-hook" in json.dumps(group)]
        for event, groups in cast("dict[str, Any]", lists).items()
        if isinstance(groups, list)
    }


def _project_part(document: Mapping[str, Any]) -> object:
    return document.get("disableAllHooks") or None


def _features(document: Mapping[str, Any]) -> object:
    return document.get("features")


def _part_of(path: Path, part: Callable[[Mapping[str, Any]], object]) -> str:
    """Return the digest of the part of a settings file that counts, ABSENT without the part or the file."""
    try:
        data = read_regular(path)
        document: Any = (
            tomllib.loads(data.decode()) if path.suffix == ".toml" else json.loads(plain_json(data.decode("utf-8-sig")))
        )
        found = part(cast("dict[str, Any]", document)) if isinstance(document, dict) else "unreadable"
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError):
        found = "unreadable"
    is_empty = found is None or (isinstance(found, list) and not any(cast("list[Any]", found)))
    return ABSENT if is_empty else _digest(json.dumps(found, sort_keys=True).encode())


def _digest_of(path: Path) -> str:
    try:
        return _digest(read_regular(path))
    except OSError:
        return ABSENT


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
