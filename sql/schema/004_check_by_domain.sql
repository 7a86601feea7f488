-- The rules of a column move from CHECKs of its table to domains.
--
-- A table's CHECK is parsed and planned again by each INSERT statement: the fifteen that an enqueue of one entry met cost more than its
-- two rows and three indexes (84 us against 21; with domains, whose checks a session keeps ready, 35). A violation now names the rule and
-- no longer repeats the row, payload included, in the server's log. What compares two columns stays a CHECK.
--
-- The columns take the domains before those have a rule, and the rules come NOT VALID, so that no row is rewritten or read and rows from
-- before ownership keep whatever they hold.
SET LOCAL lock_timeout = '5s';

CREATE DOMAIN fencerow.instance_key AS text COLLATE "C";
CREATE DOMAIN fencerow.correlation_id AS text COLLATE "C";
CREATE DOMAIN fencerow.entry_kind AS text COLLATE "C";
CREATE DOMAIN fencerow.slot_id AS text COLLATE "C";
CREATE DOMAIN fencerow.currency AS text COLLATE "C";
CREATE DOMAIN fencerow.cash_delta AS numeric;
CREATE DOMAIN fencerow.payload AS json;
CREATE DOMAIN fencerow.traceparent AS text COLLATE "C";
CREATE DOMAIN fencerow.finite_time AS timestamptz;
CREATE DOMAIN fencerow.reason AS text COLLATE "C";
CREATE DOMAIN fencerow.counter AS integer;
CREATE DOMAIN fencerow.life AS integer;
CREATE DOMAIN fencerow.epoch AS bigint;

ALTER TABLE fencerow.ledger_outbox
    DROP CONSTRAINT ledger_outbox_instance_key_syntax,
    DROP CONSTRAINT ledger_outbox_correlation_id_syntax,
    DROP CONSTRAINT ledger_outbox_entry_kind_syntax,
    DROP CONSTRAINT ledger_outbox_slot_id_syntax,
    DROP CONSTRAINT ledger_outbox_cash_delta_bounds,
    DROP CONSTRAINT ledger_outbox_currency_syntax,
    DROP CONSTRAINT ledger_outbox_payload_object,
    DROP CONSTRAINT ledger_outbox_enqueued_at_finite,
    DROP CONSTRAINT ledger_outbox_traceparent_syntax,
    ALTER COLUMN instance_key TYPE fencerow.instance_key,
    ALTER COLUMN correlation_id TYPE fencerow.correlation_id,
    ALTER COLUMN entry_kind TYPE fencerow.entry_kind,
    ALTER COLUMN slot_id TYPE fencerow.slot_id,
    ALTER COLUMN currency TYPE fencerow.currency,
    ALTER COLUMN cash_delta TYPE fencerow.cash_delta,
    ALTER COLUMN payload TYPE fencerow.payload,
    ALTER COLUMN traceparent TYPE fencerow.traceparent,
    ALTER COLUMN enqueued_at TYPE fencerow.finite_time;

ALTER TABLE fencerow.ledger_pending
    DROP CONSTRAINT ledger_pending_next_retry_at_finite,
    DROP CONSTRAINT ledger_pending_counts,
    DROP CONSTRAINT ledger_pending_reason,
    ALTER COLUMN next_retry_at TYPE fencerow.finite_time,
    ALTER COLUMN reason TYPE fencerow.reason,
    ALTER COLUMN attempt_count TYPE fencerow.counter,
    ALTER COLUMN expiry_count TYPE fencerow.counter,
    ALTER COLUMN life TYPE fencerow.life,
    ALTER COLUMN last_epoch TYPE fencerow.epoch;

ALTER DOMAIN fencerow.instance_key ADD CONSTRAINT instance_key_syntax
    CHECK (length(VALUE) BETWEEN 1 AND 128 AND VALUE ~ '^[!-~]+$') NOT VALID;
ALTER DOMAIN fencerow.correlation_id ADD CONSTRAINT correlation_id_syntax
    CHECK (length(VALUE) BETWEEN 1 AND 200 AND VALUE ~ '^[!-~]+$') NOT VALID;
ALTER DOMAIN fencerow.entry_kind ADD CONSTRAINT entry_kind_syntax
    CHECK (length(VALUE) <= 63 AND VALUE ~ '^[a-z][a-z0-9_]*$') NOT VALID;
