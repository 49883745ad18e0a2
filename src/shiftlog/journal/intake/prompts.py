"""Match prompts that arrive twice, from a hook and from a transcript, to one turn.

They share no id. The text under the store's key, its number among equal texts and its time identify a prompt.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

from shiftlog.facts.batch import Incoming
from shiftlog.journal.hooked.adopting import adopter_of
from shiftlog.journal.intake.origins import Origins
from shiftlog.journal.intake.pen import IntakePen
from shiftlog.model.agents import AGENTS
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import parse, truncated
from shiftlog.store.protocol import Reader
from shiftlog.store.sources import Origin

SAME_PROMPT = timedelta(minutes=10)
LOOKED_BACK = 50
# A turn of a transcript without times begins here, if no hook has reported it.
NEVER = datetime(1970, 1, 2, tzinfo=UTC)


def are_near(one: str | None, turn: Turn) -> bool:
    """Return True if a time is near enough to the beginning of a turn for both to be of one prompt.

    Of a prompt without a time (None) the text and the order decide alone.
    """
    return one is None or abs(parse(one) - turn.begun_at) <= SAME_PROMPT


def prompted_at(item: Incoming) -> str | None:
    """Return when a prompt was given; None if its transcript has no times."""
    return None if (item.body or {}).get("untimed") else item.at


def left_by_hook(origins: Origins, pen: IntakePen, name: str, at: str | None) -> Origin | None:
    """Return the turn that a hook began for a prompt and that no prompt of a transcript has taken yet; take it."""
    for key, origin in _known(origins, name):
        document = origin.doc or {}
        turn = turn_now(pen, origin)
        if turn is None or document.get("taken") or not are_near(at, turn):
            continue
        origins.put(key, Origin(session_id=origin.session_id, turn=origin.turn, doc={**document, "taken": True}))
        return origin
    return None


def turn_now(pen: IntakePen, origin: Origin) -> Turn | None:
    """Return the turn of a prompt: the hook's, or the one of its agent for which that made way."""
    if origin.session_id != pen.id or origin.turn is None:
        return None
    return pen.turn(origin.turn) or pen.turn(adopter_of(pen.reader, pen.id, origin.turn) or "")


def begun_by_agent(reader: Reader, session: Session, at: str) -> Turn | None:
    """Return the open turn that an agent began for a prompt before the event of its hook arrived."""
    turn = reader.turn(session.id, session.current_turn or "")
    if turn is None or turn.is_terminal or not are_near(at, turn) or turn.begun_at < truncated(parse(at)):
        return None
    (begun,) = reader.entries(session.id, after=turn.begun_seq - 1, limit=1)
    return None if begun.facts.get("imported") or begun.facts.get("opened_by") else turn


def keep_prompt(origins: Origins, session_id: str, name: str, turn: str, *, taken: bool) -> None:
    """Remember under the next number of its text which turn a hook's prompt has."""
    number = sum(1 for _ in _known(origins, name))
    origins.put(f"{name}:{number}", Origin(session_id=session_id, turn=turn, doc={"live": True, "taken": taken}))


def brought_by_import(reader: Reader, origins: Origins, session: Session, name: str, text: str, at: str) -> Turn | None:
    """Return the turn that a transcript has brought already for a prompt of a hook."""
    claimed = {origin.turn for _, origin in _known(origins, name)}
    # A transcript without times may be read whole before the later ones of its prompts are heard.
    agent = AGENTS.get(session.agent)
    when = at if agent is None or agent.has_times else None
    last = session.turns_total + session.turns_deleted
    for turn in reader.turns(session.id, after=max(last - LOOKED_BACK, 0)):
        if (
            turn.request_id not in claimed
            and turn.query_text.strip() == text.strip()
            and are_near(when, turn)
            and turn.begun_at > NEVER
        ):
            return turn
    return None


def _known(origins: Origins, name: str) -> Iterator[tuple[str, Origin]]:
    for number in count():
        key = f"{name}:{number}"
        origin = origins.origin(key)
        if origin is None:
            return
        yield key, origin
