"""Tallies in tables: adding to them with every session that changes, and reading them summed up."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec

from shiftlog.model.nouns import Session
from shiftlog.store.codec.documents import decode_noun
from shiftlog.store.filters import Filter
from shiftlog.store.sql.database import Database
from shiftlog.store.tallies import (
    FIGURES,
    Figures,
    Tallies,
    TallyKey,
    days_asked,
    difference,
    parts_text,
    read_parts,
    tallies_of,
)

# From the agent to the status of the run: the fields of a key that stand in a column as they are.
_SHARED = TallyKey._fields[1:9]
_shared = attrgetter(*_SHARED)
_KEY_COLUMNS = (*_SHARED, "project", "reported", "parts", "part")
_COLUMNS = ("day", "id", *_KEY_COLUMNS, *FIGURES)
_ADD = (
    f"INSERT INTO tallies ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
    " ON CONFLICT (day, id) DO UPDATE SET "
    + ", ".join(f"{name} = tallies.{name} + excluded.{name}" for name in FIGURES)
)
_FORGET = f"DELETE FROM tallies WHERE day = ? AND id = ? AND {' AND '.join(f'{name} = 0' for name in FIGURES)}"
# Sums are always kept apart by these: prices and settings may treat them differently.
_ALWAYS = ("agent", "backend", "run_status", "reported", "parts", "part")


# The fields of a key that a sum need not be kept apart by.
_EMPTY: dict[str, Any] = {"day": "", "agent_id": "", "agent_key": "", "model": None, "caller": None, "workspace": None}


def project_of(workspace: str | None) -> str | None:
    """Return the last part of a workspace's path, the name of its project."""
    return workspace.rstrip("/").rpartition("/")[2] if workspace else None


def change_of(before: Session | None, after: Session | None) -> Tallies:
    """Return the change of the tallies when a session changes."""
    return difference(tallies_of(before) if before else {}, tallies_of(after) if after else {})


def add(db: Database, changes: Tallies) -> None:
    """Add figures to the stored ones, and remove tallies that are zero then."""
    for key, figures in changes.items():
        values = _values(key)
        db.execute(_ADD, (*values, *figures))
        if min(figures) < 0:
            db.execute(_FORGET, values[:2])


def _values(key: TallyKey) -> tuple[Any, ...]:
    values = (*_shared(key), project_of(key.workspace), int(key.reported), parts_text(key.parts), key.part)
    digest = hashlib.blake2b(msgspec.json.encode(values), digest_size=12).digest()
    return (key.day, digest, *values)


def recount(db: Database) -> None:
    """Compute all tallies again from the sessions."""
    db.execute("DELETE FROM tallies")
    add(db, _sums(db))
    db.execute("DELETE FROM unbuilt WHERE projection = 'tallies'")


def are_right(db: Database) -> bool:
    """Return True if the tallies are the sums over all sessions."""
    stored = {row[:2]: row[2:] for row in db.execute(f"SELECT day, id, {', '.join(FIGURES)} FROM tallies")}
    wanted = {_values(key)[:2]: tuple(figures) for key, figures in _sums(db).items()}
    return all(_alike(stored.pop(key, ()), figures) for key, figures in wanted.items()) and not stored


def _alike(stored: Sequence[float], figures: Sequence[float]) -> bool:
    """Return True if figures are equal; the last digits of costs may differ, as they depend on the order of adding."""
    return len(stored) == len(figures) and all(map(partial(math.isclose, abs_tol=1e-6), stored, figures))


def _sums(db: Database) -> Tallies:
    sums: Tallies = {}
    none = Figures()
    for (doc,) in db.execute("SELECT doc FROM sessions"):
        for key, figures in tallies_of(decode_noun(doc, Session)).items():
            sums[key] = sums.get(key, none).plus(figures)
    return sums


def is_owed(db: Database) -> bool:
    """Return True if the tallies must be computed: a migration could not fill them, or a session's are unknown."""
    return db.execute("SELECT 1 FROM unbuilt WHERE projection = 'tallies'").fetchone() is not None


def note_owed(db: Database) -> None:
    """Have the tallies computed again at the next opening of the store."""
    db.execute("INSERT INTO unbuilt VALUES ('tallies') ON CONFLICT DO NOTHING")


def read_tallies(db: Database, where: Filter, by: Iterable[str]) -> list[tuple[TallyKey, Figures]] | None:
    """Return the tallies of a filter, summed up except for `by`; None if tallies cannot answer it."""
    days = days_asked(where)
    if days is None:
        return None
    asked = frozenset(by)
    kept = [name for name in ("day", *_KEY_COLUMNS) if name in asked or name in _ALWAYS]
    clauses, values = _conditions(where)
    rows = db.execute(
        f"SELECT {', '.join(kept)}, {', '.join(f'sum({name})' for name in FIGURES)} FROM tallies"
        f" WHERE day BETWEEN ? AND ?{clauses} GROUP BY {', '.join(kept)}",
        (*days, *values),
    )
    return [(_key_of(kept, row), Figures(*row[len(kept) :])) for row in rows]


def _conditions(where: Filter) -> tuple[str, list[Any]]:
    asked = {
        "agent": where.agent,
        "agent_key": where.agent_key,
        "model": where.model,
        "backend": where.backend,
        "caller": where.caller,
        "run_status": where.run_status,
        "workspace": where.workspace,
    }
    clauses = [f"{name} = ?" for name, value in asked.items() if value is not None]
    values: list[Any] = [value for value in asked.values() if value is not None]
    if where.project is not None:
        clauses.append("(project = ? OR workspace = ?)")
        values += [where.project, where.project]
    if where.with_run:
        clauses.append("run_status IS NOT NULL")
    return "".join(f" AND {clause}" for clause in clauses), values


def _key_of(names: Sequence[str], row: Sequence[Any]) -> TallyKey:
    known: dict[str, Any] = _EMPTY | dict(zip(names, row, strict=False))
    known.pop("project", None)
    known["reported"], known["parts"] = bool(known["reported"]), read_parts(known["parts"])
    return TallyKey(**known)
