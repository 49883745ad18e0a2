"""Ending and continuing sessions: `close` and `resume` as the tools of the same names, `token`, `handover`, `lineage`,
and `brief` for the next prompt.
"""

import shlex
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from shiftlog.cli import HINTS
from shiftlog.cli.asking import ask, json_option, named_session, open_client, session_argument
from shiftlog.cli.screen.output import Column, Part, Screen, print_json, since, styled, when
from shiftlog.dialects.delx.names import RESERVED
from shiftlog.model.errors import SessionNotFound
from shiftlog.text.printable import terminal_line, terminal_text

F = TypeVar("F", bound=Callable[..., Any])
Facts = dict[str, Any]

VIEW = {
    "response_profile": "How much to print: full, compact, minimal or machine.",
    "response_mode": "Wording of the prose: standard or model_safe.",
    "ritual_strip": "Leave the prose out.",
}
CLOSE_OPTIONS = {
    "session_id": "The session, in place of the argument.",
    "reason": "Why, in any words.",
    "epitaph": "Closing note; it cannot be changed later.",
    "succession_policy": "successor_allowed, successor_required or closed_without_successor.",
    "allow_rebirth": "Without a policy: false is closed_without_successor.",
    "capsule": "Hand-over note as JSON: version, goal, done, next, blockers, …",
    "include_summary": "False leaves the summary out.",
    **VIEW,
    "on_held": "When a client holds the session: refuse or take_over.",
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
    "agent_id": "Who resumes: the agent's stable name.",
    "recovery_token": "Token of the last close or resume.",
    "session_id": "Exactly this session.",
    "lookback_days": "How far back to look, 1 to 90 days.",
    "on_held": "When a client holds the session: refuse, take_over, fork or read_only.",
    "capsule_budget_bytes": "Size of the capsule, 2000 to 64000 bytes.",
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


class _Switching(click.Command):
    """A command whose switches take a boolean, and nothing else, from what follows them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, a bare switch as one that says true."""
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
    """Return what a tool says of an argument that it does not have."""
    from shiftlog.dialects.delx.refusals import refusal
    from shiftlog.dialects.delx.requests import CLOSE_SESSION, RESUME_SESSION
    from shiftlog.model.errors import InvalidParameter
    from shiftlog.text.nearest import unknown_and_nearest

    tool, fields = ("close_session", CLOSE_SESSION) if command == "close" else ("resume_session", RESUME_SESSION)
    name, near = unknown_and_nearest(option.lstrip("-").replace("-", "_"), fields.fields)
    return refusal(tool, InvalidParameter.unknown(name, near))


def _parameters(options: dict[str, str]) -> Callable[[F], F]:
    """Add an option for each parameter of a tool; what they may be, the service knows and says."""

    def add(command: F) -> F:
        for name in RESERVED:  # scripts written for Delx pass these along
            spelling = "--" + name.replace("_", "-")
            dropped = click.option(
                spelling, is_flag=False, flag_value="true", hidden=True, expose_value=False, help="Taken and dropped."
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
    """Call a tool and print its answer: the prose, or with --json what the tool returns; its error exits with 1."""
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
    for warning in said["answer"]["warnings"]:  # a list, so not in the prose
        click.echo(terminal_line(f"warning: {warning['message']}"), err=True)
    return 0


def _refuse_two(argument: str, value: str, option: str, other: str | None) -> None:
    if other not in (None, value):
        raise click.UsageError(f"{argument} and {option} name different ones.", click.get_current_context())


def _refuse(body: Facts, as_json: bool) -> int:
    if as_json:
        print_json(body)
        return 1
    others = [(name, says) for name, says in body["fields"].items() if name != body["error"]["param"]]
    told = [f"error: {body['message']}", *(f"error: Parameter '{name}' is invalid: {says}" for name, says in others)]
    hint = _hint(body["code"], body["details"]) or body["hint"]
    if hint and not body["fields"]:
        told.append(f"hint: {hint}")  # what is wrong with fields stands above, each in its line
    for line in told:
        click.echo(terminal_line(line), err=True)
    return 1


def _hint(code: str, details: Facts) -> str | None:
    """Return what a person can do about a refusal; the tool's own hint speaks of its parameters and of other tools."""
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


@click.command(cls=_Switching, short_help="Close a session: capsule, receipt and recovery token.")
@session_argument(required=False)
@_parameters(CLOSE_OPTIONS)
@json_option
def close(session: str | None, as_json: bool, **arguments: Any) -> int:
    """Close SESSION: write its capsule, sign its journal and issue the token that continues it.

    SESSION is a session's id, the number of its run, the vendor's own session id, or `last`. The token is shown
    once; what is kept of it is a hash.

    \b
    Examples:
      shiftlog close last --reason end_of_shift
      shiftlog close 42 --succession-policy successor_required --json
    """
    if session is not None:
        _refuse_two("SESSION", session, "--session-id", arguments["session_id"])
        try:
            with open_client() as client:
                arguments["session_id"] = named_session(client, session)
        except SessionNotFound as error:
            from shiftlog.dialects.delx.refusals import refusal

            return _refuse(refusal("close_session", error), as_json)
    return _tool("close_session", arguments, as_json)


@click.command(cls=_Switching, short_help="Resume an agent's latest session.")
@click.argument("agent", required=False)
@_parameters(RESUME_OPTIONS)
@json_option
def resume(agent: str | None, as_json: bool, **arguments: Any) -> int:
    """Resume the latest session of AGENT, or the one that a token or an id names.

    AGENT is the agent's stable name; --agent-id says the same.

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
    """Look after recovery tokens.

    \b
    Example:
      shiftlog token reissue last
    """


@token.command("reissue", short_help="Issue another token for a session.")
@session_argument()
@json_option
def reissue(session: str, as_json: bool) -> None:
    """Issue another recovery token for SESSION; the one before is worth nothing then.

    The journal notes it. Sealed and succeeded sessions are refused.

    \b
    Example:
      shiftlog token reissue last
    """
    with open_client() as client:
        issued: Facts = client.call("reissue_token", {"session_id": named_session(client, session)})
    if as_json:
        print_json(issued)
        return
    _print_token(Screen(), issued, f"for {issued['agent_id'] or 'whoever has it'}")


def _print_token(screen: Screen, issued: Facts, whose: str) -> None:
    screen.line(("token   ", "bold"), issued["recovery_token"])
    until = when(issued["recovery_token_expires_at"])
    screen.line((f"        {whose}, until {until}; it is not shown again", "dim"))


@click.group(short_help="Hand a session over to another agent.")
def handover() -> None:
    """Hand sessions over: offer one, accept, decline or revoke the offer, list what is on offer.

    \b
    Examples:
      shiftlog handover offer last --to nightly-fixer
      shiftlog handover list
    """


@handover.command(short_help="Offer a session to an agent, or to whoever has the token.")
@session_argument()
@click.option("--to", metavar="AGENT", help="The agent's stable name; otherwise anybody with the token.")
@click.option("--reason", metavar="TEXT", help="Why, in any words.")
@click.option("--take-over", is_flag=True, help="Also when a client holds the session.")
@json_option
def offer(session: str, to: str | None, reason: str | None, take_over: bool, as_json: bool) -> None:
    """Offer SESSION; one that is still open is closed first.

    Give the token to whoever is to go on. With it they resume, or run `shiftlog handover accept`.

    \b
    Example:
      shiftlog handover offer last --to night-shift
    """
    with open_client() as client:
        given: Facts = {"session_id": named_session(client, session), "agent_id": to, "reason": reason}
        if take_over:
            given["on_held"] = "take_over"
        made: Facts = client.call("offer", given)
    if as_json:
        print_json(made)
        return
    screen = Screen()
    screen.line(("offered ", "bold green"), made["session_id"], f" to {made['offered_to'] or 'whoever has the token'}")
    agent = shlex.quote(made["offered_to"]) if made["offered_to"] else "AGENT"
    _print_token(screen, made, f"accepts it: shiftlog handover accept --agent-id {agent} TOKEN")


@handover.command(short_help="Accept an offer: continue its session in a new one.")
@click.argument("recovery_token", metavar="TOKEN")
@click.option("--agent-id", metavar="AGENT", help="Who goes on.")
@json_option
def accept(recovery_token: str, agent_id: str | None, as_json: bool) -> int:
    """Accept the offer of TOKEN: the session is continued in a new one, and its capsule is printed.

    \b
    Example:
      shiftlog handover accept --agent-id night-shift slr1.…
    """
    said = _ask_tool("resume_session", {"agent_id": agent_id, "recovery_token": recovery_token})
    status = _print_answer(said, as_json)
    if status == 0 and not as_json:
        told: Facts = ask("brief", {"session_id": said["answer"]["session_id"]})
        click.echo(terminal_text(f"\n{told['text']}"))
    return status


@handover.command(short_help="Decline an offer.")
@session_argument(required=False)
@click.option("--token", "recovery_token", metavar="TOKEN", help="Token of the offer.")
@click.option("--agent-id", metavar="AGENT", help="Who declines.")
@click.option("--reason", metavar="TEXT", help="Why, in any words.")
@json_option
def decline(
    session: str | None, recovery_token: str | None, agent_id: str | None, reason: str | None, as_json: bool
) -> None:
    """Decline the offer of SESSION or of a token; the session stays as it was closed.

    \b
    Example:
      shiftlog handover decline --token slr1.… --reason 'No access to the repository'
    """
    given = {"recovery_token": recovery_token, "agent_id": agent_id, "reason": reason}
    _end_offer("decline", session, given, as_json)


@handover.command(short_help="Take an offer back.")
@session_argument()
@click.option("--reason", metavar="TEXT", help="Why, in any words.")
@json_option
def revoke(session: str, reason: str | None, as_json: bool) -> None:
    """Take the offer of SESSION back; its token is worth nothing then.

    \b
    Example:
      shiftlog handover revoke last
    """
    _end_offer("revoke", session, {"reason": reason}, as_json)


def _end_offer(question: str, session: str | None, given: Facts, as_json: bool) -> None:
    params = {name: value for name, value in given.items() if value is not None}
    with open_client() as client:
        if session is not None:
            params["session_id"] = named_session(client, session)
        ended: Facts = client.call(question, params)
    if as_json:
        print_json(ended)
    else:
        Screen().line((f"{ended['ended']:<9}", "bold"), f"the offer of {ended['session_id']}")


@handover.command("list", short_help="List what is on offer.")
@json_option
def list_offers(as_json: bool) -> None:
    """List the sessions that are on offer.

    \b
    Example:
      shiftlog handover list
    """
    found = ask("offers")
    if as_json:
        print_json(found)
        return
    screen = Screen()
    items: list[Facts] = found["items"]
    if not items:
        screen.line("Nothing is on offer.")
        return
    screen.table(_OFFERS, map(_offer_row, items))


def _offer_row(item: Facts) -> list[Part]:
    return [
        item["session_id"],
        styled(item["state"]),
        item["agent_id"],
        item["offered_to"] or "anyone",
        when(item["expires_at"]),
        item["title"],
    ]


@click.command(short_help="Draw which sessions continue which.")
@session_argument()
@json_option
def lineage(session: str, as_json: bool) -> None:
    """Draw the tree of sessions that SESSION belongs to: successors, forks and the sessions it spawned.

    \b
    Example:
      shiftlog lineage last
    """
    with open_client() as client:
        name = named_session(client, session)
        tree: Facts = client.call("lineage", {"session_id": name})
    if as_json:
        print_json(tree)
        return
    screen = Screen()
    for parts in tree_lines(tree, name):
        screen.line(*parts)


def tree_lines(tree: Facts, marked: str = "") -> Iterator[list[Part]]:
    """Yield the lines of a drawn tree; the marked session stands out."""
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


@click.command(short_help="Print the hand-over of the last session as Markdown.")
@click.option("--agent", metavar="NAME", help="The agent's stable name.")
@click.option("--cwd", metavar="DIR", help="Directory of the work; otherwise this one.")
@click.option(
    "--max-chars", type=click.IntRange(200, 200_000), metavar="N", default=12_000, show_default=True, help="How long."
)
@json_option
def brief(agent: str | None, cwd: str | None, max_chars: int, as_json: bool) -> None:
    """Print what the next session needs to know, to paste into a prompt or to inject from a hook.

    The text is data that agents recorded, and says so.

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
