-- What the replicas of a team's server share besides the journal: API keys, of which only a hash is kept, and the
-- sessions of MCP clients of the older revision, so that any replica answers their next request.

CREATE TABLE api_keys (
    id            text COLLATE "C" PRIMARY KEY,
    name          text COLLATE "C" NOT NULL,
    hash          bytea NOT NULL,
    scopes        text[] NOT NULL,
    created_ms    bigint NOT NULL,
    expires_ms    bigint,
    revoked_ms    bigint,
    used_ms       bigint
);

CREATE TABLE mcp_sessions (
    id            text COLLATE "C" PRIMARY KEY,
    key_id        text COLLATE "C" NOT NULL,
    version       text COLLATE "C" NOT NULL,
    client        bytea NOT NULL,
    opened_ms     bigint NOT NULL,
    seen_ms       bigint NOT NULL
);
CREATE INDEX mcp_sessions_by_use ON mcp_sessions (seen_ms);
