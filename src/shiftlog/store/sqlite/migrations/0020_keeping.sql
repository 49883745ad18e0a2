-- Legal holds, and sessions whose entries were archived; the row in `journals` of such a session has no entry.

CREATE TABLE holds (
    scope         TEXT NOT NULL,
    name          TEXT NOT NULL,
    at_ms         INTEGER NOT NULL,
    lifted_ms     INTEGER,
    doc           BLOB NOT NULL,
    PRIMARY KEY (scope, name, at_ms)
) STRICT, WITHOUT ROWID;

CREATE TABLE archived (
    session_id    TEXT PRIMARY KEY,
    doc           BLOB NOT NULL
) STRICT, WITHOUT ROWID;
