-- A session's tags have a column of their own: an index made from the document let every write of a session parse it twice.

ALTER TABLE sessions ADD COLUMN tags TEXT;
DROP INDEX sessions_tagged;
UPDATE sessions SET tags = json_extract(CAST(doc AS TEXT), '$.tags')
    WHERE iif(json_valid(CAST(doc AS TEXT)), json_array_length(CAST(doc AS TEXT), '$.tags'), 0) > 0;
CREATE INDEX sessions_tagged ON sessions (key) WHERE tags IS NOT NULL;
