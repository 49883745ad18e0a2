-- A turn's tags stand in two trees instead of three: whoever asks for those of a turn knows its session too.

ALTER TABLE turn_tags RENAME TO former_turn_tags;
CREATE TABLE turn_tags (
    session_key   INTEGER NOT NULL,
    tag           TEXT NOT NULL,
    turn_key      INTEGER NOT NULL REFERENCES turns (key),
    PRIMARY KEY (session_key, tag, turn_key)
) STRICT, WITHOUT ROWID;
INSERT INTO turn_tags (session_key, tag, turn_key) SELECT session_key, tag, turn_key FROM former_turn_tags;
DROP TABLE former_turn_tags;
CREATE INDEX turn_tags_by_tag ON turn_tags (tag, session_key);
