"""The caller of a request: the client process behind a connection, as far as it can be known."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

META, ENVIRONMENT = "meta", "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSigns:
    """The signs that tell in which agent's client a caller runs.

    `vendor_ids` are the client's own session ids by agent kind; `via` says where they come from: the metadata of the
    call, or the environment that the client gave the process. `tool_call` is the client's id of this call, `prompt_id`
    its id of the prompt in whose turn the call is made.
    `processes` are the caller's process and those above it, the nearest first, each with its start time. `since` is
    when the caller connected.
    """

    vendor_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    via: str = ENVIRONMENT
    tool_call: str | None = None
    prompt_id: str | None = None
    processes: tuple[tuple[int, str], ...] = ()
    since: datetime | None = None


NO_SIGNS = ClientSigns()


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The client of one request; `client_id` is drawn by the client at start and repeated on reconnect.

    `call_id` names the request within the client, so that its outcome can be asked for after a broken
    connection. `holds_leases` is false for short-lived writers (CLI, hooks, REPL) that write beside a holder.
    `inside` is true for a process in one of the daemon's shells, and None where the daemon cannot know (HTTP); only a
    client that is known to be outside may answer questions. `session_handle` is the session that the transport names
    for calls that name none; `client_name` is what the client calls itself; `command_timeout_s` is how long its
    commands may take where a dialect's call does not say. `signs` tell in which agent's client it runs.
    """

    client_id: str | None = None
    face: str = "library"
    host: str = ""
    pid: int | None = None
    pid_started: str | None = None
    cwd: str | None = None
    workspace: str | None = None
    call_id: str | None = None
    holds_leases: bool = False
    operator: bool = False
    inside: bool | None = False
    session_handle: str | None = None
    client_name: str | None = None
    command_timeout_s: int | None = None
    signs: ClientSigns = NO_SIGNS


LIBRARY = Caller()
