"""The agents on this machine as `shiftlog doctor` shows them: version, what `setup` put where, and the one next step.

Reads the agents' own files, asks each program for its version, and adds what the daemon has seen of it; nothing is
changed.
"""

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from shiftlog.cli.setup.agents import AGENT_FILES
from shiftlog.cli.setup.plan import HOOKED, is_our_hook
from shiftlog.cli.setup.plugin_files import NAME, OWN_NAMES
from shiftlog.link.files import read_regular
from shiftlog.model.agents import BY_NAME
from shiftlog.model.times import parse
from shiftlog.text.figures import largest_unit
from shiftlog.text.json_comments import plain_json

# The programs of agents that are not named as the agent.
PROGRAMS = {"cursor": ("cursor-agent", "cursor")}
VERSION_S = 10.0
VERSION_CHARS = 40
PLUGIN = f"{NAME}@{NAME}"
_NUMBER = re.compile(r"\d+(\.\d+)+\S*")

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One agent: `state` is ok or warn; `hint` is the one next step."""

    agent: str
    state: str
    message: str
    hint: str = ""


def findings(home: Path, environ: Mapping[str, str], seen: Mapping[str, Document]) -> Iterator[Finding]:
    """Yield a finding for each agent that is installed or was set up; `seen` are the daemon's facts by agent."""
    for agent, file in AGENT_FILES.items():
        names = PROGRAMS.get(agent, (agent,))
        program = next(filter(None, (shutil.which(name, path=environ.get("PATH")) for name in names)), None)
        path = file.path(home, environ)
        server = _has_server(agent, path)
        live = seen.get(agent)
        if program is None and not server and _guard_mode(live) == "off":
            continue
        version = _version(program) if program is not None else "not on the path"
        if not server:
            yield _unconnected(agent, f"{file.title} {version}: not connected", live)
            continue
        (problem, hint) = _hooks_problem(agent, path)
        if not problem and live is not None:
            problem, hint = _live_problem(agent, live)
        said = problem or ("server and hooks are set up" if agent in HOOKED else "server is set up; it has no hooks")
        about = "; ".join([said, *(_live_facts(agent, live) if live is not None else ())])
        message = f"{file.title} {version}: {about}"
        yield Finding(agent=agent, state="warn" if problem else "ok", message=message, hint=hint)


def _unconnected(agent: str, message: str, live: Document | None) -> Finding:
    """Return the finding for an agent that was not set up; its guard holds nothing."""
    mode = _guard_mode(live)
    if mode != "off":
        message += f", so its guard ({mode}) holds nothing"
    state = "ok" if mode == "off" else "warn"
    return Finding(agent=agent, state=state, message=message, hint=f"Run: shiftlog setup {agent} --write")


def _live_facts(agent: str, live: Document) -> Iterator[str]:
    """Yield the daemon's facts about an agent: last event, connections, mode of the guard."""
    event: Document | None = live.get("last_event")
    if event is not None:
        ago = largest_unit((datetime.now(UTC) - parse(str(event["at"]))).total_seconds())
        yield f"last event {event['name']} {ago} ago"
    elif agent in HOOKED:
        yield "no event seen yet"
    connections = int(live.get("mcp_connections") or 0)
    yield f"tools connected ({connections})" if connections else "tools not connected now"
    if agent in HOOKED:
        yield f"guard {_guard_mode(live)}"


def _live_problem(agent: str, live: Document) -> tuple[str, str]:
    """Return the worst problem in the daemon's facts about an agent, and what to do."""
    guard = _inner(live, "guard")
    changed: list[str] = guard.get("changed") or []
    if changed:
        hint = "If you made the change, run shiftlog guard on again; else put the file back"
        return f"guard_changed: {', '.join(changed)} changed since the guard was switched on", hint
    if _guard_mode(live) != "off" and not guard.get("hooks_installed"):
        return "the guard is on, but its hooks are not installed", f"Run: shiftlog setup {agent} --write"
    unknown: list[Document] = live.get("unknown") or []
    if unknown:
        named = ", ".join(f"{one['kind']} ({one['count']}, version {one['version'] or 'unknown'})" for one in unknown)
        hint = "They are kept as they are. Update Shiftlog; shiftlog import --full then reads them"
        return f"records of unknown kinds: {named}", hint
    if agent in HOOKED and live.get("last_event") is None:
        return "", f"Start {AGENT_FILES[agent].title} once; its first event shows that the hooks run"
    return "", ""


def _guard_mode(live: Document | None) -> str:
    return _inner(live or {}, "guard").get("mode", "off")


