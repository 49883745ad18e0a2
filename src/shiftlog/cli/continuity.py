"""The commands `close` and `resume`, which call the tools of the same names and take the same parameters."""

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

import click

from shiftlog.cli.connecting import ask, json_option, open_client, options, resolve_session, session_argument
from shiftlog.cli.errors import HINTS
from shiftlog.cli.screen.output import print_json, since
from shiftlog.dialects.delx.names import RESERVED
from shiftlog.model.errors import InvalidParameter, InvalidSessionId, SessionNotFound
from shiftlog.text.printable import terminal_line, terminal_text

F = TypeVar("F", bound=Callable[..., Any])
Facts = dict[str, Any]

VIEW = {
    "response_profile": "How much to print: full, compact, minimal or machine.",
    "response_mode": "Wording of the prose: standard or model_safe.",
    "ritual_strip": "Omit the prose.",
}
CLOSE_OPTIONS = {
    "session_id": "The session; same as the argument.",
    "reason": "Reason, free text.",
    "epitaph": "Closing note; cannot be changed later.",
    "succession_policy": "successor_allowed, successor_required or closed_without_successor.",
    "allow_rebirth": "Without a policy, false means closed_without_successor.",
    "capsule": "Hand-over note as JSON: version, goal, done, next, blockers, …",
    "include_summary": "false omits the summary.",
    **VIEW,
    "on_held": "If a client holds the session: refuse or take_over.",
    "returncode": "Exit code of the run.",
    "duration_ms": "Duration of the run.",
    "input_tokens": "Input tokens of the run.",
    "cached_input_tokens": "Cached input tokens of the run.",
    "output_tokens": "Output tokens of the run.",
    "total_cost_usd": "Cost of the run.",
    "telemetry_source": "Where the tokens come from.",
    "cost_source": "Where the cost comes from.",
    "error": "Error of the run.",
    "idempotency_key": "Repeat the first answer to this key.",
    "fence": "Fence of the lease.",
}
RESUME_OPTIONS = {
    "agent_id": "Stable name of the agent that resumes.",
    "recovery_token": "Token from the last close or resume.",
    "session_id": "Resume exactly this session.",
    "lookback_days": "Search this many days back, 1 to 90.",
    "on_held": "If a client holds the session: refuse, take_over, fork or read_only.",
    "capsule_budget_bytes": "Maximum size of the capsule, 2000 to 64000 bytes.",
    **VIEW,
    "idempotency_key": "Repeat the first answer to this key.",
}
# Plain names for parameters of the tools; their own names work too.
PLAIN_NAMES = {"epitaph": "note", "ritual_strip": "no_prose", "allow_rebirth": "allow_successor"}
_FLAGS = frozenset({"ritual_strip", "include_summary", "allow_rebirth"})
_BOOLEANS = frozenset({"true", "false", "yes", "no", "1", "0"})


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")


_SWITCHES = frozenset(
    _spelled(name)
    for flag in (*_FLAGS, "include_meta", "include_nudge", "compact_output")
    for name in (flag, PLAIN_NAMES.get(flag, flag))
)


class PlainOption(click.Option):
    """An option whose help shows its first name alone; the others still work."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the line of the help."""
        plain = copy(self)
        plain.opts = self.opts[:1]
        return click.Option.get_help_record(plain, ctx)


class _BooleanSwitches(click.Command):
    """A command whose switches accept an optional boolean after them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a bare switch means true."""
        spelled = [
            f"{arg}=true" if arg in _SWITCHES and after.strip().casefold() not in _BOOLEANS else arg
            for arg, after in zip(args, [*args[1:], ""], strict=False)
        ]
        try:
            return super().parse_args(ctx, spelled)
        except click.NoSuchOption as unknown:
            if "--json" not in args:
                raise
            ctx.exit(_refuse(_unknown(ctx.info_name, unknown.option_name), as_json=True))


def _unknown(command: str | None, option: str) -> Facts:
    """Return the refusal of a tool for an unknown argument."""
    from shiftlog.dialects.delx.refusals import refusal
    from shiftlog.dialects.delx.requests import CLOSE_SESSION, RESUME_SESSION
    from shiftlog.text.nearest import unknown_and_nearest

    tool, fields = ("close_session", CLOSE_SESSION) if command == "close" else ("resume_session", RESUME_SESSION)
    name, near, alike = unknown_and_nearest(option.lstrip("-").replace("-", "_"), fields.fields)
    return refusal(tool, InvalidParameter.unknown(name, near, () if alike else fields.fields))


def _parameters(described: dict[str, str]) -> Callable[[F], F]:
    """Add an option for each parameter of a tool; the service checks their values."""
    switch: dict[str, Any] = {"is_flag": False, "flag_value": "true"}
    added = [
        click.option(
            *dict.fromkeys((_spelled(PLAIN_NAMES.get(name, name)), _spelled(name))),
            name,
            cls=PlainOption,
            metavar="BOOL" if name in _FLAGS else "VALUE",
            help=text,
            **(switch if name in _FLAGS else {}),
        )
        for name, text in described.items()
    ]
    ignored: dict[str, Any] = {**switch, "hidden": True, "expose_value": False, "help": "Accepted and ignored."}
    # Scripts written for Delx pass the reserved ones.
    return options(*added, *(click.option(_spelled(name), **ignored) for name in RESERVED))


