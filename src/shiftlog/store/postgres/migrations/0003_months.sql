-- Entries and their words are partitioned by the month in which their session was recorded, so that old months can be
-- detached. The month stands in the upper bits of a session's key, and so of the ids of its entries: a session lies in one
-- partition, any condition on ids finds it, and the bounds of a month are known before its first session.
-- Every table of a session has its key in the primary key, so that each can be distributed by session.

-- Months since January 2020 in UTC, in bits 29 to 38 of a key.
CREATE FUNCTION session_month(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT (extract(year FROM at AT TIME ZONE 'UTC')::bigint - 2020) * 12 + extract(month FROM at AT TIME ZONE 'UTC')::bigint - 1
$$;

CREATE FUNCTION next_session_key() RETURNS bigint LANGUAGE sql VOLATILE SET search_path FROM CURRENT AS $$
    SELECT (session_month(clock_timestamp()) << 29) + nextval(pg_get_serial_sequence('journals', 'key'))
$$;

ALTER TABLE entries RENAME TO entries_before;
ALTER TABLE found RENAME TO found_before;
ALTER INDEX entries_by_facet RENAME TO entries_before_by_facet;
ALTER INDEX found_by_words RENAME TO found_before_by_words;
ALTER INDEX found_without_words RENAME TO found_before_without_words;

CREATE TABLE entries (
    session_key   bigint NOT NULL,
    id            bigint NOT NULL,
    kind          text COLLATE "C" NOT NULL,
    at            text COLLATE "C" NOT NULL,
    turn          text COLLATE "C",
    facet         text COLLATE "C",
    body          bytea,
    salt          bytea,
    body_hash     bytea NOT NULL,
    hash          bytea NOT NULL,
    PRIMARY KEY (id, session_key)
) PARTITION BY RANGE (id);
CREATE INDEX entries_by_facet ON entries (facet, id) WHERE facet IS NOT NULL;

CREATE TABLE found (
    session_key   bigint NOT NULL,
    id            bigint NOT NULL,
    words         tsvector,
    line          text,
    PRIMARY KEY (id, session_key)
) PARTITION BY RANGE (id);
CREATE INDEX found_by_words ON found USING gin (words);
CREATE INDEX found_without_words ON found (id) WHERE words IS NULL;

-- A partition for each month from this one on, `ahead` months beyond it. Rows that came before their partition was there
-- wait in the default partition and are moved. The tables are locked for a moment; if others use them for so long that
-- this would hold them up, the partition is made the next time. Returns how many months were made.
CREATE FUNCTION make_partitions(ahead integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
    month bigint;
    named text;
    parent text;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(7437000016);
    FOR month IN SELECT generate_series(session_month(now()), session_month(now()) + ahead) LOOP
        named := to_char(make_date((2020 + month / 12)::integer, (month % 12 + 1)::integer, 1), '"_"YYYY"_"MM');
        CONTINUE WHEN to_regclass('entries' || named) IS NOT NULL;
        FOREACH parent IN ARRAY ARRAY['entries', 'found'] LOOP
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', parent || named, parent);
            EXECUTE format(
                'WITH early AS (DELETE FROM %I WHERE id >= %s AND id < %s RETURNING *) INSERT INTO %I SELECT * FROM early',
                parent || '_default', month << 53, (month + 1) << 53, parent || named);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                parent, parent || named, month << 53, (month + 1) << 53);
        END LOOP;
        made := made + 1;
    END LOOP;
    RETURN made;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$$;

DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['entries', 'found'] LOOP
        -- Sessions of a schema without months, and those that are copied from other stores.
        EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (MINVALUE) TO (%s)',
            parent || '_earlier', parent, session_month(now()) << 53);
        EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', parent || '_default', parent);
    END LOOP;
END
$$;
SELECT make_partitions(3);

INSERT INTO entries SELECT id >> 24, id, kind, at, turn, facet, body, salt, body_hash, hash FROM entries_before ORDER BY id;
INSERT INTO found SELECT id >> 24, id, words, line FROM found_before ORDER BY id;
DROP TABLE entries_before, found_before;

ALTER TABLE sessions DROP CONSTRAINT sessions_id_key, DROP CONSTRAINT sessions_run_alias_key;
CREATE INDEX sessions_by_id ON sessions (id);
CREATE INDEX sessions_hidden ON sessions (key) WHERE hidden = 1;
CREATE INDEX sessions_by_alias ON sessions (run_alias) WHERE run_alias IS NOT NULL;

ALTER TABLE turns DROP CONSTRAINT turns_pkey, ADD PRIMARY KEY (key, session_key);
ALTER TABLE turn_files DROP CONSTRAINT turn_files_pkey, ADD PRIMARY KEY (turn_key, place, session_key);

ALTER TABLE blob_uses ADD COLUMN session_key bigint;
UPDATE blob_uses SET session_key = entry_id >> 24;
ALTER TABLE blob_uses DROP CONSTRAINT blob_uses_pkey, ADD PRIMARY KEY (hash, entry_id, session_key);
