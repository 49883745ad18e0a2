"""Connecting commands to the daemon, and the arguments and options that several commands share.

The daemon is started if it does not run. `shiftlog.control` defines the requests.
"""

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from shiftlog.model.errors import InternalError, SessionNotFound, ShiftlogError, StorageError, Unauthorized
from shiftlog.model.moves import SessionState

if TYPE_CHECKING:
    from shiftlog.link.client import Client

LAST = "last"
STATES = tuple(map(str, SessionState))

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def open_client(*, start: bool = True, purpose: str = "") -> "Client":
    """Connect to the daemon of the state directory, starting it unless `start` is False."""
    from shiftlog.link.client import connect

    try:
        return connect(start=start, purpose=purpose)
    except InternalError as error:
        if getattr(error.__cause__, "code", None) != "invalid_config":
            raise
        from shiftlog.model.errors import ConfigError

        raise ConfigError(error.message, hint=error.hint) from None


def opened_home() -> str:
    """Create the state directory if needed and return its path; raise ShiftlogError."""
    from shiftlog.link import wire

    try:
        return wire.open_home()
    except wire.WireError as error:
        kind = Unauthorized if error.code == Unauthorized.code else StorageError
        raise kind(error.message, hint=error.hint) from None


def ask(method: str, params: dict[str, Any] | None = None) -> Any:
    """Send the daemon one request and return its answer."""
    with open_client() as client:
        return client.call(method, params)


@contextmanager
def streamed(
    client: "Client", method: str, params: dict[str, Any], *, output: int | None = None
) -> Generator[Generator[Any]]:
    """Send a request that is answered by a stream of items; leaving the block ends the stream.

    With `output` the stream also ends, with BrokenPipeError, when the reader of that descriptor has gone.
    """
    with closing(client.stream(method, params, output=output)) as items:
        yield items


def resolve_session(client: "Client", name: str) -> str:
    """Return a name that the daemon accepts: `last` becomes the id of the most recently active session."""
    if name != LAST:
        return name
    newest: list[dict[str, Any]] = client.call("sessions", {"limit": 1})["items"]
    if not newest:
        raise SessionNotFound("There is no session yet", hint="shiftlog run records a demo session")
    return newest[0]["session_id"]


def _complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the newest sessions; completion must not start a daemon."""
    try:
        with open_client(start=False) as client:
            items: list[dict[str, Any]] = client.call("sessions", {"limit": 50}, timeout_s=2)["items"]
    except ShiftlogError:
        return []
    return [
        CompletionItem(item["session_id"], help=item["title"])
        for item in items
        if item["session_id"].startswith(incomplete)
    ]


def complete_shell(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the live shells; completion must not start a daemon."""
    try:
        with open_client(start=False) as client:
            rows: list[dict[str, Any]] = client.call("shells", {}, timeout_s=2)["shells"]
    except ShiftlogError:
        return []
    return [CompletionItem(row["shell_id"], help=row["cwd"]) for row in rows if row["shell_id"].startswith(incomplete)]


def session_argument(*, required: bool = True) -> Callable[[F], F]:
    """Add the argument SESSION: a session id, a run number, a vendor's own id, or `last`."""
    return click.argument("session", required=required, shell_complete=_complete_session)


def limit_option(most: int, *, default: int) -> Callable[[F], F]:
    """Add the option --limit of a list."""
    says = "Print at most this many."
    return click.option(
        "--limit", type=click.IntRange(1, most), metavar="N", default=default, show_default=True, help=says
    )


def agent_option() -> Callable[[F], F]:
    """Add the filter by agent kind, which also accepts the short names of `import`."""
    said = "Agent kind, such as ClaudeCode; short names such as claude work too."
    return click.option("--agent", metavar="KIND", callback=_agent_kind, help=said)


def _agent_kind(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    if not name or name[0].isupper():
        return name
    from shiftlog.model.agents import find_kind  # its imports take ten milliseconds

    kind = find_kind(name)
    if kind is None:
        raise click.BadParameter(f"an agent kind begins with a capital letter, as ClaudeCode does; got {name!r}")
    return kind


def filter_options(command: F) -> F:
    """Add the filters for sessions."""
    options = (
        agent_option(),
        click.option("--agent-id", metavar="NAME", help="Stable name of the agent (its agent_id)."),
        click.option("--status", type=click.Choice(STATES), help="Only sessions in this state."),
        click.option("--project", metavar="NAME", help="Name or path of the workspace."),
        click.option("--from", "from_", metavar="DATE", help="Active on this date or later (2026-01-31)."),
        click.option("--to", metavar="DATE", help="Started on this date or earlier."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def filters(**given: str | None) -> dict[str, Any]:
    """Return the given filters under the names of the request."""
    return {name.rstrip("_"): value for name, value in given.items() if value}
