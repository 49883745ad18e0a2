"""Turns whose agent reported a stop, until their transcripts say how they ended."""

from dataclasses import replace
from datetime import datetime

import msgspec

from shiftlog.model.limits import HOOK_STOP_QUIET
from shiftlog.model.times import parse
from shiftlog.store.protocol import Reader, Writer
from shiftlog.store.sources import NO_FILE

STOPS = "hooks:stops"


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """A turn whose agent reported a stop; it ends with this response unless its transcript says more."""

    agent: str
    at: str
    turn: str
    response: str = ""
    transcript: str | None = None
    is_final: bool = False
    """True if the turn ends with or without a response: a subagent never goes on, and some stops tell no answer."""

    def is_due(self, now: datetime) -> bool:
        """Return True if the transcript has had its time."""
        return parse(self.at) + HOOK_STOP_QUIET <= now


Stops = dict[str, Stop]
_stops = msgspec.msgpack.Decoder(Stops).decode


def read_stops(reader: Reader) -> Stops:
    """Return the turns that have stopped, by session."""
    kept = reader.source_state(STOPS)
    return _stops(kept) if kept else {}


def write_stops(writer: Writer, stops: Stops) -> None:
    """Keep the turns that have stopped."""
    if stops:
        writer.put_source(replace(NO_FILE, path=STOPS, state=msgspec.msgpack.encode(stops)))
    else:
        writer.forget_source(STOPS)
