"""The command line: its commands by name, and the edge where errors become messages and exit statuses.

A command's module is imported when it is called. Commands raise; what a person or a program hears about it and
the exit status are decided here. Each group of commands has a file of its own.
"""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import IO, Any, cast

import click

from shiftlog import __version__
from shiftlog.link import processes
from shiftlog.model.errors import DISK_TROUBLES, Category, InternalError, InvalidParameter, ShiftlogError, StorageError
from shiftlog.model.shell_errors import WorkspaceInvalid

OK, FAILED, MISUSED, REFUSED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 126, 130, 141

# A request that cannot be fulfilled as it stands counts as misuse; 126 is the shell's own status for a command that
# may not run.
EXIT_STATUSES: dict[Category, int] = {
    Category.INVALID: MISUSED,
    Category.NOT_FOUND: FAILED,
    Category.CONFLICT: FAILED,
    Category.FORBIDDEN: FAILED,
    Category.DENIED: REFUSED,
    Category.FAILED: FAILED,
    Category.UNAVAILABLE: FAILED,
    Category.INTERNAL: FAILED,
}
# On a command line these differ from the rest of their category: a path to import is an argument, a directory is not.
EXIT_STATUSES_BY_CODE = {
    "command_too_large": FAILED,
    "transcript_not_found": MISUSED,
    "workspace_invalid": FAILED,
    "workspace_required": FAILED,
}

# Where the hint of an error speaks to an agent about its tools, a person hears this instead.
_REISSUE = "shiftlog token reissue SESSION replaces a lost one"
HINTS: dict[str, str] = {
    "agent_not_entitled": "It is for another agent",
    "checkpoint_not_found": "shiftlog checkpoints lists them",
    "command_not_found": "shiftlog checkpoints and shiftlog show list commands",
    "command_too_large": "Put it in a file and run that",
    "invalid_session_id": "shiftlog sessions lists the ids; `last` is the session active last",
    "session_not_found": "shiftlog sessions lists the ids; `last` is the session active last",
    "no_resumable_session": "shiftlog sessions lists what there is; --agent and --cwd choose among it",
    "nothing_to_restore": "shiftlog checkpoints lists what can be gone back to",
    "recovery_token_expired": "shiftlog token reissue SESSION gives a new one",
    "recovery_token_invalid": f"Pass the newest token of the session as it is; {_REISSUE}",
    "recovery_token_mismatch": f"It was issued for another agent, session or state; {_REISSUE}",
    "recovery_token_required": f"Pass the token that the last close or resume gave; {_REISSUE}",
    "recovery_token_used": f"Each resume gives a fresh token; {_REISSUE}",
    "session_held": "Take it over with --on-held take_over, or with --take-over of handover offer",
    "session_sealed": "shiftlog show reads it; nobody can continue it",
    "session_succeeded": "shiftlog lineage shows what continues it",
    "policy_denied": "shiftlog policy check 'COMMAND' explains it word by word",
    "policy_undecidable": "shiftlog policy check 'COMMAND' explains it word by word",
    "shell_busy": "shiftlog watch shows what it does; run it in another shell, or wait",
    "shell_ended": "shiftlog shells lists those that live",
    "shell_limit": "shiftlog shells --close SHELL ends one",
    "shell_lost": "shiftlog shells lists those that live",
    "shell_not_found": "shiftlog shells lists them; `last` is the newest",
    "turn_not_found": "shiftlog show SESSION lists the turns",
    "invalid_parameter": "Correct it and try again; --help explains the command",
}

SECTIONS: dict[str, dict[str, str]] = {
    "Begin": {
        "run": "run:run",
        "setup": "setup.command:setup",
        "doctor": "doctor:doctor",
        "import": "importing:import_",
    },
    "Look": {
        "open": "opening:open_",
        "status": "service:status",
        "sessions": "sessions:sessions",
        "show": "show:show",
        "search": "sessions:search",
        "tail": "sessions:tail",
        "runs": "runs:runs",
        "usage": "runs:usage",
        "export": "exporting:export",
    },
    "Continue": {
        "resume": "continuity:resume",
        "close": "continuity:close",
        "handover": "continuity:handover",
        "lineage": "continuity:lineage",
        "brief": "continuity:brief",
        "token": "continuity:token",
    },
    "Shells": {
        "shells": "shells.commands:shells",
        "watch": "shells.commands:watch",
        "exec": "shells.commands:exec_",
        "replay": "shells.replay:replay",
    },
    "Undo": {
        "checkpoints": "checkpoints:checkpoints",
        "diff": "checkpoints:diff",
        "undo": "checkpoints:undo",
        "rewind": "checkpoints:rewind",
        "gc": "checkpoints:gc",
    },
    "Rules": {"policy": "policy:policy", "approvals": "approvals:approvals", "approve": "approvals:approve"},
    "Prove and repair": {
        "verify": "proof:verify",
        "rebuild": "proof:rebuild",
        "erase": "proof:erase",
        "spool": "spool:spool",
    },
    "Serve": {
        "mcp": "serving:mcp",
        "repl": "repl:repl",
        "serve": "serving:serve",
        "daemon": "service:daemon",
    },
    "More": {"codex-jsonl": "codex_jsonl:codex_jsonl", "completion": "completion:completion"},
}


class PipeClosed(Exception):
    """Nobody reads any more what is printed."""


@contextmanager
def _telling_of_readers_that_went_away() -> Generator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise PipeClosed from error  # click would make it an ordinary failure


