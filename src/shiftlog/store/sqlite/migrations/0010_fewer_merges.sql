-- The full-text index merges eight segments of a size at a time instead of four: an import then writes each word twice
-- and not three times, and a search looks into a few segments more, which takes it no longer.

INSERT INTO found (found, rank) VALUES ('automerge', 8);
