"""`shiftlog repl`: the session log's envelopes on standard input and output.

`entry` sends the plain command straight to the REPL, which parses the same options itself; this module has their help.
"""

import click

from shiftlog import __version__


@click.command(short_help="Run the session log's REPL; client scripts use this.")
@click.option("--agent-stdio", is_flag=True, help="Read envelopes until the input ends (default without a terminal).")
@click.option("--interactive", is_flag=True, help="The same, with a prompt (default on a terminal).")
@click.option("--invoke", metavar="METHOD", help="Send one request and print its result.")
@click.option("--workspace-path", metavar="PATH", help="Workspace (default: the working directory).")
@click.option("--agent", metavar="NAME", help="Agent that makes the calls (default: SHIFTLOG_AGENT).")
@click.option("--marker-file", metavar="FILE", help="Accepted and ignored; a local store needs no marker.")
@click.version_option(__version__, prog_name="shiftlog repl", message="%(prog)s %(version)s")
@click.argument("params", required=False)
def repl(
    agent_stdio: bool,
    interactive: bool,
    invoke: str | None,
    workspace_path: str | None,
    agent: str | None,
    marker_file: str | None,
    params: str | None,
) -> int:
    """Read request envelopes of the session log on standard input and write their answers to standard output.

    Envelopes are JSON lines or YAML documents. The same program is installed as `mcpserver-repl`. PARAMS belongs to
    --invoke: JSON or YAML text, or `-` to read it from the input. The exit status is 0 at the end of the input or if
    the request succeeded, 1 if the request of --invoke failed, and 2 for a usage error.

    \b
    Examples:
      shiftlog repl --agent-stdio < requests.jsonl
      shiftlog repl --invoke workflow.sessionlog.currentSession
      shiftlog repl --invoke workflow.sessionlog.queryHistory '{"limit": 5}'
    """
    from shiftlog.repl import options

    given = options.ReplOptions()
    given.agent_stdio, given.interactive, given.invoke = agent_stdio, interactive, invoke
    given.workspace_path, given.agent, given.marker_file = workspace_path, agent, marker_file
    try:
        return options.run(options.check(given, [] if params is None else [params]))
    except options.UsageError as error:
        raise click.UsageError(str(error)) from error