def _version(program: str) -> str:
    """Return the version that a program names, without its own name for it."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "(version unknown)"
    found = _NUMBER.search(done.stdout)
    return found.group()[:VERSION_CHARS] if found else "(version unknown)"


def _has_server(agent: str, path: Path) -> bool:
    """Return True if an agent's file names our server, for Claude Code our plugin."""
    document = _read(path)
    if agent == "claude":
        return bool(_inner(document, "enabledPlugins").get(PLUGIN))
    return NAME in _inner(document, AGENT_FILES[agent].section)


def _hooks_problem(agent: str, path: Path) -> tuple[str, str]:
    """Return the problem with the hooks of an agent and its remedy; two empty texts without a problem."""
    again = f"Run: shiftlog setup {agent} --write"
    if agent == "claude":
        source = _inner(_inner(_inner(_read(path), "extraKnownMarketplaces"), NAME), "source")
        folder = Path(str(source.get("path") or ""))
        hooks = _inner(_read(folder / NAME / "hooks" / "hooks.json"), "hooks")
        if not hooks:
            return "the plugin's files are missing", again
        if _read(path).get("disableAllHooks") is True:
            return "hooks are switched off (disableAllHooks)", f"Remove disableAllHooks from {path}"
        return _lacking(agent, set(hooks), again)
    if agent == "opencode":
        plugin = path.with_name("plugins") / "shiftlog.js"
        return ("", "") if plugin.exists() else (f"the plugin {plugin} is missing", again)
    if agent not in HOOKED:
        return "", ""
    file = path if agent == "gemini" else path.with_name("hooks.json")
    ours = _our_hooks(agent, file)
    named = {theirs: our for our, theirs in OWN_NAMES.get(agent, {}).items()}
    lacking = _lacking(agent, {named.get(event, event) for event, places in ours.items() if places}, again)
    if lacking[0] or agent == "cursor":
        return lacking
    return _disabled(_read(path)) if agent == "gemini" else _untrusted(file, path, ours)


def _our_hooks(agent: str, file: Path) -> dict[str, list[int]]:
    """Return the places of our hooks in the lists of a file, by event."""
    return {
        event: [number for number, group in enumerate(cast("list[Any]", groups)) if is_our_hook(group, agent)]
        for event, groups in _inner(_read(file), "hooks").items()
        if isinstance(groups, list)
    }


def _disabled(document: Document) -> tuple[str, str]:
    """Return the setting of Gemini CLI that keeps our hooks from running, and the remedy."""
    config = _inner(document, "hooksConfig")
    disabled: object = config.get("disabled")
    if config.get("enabled") is False:
        return "hooks are switched off (hooksConfig.enabled)", "Switch them on: /hooks enable-all in gemini"
    if isinstance(disabled, list) and NAME in cast("list[Any]", disabled):
        return "our hooks are switched off (hooksConfig.disabled)", f"Switch them on: /hooks enable {NAME} in gemini"
    return "", ""


def _untrusted(file: Path, path: Path, ours: Mapping[str, list[int]]) -> tuple[str, str]:
    """Return which hooks Codex does not trust, and what to do."""
    trusted = _inner(_inner(_read(path), "hooks"), "state")
    untrusted = [
        event
        for event, places in ours.items()
        for place in places
        if not _is_trusted(_inner(trusted, f"{file}:{_snake(event)}:{place}:0"))
    ]
    if not untrusted:
        return "", ""
    total = sum(map(len, ours.values()))
    message = f"{len(untrusted)} of {total} hooks are not trusted, so they do not run and `codex exec` does not say so"
    return message, "Start codex once and trust the hooks; until then calls of the tools and imports are recorded"


def _lacking(agent: str, events: set[str], hint: str) -> tuple[str, str]:
    calls = {"PostToolUse", "PostToolUseFailure"}  # only with --per-call
    missing = sorted(set(BY_NAME[agent].hooks) - calls - events)
    return (f"hooks are missing: {', '.join(missing)}", hint) if missing else ("", "")


def _is_trusted(state: Document) -> bool:
    return bool(state.get("trusted_hash")) and state.get("enabled") is not False


def _snake(event: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in event).lstrip("_")


def _inner(document: Document, name: str) -> Document:
    value = document.get(name)
    return cast(Document, value) if isinstance(value, dict) else {}


def _read(path: Path) -> Document:
    """Return the content of a settings file; empty if it is not there or not readable."""
    try:
        text = read_regular(path).decode("utf-8")
        value: object = tomllib.loads(text) if path.suffix == ".toml" else json.loads(plain_json(text))
    except (OSError, ValueError, RecursionError):
        return {}
    return cast(Document, value) if isinstance(value, dict) else {}


def of_this_machine(seen: Mapping[str, Document]) -> Iterator[Finding]:
    """Yield the findings for the user of this process."""
    yield from findings(Path.home(), os.environ, seen)
