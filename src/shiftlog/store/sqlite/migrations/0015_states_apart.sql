-- The states of readers, which can be megabytes, apart from the small rows that every batch of an import writes.

CREATE TABLE source_states (
    path          TEXT PRIMARY KEY,
    state         BLOB NOT NULL
) STRICT;
INSERT INTO source_states SELECT path, state FROM sources;
ALTER TABLE sources DROP COLUMN state;
