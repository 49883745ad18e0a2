-- Texts of entries that the full-text index does not have yet: a single small write leaves them here, and they are moved
-- in one go when several have gathered, before anybody searches, or a moment later.

CREATE TABLE unindexed (
    id            INTEGER PRIMARY KEY,
    text          TEXT NOT NULL
) STRICT;
