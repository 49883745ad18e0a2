"""The commands that hand sessions over: `handover`, `token`, `lineage` and `brief`."""

import shlex
from collections.abc import Iterator
from typing import Any

import click

from shiftlog.cli.connecting import (
    ask,
    filters,
    json_option,
    number_option,
    open_client,
    resolve_session,
    session_argument,
    since_option,
)
from shiftlog.cli.continuity import call_tool, print_answer
from shiftlog.cli.screen.output import (
    Column,
    Part,
    Printer,
    id_column,
    print_json,
    since,
    styled,
    title_column,
    when,
)
from shiftlog.cli.screen.paging import paged
from shiftlog.model.ids import short_id
from shiftlog.text.printable import cut_line, terminal_line, terminal_text
from shiftlog.text.titles import shown_title

Facts = dict[str, Any]
LEAST_TITLE = 12

_OFFERS = (
    title_column(),
    Column("STATE", lambda item: styled(item["state"])),
    Column("FROM", "agent_id", spare=2),
    Column("TO", lambda item: item["offered_to"] or "anyone", spare=1),
    Column("UNTIL", lambda item: when(item["expires_at"]), right=True),
    id_column(),
)

reason_option = click.option("--reason", metavar="TEXT", help="Reason, free text.")


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
    issued: Facts = ask("reissue_token", session=session)
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
@reason_option
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
    given = {"agent_id": to, "reason": reason, "on_held": "take_over" if take_over else None}
    made: Facts = ask("offer", given, session=session)
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
    said = call_tool("resume_session", {"agent_id": agent_id, "recovery_token": recovery_token})
    status = print_answer(said, as_json)
    if status == 0 and not as_json:
        found: Facts = ask("brief", {"session_id": said["answer"]["session_id"]})
        click.echo(terminal_text(f"\n{found['text']}"))
    return status


@handover.command(short_help="Decline an offer.")
@session_argument(required=False)
@click.option("--token", "recovery_token", metavar="TOKEN", help="Token of the offer.")
@click.option("--agent-id", metavar="AGENT", help="Stable name of the agent that declines.")
@reason_option
@json_option
def decline(session: str | None, as_json: bool, **given: str | None) -> None:
    """Decline the offer of SESSION or of a token; the session stays closed.

    \b
    Example:
      shiftlog handover decline --token slr1.… --reason 'No access to the repository'
    """
    _end_offer("decline", session, given, as_json)


@handover.command(short_help="Revoke an offer.")
@session_argument()
@reason_option
@json_option
def revoke(session: str, reason: str | None, as_json: bool) -> None:
    """Revoke the offer of SESSION; its token becomes invalid.

    \b
    Example:
      shiftlog handover revoke last
    """
    _end_offer("revoke", session, {"reason": reason}, as_json)


def _end_offer(question: str, session: str | None, given: Facts, as_json: bool) -> None:
    ended: Facts = ask(question, given, session=session)
    if as_json:
        print_json(ended)
    else:
        Printer().line((f"{ended['ended']:<9}", "bold"), f"the offer of {ended['session_id']}")


@handover.command("list", short_help="List the open offers.")
@since_option("Offered at this time or later")
@json_option
def list_offers(as_json: bool, **given: str | None) -> None:
    """List the open offers with their recipients and expiry times.

    \b
    Examples:
      shiftlog handover list
      shiftlog handover list --since 7d
    """
    found = ask("offers", filters(**given))
    if as_json:
        print_json(found)
        return
    Printer().table(_OFFERS, found["items"], nothing="Nothing is on offer.")


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
    with paged() as printer:
        for parts in tree_lines(tree, name, printer.console.width if printer.is_terminal else None):
            printer.line(*parts)


def tree_lines(tree: Facts, marked: str, width: int | None) -> Iterator[list[Part]]:
    """Yield the lines of a drawn tree, none longer than `width` where that is possible; the marked session is bold."""
    if tree["earlier_session_id"]:
        yield [("… continues ", "dim"), (short_id(tree["earlier_session_id"]), "cyan")]
    waiting: list[tuple[Facts, str, str]] = [(tree, "", "")]
    while waiting:
        node, lead, below = waiting.pop()
        how = "" if node["relation"] == "root" else f"{node['relation']}: "
        offered = f", offered to {node['offered_to']}" if node["offered_to"] else ""
        facts = f"  {terminal_line(node['agent_id'])}, {since(node['started'])} ago{offered}  "
        title = terminal_line(shown_title(node["title"]))
        taken = len(f"{lead}{how}  {node['state']}{short_id(node['session_id'])}")
        if width is not None and taken + len(title) + len(facts) > width:  # the facts give way first
            title, facts = cut_line(title, max(LEAST_TITLE, width - taken - 2)), "  "
        yield [
            (lead, "dim"),
            (how, "dim"),
            (title, "bold" if node["session_id"] == marked else ""),
            "  ",
            styled(node["state"]),
            (facts, "dim"),
            (short_id(node["session_id"]), "cyan"),
            (f"  … and {node['left_out']:,} more" if node["left_out"] else "", "dim"),
        ]
        children: list[Facts] = node["children"]
        for n, child in reversed(list(enumerate(children))):
            last = n == len(children) - 1
            waiting.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))


@click.command(short_help="Print the hand-over brief of the last session as Markdown.")
@click.option("--agent", "agent_id", metavar="NAME", help="The agent's stable name.")
@click.option("--cwd", metavar="DIR", help="Workspace directory (default: this one).")
@number_option("--max-chars", within=click.IntRange(200, 200_000), default=12_000, help="Maximum length.")
@json_option
def brief(agent_id: str | None, cwd: str | None, max_chars: int, as_json: bool) -> None:
    """Print the hand-over brief for the next session, to paste into a prompt or to inject from a hook.

    The text is data that agents recorded, and is marked as such.

    \b
    Examples:
      shiftlog brief
      shiftlog brief --agent nightly-fixer --max-chars 4000
    """
    found: Facts = ask("brief", {"agent_id": agent_id, "cwd": cwd, "max_chars": max_chars})
    if as_json:
        print_json(found)
    else:
        click.echo(terminal_text(found["text"]))
