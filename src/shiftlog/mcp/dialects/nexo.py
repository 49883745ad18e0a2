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
from shiftlog.mcp.tools.outputs import FLAG, NUMBER, TEXT, TEXT_OR_NULL, record
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, InvalidSessionId, SessionNotFound, ShiftlogError
from shiftlog.model.resonance import Resonance
from shiftlog.params.fields import Choice, Field, Record, Schema, SessionRef, Text, Wrapped

TOOLSET = "nexo"

CREATE_TEXT = """\
Create the ledger row of a run, for clients that spawn the agent's CLI themselves. Call it BEFORE spawning the child, \
keep session_id, and call nexo_session_log_close when the session ends. An agent that records its own work uses \
open_session instead.
Opens a session with a running run. model and reasoning_effort are kept as given and follow from resonance_tier when \
empty, the tier from the caller. Each call makes a new row unless idempotency_key repeats. With pid the end of the \
process is noticed: the run becomes orphaned, its session resumable, and a late close still counts.
Returns {ok, session_id (integer, valid for ever), session (journal id), resonance_tier, model, reasoning_effort, \
started, warnings}.
Errors, as {ok: false, error, code, session_id: null}: invalid_parameter, session_not_found (parent_session_id), \
idempotency_conflict, budget_exceeded (until the next day, UTC), storage_error (nothing was recorded; try again)."""

CLOSE_TEXT = """\
Close the ledger row of a run with exit code, duration, tokens and cost. Call it once when the child that \
nexo_session_log_create announced has ended; an agent that ends its own session uses close_session instead.
Ends the run (ok, cancelled or failed) and closes its session with a capsule and a signed receipt; the session can be \
resumed later. duration_ms 0 is derived from start and now; an empty total_cost_usd is priced from the tokens, null \
when the model has no price. The same figures again change nothing; others are refused. A run that was given up as \
orphaned takes a late close.
Returns {ok, error: "", session, status, duration_ms, total_cost_usd, cost_source, warnings}.
Errors, as {ok: false, error, code, session_id: null}: invalid_parameter, session_not_found, session_already_closed \
(other figures; nothing changed), storage_error (nothing was recorded; try again)."""


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
    backends = Choice(required=True, values=tuple(resonance.backends), description="Program that is spawned.")
    return Record(
        fields={
            "caller": replace(RUN_FIELDS["caller"], required=True, description="Which client launches the run."),
            "backend": backends,
            "session_type": _lenient(RUN_FIELDS["session_type"], default="interactive_desktop"),
            "model": replace(RUN_FIELDS["model"], default="", description="Model, kept as given; empty: of the tier."),
            "reasoning_effort": replace(
                RUN_FIELDS["reasoning_effort"], default="", description="Effort, kept as given; empty: of the tier."
            ),
            "resonance_tier": _lenient(RUN_FIELDS["resonance_tier"], "Tier; empty: the caller's, else the default."),
            "cwd": replace(RUN_FIELDS["cwd"], default="", description="Directory of the child; empty: unknown."),
            "pid": _lenient(RUN_FIELDS["pid"], "Process id of the child, if it runs already; empty: unknown."),
            "context_excerpt": replace(PROMPT, mends=True, default=""),
            "idempotency_key": IDEMPOTENCY_KEY,
            "agent_id": Text(
                max_chars=NAME_CHARS, description="Stable agent name to resume by; default: the agent kind."
            ),
            "parent_session_id": SessionRef(description="Session that spawned this one."),
            "title": Text(max_chars=TITLE_CHARS, description="What the session is for; default: the caller."),
        }
    )


CLOSE_PARAMS = Record(
    fields={
        "session_id": SessionRef(required=True, description="The integer from create, or the journal id."),
        **{name: replace(field, default=0) for name, field in FIGURES.items() if name in ("returncode", "duration_ms")},
        **{name: replace(field, default=0) for name, field in FIGURES.items() if name.endswith("_tokens")},
        "total_cost_usd": _lenient(FIGURES["total_cost_usd"], "Cost in US dollars; empty: priced from the tokens."),
        **{name: replace(FIGURES[name], default="") for name in ("telemetry_source", "cost_source", "error")},
    }
)

_WARNINGS: Schema = {"type": "array", "items": TEXT}
CREATE_OUTPUT = record(
    {
        "ok": FLAG,
        "session_id": NUMBER,
        "resonance_tier": TEXT,
        "session": TEXT,
        "model": TEXT_OR_NULL,
        "reasoning_effort": TEXT_OR_NULL,
        "started": TEXT,
        "warnings": _WARNINGS,
    }
)
CLOSE_OUTPUT = record(
    {
        "ok": FLAG,
        "error": TEXT,
        "session": TEXT,
        "status": TEXT,
        "duration_ms": NUMBER,
        "total_cost_usd": {"type": ["number", "null"]},
        "cost_source": TEXT_OR_NULL,
        "warnings": _WARNINGS,
    }
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
        launcher = replace(caller, holds_leases=False)
        if "cwd" not in values:
            # Where the client itself runs says nothing about its child.
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
