"""The command line: the table of commands, `main`, and the completion scripts for shells.

A command's module is imported when the command is called. Each group of commands has a module of its own; errors are
reported in `errors`.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from shiftlog import __version__
from shiftlog.cli.errors import reporting_closed_pipe, run_reporting
from shiftlog.cli.screen import NO_PAGER
from shiftlog.link import processes

SECTIONS: dict[str, dict[str, str]] = {
    "Begin": {
        "run": "run:run",
        "setup": "setup.command:setup",
        "doctor": "doctor:doctor",
        "import": "transcripts.importing:import_",
    },
    "Look": {
        "open": "run:open_",
        "status": "daemon:status",
        "sessions": "sessions:sessions",
        "show": "show:show",
        "search": "sessions:search",
        "files": "files:files",
        "tail": "sessions:tail",
        "runs": "runs:runs",
        "usage": "runs:usage",
        "export": "exporting:export",
    },
    "Continue": {
        "resume": "continuity:resume",
        "close": "continuity:close",
        "handover": "handover:handover",
        "lineage": "handover:lineage",
        "brief": "handover:brief",
        "token": "handover:token",
    },
    "Shells": {
        "shells": "shells.commands:shells",
        "watch": "shells.commands:watch",
        "exec": "shells.commands:exec_",
        "replay": "shells.replay:replay",
        "put": "shells.transfer:put",
        "get": "shells.transfer:get",
    },
    "Undo": {
        "checkpoints": "checkpoints:checkpoints",
        "diff": "checkpoints:diff",
        "undo": "checkpoints:undo",
        "rewind": "checkpoints:rewind",
        "gc": "checkpoints:gc",
    },
    "Rules": {
        "policy": "policy:policy",
        "guard": "guard:guard",
        "approvals": "policy:approvals",
        "approve": "policy:approve",
        "redact": "redacting:redact",
    },
    "Prove and repair": {
        "verify": "proof:verify",
        "rebuild": "proof:rebuild",
        "erase": "proof:erase",
        "hold": "store.keeping:hold",
        "retention": "store.keeping:retention",
        "spool": "proof:spool",
    },
    "Serve": {
        "mcp": "serving:mcp",
        "repl": "serving:repl",
        "serve": "serving:serve",
        "server": "team.server:server",
        "keys": "team.keys:keys",
        "daemon": "daemon:daemon",
        "store": "store.commands:store",
    },
    "More": {"codex-jsonl": "transcripts.codex_jsonl:codex_jsonl", "completion": "program:completion"},
}


def _choose_colour(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.color = {"always": True, "never": False, "auto": None}[value]


def _choose_pager(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[NO_PAGER] = True


def _screen_options(*, hidden: bool) -> list[click.Parameter]:
    """Return the options --color and --no-pager, which work before and after the name of a command."""
    return [
        click.Option(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            is_flag=False,
            flag_value="always",
            expose_value=False,
            callback=_choose_colour,
            hidden=hidden,
            help="When to use colours (default: auto, on a terminal unless NO_COLOR is set).",
        ),
        click.Option(
            ["--no-pager"],
            is_flag=True,
            expose_value=False,
            callback=_choose_pager,
            hidden=hidden,
            help="Do not show long output in a pager ($SHIFTLOG_PAGER, $PAGER or less).",
        ),
    ]


def _with_screen_options(command: click.Command) -> click.Command:
    """Add the options of the screen to a command and the commands of a group, once."""
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        _with_screen_options(each)
    if not any("--no-pager" in param.opts for param in command.params):
        command.params += _screen_options(hidden=True)
    return command


class CommandGroup(click.Group):
    """The group of all commands; it imports a command's module on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for section in SECTIONS.values():
            if cmd_name in section:
                module, _, attribute = section[cmd_name].partition(":")
                return _with_screen_options(getattr(import_module(f"shiftlog.cli.{module}"), attribute))
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from shiftlog.text.nearest import suggestion

            near = suggestion(args[0], self.list_commands(ctx))
            says = f" Did you mean '{near}'?" if near else ""
            raise click.UsageError(f"There is no command '{args[0]}'.{says}", ctx) from error

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with reporting_closed_pipe():  # prints --help and --version of the program itself
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with reporting_closed_pipe():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in section]
            rows = [(name, command.get_short_help_str(70)) for name, command in commands if command]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="shiftlog", message="%(prog)s %(version)s")
@click.pass_context
def program(ctx: click.Context) -> None:
    """Shiftlog is the session layer for AI agents: a record of their work that cannot be quietly changed.

    Agents write through MCP; you read, search and verify here. A small daemon keeps the record; commands start it on
    demand. On a terminal, output has colours and long output goes through a pager, as with git; --color and --no-pager
    change that, also after the name of a command.

    \b
    Begin with:
      shiftlog run             start, connect an agent, watch a demo session
      shiftlog setup claude    connect Claude Code
      shiftlog show last       read the newest session
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


program.params += _screen_options(hidden=False)


@click.command(short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and sessions.

    \b
    Install it:
      eval "$(shiftlog completion bash)"    in ~/.bashrc
      eval "$(shiftlog completion zsh)"     in ~/.zshrc
      shiftlog completion fish > ~/.config/fish/completions/shiftlog.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    click.echo(kind(ctx.find_root().command, {}, "shiftlog", "_SHIFTLOG_COMPLETE").source())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in the arguments and return its exit status; never raise."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Closed standard streams become /dev/null.
    processes.open_missing_streams()
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    as_json = "--json" in (given[: given.index("--")] if "--" in given else given)
    for stream in (sys.stdout, sys.stderr):
        # A terminal with another encoding shows escapes for other characters.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return run_reporting(lambda: program.main(given, prog_name="shiftlog", standalone_mode=False), as_json=as_json)
