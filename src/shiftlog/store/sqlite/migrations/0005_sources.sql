-- Imports: the files read so far and how far, and for each fact the key of its origin, so that nothing is stored twice.
-- `origins.key` is a digest of agent and origin key; `doc` holds what a later import must know of a fact beyond that it
-- is there. `imported` is what is kept beside the journal of an imported session; `project_paths` joins paths to projects.

CREATE TABLE sources (
    path          TEXT PRIMARY KEY,
    doc           BLOB NOT NULL,
    state         BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE origins (
    key           BLOB PRIMARY KEY,
    session_key   INTEGER NOT NULL,
    turn          TEXT,
    doc           BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE imported (
    session_id    TEXT PRIMARY KEY,
    doc           BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE project_paths (
    path          TEXT PRIMARY KEY,
    project       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX project_paths_by_project ON project_paths (project);
