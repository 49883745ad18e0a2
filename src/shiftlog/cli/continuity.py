"""The commands that end and continue sessions: `close`, `resume`, `token`, `handover`, `lineage` and `brief`.

`close` and `resume` call the tools of the same names and take the same parameters.
"""

import shlex
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from shiftlog.cli.connecting import ask, json_option, open_client, resolve_session, session_argument
from shiftlog.cli.errors import HINTS
from shiftlog.cli.screen.output import Column, Part, Printer, print_json, since, styled, when
from shiftlog.dialects.delx.names import RESERVED
from shiftlog.model.errors import SessionNotFound
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
_FLAGS = frozenset({"ritual_strip", "include_summary", "allow_rebirth"})
_SWITCHES = frozenset(
    "--" + name.replace("_", "-") for name in (*_FLAGS, "include_meta", "include_nudge", "compact_output")
)
_BOOLEANS = frozenset({"true", "false", "yes", "no", "1", "0"})
_OFFERS = (
    Column("SESSION"),
    Column("STATE"),
    Column("FROM", spare=2),
    Column("TO", spare=1),
    Column("UNTIL", right=True),
    Column("TITLE", cut=True),
)


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
    from shiftlog.model.errors import InvalidParameter
    from shiftlog.text.nearest import unknown_and_nearest

    tool, fields = ("close_session", CLOSE_SESSION) if command == "close" else ("resume_session", RESUME_SESSION)
    name, near = unknown_and_nearest(option.lstrip("-").replace("-", "_"), fields.fields)
    return refusal(tool, InvalidParameter.unknown(name, near))


def _parameters(options: dict[str, str]) -> Callable[[F], F]:
    """Add an option for each parameter of a tool; the service checks their values."""

    def add(command: F) -> F:
        for name in RESERVED:  # scripts written for Delx pass these
            spelling = "--" + name.replace("_", "-")
            dropped = click.option(
                spelling,
                is_flag=False,
                flag_value="true",
                hidden=True,
                expose_value=False,
                help="Accepted and ignored.",
            )
            command = dropped(command)
        for name, text in reversed(options.items()):
            spelling = "--" + name.replace("_", "-")
            flag: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if name in _FLAGS else {}
            metavar = "BOOL" if name in _FLAGS else "VALUE"
            command = click.option(spelling, name, metavar=metavar, help=text, **flag)(command)
        return command

    return add


def _tool(name: str, arguments: Facts, as_json: bool) -> int:
    """Call a tool, print its prose or with --json its answer, and return the exit status."""
    return _print_answer(_ask_tool(name, arguments), as_json)


def _ask_tool(name: str, arguments: Facts) -> Facts:
    given = {parameter: value for parameter, value in arguments.items() if value is not None}
    return ask("continuity", {"tool": name, "arguments": given})


