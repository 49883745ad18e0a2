"""The commands `shells` (list or close), `watch` (follow live) and `exec` (run one command under the policy).

`replay` has a module of its own.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shiftlog.cli.connecting import (
    ask,
    complete_shell,
    filters,
    json_option,
    limit_option,
    number_option,
    open_client,
    resolve_session,
    since_option,
    streamed,
)
from shiftlog.cli.policy import read_answer
from shiftlog.cli.screen.output import Column, Part, Printer, print_json, styled
from shiftlog.cli.screen.paging import paged
from shiftlog.cli.shells.stdin import is_piped, pass_on, whole_input
from shiftlog.cli.shells.view import ShellView
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.ids import short_id
from shiftlog.text.figures import count, largest_unit
from shiftlog.text.printable import terminal_line, terminal_text

if TYPE_CHECKING:
    from shiftlog.link.client import Client

SANDBOXES = ("read-only", "workspace-write", "full-access")
Item = dict[str, Any]


def _is_live(shell: Item) -> bool:
    return shell["state"] in ("idle", "busy")


def _state(shell: Item) -> Part:
    if not _is_live(shell):
        return f"{shell['state']} ({shell['ended_reason']})", "dim"
    return shell["state"], "yellow" if shell["state"] == "busy" else "green"


def _last_command(shell: Item) -> str:
    last: Item = shell["last_command"] or {}
    code = last.get("exit_code")
    return last.get("command", "") + (f"  [exit {code}]" if code else "")


_COLUMNS = (
    Column("SHELL", "shell_id"),
    Column("STATE", _state),
    Column("IDLE", lambda shell: largest_unit(shell["idle_s"]) if _is_live(shell) else "", right=True),
    Column("SANDBOX", "sandbox", spare=2),
    Column("RULES", "enforcement", spare=3),
    Column("SESSION", lambda shell: (short_id(shell["session_id"]), "cyan"), spare=4),
    Column("CWD", "cwd", spare=1),
    Column("LAST COMMAND", _last_command, cut=True),
)


@click.command(short_help="List the shells of agents, or close one.")
@click.option("--all", "-a", "include_ended", is_flag=True, help="Include shells that ended in the last 24 hours.")
@click.option("--session", metavar="SESSION", help="Only shells of this session, or of the `last` one.")
@since_option("Opened at this time or later")
@limit_option(200, default=50)
@click.option(
    "--close",
    metavar="SHELL",
    shell_complete=complete_shell,
    help="Close this shell and end every process that it started.",
)
@json_option
def shells(
    include_ended: bool, session: str | None, limit: int, close: str | None, as_json: bool, **given: str | None
) -> None:
    """List the open shells of agents and their last commands; the newest comes first.

    RULES shows how the policy is enforced: `syntax` checks the text of commands, `kernel` also every program that
    they start. --close ends a shell; its id may be shortened to the first characters.

    \b
    Examples:
      shiftlog shells
      shiftlog shells --all --session last
      shiftlog shells --close 4c82-1
    """
    if close is not None:
        _close(close, as_json)
        return
    asked = {**filters(**given), "include_ended": include_ended, "limit": limit}
    found = ask("shells", asked, session=session or None)
    if as_json:
        print_json(found)
        return
    rows: list[Item] = found["shells"]
    nothing = "No shell lived in the last 24 hours." if include_ended else "No shell lives."
    with paged() as printer:
        printer.table(_COLUMNS, rows, nothing="No shell matches these filters." if given["from_"] else nothing)
        if found["next_cursor"]:
            printer.line((f"The newest {count(len(rows), 'shell')}; --limit shows more", "dim"))


def _close(name: str, as_json: bool) -> None:
    closed = ask("close_shell", {"shell_id": name})
    if as_json:
        print_json(closed)
        return
    printer = Printer()
    if closed["already_ended"]:
        printer.line(closed["shell_id"], " had ended before.")
        return
    killed = "1 process" if closed["killed"] == 1 else f"{closed['killed']} processes"
    printer.line(styled("ended"), f"  {closed['shell_id']} with {killed}")
    for command_id in closed["stopped_commands"]:
        printer.line(f"       {command_id} was stopped")


@click.command(short_help="Follow shells live.")
@click.argument("shell", required=False, shell_complete=complete_shell)
@number_option(
    "-n", "--last", within=click.IntRange(0, 1000), default=1, help="Earlier commands of each shell to start with."
)
@json_option
def watch(shell: str | None, last: int, as_json: bool) -> None:
    """Follow SHELL, or all shells, live as in a terminal; you cannot type.

    SHELL is an id, its first characters, or `last` for the newest shell. Ends with the shell or with Ctrl-C, which
    leaves the shell running. Secrets are masked and control sequences removed. With --json each event is one line.

    \b
    Examples:
      shiftlog watch
      shiftlog watch last -n 5
    """
    view = ShellView(several=shell is None)
    with open_client() as client:
        params: Item = {"last": last}
        if shell:
            params["shell_id"] = shell
        elif not as_json and sys.stdout.isatty() and not client.call("shells", {})["shells"]:
            click.echo("No shell lives yet; waiting for one. Ctrl-C ends this.", err=True)
        with streamed(client, "watch", params, output=sys.stdout.fileno()) as events:
            for event in events:
                if as_json:
                    print_json(event, indent=None)
                else:
                    getattr(view, event["event"])(event)


@click.command(
    "exec", short_help="Run one command under the agents' policy.", context_settings={"allow_interspersed_args": False}
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--shell",
    metavar="ID",
    shell_complete=complete_shell,
    help="Run it in this live shell (default: in a new one).",
)
@click.option("--cwd", metavar="DIR", help="Working directory (default: this one).")
@click.option("--workspace", metavar="DIR", help="Take checkpoints of DIR, so that shiftlog undo works there.")
@click.option("--sandbox", type=click.Choice(SANDBOXES), help="Sandbox mode; never looser than the policy.")
@click.option("--allow", metavar="PROGRAM", multiple=True, help="Allow only these programs. Repeatable.")
@click.option("--deny", metavar="PROGRAM", multiple=True, help="Deny these programs. Repeatable.")
@click.option(
    "--env",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Set a variable, or pass it on from your environment. Repeatable.",
)
@click.option("--session", metavar="SESSION", help="Record it in this open session (default: a new one).")
@click.option(
    "--timeout",
    type=click.IntRange(1),
    metavar="SECONDS",
    help="Time limit (default: that of the shell, 120 s).",
)
@click.option("-i", "--stdin", "feed", is_flag=True, help="Read all of standard input first, up to 1 MiB.")
@json_option
def exec_(
    command: tuple[str, ...], shell: str | None, timeout: int | None, feed: bool, as_json: bool, **opening: Any
) -> int:
    """Run COMMAND as an agent would: judged by the policy, in a guarded shell, recorded in the journal.

    A single argument is shell text and may contain pipes; several arguments are a program and its arguments, passed
    unchanged. Output is printed live, with secrets masked. The exit status is the command's own, 124 after a timeout,
    130 after Ctrl-C, which ends the command, or 126 if the policy refuses it. If the policy needs an approval, you
    are asked here. Standard input is passed on as it comes if it is a pipe or a file.

    The command runs in the daemon's environment without its secrets, not in yours; --env passes variables on. With
    --json the result is printed at the end, in the form that agents get.

    \b
    Examples:
      shiftlog exec -- make test
      shiftlog exec --workspace . -- 'sed -i s/old/new/ *.txt && git diff --stat'
      shiftlog exec --shell last -- pwd
      shiftlog exec --deny curl --sandbox read-only -- ./script.sh
    """
    text = command[0] if len(command) == 1 else shlex.join(command)
    run: Item = {"command": text}
    if feed:
        run["input"] = whole_input()
    elif is_piped():
        run["stdin"] = "open"
    if timeout is not None:
        run["timeout_s"] = timeout
    params: Item = {"run": run}
    with open_client() as client:
        if shell is None:
            params["open"] = _opening(client, **opening)
        else:
            option = next((name for name, value in opening.items() if value), None)
            if option is not None:
                raise click.UsageError(f"--{option} cannot be used with --shell: that shell has its own.")
            params["shell_id"] = shell
            run["wait_idle_s"] = 0
        try:
            result = _follow(client, params, as_json)
        except ShiftlogError as error:
            if error.code == "approval_required" and shell is None:
                # The approval was for the shell that ended with this command.
                error.hint = "No answer came in time; run it again, and approve it in another terminal"
            raise
    if as_json:
        print_json(result)
    elif result["state"] not in ("finished", "cancelled"):
        click.echo(terminal_line(_said(result)), err=True)
    code = result["exit_code"]
    return 1 if code is None else int(code)


def _opening(
    client: "Client", *, cwd: str | None, workspace: str | None, session: str | None, env: tuple[str, ...], **given: Any
) -> Item:
    """Return the parameters that open a shell."""
    root = str(Path(workspace).resolve()) if workspace else None
    opening: Item = {
        **given,
        "cwd": str(Path(cwd).resolve()) if cwd else root or str(Path.cwd()),
        "workspace": root,
        "env": _variables(env),
        "session_id": resolve_session(client, session) if session else None,
    }
    return {name: value for name, value in opening.items() if value}


def _follow(client: "Client", params: Item, as_json: bool) -> Item:
    result: Item = {}
    with streamed(client, "exec", params) as events:
        for event in events:
            match event.pop("event"):
                case "output" if not as_json:
                    _write(event["stream"], event["text"])
                case "began" if params["run"].get("stdin") == "open":
                    pass_on(event["command_id"])
                case "asked":
                    _answer(event, as_json)
                case "result":
                    result = event
                case _:
                    pass
    return result


def _write(stream: str, text: str) -> None:
    out = sys.stdout if stream == "stdout" else sys.stderr
    # Programs get the text unchanged; a terminal must get no control characters.
    out.write(terminal_text(text) if out.isatty() else text)
    out.flush()


def _answer(question: Item, as_json: bool) -> None:
    """Ask the user at the terminal; without a terminal, print how to approve."""
    approval_id, shown = question["approval_id"], terminal_line(question["command"])
    if question["kind"] == "prompt":
        _answer_prompt(question, as_json)
        return
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        click.echo(f"needs approval: '{question['entry']}'; waiting for: shiftlog approve {approval_id}", err=True)
        return
    click.echo(f"The policy asks before '{terminal_line(question['entry'])}' is run:\n  {shown}", err=True)
    granted = click.confirm("Run it?", default=False, err=True)
    ask("approve", {"approval_id": approval_id, "granted": granted})  # the first connection waits for the command


def _answer_prompt(question: Item, as_json: bool) -> None:
    """Read the answer to a program's prompt at the terminal; without a terminal, print how to answer."""
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        program = terminal_line(question["program"])
        click.echo(f"{program} asks for a password; waiting for: shiftlog approve {question['approval_id']}", err=True)
        return
    typed = read_answer(question)
    ask("approve", {"approval_id": question["approval_id"], "answer": typed})


def _said(result: Item) -> str:
    if result["state"] == "syntax_error":
        return result["stderr"]
    if result["state"] == "timed_out":
        return f"{result['command_id']} was ended after {result['duration_ms'] / 1000:.0f} s; --timeout gives it more"
    return result["hint"] or f"{result['command_id']} is {result['state']}"


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals and name not in os.environ:
            raise click.BadParameter(f"'{name}' is not set here.", param_hint="--env")
        variables[name] = value if equals else os.environ[name]
    return variables
