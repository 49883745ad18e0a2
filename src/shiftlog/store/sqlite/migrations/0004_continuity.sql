-- Continuity: recovery tokens by their hash and the agent that a client last worked as are facts of their own;
-- to whom a session is offered and which one it continues serve the projections.

CREATE TABLE tokens (
    hash          TEXT PRIMARY KEY,
    session_id    TEXT NOT NULL,
    issued_ms     INTEGER NOT NULL,
    expires_ms    INTEGER NOT NULL,
    used_ms       INTEGER,
    revoked_ms    INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_unspent ON tokens (session_id) WHERE used_ms IS NULL AND revoked_ms IS NULL;

CREATE TABLE client_agents (
    client_id     TEXT PRIMARY KEY,
    agent_key     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE sessions ADD COLUMN offered_to TEXT;
ALTER TABLE sessions ADD COLUMN predecessor_id TEXT;
UPDATE sessions SET predecessor_id = json_extract(CAST(doc AS TEXT), '$.predecessor_session_id');
CREATE INDEX sessions_by_offer ON sessions (offered_to, active_ms) WHERE offered_to IS NOT NULL;
CREATE INDEX sessions_by_predecessor ON sessions (predecessor_id) WHERE predecessor_id IS NOT NULL;
