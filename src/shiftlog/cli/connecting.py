"""Connecting commands to the daemon, and the arguments and options that several commands share.

The daemon is started if it does not run. `shiftlog.control` defines the requests.
"""

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from shiftlog.model.errors import InternalError, ShiftlogError, StorageError, Unauthorized
from shiftlog.model.moves import SessionState
from shiftlog.model.times import AGES, read_iso, read_relative

if TYPE_CHECKING:
    from shiftlog.link.client import Client

# Commands that look at the daemon itself wait this long for one that runs already: it may hang.
ANSWER_S = 5.0
STATES = tuple(map(str, SessionState))

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def open_client(*, start: bool = True, answers_within_s: float | None = None, purpose: str = "") -> "Client":
    """Connect to the daemon of the state directory, starting it unless `start` is False.

    A daemon that runs already has `answers_within_s` to answer.
    """
    from shiftlog.link.client import connect

    try:
        return connect(start=start, answers_within_s=answers_within_s, purpose=purpose)
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


def ask(method: str, params: dict[str, Any] | None = None, *, session: str | None = None) -> Any:
    """Send the daemon one request, about a session if one is named, and return its answer; None is not sent."""
    with open_client() as client:
        return client.call(method, _about(client, params or {}, session))


@contextmanager
def streamed(
    client: "Client", method: str, params: dict[str, Any], *, output: int | None = None
) -> Generator[Generator[Any]]:
    """Send a request whose answer is a stream of items; leaving the block ends the stream.

    With `output` the stream also ends, with BrokenPipeError, when the reader of that descriptor has gone.
    """
    with closing(client.stream(method, params, output=output)) as items:
        yield items


@contextmanager
def ask_stream(method: str, params: dict[str, Any], *, session: str | None) -> Generator[Generator[Any]]:
    """Send the daemon one request, about a session if one is named, that is answered by a stream of items."""
    with open_client() as client, streamed(client, method, _about(client, params, session)) as items:
        yield items


def _about(client: "Client", params: dict[str, Any], session: str | None) -> dict[str, Any]:
    if session is not None:
        params = {**params, "session_id": resolve_session(client, session)}
    return {name: value for name, value in params.items() if value is not None}


def resolve_session(client: "Client", name: str) -> str:
    """Return the id of the session that the user named: by an id or its beginning, a run number, or `last`."""
    return client.call("session_named", {"name": name})["session_id"]


def _completion(method: str, listed: str, name: str, about: str) -> Callable[..., list[CompletionItem]]:
    """Return a function that completes the names which a request lists; it must not start a daemon."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            with open_client(start=False) as client:
                items: list[dict[str, Any]] = client.call(method, {"limit": 50}, timeout_s=2)[listed]
        except ShiftlogError:
            return []
        return [CompletionItem(item[name], help=item[about]) for item in items if item[name].startswith(incomplete)]

    return complete


_complete_session = _completion("sessions", "items", "session_id", "title")
complete_shell = _completion("shells", "shells", "shell_id", "cwd")


def session_argument(*, required: bool = True) -> Callable[[F], F]:
    """Add the argument SESSION: a session id or the beginning of one, a run number, a vendor's own id, or `last`."""
    return click.argument("session", required=required, shell_complete=_complete_session)


def options(*added: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return one decorator that adds several options in this order."""

    def add(command: F) -> F:
        for option in reversed(added):
            command = option(command)
        return command

    return add


def number_option(
    *names: str, within: click.IntRange | click.FloatRange, default: float, help: str, metavar: str = "N"
) -> Callable[[F], F]:
    """Add an option with a number, whose default the help shows."""
    return click.option(*names, type=within, metavar=metavar, default=default, show_default=True, help=help)


def limit_option(most: int, *, default: int) -> Callable[[F], F]:
    """Add the option --limit of a list."""
    return number_option("--limit", within=click.IntRange(1, most), default=default, help="Print at most this many.")


def since_option(says: str) -> Callable[[F], F]:
    """Add the option --since of a list: a date, a time, or an age."""
    says = f"{says}: 7d, 12h, today, 2026-01-31."
    return click.option("--since", "--from", "from_", metavar="WHEN", callback=_check_when, help=says)


def until_option(says: str) -> Callable[[F], F]:
    """Add the option --to of a list."""
    return click.option("--to", metavar="WHEN", callback=_check_when, help=says)


def _check_when(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    if text and read_relative(text, datetime.now(UTC)) is None:
        try:
            read_iso(text)
        except ValueError:
            raise click.BadParameter(f"'{text}' is neither a date or time nor {AGES}.") from None
    return text


def _agent_kind(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    if not name or name[0].isupper():
        return name
    from shiftlog.model.agents import find_kind  # its imports take ten milliseconds

    kind = find_kind(name)
    if kind is None:
        raise click.BadParameter(f"an agent kind begins with a capital letter, as ClaudeCode does; got {name!r}")
    return kind


# The filter by agent kind also accepts the short names of `import`.
agent_option = click.option(
    "--agent",
    metavar="KIND",
    callback=_agent_kind,
    help="Agent kind, such as ClaudeCode; short names such as claude work too.",
)
agent_id_option = click.option("--agent-id", metavar="NAME", help="Stable name of the agent (its agent_id).")
project_option = click.option("--project", metavar="NAME", help="Name or path of the workspace.")
filter_options = options(
    agent_option,
    agent_id_option,
    click.option("--status", type=click.Choice(STATES), help="Only sessions in this state."),
    project_option,
    since_option("Active at this time or later"),
    until_option("Started at this time or earlier."),
)


def filters(**given: str | None) -> dict[str, Any]:
    """Return the given filters under the names of the request."""
    return {name.rstrip("_"): value for name, value in given.items() if value}
