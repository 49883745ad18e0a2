-- Which turn of a session each client began or joined last: what it means when it names no turn.

CREATE TABLE client_turns (
    session_id    TEXT NOT NULL,
    client_id     TEXT NOT NULL,
    request_id    TEXT NOT NULL,
    at_ms         INTEGER NOT NULL,
    PRIMARY KEY (session_id, client_id)
) STRICT, WITHOUT ROWID;
