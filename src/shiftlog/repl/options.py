"""The REPL's command line, parsed without argparse and pathlib because a one-shot call must start in milliseconds."""

import os
import sys

from shiftlog import __version__
from shiftlog.link import processes
from shiftlog.repl import streams

OK, FAILED, MISUSED = 0, 1, 2
TIMEOUT_VARIABLE = "MCPSERVER_REPL_COMMAND_TIMEOUT_SECONDS"
TIMEOUT_S = 120.0
LONGEST_S = 365 * 86_400.0
AGENT_CHARS = 64
AGENT_VARIABLE = "SHIFTLOG_AGENT"

USAGE = """\
Usage: {program} [OPTIONS]
       {program} --invoke METHOD [PARAMS]

Read request envelopes of the session log on standard input and write their answers to standard output, as JSON lines or
YAML documents.

Options:
  --agent-stdio          read envelopes until the input ends (the default without a terminal)
  --interactive          the same, with a prompt (the default on a terminal)
  --invoke METHOD        send one request and print its result; PARAMS is JSON or YAML, `-` reads it from the input
  --workspace-path PATH  the workspace (default: the working directory)
  --agent NAME           the agent that makes the calls (default: SHIFTLOG_AGENT)
  --marker-file FILE     accepted and ignored; a local store needs no marker
  --version              print the version
  --help                 print this text

Exit status: 0 at the end of the input or if the request succeeded, 1 if the request of --invoke failed, 2 for a usage
error.
"""

_VALUES = {"--workspace-path": "workspace_path", "--agent": "agent", "--marker-file": "marker_file"}
_SWITCHES = {"--agent-stdio": "agent_stdio", "--interactive": "interactive"}


class UsageError(Exception):
    """The command line is invalid; the text is the reason."""


class ReplOptions:
    """The options of one command line."""

    agent: str | None = None
    agent_stdio = False
    interactive = False
    invoke: str | None = None
    marker_file: str | None = None
    params: str | None = None
    workspace_path: str | None = None


def parse(arguments: list[str]) -> ReplOptions:
    """Parse the arguments; raise UsageError."""
    options = ReplOptions()
    waiting = iter(arguments)
    rest: list[str] = []
    for argument in waiting:
        flag, given, value = argument.partition("=")
        if argument in _SWITCHES:
            setattr(options, _SWITCHES[argument], True)
        elif flag in _VALUES or flag == "--invoke":
            text = value if given else next(waiting, None)
            if text is None:
                raise UsageError(f"{flag} needs a value")
            setattr(options, _VALUES.get(flag, "invoke"), text)
        elif argument == "-" or not argument.startswith("-") or (options.invoke is not None and _is_yaml(argument)):
            rest.append(argument)
        elif options.invoke is not None and argument == "--":
            rest.extend(waiting)
        else:
            raise UsageError(f"there is no option {flag}")
    return check(options, rest)


def _is_yaml(argument: str) -> bool:
    """Return True if an argument that begins with a dash is YAML: a document start, a list or a number."""
    return argument != "--" and not argument.lstrip("-")[:1].isalpha()


def check(options: ReplOptions, rest: list[str]) -> ReplOptions:
    """Check the combination of options, and store the parameters of a one-shot call."""
    if options.invoke is None and rest:
        raise UsageError(f"unexpected argument {rest[0]!r}")
    if len(rest) > 1:
        raise UsageError("--invoke takes a method and one text of parameters")
    if options.invoke is not None and (options.agent_stdio or options.interactive):
        raise UsageError("--invoke goes neither with --agent-stdio nor with --interactive")
    options.params = rest[0] if rest else None
    name = options.agent
    if name and not (name.isascii() and name.isalnum() and name[0].isupper() and len(name) <= AGENT_CHARS):
        raise UsageError(f"--agent {name!r}: PascalCase letters and digits, such as ClaudeCode")
    path = options.workspace_path
    if path is None:
        options.workspace_path = _here()
    elif not os.path.isdir(path):  # noqa: PTH112
        raise UsageError(f"the workspace {path} is no directory")
    return options


def _here() -> str:
    """Return the working directory; the shell still knows the name of a removed one."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        here = os.environ.get("PWD", "")
        if not here.startswith("/"):
            raise UsageError("the working directory no longer exists; name one with --workspace-path") from None
        return here


def run(options: ReplOptions) -> int:
    """Run the REPL with these options; return the exit status."""
    from shiftlog.repl.sending import CallSender

    sender = CallSender(
        workspace=os.path.realpath(options.workspace_path or _here()),
        agent=options.agent or os.environ.get(AGENT_VARIABLE, "").strip() or None,
        timeout_s=_timeout_s(),
    )
    try:
        if options.invoke is not None:
            from shiftlog.repl.one_shot import invoke

            return invoke(sender, options.invoke, options.params)
        from shiftlog.repl.loop import serve

        prompt = options.interactive or (not options.agent_stdio and os.isatty(0))
        return serve(sender.call, prompt=prompt)
    finally:
        sender.close()


def _timeout_s() -> float:
    try:
        seconds = float(os.environ.get(TIMEOUT_VARIABLE, ""))
    except ValueError:
        return TIMEOUT_S
    return min(seconds, LONGEST_S) if 0 < seconds < float("inf") else TIMEOUT_S


def main(arguments: list[str], program: str) -> int:
    """Run the program; return its exit status."""
    processes.open_missing_streams()
    try:
        if "--help" in arguments or "-h" in arguments:
            streams.write(USAGE.format(program=program).encode())
            return OK
        if "--version" in arguments:
            streams.write(f"{program} {__version__}\n".encode())
            return OK
        return run(parse(arguments))
    except UsageError as error:
        _complain(f"{program}: {error}\nTry '{program} --help'.\n")
        return MISUSED
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return OK
    except streams.CannotWrite as error:
        _complain(f"{program}: cannot write the answer: {error}\n")
        return FAILED


def _complain(text: str) -> None:
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is closed
        sys.stderr.write(text)
