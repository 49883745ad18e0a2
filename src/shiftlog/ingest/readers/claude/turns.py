"""The turn machine of Claude Code: what opens a turn, what ends it, and what it gathers meanwhile.

Which record is a prompt, a notice or a command is decided in `claude_user`.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from shiftlog.facts.transcript import (
    DialogItem,
    Image,
    Key,
    Mac,
    Note,
    Record,
    Standing,
    TitleSource,
    TurnBegun,
    TurnEnded,
    TurnUpdated,
)
from shiftlog.ingest.readers.claude.context import Desk
from shiftlog.ingest.readers.claude.state import Held, Observation, Strand, Turn
from shiftlog.ingest.readers.records import WHOLE_LINE, first_line, turn_id

Opener = Literal["prompt", "command", "notice", "queued", "continued"]

SUPERSEDED = "superseded: No answer before the next prompt"
UNFINISHED = "Turn aborted: unfinished"
CONTINUED = "(continued)"


def open_turn(
    desk: Desk,
    strand: Strand,
    opened_by: Opener,
    text: str,
    *,
    images: tuple[Image, ...] = (),
    context: Iterable[str] = (),
    opening: Observation | None = None,
) -> Turn:
    """Begin a turn with the record in hand, or with an earlier one that was held; an open turn ends."""
    uuid = opening.uuid if opening else desk.uuid
    parent = opening.parent_uuid if opening else desk.parent_uuid
    at = opening.at if opening else desk.at
    if strand.turn is not None:
        end_by_next(desk, strand)
    abandoned = _abandoned(desk, strand, parent) if opened_by != "continued" else []
    strand.ordinal += 1
    turn = Turn(id=turn_id(at, uuid, strand.ordinal), vendor_id=uuid, ordinal=strand.ordinal, last_at=desk.at)
    title = CONTINUED if opened_by == "continued" else first_line(text)
    desk.emit(
        strand,
        TurnBegun(
            session=strand.ref,
            turn=turn.id,
            key=("turn", uuid) if uuid else _lineless(strand, opening, desk),
            at=at,
            record=desk.ids() if opening is None else Record(uuid=uuid, parent_uuid=parent),
            opened_by=opened_by,
            query_text=text,
            query_title=title,
            vendor_turn_id=uuid,
            ordinal=strand.ordinal,
            images=images,
        ),
    )
    strand.turn = turn
    strand.turn_ids.append(turn.id)
    strand.live.append(strand.ordinal)
    strand.injected = ""
    for item in (*strand.context, *context):
        turn.add("context_list", item)
    strand.context.clear()
    if strand.plan_file is not None:
        turn.sets["plan_file"], strand.plan_file = strand.plan_file, None
    if uuid is not None:
        desk.seen.add(uuid, strand.index, strand.ordinal)
    if abandoned:
        ids = [strand.turn_ids[ordinal - 1] for ordinal in abandoned]
        note = Note(
            session=strand.ref,
            turn=turn.id,
            key=desk.key("abandoned", uuid),
            at=at,
            kind="abandoned",
            body={"abandoned": ids},
        )
        desk.emit(strand, note)
    if opened_by in ("prompt", "command", "queued"):
        name_after(desk, strand, first_line(text, WHOLE_LINE))
    return turn


def name_after(desk: Desk, strand: Strand, title: str) -> None:
    """Let the first prompt name a session that has no title yet."""
    if not strand.title_rank:
        desk.rename(strand, title, TitleSource.PROMPT)


def _lineless(strand: Strand, opening: Observation | None, desk: Desk) -> Key:
    line = opening.line if opening else desk.line_text()
    return ("l", strand.ref.vendor_id, Mac(line), "turn", strand.ordinal)


def _abandoned(desk: Desk, strand: Strand, parent: str | None) -> list[int]:
    # A prompt that hangs on a record of an earlier turn than the last one rewinds the session to there.
    place = desk.seen.place(parent)
    if place is None or place[0] != strand.index or not 1 <= place[1] < strand.ordinal:
        return []
    gone: list[int] = []
    while strand.live and strand.live[-1] > place[1]:
        gone.append(strand.live.pop())
    return gone[::-1]


def ensure_turn(desk: Desk, strand: Strand) -> Turn:
    """Return the open turn; one that only continues what went before is begun where there is none."""
    return strand.turn or open_turn(desk, strand, "continued", strand.injected)


def end_turn(
    desk: Desk,
    strand: Strand,
    status: Literal["completed", "failed"],
    *,
    note: str | None = None,
    at: str | None = None,
    duration_ms: int | None = None,
    settled: bool = False,
) -> None:
    """End the open turn; one whose last model record is an error ends failed, whatever was asked for."""
    turn = strand.turn
    if turn is None:
        return
    code = None
    if turn.error_code is not None and (status == "completed" or note == UNFINISHED):
        status, code = "failed", turn.error_code
        note = turn.error_text or code
    give_fields(desk, strand, ends=status == "failed" and bool(note) and turn.add("blockers", note))
    response = "\n\n".join(turn.response) or None
    desk.emit(
        strand,
        TurnEnded(
            session=strand.ref,
            turn=turn.id,
            key=("turn", f"{turn.vendor_id or turn.id}/end"),
            at=at or turn.last_at,
            status=status,
            response=response,
            duration_ms=duration_ms,
            failure_note=note if status == "failed" else None,
            error_code=code,
            model=turn.model,
            settled=settled,
        ),
    )
    strand.turn = None
    strand.injected = ""


def end_by_next(desk: Desk, strand: Strand) -> None:
    """End the open turn because another one opens."""
    turn = strand.turn
    if turn is None:
        return
    if turn.is_quiet:
        end_turn(desk, strand, "completed")
    elif not turn.has_model:
        end_turn(desk, strand, "failed", note=SUPERSEDED)
    else:
        end_turn(desk, strand, "failed", note=UNFINISHED)


def give_fields(desk: Desk, strand: Strand, *, ends: bool = False) -> None:
    """Give the fields that the open turn has gathered since the last time; its end may be the last blocker."""
    turn = strand.turn
    if turn is None or not (turn.sets or turn.adds):
        return
    content = {"sets": turn.sets, "adds": turn.adds}
    text = msgspec.json.encode(content, order="deterministic").decode("utf-8", "replace")
    key: Key = ("turn", f"{turn.vendor_id or turn.id}/fields", Mac(text))
    fact = TurnUpdated(
        session=strand.ref, turn=turn.id, key=key, at=turn.last_at, sets=turn.sets, adds=turn.adds, ends=ends
    )
    desk.emit(strand, fact)
    turn.sets, turn.adds = {}, {}


# -- commands that wait for an answer ----------------------------------------------------------------------------------


def hold(strand: Strand, command: Observation, query: str, context: list[str]) -> None:
    """Keep a slash command back until it is clear whether a model answers it."""
    strand.held = Held(command=command, query=query, context=context)


def drop_held(desk: Desk, strand: Strand) -> None:
    """Let a held command be a mere observation."""
    held, strand.held = strand.held, None
    if held is not None:
        for item in (held.command, *held.injected):
            observe(desk, strand, item)


def open_held(desk: Desk, strand: Strand) -> Turn | None:
    """Begin the turn of a held command, with the texts injected since."""
    held, strand.held = strand.held, None
    if held is None:
        return None
    turn = open_turn(desk, strand, "command", held.query, opening=held.command, context=held.context)
    for item in held.injected:
        observe(desk, strand, item)
    return turn


def observe(desk: Desk, strand: Strand, item: Observation) -> None:
    """Give a text that was held as a system observation."""
    turn = strand.turn
    key: Key = ("u", f"{item.uuid}/0") if item.uuid else ("l", strand.ref.vendor_id, Mac(item.line))
    desk.emit(
        strand,
        DialogItem(
            session=strand.ref,
            turn=turn.id if turn is not None else None,
            key=key,
            at=item.at,
            record=Record(uuid=item.uuid, parent_uuid=item.parent_uuid),
            role="system",
            category="observation",
            content=item.text,
        ),
    )


# -- settling ----------------------------------------------------------------------------------------------------------


def standing_of(strand: Strand) -> Standing | None:
    """Return how the open turn of a strand stands, or a held command without one; None if there is neither."""
    turn, held = strand.turn, strand.held
    if turn is not None and (settles_as := _settles_as(turn)) is not None:
        name, quiet, last_at = turn.id, turn.is_quiet, turn.last_at
    elif held is not None:
        command = held.command
        name, quiet, last_at = turn_id(command.at, command.uuid, strand.ordinal + 1), False, command.at
        settles_as = "observed"
    elif turn is not None:
        name, quiet, last_at, settles_as = turn.id, turn.is_quiet, turn.last_at, None
    else:
        return None
    return Standing(
        session=strand.ref, turn=name, last_at=strand.last_at or last_at, quiet=quiet, settles_as=settles_as
    )


def _settles_as(turn: Turn) -> Literal["completed", "failed"] | None:
    if turn.error_code is not None:
        return "failed"
    return "completed" if turn.is_quiet else None


def settle(desk: Desk, strand: Strand) -> None:
    """End the open turn if time alone ends it; a command that is still held stays without an answer."""
    drop_held(desk, strand)
    if strand.turn is not None and _settles_as(strand.turn) is not None:
        end_turn(desk, strand, "completed", settled=True)
