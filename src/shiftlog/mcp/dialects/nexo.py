"""The nexo dialect: the two tools with which a client that spawns agents itself keeps a ledger of its runs.

This module has names and shapes; `Sessions.open_session` opens a run and `Continuity.close_run` ends it. A ledger's
client does not work in the session itself, so it never holds the lease.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shiftlog.app.app import App
from shiftlog.journal.requests import IDEMPOTENCY_KEY, NAME_CHARS, PROMPT, RUN_FIELDS, TITLE_CHARS
from shiftlog.journal.runs.requests import FIGURES
from shiftlog.mcp.registry import RenderError, Reply, Run, Tool
from shiftlog.mcp.tools.outputs import FLAG, NUMBER, TEXT, TEXT_OR_NULL, one_of, record, said
from shiftlog.model.caller import NO_SIGNS, Caller
from shiftlog.model.errors import InvalidParameter, InvalidSessionId, SessionNotFound, ShiftlogError
from shiftlog.model.resonance import Resonance
from shiftlog.params.fields import Choice, Field, Integer, Record, Schema, SessionRef, Text, Wrapped

TOOLSET = "nexo"

CREATE_TEXT = """\
Create the ledger row of one agent run, for a client that spawns the agent's CLI itself. Call it BEFORE spawning the \
child, keep session_id, and call nexo_session_log_close when the session ends. An agent that records its own work uses \
open_session instead.
A row is a run (the process: caller, backend, model, cost) together with a new session that records its work. It \
starts no process. To let the child write into that session put into its prompt: "Call begin_turn with session_id = \
<session>." If the child finds the session through its Shiftlog hooks instead, spawn it first and pass pid and cwd. \
Each call makes a new row unless idempotency_key repeats. Secrets are masked.
A run becomes orphaned when its process (pid) has ended or, without a pid, after 90 minutes without any entry in its \
session; the session is then suspended, and the next begin_turn or resume_session continues it. A late close still \
counts and replaces orphaned.
Returns session_id (a number, elsewhere called run_id) for nexo_session_log_close, session (the journal id) for the \
child, and the tier, model and effort to start the child with. Next: spawn the child.
Errors, as {ok: false, error, code, session_id: null}: invalid_parameter (error names the argument), session_not_found \
(no such parent_session_id), idempotency_conflict (the key was used with other arguments; use a new one), \
budget_exceeded (the operator's daily limit, of this agent_id or of all agents, is spent; wait for midnight UTC or ask \
the operator), storage_error (nothing was recorded; try again)."""

CLOSE_TEXT = """\
Close the ledger row of a run with exit code, duration, tokens and cost. Call it once when the child has ended. An \
agent that ends its own session uses close_session instead.
It stops no process. The row's status becomes failed if error has any text; otherwise ok (returncode 0), cancelled \
(130, 143, -2 or -15) or failed (any other). It also closes the session, with a summary for a successor and a \
signed record; resume_session can reopen it. If another client works in the session, the figures are stored and the \
session stays open (warnings say so): that client closes it with close_session, or it is suspended when idle. If the \
child has closed its session itself, call this all the same: it stores the figures and leaves the session as it is.
The figures cannot be changed afterwards. A repeat with the same arguments changes nothing and answers again; with \
others it is refused.
Returns status, duration_ms and total_cost_usd as they are stored.
Errors, as {ok: false, error, code, session_id: null}: invalid_parameter (error names the argument), session_not_found \
(no such row; use the session_id of nexo_session_log_create), session_already_closed (closed before with other \
arguments; the \
stored figures are final, do not retry), storage_error (nothing was recorded; try again)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lenient(Wrapped):
    """A value as ledger clients send it: numbers also as text, empty text for unknown."""

    def type_schema(self) -> Schema:
        schema = self.inner.type_schema()
        if "enum" in schema:
            schema["enum"] = ["", *schema["enum"]]
        elif schema["type"] != "string":
            schema["type"] = ["string", schema["type"]]
        return schema


def _lenient(field: Field, description: str = "", default: object = "") -> Lenient:
    return Lenient(inner=field, description=description or field.description, default=default)


def _create_params(resonance: Resonance) -> Record:
    return Record(
        fields={
            "caller": replace(
                RUN_FIELDS["caller"],
                required=True,
                description="Name of the client or feature that launches the run. A registered one may have a tier of "
                "its own; an unknown one is accepted with a warning.",
                examples=("desktop_new_session", "headless_task"),
            ),
            "backend": Choice(
                required=True, values=tuple(resonance.backends), description="The CLI program that you spawn."
            ),
            "session_type": _lenient(
                RUN_FIELDS["session_type"],
                "interactive_desktop: a person at a terminal; interactive_chat: a person in a chat; headless: no "
                'person. "" means the default.',
                default="interactive_desktop",
            ),
            "model": replace(
                RUN_FIELDS["model"],
                default="",
                description='Model, stored as given, up to 200 characters. "": the model of the tier.',
                examples=("claude-opus-4-7[1m]",),
            ),
            "reasoning_effort": replace(
                RUN_FIELDS["reasoning_effort"],
                default="",
                description='Effort, stored as given, up to 40 characters. "": the effort of the tier.',
                examples=("xhigh",),
            ),
            "resonance_tier": _lenient(
                RUN_FIELDS["resonance_tier"],
                "Quality level that decides model and effort where those are empty, from maximo (best) to muy_bajo "
                '(cheapest). "": the level that the operator set for the caller, else the operator\'s default (alto).',
            ),
            "cwd": replace(
                RUN_FIELDS["cwd"],
                default="",
                description='Working directory of the child; ~ is expanded. "": unknown.',
                examples=("~/projects/shop",),
            ),
            "pid": _lenient(
                RUN_FIELDS["pid"],
                'Process id, if the child runs on this machine already; it cannot be added later. "": unknown, the '
                "usual case before a spawn.",
            ),
            "context_excerpt": replace(
                PROMPT,
                mends=True,
                default="",
                description="The prompt that the run starts with, of any length. The first 2,048 characters are kept, "
                "secrets masked.",
            ),
            "idempotency_key": replace(
                IDEMPOTENCY_KEY,
                description="Any text unique to this row, up to 200 characters; counts for 90 days. A retry with the "
                "same key and arguments returns the first answer and makes no row. Default: none.",
            ),
            "agent_id": Text(
                max_chars=NAME_CHARS,
                description="Stable name by which resume_session finds the session. Default: the agent kind of the "
                "backend, such as ClaudeCode, shared by all of that kind.",
                examples=("nightly-tests",),
            ),
            "parent_session_id": SessionRef(
                description="The session that spawned this one: its number or its journal id. Default: none.",
                examples=(41, "Codex-20260409T120000Z-plan"),
            ),
            "title": Text(
                max_chars=TITLE_CHARS, description="What the session is for, up to 500 characters. Default: caller."
            ),
        }
    )


_FIGURES_SAID = {
    "returncode": "Exit code of the child; a signal as a negative number or 128 plus its number. Left out it is 0, "
    "which means success. A child that could not be started: 127, with error.",
    "duration_ms": "How long the child ran, in milliseconds. 0: the time from create until now. A value that differs "
    "from that by more than 10 % is kept, with a warning.",
    "input_tokens": "Input tokens as the CLI reports them: those of codex and gemini_cli include cached ones, those of "
    "every other backend do not. 0 in all three counts: unknown.",
    "cached_input_tokens": "Input tokens read from the cache, as the CLI reports them.",
    "output_tokens": "Output tokens, reasoning included.",
    "telemetry_source": "Where the tokens come from, in your words, up to 100 characters.",
    "cost_source": 'Where the cost comes from, in your words, up to 100 characters. "": client if you gave a cost, '
    "prices if it was computed.",
    "error": "What went wrong, such as spawn failed: ENOENT; secrets masked. Any text makes the status failed.",
}
_FIGURES_EXAMPLES = {"telemetry_source": ("stream_json",), "cost_source": ("cli_result",)}


def _figure(name: str) -> Field:
    default = 0 if isinstance(FIGURES[name], Integer) else ""
    examples = _FIGURES_EXAMPLES.get(name, ())
    return replace(FIGURES[name], default=default, description=_FIGURES_SAID[name], examples=examples)


CLOSE_PARAMS = Record(
    fields={
        "session_id": SessionRef(
            required=True,
            description="The row: session_id (a number) or session (journal id) from nexo_session_log_create.",
            examples=(42,),
        ),
        **{name: _figure(name) for name in FIGURES if isinstance(FIGURES[name], Integer)},
        "total_cost_usd": _lenient(
            FIGURES["total_cost_usd"],
            'Cost in US dollars, a number or its text. "": computed from the tokens, null without tokens or a price '
            "of the model.",
        ),
        **{name: _figure(name) for name in ("telemetry_source", "cost_source", "error")},
    }
)

_WARNINGS: Schema = {"type": "array", "items": TEXT, "description": "Sentences for a person; empty if all is well."}
_JOURNAL_ID = said(TEXT, "Journal id of the session, accepted wherever session_id is.")
_OF_SUCCESS = "Answer of a success. An error has the shape that the description gives."
CREATE_OUTPUT = said(
    record(
        {
            "ok": FLAG,
            "session_id": said(NUMBER, "Number of the row, valid for ever."),
            "resonance_tier": said(TEXT, "The tier that applies."),
            "session": _JOURNAL_ID,
            "model": said(TEXT_OR_NULL, "null: the backend's own default."),
            "reasoning_effort": said(TEXT_OR_NULL, "null: none."),
            "started": said(TEXT, "Time of the row, UTC."),
            "warnings": _WARNINGS,
        }
    ),
    _OF_SUCCESS,
)
CLOSE_OUTPUT = said(
    record(
        {
            "ok": FLAG,
            "error": said(TEXT, "Always empty; your error text is in the journal."),
            "session": _JOURNAL_ID,
            "status": one_of("ok", "cancelled", "failed"),
            "duration_ms": NUMBER,
            "total_cost_usd": said({"type": ["number", "null"]}, "null: unknown."),
            "cost_source": said(TEXT_OR_NULL, "Yours, else client or prices; null without a cost."),
            "warnings": _WARNINGS,
        }
    ),
    _OF_SUCCESS,
)


def nexo_tools(app: App) -> tuple[Tool, ...]:
    """Return the two tools of the dialect over an app."""
    create_params, failing = _create_params(app.config.runs), _failing(app)
    return (
        Tool(
            name="nexo_session_log_create",
            toolset=TOOLSET,
            title="Create a run's ledger row",
            description=CREATE_TEXT,
            params=create_params,
            output=CREATE_OUTPUT,
            run=_create(app, create_params),
            render_error=failing,
        ),
        Tool(
            name="nexo_session_log_close",
            toolset=TOOLSET,
            title="Close a run's ledger row",
            description=CLOSE_TEXT,
            params=CLOSE_PARAMS,
            output=CLOSE_OUTPUT,
            idempotent=True,
            run=_close(app),
            render_error=failing,
        ),
    )


def _failing(app: App) -> RenderError:
    """Return the function that gives errors the shape that ledger clients read."""

    def failure(error: ShiftlogError) -> dict[str, Any]:
        code = InvalidParameter.code if isinstance(error, InvalidSessionId) else error.code
        message = app.redactor.text(error.message).text  # it may repeat a name that the client made up
        return {"ok": False, "error": message, "code": code, "session_id": None}

    return failure


def _create(app: App, params: Record) -> Run:
    async def create(caller: Caller, arguments: dict[str, Any]) -> Reply:
        _check_named(arguments)
        values = params.read(_without_blanks(params, arguments))
        agent = app.config.runs.backends[values["backend"]].agent
        values.setdefault("title", values["caller"])
        # The row is that of the child: it never joins the session of a client in which the launcher itself runs.
        launcher = replace(caller, holds_leases=False, signs=NO_SIGNS)
        if "cwd" not in values:
            # The place of the client itself is not that of its child.
            launcher = replace(launcher, cwd=None, workspace=None)
        opened = await app.sessions.open_session({"agent": agent, **values}, launcher, resolves=True)
        return _reply(CREATE_OUTPUT, opened, session_id=opened["run_id"])

    return create


def _close(app: App) -> Run:
    async def close(caller: Caller, arguments: dict[str, Any]) -> Reply:
        values = CLOSE_PARAMS.read(_without_blanks(CLOSE_PARAMS, arguments))
        name = values["session_id"] = values["session_id"].strip()
        try:
            closed = await app.continuity.close_run(values, caller)
        except InvalidSessionId:
            if not name.removeprefix("-").isdecimal():
                raise
            raise SessionNotFound(f"Session not found: {name}") from None
        return _reply(CLOSE_OUTPUT, closed, error="")

    return close


def _check_named(arguments: Mapping[str, Any]) -> None:
    """Refuse a row without caller or backend, in the words that ledger clients expect."""
    for name in ("caller", "backend"):
        if _is_blank(arguments.get(name)):
            details = {"parameter": name, "value": None, "constraint": "required", "problem": "missing"}
            raise InvalidParameter("caller and backend are required", details=details)


def _without_blanks(params: Record, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without blank ones; unknown names stay, to be refused."""
    return {
        name: value.strip() if name in ("caller", "backend") and isinstance(value, str) else value
        for name, value in arguments.items()
        if name not in params.fields or not _is_blank(value)
    }


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _reply(shape: Schema, answered: Mapping[str, Any], **own: object) -> Reply:
    """Return the answer in the ledger's shape, whose other keys are the journal's own."""
    warnings = [warning["message"] for warning in answered["warnings"]]
    own |= {"ok": True, "session": answered["session_id"], "warnings": warnings}
    return Reply(data={name: own[name] if name in own else answered[name] for name in shape["properties"]})
