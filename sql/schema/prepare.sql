-- Run before the history, since the table that records the history lives in the schema too. A role that may not create schemas can run
-- it where the schema exists already.
DO $$
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'fencerow: the database is encoded in %, it must be UTF8', current_setting('server_encoding') USING
            ERRCODE = 'FR004';
    END IF;
    IF to_regnamespace('fencerow') IS NULL THEN
        CREATE SCHEMA fencerow;
    END IF;
END;
$$;
