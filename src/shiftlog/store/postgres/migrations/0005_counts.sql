-- Lists count what they show. The index of all visible sessions answers the count alone; with 30,000 sessions reading
-- the table took 30 ms. Names of projects may be longer than what a tree takes.
DROP INDEX sessions_by_start;
CREATE INDEX sessions_by_start ON sessions (started_ms, key) INCLUDE (hidden);
CREATE INDEX sessions_by_project ON sessions USING hash (project);
