"""How commands reach the daemon, and the arguments that several of them share.

The daemon is started when nobody runs it. What the questions mean stands in `shiftlog.control.questions`.
"""

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from shiftlog.model.agents import find_kind
from shiftlog.model.errors import InternalError, SessionNotFound, ShiftlogError, StorageError, Unauthorized
from shiftlog.model.moves import SessionState

if TYPE_CHECKING:
    from shiftlog.link.client import Client

LAST = "last"
STATES = tuple(map(str, SessionState))

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def open_client(*, start: bool = True, purpose: str = "") -> "Client":
    """Connect to the daemon of the state directory, starting one unless told not to."""
    from shiftlog.link.client import connect

    try:
        return connect(start=start, purpose=purpose)
    except InternalError as error:
        if getattr(error.__cause__, "code", None) != "invalid_config":
            raise
        from shiftlog.model.errors import ConfigError

        raise ConfigError(error.message, hint=error.hint) from None


def opened_home() -> str:
    """Return the state directory, made and private; raise ShiftlogError where it cannot be."""
    from shiftlog.link import wire

    try:
        return wire.open_home()
    except wire.WireError as error:
        kind = Unauthorized if error.code == Unauthorized.code else StorageError
        raise kind(error.message, hint=error.hint) from None


def ask(method: str, params: dict[str, Any] | None = None) -> Any:
    """Ask the daemon one question and return the answer."""
    with open_client() as client:
        return client.call(method, params)


@contextmanager
def asked(
    client: "Client", method: str, params: dict[str, Any], *, output: int | None = None
) -> Generator[Generator[Any]]:
    """Ask a question that is answered by a stream of items; leaving the block ends the stream.

    With `output` the stream also ends, by a BrokenPipeError, when nobody reads that descriptor any more.
    """
    with closing(client.stream(method, params, output=output)) as items:
        yield items


def named_session(client: "Client", name: str) -> str:
    """Return a name that the daemon understands: `last` becomes the session that was active last."""
    if name != LAST:
        return name
    newest: list[dict[str, Any]] = client.call("sessions", {"limit": 1})["items"]
    if not newest:
        raise SessionNotFound("There is no session yet", hint="shiftlog run records a demo session")
    return newest[0]["session_id"]


def _complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the newest sessions; a shell that asks for words must not start a daemon."""
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


def session_argument(*, required: bool = True) -> Callable[[F], F]:
    """Add the argument SESSION: an id, the number of a run, a vendor's own id, or `last`."""
    return click.argument("session", required=required, shell_complete=_complete_session)


def agent_option() -> Callable[[F], F]:
    """Add the filter by the kind of agent, which may be named as `import` names it too."""
    said = "Agent kind, such as ClaudeCode; claude and codex will do."
    return click.option("--agent", metavar="KIND", callback=_agent_kind, help=said)


def _agent_kind(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    if not name or name[0].isupper():
        return name
    kind = find_kind(name)
    if kind is None:
        raise click.BadParameter(f"an agent kind begins with a capital letter, as ClaudeCode does; got {name!r}")
    return kind


def filter_options(command: F) -> F:
    """Add the filters that narrow down which sessions count."""
    options = (
        agent_option(),
        click.option("--agent-id", metavar="NAME", help="The agent's stable name."),
        click.option("--status", type=click.Choice(STATES), help="State of the session."),
        click.option("--project", metavar="NAME", help="Name or path of the workspace."),
        click.option("--from", "from_", metavar="DATE", help="Active on this date or later (2026-01-31)."),
        click.option("--to", metavar="DATE", help="Started on this date or earlier."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def filters(**given: str | None) -> dict[str, Any]:
    """Return the filters that were given, under the names of the question."""
    return {name.rstrip("_"): value for name, value in given.items() if value}
