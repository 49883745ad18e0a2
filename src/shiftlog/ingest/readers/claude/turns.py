"""The turns of Claude Code: what opens a turn, what ends it, and the fields it gathers.

`user` decides which record is a prompt, a notice or a command.
"""

from collections.abc import Iterable
from typing import Literal

from shiftlog.facts import transcript as f
from shiftlog.ingest.readers.claude.context import Context
from shiftlog.ingest.readers.claude.state import ClaudeTurn, Observation, Strand
from shiftlog.ingest.readers.records import WHOLE_LINE, first_line, turn_id

Opener = Literal["prompt", "command", "notice", "queued", "continued"]

SUPERSEDED = "superseded: No answer before the next prompt"
UNFINISHED = "Turn aborted: unfinished"
CONTINUED = "(continued)"


def open_turn(
    context: Context,
    strand: Strand,
    opened_by: Opener,
    text: str,
    *,
    images: tuple[f.Image, ...] = (),
    editor_context: Iterable[str] = (),
    opening: Observation | None = None,
) -> ClaudeTurn:
    """Begin a turn with the current record, or with an earlier one that was held; an open turn ends."""
    uuid = opening.uuid if opening else context.uuid
    parent = opening.parent_uuid if opening else context.parent_uuid
    at = opening.at if opening else context.at
    if strand.turn is not None:
        end_by_next(context, strand)
    abandoned = _abandoned(context, strand, parent) if opened_by != "continued" else []
    strand.ordinal += 1
    turn = ClaudeTurn(
        request_id=turn_id(at, uuid, strand.ordinal), vendor_id=uuid, ordinal=strand.ordinal, last_at=context.at
    )
    title = CONTINUED if opened_by == "continued" else first_line(text)
    if uuid is not None:
        key: f.Key = ("turn", uuid)
    else:
        line = opening.line if opening else context.line_text()
        key = ("l", strand.ref.vendor_id, f.Mac(line), "turn", strand.ordinal)
    begun = f.TurnBegun(
        session=strand.ref,
        turn=turn.request_id,
        key=key,
        at=at,
        record=context.ids() if opening is None else f.RecordIds(uuid=uuid, parent_uuid=parent),
        opened_by=opened_by,
        query_text=text,
        query_title=title,
        vendor_turn_id=uuid,
        ordinal=strand.ordinal,
        images=images,
    )
    context.emit(strand, begun)
    strand.turn = turn
    strand.turn_ids.append(turn.request_id)
    strand.live.append(strand.ordinal)
    strand.injected = ""
    if uuid is not None:
        context.seen.add(uuid, strand.index, strand.ordinal)
    _attach(strand, turn, editor_context)
    if abandoned:
        key, body = context.key("abandoned", uuid), {"abandoned": [strand.turn_ids[gone - 1] for gone in abandoned]}
        note = f.Note(session=strand.ref, turn=turn.request_id, key=key, at=at, kind="abandoned", body=body)
        context.emit(strand, note)
    if opened_by in ("prompt", "command", "queued") and not strand.title_rank:
        context.rename(strand, first_line(text, WHOLE_LINE), f.TitleSource.PROMPT)
    return turn


def _attach(strand: Strand, turn: ClaudeTurn, editor_context: Iterable[str]) -> None:
    """Give a new turn the files and the plan attached before it."""
    for item in (*strand.context, *editor_context):
        turn.add("context_list", item)
    strand.context.clear()
    if strand.plan_file is not None:
        turn.sets["plan_file"], strand.plan_file = strand.plan_file, None


def _abandoned(context: Context, strand: Strand, parent: str | None) -> list[int]:
    # A prompt whose parent belongs to an earlier turn rewinds the session to that turn.
    position = context.seen.position(parent)
    if position is None or position[0] != strand.index or not 1 <= position[1] < strand.ordinal:
        return []
    gone: list[int] = []
    while strand.live and strand.live[-1] > position[1]:
        gone.append(strand.live.pop())
    return gone[::-1]


def ensure_turn(context: Context, strand: Strand) -> ClaudeTurn:
    """Return the open turn; if there is none, begin one that continues."""
    return strand.turn or open_turn(context, strand, "continued", strand.injected)


