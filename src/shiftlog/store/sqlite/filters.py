"""Conditions as SQLite spells them, columns of sessions, and search expressions in the language of FTS5."""

from shiftlog.model.nouns import Session
from shiftlog.model.search import And, Expr, Not, Or, Phrase, Word
from shiftlog.store.codec.documents import encode
from shiftlog.store.sql.columns import session_columns
from shiftlog.store.sql.database import Spelling
from shiftlog.store.sql.filters import FilterSql
from shiftlog.store.sql.rows import SEQ_BITS

SPELLING = Spelling(
    position="instr",
    tagged="s.key IN (SELECT o.key FROM sessions o, json_each(o.tags) j WHERE o.tags IS NOT NULL AND j.value = ?)",
    subagent="json_extract(CAST({}.doc AS TEXT), '$.subagent')",
    fits="{} GLOB ?",
    pattern=str,
    session_key=f"{{}}.id >> {SEQ_BITS}",
)
FILTERS = FilterSql(SPELLING)


def columns(session: Session) -> dict[str, str | int | None]:
    """Return the values of a session that have columns of their own; tags are a JSON list."""
    return {**session_columns(session), "tags": encode(session.tags).decode() if session.tags else None}


def match_expression(expr: Expr) -> tuple[str, bool]:
    """Return an expression in FTS5's language, and whether what it does not match is meant.

    FTS5 knows `a NOT b` but no `NOT b` alone, so negations are moved outwards until at most one is left, around
    the whole. Every word is quoted, so that none can be taken for an operator.
    """
    match expr:
        case Word(text=text, prefix=prefix):
            return f'"{text}"' + ("*" if prefix else ""), False
        case Phrase(words=words, prefix=prefix, former=former):
            spellings = [words, former] if former else [words]
            return _joined(" OR ", [f'"{" ".join(each)}"' + ("*" if prefix else "") for each in spellings]), False
        case Not(part=part):
            text, negated = match_expression(part)
            return text, not negated
        case And(parts=parts):
            wanted, unwanted = _sorted_out(parts)
            if not wanted:
                return _joined(" OR ", unwanted), True
            return _joined(" NOT ", [_joined(" AND ", wanted), *unwanted]), False
        case Or(parts=parts):
            wanted, unwanted = _sorted_out(parts)
            if not unwanted:
                return _joined(" OR ", wanted), False
            return _joined(" NOT ", [_joined(" AND ", unwanted), *wanted]), True


def _sorted_out(parts: tuple[Expr, ...]) -> tuple[list[str], list[str]]:
    found = [match_expression(part) for part in parts]
    return [text for text, negated in found if not negated], [text for text, negated in found if negated]


def _joined(operator: str, texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else "(" + operator.join(texts) + ")"