ALTER DOMAIN fencerow.slot_id ADD CONSTRAINT slot_id_syntax
    CHECK (length(VALUE) BETWEEN 1 AND 128 AND VALUE ~ '^[!-~]+$') NOT VALID;
ALTER DOMAIN fencerow.currency ADD CONSTRAINT currency_syntax
    CHECK (length(VALUE) BETWEEN 3 AND 12 AND VALUE ~ '^[A-Z0-9]+$') NOT VALID;
-- NaN and the infinities compare above every number, so the first test refuses them before scale() could say NULL.
ALTER DOMAIN fencerow.cash_delta ADD CONSTRAINT cash_delta_bounds CHECK (
    VALUE = 0
    OR abs(VALUE) < 1e38 AND scale(VALUE) <= 18 AND length(abs(VALUE)::text) <= 38 + (scale(VALUE) > 0)::integer
) NOT VALID;
ALTER DOMAIN fencerow.payload ADD CONSTRAINT payload_object
    CHECK (octet_length(VALUE::text) <= 262144 AND json_typeof(VALUE) = 'object') NOT VALID;
ALTER DOMAIN fencerow.traceparent ADD CONSTRAINT traceparent_syntax
    CHECK (length(VALUE) = 55 AND VALUE ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$') NOT VALID;
-- A driver that reads an infinite time fails, and an entry that cannot be read holds up its instance.
ALTER DOMAIN fencerow.finite_time ADD CONSTRAINT time_finite CHECK (isfinite(VALUE)) NOT VALID;
ALTER DOMAIN fencerow.reason ADD CONSTRAINT reason_syntax CHECK (length(VALUE) <= 64 AND VALUE ~ '^[a-z][a-z0-9_]*$') NOT VALID;
ALTER DOMAIN fencerow.counter ADD CONSTRAINT counter_bounds CHECK (VALUE >= 0) NOT VALID;
ALTER DOMAIN fencerow.life ADD CONSTRAINT life_bounds CHECK (VALUE >= 1) NOT VALID;
ALTER DOMAIN fencerow.epoch ADD CONSTRAINT epoch_bounds CHECK (VALUE >= 0) NOT VALID;

-- As before, but what is wrong is looked for only once a domain has refused something.
-- Enqueue of many entries of one instance: arrays of equal length, one element an entry. The result has one row an entry: its position
-- from 1, the number of the entry (of the one that was there first for a duplicate or a conflict) and what became of it: 'inserted',
-- 'duplicate', or 'conflict', which unlike that of enqueue is no error and wrote nothing for its entry.
CREATE OR REPLACE FUNCTION fencerow.enqueue_many(
    instance_key text,
    correlation_ids text[],
    entry_kinds text[],
    payloads text[],
    slot_ids text[],
    cash_deltas numeric[],
    currencies text[],
    traceparents text[],
    skips boolean[]
)
RETURNS TABLE (entry_position integer, entry_id bigint, entry_result text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_count integer := coalesce(cardinality($2), 0);
    v_now timestamptz := clock_timestamp();
    v_ids bigint[];
    v_done bigint;
    v_more bigint;
    v_position bigint;
    v_problem text;
    v_payload text;
BEGIN
    IF v_count > 10000 OR (v_count, v_count, v_count, v_count, v_count, v_count, v_count) IS DISTINCT FROM (
        coalesce(cardinality($3), 0), coalesce(cardinality($4), 0), coalesce(cardinality($5), 0), coalesce(cardinality($6), 0),
        coalesce(cardinality($7), 0), coalesce(cardinality($8), 0), coalesce(cardinality($9), 0)
    ) THEN
        RAISE EXCEPTION 'fencerow: give arrays of equal length, 10000 entries at most' USING ERRCODE = '22023';
    END IF;
    IF array_position($9, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'fencerow: entry %: skip must be true or false', 1 + array_position($9, NULL) - array_lower($9, 1)
            USING ERRCODE = '22023';
    END IF;

    SELECT array_agg(nextval('fencerow.ledger_outbox_outbox_id_seq')) INTO v_ids FROM generate_series(1, v_count);

    RETURN QUERY
    WITH item AS MATERIALIZED (
        SELECT i.*
        FROM unnest(v_ids, $2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY AS i (
            outbox_id, correlation_id, entry_kind, payload, slot_id, cash_delta, currency, traceparent, skip, position
        )
    ),
    -- In order of key, so that two producers with the same keys wait for each other instead of deadlocking.
    entry AS (
        INSERT INTO fencerow.ledger_outbox AS o (
            outbox_id, instance_key, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, traceparent, enqueued_at
        )
        SELECT
            i.outbox_id, $1, i.correlation_id, i.entry_kind, i.slot_id, trim_scale(i.cash_delta), i.currency, i.payload::json,
            i.traceparent, v_now
        FROM item i
        ORDER BY i.correlation_id COLLATE "C", i.position
        ON CONFLICT (correlation_id, instance_key) WHERE instance_key IS NOT NULL DO NOTHING
        RETURNING o.outbox_id, o.slot_id, o.cash_delta, o.currency
    ),
    pending AS (
        INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at, slot_id, cash_delta, currency)
        SELECT e.outbox_id, $1, v_now, e.slot_id, e.cash_delta, e.currency
        FROM entry e
    ),
    skipped AS (
        INSERT INTO fencerow.ledger_skip (instance_key, correlation_id, outbox_id, slot_id, opened_at)
        SELECT $1, i.correlation_id, i.outbox_id, i.slot_id, v_now
        FROM item i
        JOIN entry e ON e.outbox_id = i.outbox_id
        WHERE i.skip
    )
    SELECT i.position::integer, i.outbox_id, 'inserted'::text
    FROM item i
    JOIN entry e ON e.outbox_id = i.outbox_id;
    GET DIAGNOSTICS v_done = ROW_COUNT;

    IF v_done < v_count THEN
        RETURN QUERY
        SELECT
            i.position::integer,
            o.outbox_id,
            CASE
                WHEN o.entry_kind = i.entry_kind AND o.payload::text = i.payload AND o.slot_id IS NOT DISTINCT FROM i.slot_id
                    AND o.cash_delta = i.cash_delta AND o.currency IS NOT DISTINCT FROM i.currency
                    THEN 'duplicate'
                ELSE 'conflict'
            END
        FROM unnest(v_ids, $2, $3, $4, $5, $6, $7) WITH ORDINALITY AS i (
            outbox_id, correlation_id, entry_kind, payload, slot_id, cash_delta, currency, position
        )
        JOIN fencerow.ledger_outbox o ON o.correlation_id = i.correlation_id AND o.instance_key = $1
        WHERE o.outbox_id <> i.outbox_id;
        GET DIAGNOSTICS v_more = ROW_COUNT;
        IF v_done + v_more <> v_count THEN
            RAISE EXCEPTION 'fencerow: an entry was deleted while its duplicate was enqueued' USING ERRCODE = '40001';
        END IF;
    END IF;
-- The domains have refused something, in words that do not say which entry, or with the payload in them.
EXCEPTION WHEN check_violation OR not_null_violation OR invalid_text_representation THEN
    SELECT e.position, e.problem INTO v_position, v_problem
    FROM (
        SELECT
            i.position,
            fencerow.entry_problem(
                $1, i.correlation_id, i.entry_kind, i.payload, i.slot_id, i.cash_delta, i.currency, i.traceparent, i.skip
            ) AS problem
        FROM unnest($2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY AS i (
            correlation_id, entry_kind, payload, slot_id, cash_delta, currency, traceparent, skip, position
        )
    ) AS e
    WHERE e.problem IS NOT NULL
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'fencerow: entry %: %', v_position, v_problem USING ERRCODE = '22023';
    END IF;
    FOR v_position, v_payload IN
        SELECT i.position, i.payload FROM unnest($4) WITH ORDINALITY AS i (payload, position)
    LOOP
        BEGIN
            PERFORM v_payload::json;
        EXCEPTION WHEN invalid_text_representation THEN
            RAISE EXCEPTION 'fencerow: entry %: payload must be a JSON object of at most 262144 bytes', v_position
                USING ERRCODE = '22023';
        END;
    END LOOP;
    RAISE;
END;
$$;

---- create above / drop below ----

SET LOCAL lock_timeout = '5s';

ALTER TABLE fencerow.ledger_pending
    ALTER COLUMN next_retry_at TYPE timestamptz,
    ALTER COLUMN reason TYPE text COLLATE "C",
    ALTER COLUMN attempt_count TYPE integer,
    ALTER COLUMN expiry_count TYPE integer,
    ALTER COLUMN life TYPE integer,
    ALTER COLUMN last_epoch TYPE bigint,
    ADD CONSTRAINT ledger_pending_counts CHECK (attempt_count >= 0 AND expiry_count >= 0 AND life >= 1 AND last_epoch >= 0),
    ADD CONSTRAINT ledger_pending_next_retry_at_finite CHECK (isfinite(next_retry_at)),
    ADD CONSTRAINT ledger_pending_reason CHECK (reason IS NULL OR length(reason) <= 64 AND reason ~ '^[a-z][a-z0-9_]*$');

ALTER TABLE fencerow.ledger_outbox
    ALTER COLUMN instance_key TYPE text COLLATE "C",
    ALTER COLUMN correlation_id TYPE text COLLATE "C",
    ALTER COLUMN entry_kind TYPE text,
    ALTER COLUMN slot_id TYPE text COLLATE "C",
    ALTER COLUMN currency TYPE text,
    ALTER COLUMN cash_delta TYPE numeric,
    ALTER COLUMN payload TYPE json,
    ALTER COLUMN traceparent TYPE text,
    ALTER COLUMN enqueued_at TYPE timestamptz,
    ADD CONSTRAINT ledger_outbox_instance_key_syntax CHECK (
        instance_key IS NULL OR length(instance_key) BETWEEN 1 AND 128 AND instance_key ~ '^[!-~]+$'
    ),
    ADD CONSTRAINT ledger_outbox_correlation_id_syntax CHECK (
        instance_key IS NULL OR length(correlation_id) BETWEEN 1 AND 200 AND correlation_id ~ '^[!-~]+$'
    ),
    ADD CONSTRAINT ledger_outbox_entry_kind_syntax CHECK (
        instance_key IS NULL OR length(entry_kind) <= 63 AND entry_kind ~ '^[a-z][a-z0-9_]*$'
    ),
    ADD CONSTRAINT ledger_outbox_slot_id_syntax CHECK (
        instance_key IS NULL OR slot_id IS NULL OR length(slot_id) BETWEEN 1 AND 128 AND slot_id ~ '^[!-~]+$'
    ),
    ADD CONSTRAINT ledger_outbox_cash_delta_bounds CHECK (
        instance_key IS NULL OR cash_delta = 0
        OR abs(cash_delta) < 1e38 AND scale(cash_delta) <= 18
        AND length(abs(cash_delta)::text) <= 38 + (scale(cash_delta) > 0)::integer
    ),
    ADD CONSTRAINT ledger_outbox_currency_syntax CHECK (
        instance_key IS NULL OR currency IS NULL OR length(currency) BETWEEN 3 AND 12 AND currency ~ '^[A-Z0-9]+$'
    ),
    ADD CONSTRAINT ledger_outbox_payload_object CHECK (
        instance_key IS NULL OR octet_length(payload::text) <= 262144 AND json_typeof(payload) = 'object'
    ),
    ADD CONSTRAINT ledger_outbox_enqueued_at_finite CHECK (instance_key IS NULL OR isfinite(enqueued_at)),
    ADD CONSTRAINT ledger_outbox_traceparent_syntax CHECK (
        instance_key IS NULL OR traceparent IS NULL OR length(traceparent) = 55
        AND traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
    );

DROP DOMAIN fencerow.instance_key;
DROP DOMAIN fencerow.correlation_id;
DROP DOMAIN fencerow.entry_kind;
DROP DOMAIN fencerow.slot_id;
DROP DOMAIN fencerow.currency;
DROP DOMAIN fencerow.cash_delta;
DROP DOMAIN fencerow.payload;
DROP DOMAIN fencerow.traceparent;
DROP DOMAIN fencerow.finite_time;
DROP DOMAIN fencerow.reason;
DROP DOMAIN fencerow.counter;
DROP DOMAIN fencerow.life;
DROP DOMAIN fencerow.epoch;

CREATE OR REPLACE FUNCTION fencerow.enqueue_many(
    instance_key text,
    correlation_ids text[],
    entry_kinds text[],
    payloads text[],
    slot_ids text[],
    cash_deltas numeric[],
    currencies text[],
    traceparents text[],
    skips boolean[]
)
RETURNS TABLE (entry_position integer, entry_id bigint, entry_result text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_count integer := coalesce(cardinality($2), 0);
    v_now timestamptz := clock_timestamp();
    v_ids bigint[];
    v_done bigint;
    v_more bigint;
    v_position bigint;
    v_problem text;
BEGIN
    IF v_count > 10000 OR (v_count, v_count, v_count, v_count, v_count, v_count, v_count) IS DISTINCT FROM (
        coalesce(cardinality($3), 0), coalesce(cardinality($4), 0), coalesce(cardinality($5), 0), coalesce(cardinality($6), 0),
        coalesce(cardinality($7), 0), coalesce(cardinality($8), 0), coalesce(cardinality($9), 0)
    ) THEN
        RAISE EXCEPTION 'fencerow: give arrays of equal length, 10000 entries at most' USING ERRCODE = '22023';
    END IF;

    SELECT e.position, e.problem INTO v_position, v_problem
    FROM (
        SELECT
            i.position,
            fencerow.entry_problem(
                $1, i.correlation_id, i.entry_kind, i.payload, i.slot_id, i.cash_delta, i.currency, i.traceparent, i.skip
            ) AS problem
        FROM unnest($2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY AS i (
            correlation_id, entry_kind, payload, slot_id, cash_delta, currency, traceparent, skip, position
        )
    ) AS e
    WHERE e.problem IS NOT NULL
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'fencerow: entry %: %', v_position, v_problem USING ERRCODE = '22023';
    END IF;

    SELECT array_agg(nextval('fencerow.ledger_outbox_outbox_id_seq')) INTO v_ids FROM generate_series(1, v_count);

    RETURN QUERY
    WITH item AS MATERIALIZED (
        SELECT i.*
        FROM unnest(v_ids, $2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY AS i (
            outbox_id, correlation_id, entry_kind, payload, slot_id, cash_delta, currency, traceparent, skip, position
        )
    ),
    -- In order of key, so that two producers with the same keys wait for each other instead of deadlocking.
    entry AS (
        INSERT INTO fencerow.ledger_outbox AS o (
            outbox_id, instance_key, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, traceparent, enqueued_at
        )
        SELECT
            i.outbox_id, $1, i.correlation_id, i.entry_kind, i.slot_id, trim_scale(i.cash_delta), i.currency, i.payload::json,
            i.traceparent, v_now
        FROM item i
        ORDER BY i.correlation_id COLLATE "C", i.position
        ON CONFLICT (correlation_id, instance_key) WHERE instance_key IS NOT NULL DO NOTHING
        RETURNING o.outbox_id, o.slot_id, o.cash_delta, o.currency
    ),
    pending AS (
        INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at, slot_id, cash_delta, currency)
        SELECT e.outbox_id, $1, v_now, e.slot_id, e.cash_delta, e.currency
        FROM entry e
    ),
    skipped AS (
        INSERT INTO fencerow.ledger_skip (instance_key, correlation_id, outbox_id, slot_id, opened_at)
        SELECT $1, i.correlation_id, i.outbox_id, i.slot_id, v_now
        FROM item i
        JOIN entry e ON e.outbox_id = i.outbox_id
        WHERE i.skip
    )
    SELECT i.position::integer, i.outbox_id, 'inserted'::text
    FROM item i
    JOIN entry e ON e.outbox_id = i.outbox_id;
    GET DIAGNOSTICS v_done = ROW_COUNT;

    IF v_done < v_count THEN
        RETURN QUERY
        SELECT
            i.position::integer,
            o.outbox_id,
            CASE
                WHEN o.entry_kind = i.entry_kind AND o.payload::text = i.payload AND o.slot_id IS NOT DISTINCT FROM i.slot_id
                    AND o.cash_delta = i.cash_delta AND o.currency IS NOT DISTINCT FROM i.currency
                    THEN 'duplicate'
                ELSE 'conflict'
            END
        FROM unnest(v_ids, $2, $3, $4, $5, $6, $7) WITH ORDINALITY AS i (
            outbox_id, correlation_id, entry_kind, payload, slot_id, cash_delta, currency, position
        )
        JOIN fencerow.ledger_outbox o ON o.correlation_id = i.correlation_id AND o.instance_key = $1
        WHERE o.outbox_id <> i.outbox_id;
        GET DIAGNOSTICS v_more = ROW_COUNT;
        IF v_done + v_more <> v_count THEN
            RAISE EXCEPTION 'fencerow: an entry was deleted while its duplicate was enqueued' USING ERRCODE = '40001';
        END IF;
    END IF;
END;
$$;