def end_turn(
    context: Context,
    strand: Strand,
    status: Literal["completed", "failed"],
    *,
    note: str | None = None,
    at: str | None = None,
    duration_ms: int | None = None,
    settled: bool = False,
) -> None:
    """End the open turn; if its last model record is an error, it has failed."""
    turn = strand.turn
    if turn is None:
        return
    code = None
    if turn.error_code is not None and (status == "completed" or note == UNFINISHED):
        status, code = "failed", turn.error_code
        note = turn.error_text or code
    give_fields(context, strand, ends=status == "failed" and bool(note) and turn.add("blockers", note))
    response = "\n\n".join(turn.response) or None
    ended = f.TurnEnded(
        session=strand.ref,
        turn=turn.request_id,
        key=("turn", f"{turn.name}/end"),
        at=at or turn.last_at,
        status=status,
        response=response,
        duration_ms=duration_ms,
        failure_note=note if status == "failed" else None,
        error_code=code,
        model=turn.model,
        settled=settled,
    )
    context.emit(strand, ended)
    strand.turn = None
    strand.injected = ""


def end_by_next(context: Context, strand: Strand) -> None:
    """End the open turn because another one opens."""
    turn = strand.turn
    if turn is None:
        return
    if turn.is_quiet:
        end_turn(context, strand, "completed")
    else:
        end_turn(context, strand, "failed", note=UNFINISHED if turn.has_model else SUPERSEDED)


def give_fields(context: Context, strand: Strand, *, ends: bool = False) -> None:
    """Give the fields gathered by the open turn; its end may be the last blocker."""
    turn = strand.turn
    fact = None if turn is None else turn.take_fields(strand.ref, ("turn", f"{turn.name}/fields"), ends=ends)
    if fact is not None:
        context.emit(strand, fact)


# -- commands that wait for an answer ----------------------------------------------------------------------------------


def drop_held(context: Context, strand: Strand) -> None:
    """Give a held command as an observation."""
    held, strand.held = strand.held, None
    if held is not None:
        for item in (held.command, *held.injected):
            observe(context, strand, item)


def open_held(context: Context, strand: Strand) -> ClaudeTurn | None:
    """Begin the turn of a held command, with the texts injected since."""
    held, strand.held = strand.held, None
    if held is None:
        return None
    turn = open_turn(context, strand, "command", held.query, opening=held.command, editor_context=held.context)
    for item in held.injected:
        observe(context, strand, item)
    return turn


def observe(context: Context, strand: Strand, item: Observation) -> None:
    """Give a held text as an observation of the system."""
    key: f.Key = ("u", f"{item.uuid}/0") if item.uuid else ("l", strand.ref.vendor_id, f.Mac(item.line))
    said = f.DialogItem(
        session=strand.ref,
        turn=strand.turn_id,
        key=key,
        at=item.at,
        record=f.RecordIds(uuid=item.uuid, parent_uuid=item.parent_uuid),
        role="system",
        category="observation",
        content=item.text,
        extra={"injected": item.injected} if item.injected else {},
    )
    context.emit(strand, said)


# -- turns that time alone ends ----------------------------------------------------------------------------------------


def standing_of(strand: Strand) -> f.Standing | None:
    """Return the state of a strand's open turn or held command; None if it has neither."""
    turn, held = strand.turn, strand.held
    ends_as = None if turn is None else _ends_as(turn)
    if held is not None and ends_as is None:
        command = held.command
        name, quiet, last_at = turn_id(command.at, command.uuid, strand.ordinal + 1), False, command.at
        ends_as = "observed"
    elif turn is not None:
        name, quiet, last_at = turn.request_id, turn.is_quiet, turn.last_at
    else:
        return None
    return f.Standing(session=strand.ref, turn=name, last_at=strand.last_at or last_at, quiet=quiet, ends_as=ends_as)


def _ends_as(turn: ClaudeTurn) -> Literal["completed", "failed"] | None:
    if turn.error_code is not None:
        return "failed"
    return "completed" if turn.is_quiet else None


def end_idle(context: Context, strand: Strand) -> None:
    """End the open turn if time alone ends it; a held command becomes an observation."""
    drop_held(context, strand)
    if strand.turn is not None and _ends_as(strand.turn) is not None:
        end_turn(context, strand, "completed", settled=True)
