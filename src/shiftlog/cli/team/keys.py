"""The commands below `shiftlog keys`: making, listing, rotating and revoking the API keys of a team's server."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from shiftlog.cli.connecting import json_option, opened_home
from shiftlog.cli.screen.output import Column, Printer, print_json
from shiftlog.model.team import ApiKey, KeyScope
from shiftlog.model.times import shown, shown_or_none
from shiftlog.text.printable import terminal_line

if TYPE_CHECKING:
    from shiftlog.app.api_keys import ApiKeys, MadeKey

T = TypeVar("T")
SCOPES = tuple(map(str, KeyScope))


@click.group(short_help="Make and revoke the API keys of a team's server.")
def keys() -> None:
    """Make, list, rotate and revoke the API keys of a team's server.

    The keys are in the database that `store.url` names, each as a hash. Everyone who can write to that database can
    make keys. A server notices a change within two seconds.

    \b
    Examples:
      shiftlog keys create "CI" --scope write --days 90
      shiftlog keys list
      shiftlog keys rotate 3f9c
    """


@keys.command(short_help="Make a key.")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(SCOPES),
    help="What it opens: metrics; read (and metrics); write (and read).",
)
@click.option("--days", type=click.IntRange(1, 3650), help="Days until it expires (default: never).")
@json_option
def create(name: str, scopes: tuple[str, ...], days: int | None, as_json: bool) -> int:
    """Make a key and print it, once. NAME says whose it is.

    \b
    Examples:
      shiftlog keys create "Ana's laptop" --scope write
      shiftlog keys create Prometheus --scope metrics --json
    """
    lasts = None if days is None else timedelta(days=days)
    made = _asked(lambda store: store.create(name, [KeyScope(scope) for scope in scopes], lasts))
    return _show_made(made, as_json=as_json)


@keys.command("list", short_help="List the keys.")
@json_option
def list_(as_json: bool) -> int:
    """List every key with its scopes and times, also those that have ended. The keys themselves are not kept.

    \b
    Examples:
      shiftlog keys list
      shiftlog keys list --json
    """
    found = [_facts(key) for key in _asked(lambda store: store.list())]
    if as_json:
        print_json({"keys": found})
        return 0
    Printer().table(_COLUMNS, found, nothing="There is no key yet: shiftlog keys create NAME --scope write")
    return 0


@keys.command(short_help="Replace a key by a new one.")
@click.argument("key")
@click.option(
    "--overlap-hours",
    type=click.IntRange(0, 24 * 90),
    default=24,
    show_default=True,
    help="How long the old key still works.",
)
@json_option
def rotate(key: str, overlap_hours: int, as_json: bool) -> int:
    """Make a key with the name and scopes of KEY, and let KEY end. KEY is an id, or the beginning of one.

    \b
    Examples:
      shiftlog keys rotate 3f9c
      shiftlog keys rotate 3f9c --overlap-hours 0
    """
    made = _asked(lambda store: store.rotate(key, timedelta(hours=overlap_hours)))
    return _show_made(made, as_json=as_json)


@keys.command(short_help="End a key.")
@click.argument("key")
@json_option
def revoke(key: str, as_json: bool) -> int:
    """End KEY: its clients and pages are refused within two seconds. KEY is an id, or the beginning of one.

    \b
    Examples:
      shiftlog keys revoke 3f9c
    """
    ended = _asked(lambda store: store.revoke(key))
    if as_json:
        print_json({"revoked": ended.id})
    else:
        Printer().line(("revoked", "bold green"), f"  {ended.id}  {terminal_line(ended.name)}")
    return 0


def _asked(question: "Callable[[ApiKeys], Awaitable[T]]") -> T:
    """Open the database of the state directory, ask it, and close it."""
    from shiftlog.app.app import open_app

    home = Path(opened_home())

    async def ask() -> T:
        async with open_app(home, os.environ, for_team=True) as app:
            from shiftlog.app.team import api_keys

            return await question(api_keys(app))

    return asyncio.run(ask())


def _show_made(made: "MadeKey", *, as_json: bool) -> int:
    if as_json:
        print_json({**_facts(made.key), "api_key": made.secret})
        return 0
    printer = Printer()
    printer.line(("key", "bold green"), f"  {made.secret}")
    printer.line(("It is shown once. Clients send it as 'Authorization: Bearer KEY'.", "dim"))
    return 0


def _facts(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "state": _state(key),
        "created_at": shown(key.created_at),
        "expires_at": shown_or_none(key.expires_at),
        "revoked_at": shown_or_none(key.revoked_at),
        "used_at": shown_or_none(key.used_at),
    }


def _state(key: ApiKey) -> str:
    now = datetime.now(UTC)
    if key.is_valid(now):
        return "ending" if key.revoked_at is not None else "valid"
    return "revoked" if key.revoked_at is not None and key.revoked_at <= now else "expired"


def _end(key: dict[str, Any]) -> str | None:
    """Return when a key ends or ended, None if it has no end."""
    ends: list[str] = [at for at in (key["revoked_at"], key["expires_at"]) if at]
    return min(ends, default=None)


_COLUMNS = (
    Column("KEY", lambda key: (key["id"], "cyan")),
    Column("NAME", "name", cut=True),
    Column("SCOPES", lambda key: ", ".join(key["scopes"])),
    Column("STATE", "state"),
    Column("ENDS", lambda key: _end(key) or "never"),
    Column("LAST USED", lambda key: key["used_at"] or "never", spare=1),
)
