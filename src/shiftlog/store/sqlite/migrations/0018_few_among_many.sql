-- The first page asks for the turns that failed lately and the sessions that await a successor, and its chips for sessions
-- with a failed turn or a tag. These are few among many; an index of their own finds them without reading all.

CREATE INDEX turns_failed ON turns (begun_ms, key, session_key) WHERE status = 'failed';
-- A document that cannot be read must not keep a rebuild from replacing it, so it counts as one without tags.
CREATE INDEX sessions_tagged ON sessions (key)
    WHERE iif(json_valid(CAST(doc AS TEXT)), json_array_length(CAST(doc AS TEXT), '$.tags'), 0) > 0;
CREATE INDEX sessions_awaiting ON sessions (active_ms, key) WHERE state = 'awaiting_successor';
