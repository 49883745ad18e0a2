-- The ground floor. `journals`, `entries`, `receipts`, `answers`, `outcomes`, `leases`, `grants` and `aliases` hold facts;
-- `sessions`, `turns`, `turn_tags`, `turn_files` and `found` are projections that `rebuild` makes again.
-- An entry's id is (session key << 24) + seq, so that the full-text index alone tells the session of a match.
-- A turn's key is the id of the entry that began it, so that `rebuild` gives every row the place it had.

CREATE TABLE journals (
    key           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    head_seq      INTEGER NOT NULL,
    head_hash     BLOB NOT NULL
) STRICT;

CREATE TABLE sessions (
    key           INTEGER PRIMARY KEY REFERENCES journals (key),
    id            TEXT NOT NULL UNIQUE,
    agent         TEXT NOT NULL,
    agent_id      TEXT NOT NULL,
    agent_key     TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN
                  ('open', 'suspended', 'closed', 'awaiting_successor', 'sealed', 'succeeded')),
    model         TEXT,
    workspace     TEXT,
    project       TEXT,
    vendor_id     TEXT,
    parent_id     TEXT,
    hidden        INTEGER NOT NULL DEFAULT 0,
    unfinished    INTEGER NOT NULL,
    started_ms    INTEGER NOT NULL,
    active_ms     INTEGER NOT NULL,
    run_alias     INTEGER UNIQUE,
    run_status    TEXT,
    backend       TEXT,
    caller        TEXT,
    entries       INTEGER NOT NULL,
    doc           BLOB NOT NULL
) STRICT;
CREATE INDEX sessions_by_start ON sessions (started_ms, key);
CREATE INDEX sessions_by_activity ON sessions (active_ms, key);
CREATE INDEX sessions_by_agent ON sessions (agent_key, active_ms);
CREATE INDEX sessions_unfinished ON sessions (agent_key, active_ms) WHERE unfinished = 1;
CREATE INDEX sessions_hidden ON sessions (hidden) WHERE hidden = 1;
CREATE INDEX sessions_by_vendor ON sessions (vendor_id) WHERE vendor_id IS NOT NULL;
CREATE INDEX sessions_by_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE turns (
    key           INTEGER PRIMARY KEY,
    session_key   INTEGER NOT NULL REFERENCES sessions (key),
    request_id    TEXT NOT NULL,
    ordinal       INTEGER NOT NULL,
    status        TEXT NOT NULL CHECK (status IN ('in_progress', 'completed', 'failed')),
    begun_ms      INTEGER NOT NULL,
    doc           BLOB NOT NULL,
    UNIQUE (session_key, request_id)
) STRICT;
CREATE INDEX turns_in_order ON turns (session_key, ordinal);
CREATE INDEX turns_by_start ON turns (begun_ms);

CREATE TABLE turn_tags (
    tag           TEXT NOT NULL,
    turn_key      INTEGER NOT NULL REFERENCES turns (key),
    session_key   INTEGER NOT NULL,
    PRIMARY KEY (turn_key, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX turn_tags_by_tag ON turn_tags (tag, session_key);

-- `place` counts the files of a turn in the order in which they were first touched.
CREATE TABLE turn_files (
    turn_key      INTEGER NOT NULL REFERENCES turns (key),
    place         INTEGER NOT NULL,
    path          TEXT NOT NULL,
    session_key   INTEGER NOT NULL,
    changes       INTEGER NOT NULL,
    last_type     TEXT NOT NULL,
    seq           INTEGER NOT NULL,
    PRIMARY KEY (turn_key, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX turn_files_by_path ON turn_files (path, session_key);
CREATE INDEX turn_files_by_session ON turn_files (session_key, path);

CREATE TABLE entries (
    id            INTEGER PRIMARY KEY,
    kind          TEXT NOT NULL,
    at            TEXT NOT NULL,
    turn          TEXT,
    facet         TEXT,
    body          BLOB,
    salt          BLOB,
    body_hash     BLOB NOT NULL,
    hash          BLOB NOT NULL
) STRICT;
CREATE INDEX entries_by_facet ON entries (facet, id) WHERE facet IS NOT NULL;

CREATE TABLE blobs (
    hash          BLOB PRIMARY KEY,
    chars         INTEGER NOT NULL,
    data          BLOB NOT NULL
) STRICT;

CREATE TABLE blob_uses (
    hash          BLOB NOT NULL,
    entry_id      INTEGER NOT NULL,
    PRIMARY KEY (hash, entry_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_uses_by_entry ON blob_uses (entry_id);

CREATE VIRTUAL TABLE found USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);

CREATE TABLE aliases (
    alias         INTEGER PRIMARY KEY AUTOINCREMENT
) STRICT;

CREATE TABLE receipts (
    session_id    TEXT NOT NULL,
    seq           INTEGER NOT NULL,
    doc           BLOB NOT NULL,
    PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE answers (
    scope         TEXT NOT NULL,
    key           TEXT NOT NULL,
    session_id    TEXT,
    at_ms         INTEGER NOT NULL,
    doc           BLOB NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_time ON answers (at_ms);

CREATE TABLE outcomes (
    hour          INTEGER NOT NULL,
    client_id     TEXT NOT NULL,
    call_id       TEXT NOT NULL,
    at_ms         INTEGER NOT NULL,
    doc           BLOB NOT NULL,
    PRIMARY KEY (hour, client_id, call_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
    session_id    TEXT PRIMARY KEY,
    client_id     TEXT NOT NULL,
    expires_ms    INTEGER NOT NULL,
    doc           BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_by_client ON leases (client_id);

CREATE TABLE grants (
    session_id    TEXT NOT NULL,
    client_id     TEXT NOT NULL,
    fence         INTEGER NOT NULL,
    PRIMARY KEY (session_id, client_id)
) STRICT, WITHOUT ROWID;
