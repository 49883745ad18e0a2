-- Parts of words and of paths. `grams` holds the folded texts of long sessions, GRAM_ROW entries of one session from an id
-- on, and `gram_marks` says how far a session is in it. A row is open if it may hold any text: one of its entries cannot
-- be read. With the extension pg_trgm both `grams` and the paths of files have an index of trigrams; without it they are
-- read through, which finds the same.

CREATE TABLE grams (
    session_key   bigint NOT NULL,
    id            bigint NOT NULL,
    text          text COLLATE "C" NOT NULL,
    is_open       boolean GENERATED ALWAYS AS (strpos(text, E'\x02\x02\x02') > 0) STORED,
    PRIMARY KEY (id, session_key)
);
CREATE INDEX grams_open ON grams (id) WHERE is_open;

CREATE TABLE gram_marks (
    session_key   bigint PRIMARY KEY,
    seq           integer NOT NULL
);

-- Returns whether the indexes of trigrams are there. The extension may be in a schema of its own.
CREATE FUNCTION make_trigram_indexes() RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    home text;
BEGIN
    IF to_regclass('turn_files_by_path') IS NOT NULL AND to_regclass('grams_by_text') IS NOT NULL THEN
        RETURN TRUE;
    END IF;
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    SELECT n.nspname INTO home FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_trgm';
    EXECUTE format('CREATE INDEX IF NOT EXISTS turn_files_by_path ON turn_files USING gin (path %I.gin_trgm_ops)', home);
    EXECUTE format('CREATE INDEX IF NOT EXISTS grams_by_text ON grams USING gin (text %I.gin_trgm_ops)', home);
    RETURN TRUE;
EXCEPTION WHEN insufficient_privilege OR undefined_file OR feature_not_supported OR undefined_object THEN
    -- The role may not create the extension or use its schema, or the server does not have it.
    RETURN FALSE;
END
$$;
SELECT make_trigram_indexes();