def _print_answer(said: Facts, as_json: bool) -> int:
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

    SESSION is a session id, a run number, the vendor's own session id, or `last`. The token is shown only once; only
    its hash is kept.

    \b
    Examples:
      shiftlog close last --reason end_of_shift
      shiftlog close 42 --succession-policy successor_required --json
    """
    if session is not None:
        _refuse_two("SESSION", session, "--session-id", arguments["session_id"])
        try:
            with open_client() as client:
                arguments["session_id"] = resolve_session(client, session)
        except SessionNotFound as error:
            from shiftlog.dialects.delx.refusals import refusal

            return _refuse(refusal("close_session", error), as_json)
    return _tool("close_session", arguments, as_json)


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
    return _tool("resume_session", arguments, as_json)


@click.group(short_help="Replace a lost recovery token.")
def token() -> None:
    """Manage recovery tokens.

    \b
    Example:
      shiftlog token reissue last
    """


@token.command("reissue", short_help="Issue a new token for a session.")
@session_argument()
@json_option
def reissue(session: str, as_json: bool) -> None:
    """Issue a new recovery token for SESSION; the previous one becomes invalid.

    The journal records it. Sealed and succeeded sessions are refused.

    \b
    Example:
      shiftlog token reissue last
    """
    with open_client() as client:
        issued: Facts = client.call("reissue_token", {"session_id": resolve_session(client, session)})
    if as_json:
        print_json(issued)
        return
    _print_token(Printer(), issued, f"for {issued['agent_id'] or 'any agent'}")


def _print_token(printer: Printer, issued: Facts, whose: str) -> None:
    printer.line(("token   ", "bold"), issued["recovery_token"])
    until = when(issued["recovery_token_expires_at"])
    printer.line((f"        {whose}, until {until}; it is not shown again", "dim"))


@click.group(short_help="Hand a session over to another agent.")
def handover() -> None:
    """Hand sessions over: offer one, accept, decline or revoke an offer, list the open offers.

    \b
    Examples:
      shiftlog handover offer last --to nightly-fixer
      shiftlog handover list
    """


@handover.command(short_help="Offer a session to another agent.")
@session_argument()
@click.option("--to", metavar="AGENT", help="Stable name of the agent (default: anyone with the token).")
@click.option("--reason", metavar="TEXT", help="Reason, free text.")
@click.option("--take-over", is_flag=True, help="Offer it even if a client holds the session.")
@json_option
def offer(session: str, to: str | None, reason: str | None, take_over: bool, as_json: bool) -> None:
    """Offer SESSION to another agent; an open session is closed first.

    Give the token to the agent that continues the work. It accepts by resuming with the token, or with
    `shiftlog handover accept`.

    \b
    Example:
      shiftlog handover offer last --to night-shift
    """
    with open_client() as client:
        given: Facts = {"session_id": resolve_session(client, session), "agent_id": to, "reason": reason}
        if take_over:
            given["on_held"] = "take_over"
        made: Facts = client.call("offer", given)
    if as_json:
        print_json(made)
        return
    printer = Printer()
    printer.line(("offered ", "bold green"), made["session_id"], f" to {made['offered_to'] or 'anyone with the token'}")
    agent = shlex.quote(made["offered_to"]) if made["offered_to"] else "AGENT"
    _print_token(printer, made, f"accepts it: shiftlog handover accept --agent-id {agent} TOKEN")


@handover.command(short_help="Accept an offer: continue its session in a new one.")
@click.argument("recovery_token", metavar="TOKEN")
@click.option("--agent-id", metavar="AGENT", help="Stable name of the agent that continues.")
@json_option
def accept(recovery_token: str, agent_id: str | None, as_json: bool) -> int:
    """Accept the offer of TOKEN: a new session continues the offered one, and its hand-over brief is printed.

    \b
    Example:
      shiftlog handover accept --agent-id night-shift slr1.…
    """
    said = _ask_tool("resume_session", {"agent_id": agent_id, "recovery_token": recovery_token})
    status = _print_answer(said, as_json)
    if status == 0 and not as_json:
        found: Facts = ask("brief", {"session_id": said["answer"]["session_id"]})
        click.echo(terminal_text(f"\n{found['text']}"))
    return status


@handover.command(short_help="Decline an offer.")
@session_argument(required=False)
@click.option("--token", "recovery_token", metavar="TOKEN", help="Token of the offer.")
@click.option("--agent-id", metavar="AGENT", help="Stable name of the agent that declines.")
@click.option("--reason", metavar="TEXT", help="Reason, free text.")
@json_option
def decline(
    session: str | None, recovery_token: str | None, agent_id: str | None, reason: str | None, as_json: bool
) -> None:
    """Decline the offer of SESSION or of a token; the session stays closed.

    \b
    Example:
      shiftlog handover decline --token slr1.… --reason 'No access to the repository'
    """
    given = {"recovery_token": recovery_token, "agent_id": agent_id, "reason": reason}
    _end_offer("decline", session, given, as_json)


@handover.command(short_help="Revoke an offer.")
@session_argument()
@click.option("--reason", metavar="TEXT", help="Reason, free text.")
@json_option
def revoke(session: str, reason: str | None, as_json: bool) -> None:
    """Revoke the offer of SESSION; its token becomes invalid.

    \b
    Example:
      shiftlog handover revoke last
    """
    _end_offer("revoke", session, {"reason": reason}, as_json)


def _end_offer(question: str, session: str | None, given: Facts, as_json: bool) -> None:
    params = {name: value for name, value in given.items() if value is not None}
    with open_client() as client:
        if session is not None:
            params["session_id"] = resolve_session(client, session)
        ended: Facts = client.call(question, params)
    if as_json:
        print_json(ended)
    else:
        Printer().line((f"{ended['ended']:<9}", "bold"), f"the offer of {ended['session_id']}")


@handover.command("list", short_help="List the open offers.")
@json_option
def list_offers(as_json: bool) -> None:
    """List the open offers with their recipients and expiry times.

    \b
    Example:
      shiftlog handover list
    """
    found = ask("offers")
    if as_json:
        print_json(found)
        return
    printer = Printer()
    items: list[Facts] = found["items"]
    if not items:
        printer.line("Nothing is on offer.")
        return
    printer.table(_OFFERS, map(_offer_row, items))


def _offer_row(item: Facts) -> list[Part]:
    return [
        item["session_id"],
        styled(item["state"]),
        item["agent_id"],
        item["offered_to"] or "anyone",
        when(item["expires_at"]),
        item["title"],
    ]


@click.command(short_help="Draw the tree of related sessions.")
@session_argument()
@json_option
def lineage(session: str, as_json: bool) -> None:
    """Draw the tree around SESSION: predecessors, successors, forks and child sessions.

    \b
    Example:
      shiftlog lineage last
    """
    with open_client() as client:
        name = resolve_session(client, session)
        tree: Facts = client.call("lineage", {"session_id": name})
    if as_json:
        print_json(tree)
        return
    printer = Printer()
    for parts in tree_lines(tree, name):
        printer.line(*parts)


def tree_lines(tree: Facts, marked: str = "") -> Iterator[list[Part]]:
    """Yield the lines of a drawn tree; the marked session is bold."""
    if tree["earlier_session_id"]:
        yield [("… continues ", "dim"), (tree["earlier_session_id"], "cyan")]
    waiting: list[tuple[Facts, str, str]] = [(tree, "", "")]
    while waiting:
        node, lead, below = waiting.pop()
        name = (node["session_id"], "bold cyan" if node["session_id"] == marked else "cyan")
        how = "" if node["relation"] == "root" else f"{node['relation']}: "
        offered = f", offered to {node['offered_to']}" if node["offered_to"] else ""
        facts = f"  {terminal_line(node['agent_id'])}, {since(node['started'])} ago{offered}  "
        yield [
            (lead, "dim"),
            (how, "dim"),
            name,
            "  ",
            styled(node["state"]),
            (facts, "dim"),
            terminal_line(node["title"]),
            (f"  … and {node['left_out']:,} more" if node["left_out"] else "", "dim"),
        ]
        children: list[Facts] = node["children"]
        for n, child in reversed(list(enumerate(children))):
            last = n == len(children) - 1
            waiting.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))


@click.command(short_help="Print the hand-over brief of the last session as Markdown.")
@click.option("--agent", metavar="NAME", help="The agent's stable name.")
@click.option("--cwd", metavar="DIR", help="Workspace directory (default: this one).")
@click.option(
    "--max-chars",
    type=click.IntRange(200, 200_000),
    metavar="N",
    default=12_000,
    show_default=True,
    help="Maximum length.",
)
@json_option
def brief(agent: str | None, cwd: str | None, max_chars: int, as_json: bool) -> None:
    """Print the hand-over brief for the next session, to paste into a prompt or to inject from a hook.

    The text is data that agents recorded, and is marked as such.

    \b
    Examples:
      shiftlog brief
      shiftlog brief --agent nightly-fixer --max-chars 4000
    """
    found: Facts = ask("brief", {"agent_id": agent, "cwd": cwd, "max_chars": max_chars})
    if as_json:
        print_json(found)
    else:
        click.echo(terminal_text(found["text"]))
