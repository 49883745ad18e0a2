-- Every commit indexes its own texts. What an older version left for later is indexed here.

INSERT INTO found (rowid, text) SELECT id, text FROM unindexed;
DROP TABLE unindexed;
