-- When a grant was given and when a client was last seen as an agent, so that old ones can be forgotten.

ALTER TABLE grants ADD COLUMN at_ms INTEGER NOT NULL DEFAULT 0;
UPDATE grants SET at_ms = unixepoch() * 1000;
ALTER TABLE client_agents ADD COLUMN at_ms INTEGER NOT NULL DEFAULT 0;
UPDATE client_agents SET at_ms = unixepoch() * 1000;
