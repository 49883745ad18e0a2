"""One event of an agent's hook on its way into a journal: read, masked, and with the keys of its facts."""

import msgspec

from shiftlog.facts.batch import Batch


class HookFact(msgspec.Struct, frozen=True, kw_only=True):
    """One event; texts are masked. `name` is the event's own, `agent_id` names the subagent that it came from.

    `prompt_name` is the origin name of a prompt without its number, `turn_name` that of the vendor's own turn.
    """

    id: str
    at: str
    agent: str
    name: str
    vendor_id: str
    agent_id: str | None = None
    agent_type: str | None = None
    cwd: str | None = None
    transcript_path: str | None = None
    source: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    turn_name: str | None = None
    vendor_turn_id: str | None = None
    prompt_id: str | None = None
    """The client's own id of the prompt in whose turn the event happened."""
    prompt: str | None = None
    prompt_title: str = ""
    prompt_name: str | None = None
    context: tuple[str, ...] = ()
    """The text that an editor put before the prompt."""
    trigger: str | None = None
    reason: str | None = None
    error: str | None = None
    response: str | None = None
    pid: int | None = None
    pid_started: str | None = None
    processes: tuple[tuple[int, str], ...] = ()
    """The agent's process and those above it, the nearest first, each with its start time, if it still ran."""
    call_id: str | None = None
    """The id of the tool call that the event is about."""
    is_own_call: bool = False
    """True if that is a call of one of our tools."""
    raw: str | None = None
    """The masked event itself, if its kind is unknown."""
    calls: Batch | None = None
    """Tool calls, results and actions that the event reports."""
    masked: dict[str, int] = {}
