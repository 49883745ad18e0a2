-- Which version of the rules computed the projections. A store with earlier sessions has no row: they are computed anew.
CREATE TABLE projection_version (
    version INTEGER NOT NULL
) STRICT;
INSERT INTO projection_version SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM journals);