class Program(click.Group):
    """The group of all commands, which imports a command's module when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for section in SECTIONS.values():
            if cmd_name in section:
                module, _, attribute = section[cmd_name].partition(":")
                return getattr(import_module(f"shiftlog.cli.{module}"), attribute)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from shiftlog.text.nearest import suggestion

            near = suggestion(args[0], self.list_commands(ctx), least=0.6)
            says = f" Did you mean '{near}'?" if near else ""
            raise click.UsageError(f"There is no command '{args[0]}'.{says}", ctx) from error

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _telling_of_readers_that_went_away():  # the program's own --help and --version are printed here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _telling_of_readers_that_went_away():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in section]
            rows = [(name, command.get_short_help_str(70)) for name, command in commands if command]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="shiftlog", message="%(prog)s %(version)s")
@click.pass_context
def program(ctx: click.Context) -> None:
    """Shiftlog is the session layer for AI agents: a record of what they did that cannot be quietly changed.

    Agents write through MCP; you read, search and verify here. A small daemon keeps the record and is started
    when it is needed.

    \b
    Begin with:
      shiftlog run             start, connect an agent, watch a demo session
      shiftlog setup claude    connect Claude Code
      shiftlog show last       read the newest session
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return its exit status; nothing is raised."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_missing_streams()
    as_json = "--json" in (given[: given.index("--")] if "--" in given else given)
    for stream in (sys.stdout, sys.stderr):
        # A terminal of another encoding shows an escape for what it cannot show.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(given, as_json)
    except (PipeClosed, BrokenPipeError):
        return _without_reader()


def _open_missing_streams() -> None:
    """Read nothing and write nowhere where whoever started us closed a standard stream."""
    processes.open_missing_streams()
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _run(arguments: list[str], as_json: bool) -> int:
    try:
        status = program.main(arguments, prog_name="shiftlog", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else OK
    except SystemExit as ended:  # how shell completion ends
        return ended.code if isinstance(ended.code, int) else OK
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return MISUSED
    except click.UsageError as error:
        hint = f"{error.ctx.command_path} --help explains it" if error.ctx else "--help explains it"
        return _complain(InvalidParameter(error.format_message(), hint=hint), as_json, MISUSED)
    except click.ClickException as error:
        hint = str(getattr(error, "hint", "")) or None
        return _complain(StorageError(error.format_message(), hint=hint), as_json, FAILED)
    except (PipeClosed, BrokenPipeError):
        raise
    except ShiftlogError as error:
        return _complain(error, as_json, exit_status(error))
    except OSError as error:
        if isinstance(error, FileNotFoundError) and processes.working_directory() is None:
            gone = WorkspaceInvalid("The directory that you are in is gone", hint="Change to one that exists")
            return _complain(gone, as_json, exit_status(gone))
        if error.errno not in DISK_TROUBLES:
            return _complain(_defect(error), as_json, FAILED)
        _let_go_of(sys.stdout)
        place = f" {error.filename}" if error.filename else ""
        return _complain(StorageError(f"Cannot write{place}: {error.strerror}", hint=""), False, FAILED)
    except Exception as error:  # noqa: BLE001 - the edge of this face: a person gets a sentence, and what to report
        return _complain(_defect(error), as_json, FAILED)


def exit_status(error: ShiftlogError) -> int:
    """Return the exit status of an error."""
    return EXIT_STATUSES_BY_CODE.get(error.code, EXIT_STATUSES[error.category])


def _complain(error: ShiftlogError, as_json: bool, status: int) -> int:
    """Tell an error and return the exit status; where it cannot be told as asked, a person hears it, or nobody."""
    try:
        _tell(error, as_json)
    except OSError as trouble:
        if trouble.errno not in DISK_TROUBLES:
            raise
        _let_go_of(sys.stdout if as_json else sys.stderr)
        if as_json:
            return _complain(error, False, status)
    return status


def _tell(error: ShiftlogError, as_json: bool) -> None:
    from shiftlog.cli.screen.output import print_json
    from shiftlog.text.printable import terminal_line

    if as_json:
        print_json({"error": error.as_dict()})
        return
    hint = error.hint
    if error.code in HINTS and (hint == type(error).hint or _speaks_to_an_agent(hint or "")):
        hint = HINTS[error.code]
    if unsaid := [name for name in _allowed(error) if name not in error.message]:
        hint = f"It is one of {', '.join(unsaid)}"
    reason = error.details.get("reason") if isinstance(error, StorageError) else None
    says = f"{error.message}: {reason}" if reason else error.message
    for word, colour, text in (("error:", "red", says), ("hint:", "yellow", hint)):
        if text:
            shown = word if os.environ.get("NO_COLOR") else click.style(word, fg=colour)
            click.echo(f"{shown} {terminal_line(text)}", err=True)


def _speaks_to_an_agent(hint: str) -> bool:
    from shiftlog.config.tool_names import TOOL_NAMES

    return any(name in hint for name in (*TOOL_NAMES, "on_held"))


def _allowed(error: ShiftlogError) -> list[str]:
    names = error.details.get("allowed")
    return [str(name) for name in cast(list[object], names)] if isinstance(names, list) else []


def _defect(error: Exception) -> InternalError:
    import traceback

    traceback.print_exception(error)
    return InternalError(f"{type(error).__name__}: {error}", hint="This is a defect of Shiftlog; please report it")


def _without_reader() -> int:
    _let_go_of(sys.stdout)
    return PIPE_CLOSED


def _let_go_of(stream: IO[str]) -> None:
    """Let go of a stream that takes nothing any more, so that the interpreter does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
