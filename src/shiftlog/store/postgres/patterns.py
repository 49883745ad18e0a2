"""The conditions of filters as PostgreSQL spells them; patterns of paths become regular expressions."""

from shiftlog.model.nouns import Session
from shiftlog.store.sql.columns import session_columns
from shiftlog.store.sql.database import Spelling
from shiftlog.store.sql.filters import FilterSql

# Characters that mean something in a regular expression, or inside its brackets.
_SPECIAL = frozenset("\\^$.|?*+()[]{}-")
# Matches no text at all.
_NOTHING = "(?!)"


def columns(session: Session) -> dict[str, object]:
    """Return the values of a session that have columns of their own."""
    return {**session_columns(session), "subagent": 1 if session.subagent else None, "tags": list(session.tags)}


def regex_of(glob: str) -> str:
    """Return the regular expression that matches the same paths as a GLOB of SQLite does."""
    made: list[str] = []
    place = 0
    while place < len(glob):
        character = glob[place]
        place += 1
        if character == "*":
            if made[-1:] != [".*"]:
                made.append(".*")
        elif character == "?":
            made.append(".")
        elif character == "[":
            bracket, place = _bracket(glob, place)
            made.append(bracket)
        else:
            made.append(_escaped(character))
    return f"^{''.join(made)}$"


def like(text: str) -> str:
    """Return a text as it stands in a pattern of LIKE."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _bracket(glob: str, place: int) -> tuple[str, int]:
    """Return a set of characters, which begins after its bracket, and the place behind it."""
    negated = glob[place : place + 1] == "^"
    place += negated
    members: list[str] = []
    before = ""
    if glob[place : place + 1] == "]":
        members.append(_escaped("]"))
        place += 1
    while place < len(glob) and glob[place] != "]":
        character = glob[place]
        following = glob[place + 1 : place + 2]
        if character == "-" and before and following not in ("", "]"):
            if before <= following:
                members.append(f"{_escaped(before)}-{_escaped(following)}")
            before = ""
            place += 2
            continue
        members.append(_escaped(character))
        before = character
        place += 1
    if place >= len(glob):
        return _NOTHING, place  # a set without an end matches nothing
    place += 1
    if not members:
        return ("." if negated else _NOTHING), place
    return f"[{'^' if negated else ''}{''.join(members)}]", place


def _escaped(character: str) -> str:
    return f"\\{character}" if character in _SPECIAL else character


SPELLING = Spelling(
    position="strpos",
    tagged="? = ANY (s.tags)",
    subagent="{}.subagent",
    fits="({}) ~ ?",
    pattern=regex_of,
    session_key="{}.session_key",
    ending=lambda name: f"%{like(name)}",
)
FILTERS = FilterSql(SPELLING)
