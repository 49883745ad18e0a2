"""Following entries from one daemon to the next: `tail -f` goes on until Ctrl-C, and daemons come and go.

A daemon that was stopped is not started for this; whoever needs it does so. A reader that went away is noticed also
while nothing is written.
"""

import select
import sys
from collections.abc import Generator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shiftlog.cli.asking import asked, open_client
from shiftlog.model.times import shown

if TYPE_CHECKING:
    from shiftlog.link.client import Client

RETRY_MS = 500
# So many entries may have been written between two daemons.
CAUGHT_UP = 10_000

Entry = dict[str, Any]


def followed(client: "Client", params: Entry) -> Generator[Entry]:
    """Yield the newest entries and each new one, of every daemon that comes after the first."""
    from shiftlog.link.client import DaemonUnreachable

    begun = shown(datetime.now(UTC))
    newest = since = ""
    seqs: dict[str, int] = {}
    while True:
        try:
            with client, asked(client, "tail", params, output=sys.stdout.fileno()) as entries:
                for entry in entries:
                    name = entry["session_id"]
                    if since and (entry["seq"] <= seqs.get(name, 0) or entry["at"] < since):
                        continue
                    seqs[name] = entry["seq"]
                    newest = max(newest, entry["at"])
                    yield entry
        except DaemonUnreachable:
            pass  # it was ended from outside; one that stops by itself ends the stream
        client = _next_client()
        params, since = {**params, "last": CAUGHT_UP}, newest or begun


def _next_client() -> "Client":
    from shiftlog.link.client import DaemonUnreachable

    reader = select.poll()
    reader.register(sys.stdout, 0)
    while True:
        if reader.poll(RETRY_MS):
            raise BrokenPipeError
        try:
            return open_client(start=False)
        except DaemonUnreachable:
            pass