def call_tool(name: str, arguments: Facts) -> Facts:
    """Call a tool with the given arguments and return its answer or refusal."""
    given = {parameter: value for parameter, value in arguments.items() if value is not None}
    return ask("continuity", {"tool": name, "arguments": given})


def print_answer(said: Facts, as_json: bool) -> int:
    """Print the answer or the refusal of a tool; return the exit status."""
    if "refusal" in said:
        return _refuse(said["refusal"], as_json)
    if as_json or said["prose"] is None:
        print_json(said["answer"])
        return 0
    click.echo(terminal_text(said["prose"]))
    for warning in said["answer"]["warnings"]:  # the prose leaves lists out
        click.echo(terminal_line(f"warning: {warning['message']}"), err=True)
    return 0


def _refuse_two(argument: str, value: str, option: str, other: str | None) -> None:
    if other not in (None, value):
        raise click.UsageError(f"{argument} and {option} differ.", click.get_current_context())


def _refuse(body: Facts, as_json: bool) -> int:
    if as_json:
        print_json(body)
        return 1
    others = [(name, says) for name, says in body["fields"].items() if name != body["error"]["param"]]
    lines = [f"error: {body['message']}", *(f"error: Parameter '{name}' is invalid: {says}" for name, says in others)]
    hint = _hint(body["code"], body["details"]) or body["hint"]
    if hint and not body["fields"]:
        lines.append(f"hint: {hint}")  # the lines above explain the fields
    for line in lines:
        click.echo(terminal_line(line), err=True)
    return 1


def _hint(code: str, details: Facts) -> str | None:
    """Return a hint for users; the tool's own hint names its parameters and other tools."""
    if code == "agent_not_entitled" and details.get("entitled"):
        return f"It is for {', '.join(details['entitled'])}"
    if code == "session_succeeded" and details.get("successor_session_id"):
        return f"It goes on in {details['successor_session_id']}"
    older = next((one for one in details.get("candidates", ()) if one["why_not"] == "outside_lookback"), None)
    if code == "no_resumable_session" and older:
        ago = since(older["last_activity"])
        return f"{older['session_id']} was active {ago} ago: name it with --session-id, or widen --lookback-days"
    if code == "no_resumable_session" and details.get("similar_agent_ids"):
        return f"There are sessions of {', '.join(details['similar_agent_ids'])}"
    if code == "no_resumable_session":
        return "Widen --lookback-days or name a session with --session-id; shiftlog sessions lists them"
    return HINTS.get(code)


@click.command(cls=_BooleanSwitches, short_help="Close a session: capsule, receipt and recovery token.")
@session_argument(required=False)
@_parameters(CLOSE_OPTIONS)
@json_option
def close(session: str | None, as_json: bool, **arguments: Any) -> int:
    """Close SESSION: write its capsule, sign its journal and issue a recovery token to continue it.

    SESSION is an id or its beginning, a run number, the vendor's own session id, or `last`. The token is shown only
    once; only its hash is kept.

    \b
    Examples:
      shiftlog close last --note 'The import is done.'
      shiftlog close 42 --succession-policy successor_required --json
    """
    if session is not None:
        _refuse_two("SESSION", session, "--session-id", arguments["session_id"])
    return _named_in("close_session", {**arguments, "session_id": session or arguments["session_id"]}, as_json)


def _named_in(tool: str, arguments: Facts, as_json: bool) -> int:
    """Call a tool with the full id of the session that the user named, and print its answer.

    The tool itself refuses a name that fits nothing, so that scripts get its own code.
    """
    from shiftlog.dialects.delx.refusals import refusal

    named = arguments["session_id"]
    if named is not None:
        try:
            with open_client() as client:
                arguments["session_id"] = resolve_session(client, named)
        except (SessionNotFound, InvalidSessionId) as error:
            if named == "last":
                return _refuse(refusal(tool, error), as_json)
        except InvalidParameter as error:
            return _refuse(refusal(tool, error), as_json)
    return print_answer(call_tool(tool, arguments), as_json)


@click.command(cls=_BooleanSwitches, short_help="Resume an agent's latest session.")
@click.argument("agent", required=False)
@_parameters(RESUME_OPTIONS)
@json_option
def resume(agent: str | None, as_json: bool, **arguments: Any) -> int:
    """Resume the latest session of AGENT, or the session of a token or an id.

    AGENT is the agent's stable name, the same as --agent-id.

    \b
    Examples:
      shiftlog resume nightly-fixer
      shiftlog resume --agent-id nightly-fixer --recovery-token slr1.… --json
    """
    if agent is not None:
        _refuse_two("AGENT", agent, "--agent-id", arguments["agent_id"])
        arguments["agent_id"] = agent
    return _named_in("resume_session", arguments, as_json)
