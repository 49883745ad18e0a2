-- What the session log's clients ask for: their current session, and history by offset in the order of whole seconds.
-- `pointers` holds facts: which session an agent opened last in a workspace. The rest serves the projections.

CREATE TABLE pointers (
    workspace     TEXT NOT NULL,
    agent         TEXT NOT NULL,
    session_id    TEXT NOT NULL,
    PRIMARY KEY (workspace, agent)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_second ON sessions (workspace, active_ms / 1000 DESC, id);
CREATE INDEX turn_tags_by_session ON turn_tags (session_key, tag);

ALTER TABLE turns ADD COLUMN updated_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN plan_file TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN todo_id TEXT NOT NULL DEFAULT '';
UPDATE turns SET
    updated_ms = CAST(unixepoch(json_extract(CAST(doc AS TEXT), '$.last_updated'), 'subsec') * 1000 AS INTEGER),
    plan_file = coalesce(json_extract(CAST(doc AS TEXT), '$.plan_file'), ''),
    todo_id = coalesce(json_extract(CAST(doc AS TEXT), '$.todo_id'), '');
CREATE INDEX turns_by_status ON turns (session_key, status, updated_ms);
CREATE INDEX turns_by_plan ON turns (session_key, plan_file) WHERE plan_file <> '';
CREATE INDEX turns_by_todo ON turns (session_key, todo_id) WHERE todo_id <> '';
