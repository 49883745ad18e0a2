-- Legal holds, and sessions whose entries were archived; the row in `journals` of such a session has no entry.

CREATE TABLE holds (
    scope         text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    at_ms         bigint NOT NULL,
    lifted_ms     bigint,
    doc           bytea NOT NULL,
    PRIMARY KEY (scope, name, at_ms)
);

CREATE TABLE archived (
    session_id    text COLLATE "C" PRIMARY KEY,
    doc           bytea NOT NULL
);
