-- `tallies` adds up what sessions used, by everything that a question about usage may ask for: a projection that is kept
-- whenever a session changes. `id` is a digest of all that the sessions of a tally have in common. `grams` finds parts of
-- words in long sessions: a row holds the folded text of GRAM_ROW entries of one session from that id on, and
-- `gram_marks` says how far a session is in it. `unbuilt` names what is still to be filled from older sessions.

CREATE TABLE tallies (
    day                       TEXT NOT NULL,
    id                        BLOB NOT NULL,
    agent                     TEXT NOT NULL,
    agent_id                  TEXT NOT NULL,
    agent_key                 TEXT NOT NULL,
    model                     TEXT,
    backend                   TEXT,
    caller                    TEXT,
    workspace                 TEXT,
    project                   TEXT,
    run_status                TEXT,
    reported                  INTEGER NOT NULL,
    parts                     TEXT NOT NULL,
    part                      INTEGER NOT NULL,
    sessions                  INTEGER NOT NULL,
    input_tokens              INTEGER NOT NULL,
    beyond_cache              INTEGER NOT NULL,
    cached_input_tokens       INTEGER NOT NULL,
    cache_creation_tokens     INTEGER NOT NULL,
    cache_creation_1h_tokens  INTEGER NOT NULL,
    output_tokens             INTEGER NOT NULL,
    high                      INTEGER NOT NULL,
    middle                    INTEGER NOT NULL,
    low                       INTEGER NOT NULL,
    PRIMARY KEY (day, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE unbuilt (
    projection    TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
INSERT INTO unbuilt SELECT 'tallies' WHERE EXISTS (SELECT 1 FROM sessions);

CREATE VIRTUAL TABLE grams USING fts5 (
    text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram case_sensitive 1'
);

CREATE TABLE gram_marks (
    session_key   INTEGER PRIMARY KEY,
    seq           INTEGER NOT NULL
) STRICT;
