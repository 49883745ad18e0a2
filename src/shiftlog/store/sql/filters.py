"""Filters as SQL: the only place that writes conditions on sessions, turns, files and entries."""

from dataclasses import replace
from typing import Any

from shiftlog.model.moves import UNFINISHED, RunStatus, SessionState, TurnStatus
from shiftlog.model.times import millis, precise
from shiftlog.store.filters import Filter
from shiftlog.store.globs import file_name, is_whole, patterns
from shiftlog.store.sql.database import Spelling, is_one_of
from shiftlog.store.sql.rows import SEQ_BITS, whole_second_ms

# Clauses to be joined by AND, and the values to bind.
Clauses = tuple[list[str], list[Any]]

_HAS_CHILDREN = "EXISTS (SELECT 1 FROM sessions c WHERE c.parent_id = s.id)"


class FilterSql:
    """The conditions of filters as one database spells them."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        # A session, its subagents and theirs.
        child = f"c.hidden = 0 AND {spelling.subagent.format('c')} IS NOT NULL"
        self._family = (
            "WITH RECURSIVE family (key, id) AS (SELECT s.key, s.id UNION SELECT c.key, c.id FROM family k"
            f" JOIN sessions c ON c.parent_id = k.id WHERE {child})"
            " SELECT key FROM family"
        )
        self._is_finished = _finished("= s.key")
        self._is_family_finished = _finished(f"IN ({self._family})")
        # By its own tags or those of a turn.
        self._is_tagged = (
            f"(s.key IN (SELECT x.session_key FROM turn_tags x WHERE x.tag = ?) OR {self._spelling.tagged})"
        )

    @property
    def position(self) -> str:
        """Return the function that finds a text in another one."""
        return self._spelling.position

    def session_key(self, entry: str) -> str:
        """Return the key of the session of an entry, whose table has this name in a statement."""
        return self._spelling.session_key.format(entry)

    @property
    def touched(self) -> str:
        """Return when a file `f` was changed last, if that entry is there."""
        own = f"{self.session_key('e')} = f.session_key"
        return f"(SELECT e.at FROM entries e WHERE e.id = (f.session_key << {SEQ_BITS}) + f.seq AND {own})"

    def of_sessions(self, where: Filter, *, turns_too: bool = True) -> Clauses:
        """Return the conditions on `s` (sessions); with `turns_too` a session matches if one of its turns does."""
        clauses = ["s.hidden = 1" if where.hidden else "s.hidden = 0"]
        values: list[Any] = []
        for condition, value in self._compared(where).items():
            if value is not None:
                clauses.append(condition)
                values.append(value)
        if where.run_status == RunStatus.RUNNING:
            clauses.append("s.run_status = 'running'")  # a partial index is not chosen for a bound value
        if turns_too and where.turn_status == TurnStatus.FAILED and not where.without_subagents:
            clauses.append("s.key IN (SELECT session_key FROM turns WHERE status = 'failed')")  # the few among the many
        if where.states is not None:
            if where.states <= UNFINISHED:
                clauses.append("s.unfinished = 1")  # lets the partial index serve the few among the many
            if where.states == frozenset({str(SessionState.AWAITING_SUCCESSOR)}):
                clauses.append("s.state = 'awaiting_successor'")
            clauses.append(is_one_of("s.state", sorted(where.states), values))
        if where.project is not None:
            clauses.append("(s.project = ? OR s.workspace = ?)")
            values.extend((where.project, where.project))
        if where.offered:
            clauses.append("s.offered_to IS NOT NULL")
        if where.without_subagents:
            clauses.append(f"(s.parent_id IS NULL OR {self._spelling.subagent.format('s')} IS NULL)")
        if where.with_run:
            clauses.append("s.run_alias IS NOT NULL")
        if where.finished is not None:
            finished = self._is_family_finished if where.without_subagents else self._is_finished
            clauses.append(finished if where.finished else f"NOT {finished}")
        if turns_too:
            for table, condition, asked in self._turn_parts(replace(where, tag=None)):
                self._add_turn_condition(table, condition, asked, clauses, values, family=where.without_subagents)
            if where.tag is not None:
                clauses.append(self._is_tagged)
                values.extend((where.tag, where.tag))
        return clauses, values

    def _compared(self, where: Filter) -> dict[str, Any]:
        """Return the conditions that compare one column of a session with one value, each with its value or None."""
        plain = {
            "s.id": where.session_id,
            "s.agent": where.agent,
            "s.agent_key": where.agent_key,
            "s.model": where.model,
            "s.backend": where.backend,
            "s.caller": where.caller,
            "s.run_status": where.run_status,
            "s.workspace": where.workspace,
            "s.parent_id": where.parent_id,
            "s.predecessor_id": where.predecessor_id,
            "s.offered_to": where.offered_to,
        }
        return {f"{column} = ?": value for column, value in plain.items()} | {
            "s.active_ms >= ?": whole_second_ms(where.from_) if where.from_ else None,
            "s.started_ms <= ?": millis(where.to) if where.to else None,
            "s.active_ms <= ?": millis(where.idle_since) if where.idle_since else None,
            f"{self.position}(lower(coalesce(s.model, 'unknown')), lower(?)) > 0": where.model_part,
            # These two count in whole seconds, as results show times.
            "s.started_ms / 1000 >= ?": -(-millis(where.started_from) // 1000) if where.started_from else None,
            "s.active_ms / 1000 <= ?": millis(where.active_to) // 1000 if where.active_to else None,
        }

    def _add_turn_condition(
        self, table: str, condition: str, asked: list[Any], clauses: list[str], values: list[Any], *, family: bool
    ) -> None:
        """Add that a turn of the session, or with `family` of one of its subagents, meets a condition."""
        own = f"EXISTS (SELECT 1 FROM {table} x WHERE x.session_key = s.key AND {condition})"
        values.extend(asked)
        if family:
            theirs = f"EXISTS (SELECT 1 FROM {table} x WHERE x.session_key IN ({self._family}) AND {condition})"
            own = f"({own} OR ({_HAS_CHILDREN} AND {theirs}))"
            values.extend(asked)
        clauses.append(own)

    def of_turns(self, where: Filter) -> Clauses:
        """Return the conditions on `t` (turns) joined with `s` (sessions)."""
        clauses, values = self.of_sessions(where, turns_too=False)
        for table, condition, asked in self._turn_parts(where):
            clauses.append(_of_turn(table, condition))
            values.extend(asked)
        if where.from_ is not None:
            clauses.append("t.updated_ms >= ?")
            values.append(whole_second_ms(where.from_))
        if where.to is not None:
            clauses.append("t.begun_ms <= ?")
            values.append(millis(where.to))
        return clauses, values

    def of_files(self, where: Filter) -> Clauses:
        """Return the conditions on `f` (files) joined with their turns and sessions."""
        clauses, values = self.of_turns(where)
        touched = self.touched
        # Only the time of the last change is known.
        if where.from_ is not None:
            clauses.append(f"coalesce({touched} >= ?, TRUE)")
            values.append(precise(where.from_))
        if where.to is not None:
            clauses.append(f"(f.changes > 1 OR coalesce({touched} <= ?, TRUE))")
            values.append(precise(where.to))
        if where.path is not None:
            condition, asked = self.path_condition(where.path)
            clauses.append(condition.replace("x.", "f."))
            values.extend(asked)
        return clauses, values

    def add_own_turn(self, where: Filter, entry: str, clauses: list[str], values: list[Any]) -> None:
        """Add the conditions on turns for the turn of an entry; a tag may also be its session's."""
        own = f"SELECT 1 FROM turns t WHERE t.session_key = s.key AND t.request_id = {entry}.turn"
        asked_of_turn: list[str] = []
        asked: list[Any] = []
        for table, condition, wanted in self._turn_parts(replace(where, tag=None)):
            asked_of_turn.append(_of_turn(table, condition))
            asked += wanted
        if asked_of_turn:
            clauses.append(f"EXISTS ({own} AND {' AND '.join(asked_of_turn)})")
            values.extend(asked)
        if where.tag is not None:
            clauses.append(f"({self._spelling.tagged} OR EXISTS ({own} AND {_of_turn('turn_tags', 'x.tag = ?')}))")
            values.extend((where.tag, where.tag))

    def _turn_parts(self, where: Filter) -> list[tuple[str, str, list[Any]]]:
        """Return the conditions on turns: each with its table and the values to bind."""
        parts: list[tuple[str, str, list[Any]]] = []
        since = where.untouched_since
        of_one = {
            "x.status = ?": where.turn_status,
            "x.plan_file = ?": where.plan_file,
            "x.todo_id = ?": where.todo_id,
            "x.updated_ms <= ?": None if since is None else millis(since),
        }
        asked = {condition: value for condition, value in of_one.items() if value is not None}
        if asked:
            failed = ["x.status = 'failed'"] if where.turn_status == TurnStatus.FAILED else []  # for its partial index
            parts.append(("turns", " AND ".join([*asked, *failed]), list(asked.values())))
        if where.tag is not None:
            parts.append(("turn_tags", "x.session_key = s.key AND x.tag = ?", [where.tag]))
        if where.path is not None:
            parts.append(("turn_files", *self.path_condition(where.path)))
        return parts

    def path_condition(self, given: str) -> tuple[str, list[Any]]:
        """Return the condition that a touched file `x` of a session `s` fits a pattern, and its values."""
        wanted = [self._spelling.pattern(each) for each in patterns(given)]
        fits = self._spelling.fits
        forms = [fits.format("x.path")]
        if is_whole(given):
            below = fits.format("s.workspace || '/' || x.path")
            forms.append(f"substr(x.path, 1, 1) <> '/' AND {below}")
        clauses = [form for form in forms for _ in wanted]
        condition, values = f"({' OR '.join(clauses)})", [*wanted] * len(forms)
        name = file_name(given)
        if len(forms) > 1 and name and self._spelling.ending is not None:
            # An index finds no path below a workspace that stands in another table.
            return f"(x.path LIKE ? AND {condition})", [self._spelling.ending(name), *values]
        return condition, values


def _finished(of: str) -> str:
    turns = f"(SELECT 1 FROM turns x WHERE x.session_key {of}"
    return (
        "(s.state NOT IN ('open', 'suspended') OR (s.state = 'suspended'"
        f" AND EXISTS {turns}) AND NOT EXISTS {turns} AND x.status = 'in_progress')))"
    )


def _of_turn(table: str, condition: str) -> str:
    """Return a condition on a turn `t` that a table says of it."""
    if table == "turns":
        return condition.replace("x.", "t.")
    return (
        f"EXISTS (SELECT 1 FROM {table} x WHERE x.turn_key = t.key AND x.session_key = t.session_key AND {condition})"
    )


def add_span(where: Filter, column: str, clauses: list[str], values: list[Any]) -> None:
    """Add that the time of an entry lies between `from_` and `to`."""
    for operator, bound in ((">=", where.from_), ("<=", where.to)):
        if bound is not None:
            clauses.append(f"{column} {operator} ?")
            values.append(precise(bound))
