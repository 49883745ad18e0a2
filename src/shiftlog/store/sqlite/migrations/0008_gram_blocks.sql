-- `gram_blocks` says of every 256 entries of a long session, and of 16 such blocks at a time a level higher, which pairs
-- of characters their texts have and what the turns that ended in them have in common (NULL where none did). What was
-- indexed before is made anew by the first search that needs it.

CREATE TABLE gram_blocks (
    session_key   INTEGER NOT NULL,
    level         INTEGER NOT NULL,
    block         INTEGER NOT NULL,
    pairs         BLOB NOT NULL,
    common        BLOB,
    PRIMARY KEY (session_key, level, block)
) STRICT, WITHOUT ROWID;

INSERT INTO grams (grams) VALUES ('delete-all');
DELETE FROM gram_marks;
