"""Filters and search expressions as SQL: the only place that writes conditions."""

from dataclasses import replace
from typing import Any

from shiftlog.model.moves import UNFINISHED, RunStatus
from shiftlog.model.search import And, Expr, Not, Or, Phrase, Word
from shiftlog.model.times import millis, precise
from shiftlog.store.globs import is_whole, patterns
from shiftlog.store.protocol import Filter
from shiftlog.store.sqlite.rows import whole_second_ms

Conditions = tuple[list[str], list[Any]]


def session_conditions(where: Filter, *, turns_too: bool = True) -> Conditions:
    """Return the conditions on `s` (sessions); with `turns_too` a session matches if one of its turns does."""
    clauses = ["s.hidden = 1" if where.hidden else "s.hidden = 0"]
    values: list[Any] = []
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
    compared = {f"{column} = ?": value for column, value in plain.items()} | {
        "s.active_ms >= ?": whole_second_ms(where.from_) if where.from_ else None,
        "s.started_ms <= ?": millis(where.to) if where.to else None,
        "s.active_ms <= ?": millis(where.idle_since) if where.idle_since else None,
        "instr(lower(coalesce(s.model, 'unknown')), lower(?)) > 0": where.model_part,
        # These two count in whole seconds, as results show times.
        "s.started_ms / 1000 >= ?": -(-millis(where.started_from) // 1000) if where.started_from else None,
        "s.active_ms / 1000 <= ?": millis(where.active_to) // 1000 if where.active_to else None,
    }
    for condition, value in compared.items():
        if value is not None:
            clauses.append(condition)
            values.append(value)
    if where.run_status == RunStatus.RUNNING:
        clauses.append("s.run_status = 'running'")  # a partial index is not chosen for a bound value
    if where.states is not None:
        if where.states <= UNFINISHED:
            clauses.append("s.unfinished = 1")  # lets the partial index serve the few among the many
        clauses.append(f"s.state IN ({', '.join('?' * len(where.states))})")
        values.extend(sorted(where.states))
    if where.project is not None:
        clauses.append("(s.project = ? OR s.workspace = ?)")
        values.extend((where.project, where.project))
    if where.offered:
        clauses.append("s.offered_to IS NOT NULL")
    if where.without_subagents:
        clauses.append("(s.parent_id IS NULL OR json_extract(CAST(s.doc AS TEXT), '$.subagent') IS NULL)")
    if where.with_run:
        clauses.append("s.run_alias IS NOT NULL")
    if where.finished is not None:
        finished = _FINISHED_WITH_SUBAGENTS if where.without_subagents else _FINISHED
        clauses.append(finished if where.finished else f"NOT {finished}")
    if turns_too:
        for table, condition, asked in _turn_parts(replace(where, tag=None)):
            _add_turn_condition(table, condition, asked, clauses, values, subagents_too=where.without_subagents)
        if where.tag is not None:
            clauses.append(_TAGGED)
            values.extend((where.tag, where.tag))
    return clauses, values


def _add_turn_condition(
    table: str, condition: str, asked: list[Any], clauses: list[str], values: list[Any], *, subagents_too: bool
) -> None:
    """Add that a turn of the session, or with `subagents_too` of one of its subagents, meets a condition."""
    own = f"EXISTS (SELECT 1 FROM {table} x WHERE x.session_key = s.key AND {condition})"
    values.extend(asked)
    if subagents_too:
        theirs = f"EXISTS (SELECT 1 FROM {table} x WHERE x.session_key IN ({_SELF_AND_SUBAGENTS}) AND {condition})"
        own = f"({own} OR ({_HAS_CHILDREN} AND {theirs}))"
        values.extend(asked)
    clauses.append(own)


_TAGGED_ITSELF = "EXISTS (SELECT 1 FROM json_each(CAST(s.doc AS TEXT), '$.tags') WHERE value = ?)"
# By its own tags or those of a turn.
_TAGGED = f"(EXISTS (SELECT 1 FROM turn_tags x WHERE x.session_key = s.key AND x.tag = ?) OR {_TAGGED_ITSELF})"
_HAS_CHILDREN = "EXISTS (SELECT 1 FROM sessions c WHERE c.parent_id = s.id)"
# A session, its subagents and theirs.
_SELF_AND_SUBAGENTS = (
    "WITH RECURSIVE family (key, id) AS (SELECT s.key, s.id UNION SELECT c.key, c.id FROM family k JOIN sessions c"
    " ON c.parent_id = k.id WHERE c.hidden = 0 AND json_extract(CAST(c.doc AS TEXT), '$.subagent') IS NOT NULL)"
    " SELECT key FROM family"
)


def _finished(of: str) -> str:
    turns = f"(SELECT 1 FROM turns x WHERE x.session_key {of}"
    return (
        "(s.state NOT IN ('open', 'suspended') OR (s.state = 'suspended'"
        f" AND EXISTS {turns}) AND NOT EXISTS {turns} AND x.status = 'in_progress')))"
    )


_FINISHED, _FINISHED_WITH_SUBAGENTS = _finished("= s.key"), _finished(f"IN ({_SELF_AND_SUBAGENTS})")


def turn_conditions(where: Filter) -> Conditions:
    """Return the conditions on `t` (turns) joined with `s` (sessions)."""
    clauses, values = session_conditions(where, turns_too=False)
    for table, condition, asked in _turn_parts(where):
        clauses.append(_of_turn(table, condition))
        values.extend(asked)
    if where.from_ is not None:
        clauses.append("t.updated_ms >= ?")
        values.append(whole_second_ms(where.from_))
    if where.to is not None:
        clauses.append("t.begun_ms <= ?")
        values.append(millis(where.to))
    return clauses, values


def add_own_turn(where: Filter, entry: str, clauses: list[str], values: list[Any]) -> None:
    """Add the conditions on turns for the turn of an entry; a tag may also be its session's."""
    own = f"SELECT 1 FROM turns t WHERE t.session_key = s.key AND t.request_id = {entry}.turn"
    asked_of_turn: list[str] = []
    asked: list[Any] = []
    for table, condition, wanted in _turn_parts(replace(where, tag=None)):
        asked_of_turn.append(_of_turn(table, condition))
        asked += wanted
    if asked_of_turn:
        clauses.append(f"EXISTS ({own} AND {' AND '.join(asked_of_turn)})")
        values.extend(asked)
    if where.tag is not None:
        clauses.append(f"({_TAGGED_ITSELF} OR EXISTS ({own} AND {_of_turn('turn_tags', 'x.tag = ?')}))")
        values.extend((where.tag, where.tag))


def _of_turn(table: str, condition: str) -> str:
    """Return a condition on a turn `t` that a table says of it."""
    if table == "turns":
        return condition.replace("x.", "t.")
    return f"EXISTS (SELECT 1 FROM {table} x WHERE x.turn_key = t.key AND {condition})"


def add_span(where: Filter, column: str, clauses: list[str], values: list[Any]) -> None:
    """Add that the time of an entry lies between `from_` and `to`."""
    for operator, bound in ((">=", where.from_), ("<=", where.to)):
        if bound is not None:
            clauses.append(f"{column} {operator} ?")
            values.append(precise(bound))


def add_touched(where: Filter, touched: str, clauses: list[str], values: list[Any]) -> None:
    """Add that a file `f` was touched between `from_` and `to`; only the time of its last change is known."""
    if where.from_ is not None:
        clauses.append(f"coalesce({touched} >= ?, 1)")
        values.append(precise(where.from_))
    if where.to is not None:
        clauses.append(f"(f.changes > 1 OR coalesce({touched} <= ?, 1))")
        values.append(precise(where.to))


def _turn_parts(where: Filter) -> list[tuple[str, str, list[Any]]]:
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
        parts.append(("turns", " AND ".join(asked), list(asked.values())))
    if where.tag is not None:
        parts.append(("turn_tags", "x.session_key = s.key AND x.tag = ?", [where.tag]))
    if where.path is not None:
        parts.append(("turn_files", *path_condition(where.path)))
    return parts


def path_condition(given: str) -> tuple[str, list[Any]]:
    """Return the condition that a touched file `x` of a session `s` fits a pattern, and the values that it names."""
    wanted = patterns(given)
    forms = ["x.path GLOB ?"]
    if is_whole(given):
        forms.append("x.path NOT GLOB '/*' AND s.workspace || '/' || x.path GLOB ?")
    clauses = [form for form in forms for _ in wanted]
    return f"({' OR '.join(clauses)})", [*wanted] * len(forms)


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
