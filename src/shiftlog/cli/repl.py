"""`shiftlog repl`: the session log's envelopes on standard input and output.

`entry` sends the plain command straight to the REPL, which reads the same options by hand; here they are explained.
"""

import click

from shiftlog import __version__


@click.command(short_help="Speak the session log's envelopes; agents' scripts use this.")
@click.option("--agent-stdio", is_flag=True, help="Read envelopes until the input ends; the default when nobody types.")
@click.option("--interactive", is_flag=True, help="The same, with a prompt.")
@click.option("--invoke", metavar="METHOD", help="Send one request and print its result.")
@click.option("--workspace-path", metavar="PATH", help="The workspace; default: the working directory.")
@click.option("--agent", metavar="NAME", help="The agent that calls belong to; default: SHIFTLOG_AGENT.")
@click.option("--marker-file", metavar="FILE", help="Accepted; a local store needs no marker.")
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
    """Speak the session log's envelopes on standard input and output, as JSON lines or YAML documents.

    Also installed as `mcpserver-repl`. PARAMS goes with --invoke: JSON or YAML text, or `-` to read it from the
    input. Exit status 0 when the input has ended or the request succeeded, 1 when the request failed, 2 for misuse.

    \b
    Examples:
      shiftlog repl --agent-stdio < requests.jsonl
      shiftlog repl --invoke workflow.sessionlog.currentSession
      shiftlog repl --invoke workflow.sessionlog.queryHistory '{"limit": 5}'
    """
    from shiftlog.repl import options

    given = options.Options()
    given.agent_stdio, given.interactive, given.invoke = agent_stdio, interactive, invoke
    given.workspace_path, given.agent, given.marker_file = workspace_path, agent, marker_file
    try:
        return options.run(options.check(given, [] if params is None else [params]))
    except options.Misused as error:
        raise click.UsageError(str(error)) from error
