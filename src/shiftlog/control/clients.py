"""The question of `shiftlog doctor` about agents: last event, connections, guard, and unknown kinds of records."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from shiftlog.app.app import App
from shiftlog.control.questions import Params, Question
from shiftlog.ingest.importing.ports import UNKNOWN
from shiftlog.journal.clients import place_of
from shiftlog.journal.intake.hooks import last_events
from shiftlog.model.agents import AGENTS
from shiftlog.model.caller import Caller
from shiftlog.store.protocol import Reader

MOST_KINDS = 20


async def _clients(app: App, params: Params, caller: Caller) -> object:
    guards = {one["agent"]: one for one in app.hooks.guard_state.shown(app.environ)}

    def work(reader: Reader) -> dict[str, Any]:
        events, connected, unknown = last_events(reader), _connected(reader, app), _unknown(reader)
        return {
            agent.name: {
                "last_event": events.get(kind),
                "mcp_connections": connected[kind],
                "guard": guards.get(agent.name),
                "unknown": unknown.get(kind, []),
            }
            for kind, agent in AGENTS.items()
        }

    return {"agents": await app.store.read(work)}


def _connected(reader: Reader, app: App) -> Counter[str]:
    """Count the connections of our tools by agent."""
    sessions = [place_of(reader, one).session for one in app.mcp_callers]
    return Counter(session.agent for session in sessions if session is not None)


def _unknown(reader: Reader) -> Mapping[str, list[dict[str, Any]]]:
    """Return the kinds of records that no reader knows, by agent, each with the newest version that wrote it."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for source in reader.sources():
        kinds = {name.removeprefix(UNKNOWN): n for name, n in source.counts.items() if name.startswith(UNKNOWN) and n}
        if not kinds:
            continue
        sessions = [session for name in source.sessions if (session := reader.session(name)) is not None]
        newest = max(sessions, key=lambda session: session.last_activity, default=None)
        version = newest.executable_version if newest is not None else None
        for kind, n in kinds.items():
            one = found.setdefault(source.agent, {}).setdefault(kind, {"kind": kind, "count": 0, "version": None})
            one["count"] += n
            one["version"] = max(filter(None, (one["version"], version)), default=None)
    return {
        agent: sorted(kinds.values(), key=lambda one: (-one["count"], one["kind"]))[:MOST_KINDS]
        for agent, kinds in found.items()
    }


QUESTIONS: dict[str, Question] = {"clients": _clients}
