-- Enqueueing costs less: a thousand entries at once are written without first looking for what stands in their way, one has a function
-- that needs no subtransaction, and the rules of a column call fewer functions, each of which every statement makes ready anew.
-- Oldest program: 6
SET LOCAL lock_timeout = '5s';

-- The rules are as before: what a pattern says already is not said again. The length that stays before each is cheap, and spares the pattern
-- what is too long.
ALTER DOMAIN fencerow.instance_key DROP CONSTRAINT instance_key_syntax;
ALTER DOMAIN fencerow.instance_key ADD CONSTRAINT instance_key_syntax
    CHECK (length(VALUE) <= 128 AND VALUE ~ '^[!-~]+$') NOT VALID;
ALTER DOMAIN fencerow.correlation_id DROP CONSTRAINT correlation_id_syntax;
ALTER DOMAIN fencerow.correlation_id ADD CONSTRAINT correlation_id_syntax
    CHECK (length(VALUE) <= 200 AND VALUE ~ '^[!-~]+$') NOT VALID;
ALTER DOMAIN fencerow.slot_id DROP CONSTRAINT slot_id_syntax;
ALTER DOMAIN fencerow.slot_id ADD CONSTRAINT slot_id_syntax
    CHECK (length(VALUE) <= 128 AND VALUE ~ '^[!-~]+$') NOT VALID;
ALTER DOMAIN fencerow.currency DROP CONSTRAINT currency_syntax;
ALTER DOMAIN fencerow.currency ADD CONSTRAINT currency_syntax
    CHECK (length(VALUE) <= 12 AND VALUE ~ '^[A-Z0-9]{3,}$') NOT VALID;

-- As enqueue, but other content under the same key is a result, 'conflict', and no error: for a transaction that has to go on. enqueue_many
-- says so too, and costs a subtransaction.
CREATE FUNCTION fencerow.try_enqueue(
    instance_key text,
    correlation_id text,
    entry_kind text,
    payload json,
    slot_id text DEFAULT NULL,
    cash_delta numeric DEFAULT 0,
    currency text DEFAULT NULL,
    traceparent text DEFAULT NULL,
    skip boolean DEFAULT false
)
RETURNS TABLE (outbox_id bigint, result text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_problem text := fencerow.entry_problem($1, $2, $3, $4::text, $5, $6, $7, $8, $9);
    v_cash_delta numeric := trim_scale($6);
    v_now timestamptz := clock_timestamp();
    v_id bigint;
    v_same boolean;
BEGIN
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'fencerow: %', v_problem USING ERRCODE = '22023';
    END IF;

    INSERT INTO fencerow.ledger_outbox AS o (
        instance_key, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, traceparent, enqueued_at
    )
    VALUES ($1, $2, $3, $5, v_cash_delta, $7, $4, $8, v_now)
    ON CONFLICT (correlation_id, instance_key) WHERE instance_key IS NOT NULL DO NOTHING
    RETURNING o.outbox_id INTO v_id;
    IF FOUND THEN
        INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at, slot_id, cash_delta, currency)
        VALUES (v_id, $1, v_now, $5, v_cash_delta, $7);
        IF $9 THEN
            INSERT INTO fencerow.ledger_skip (instance_key, correlation_id, outbox_id, slot_id, opened_at)
            VALUES ($1, $2, v_id, $5, v_now);
        END IF;
        outbox_id := v_id;
        result := 'inserted';
        RETURN NEXT;
        RETURN;
    END IF;

    SELECT
        o.outbox_id,
        o.entry_kind = $3 AND o.payload::text = $4::text AND o.slot_id IS NOT DISTINCT FROM $5
            AND o.cash_delta = $6 AND o.currency IS NOT DISTINCT FROM $7
    INTO v_id, v_same
    FROM fencerow.ledger_outbox o
    WHERE o.correlation_id = $2 AND o.instance_key = $1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fencerow: the entry was deleted while its duplicate was enqueued' USING ERRCODE = '40001';
    END IF;
    outbox_id := v_id;
    result := CASE WHEN v_same THEN 'duplicate' ELSE 'conflict' END;
    RETURN NEXT;
END;
$$;

-- For whoever may call enqueue.
REVOKE EXECUTE ON FUNCTION fencerow.try_enqueue(text, text, text, json, text, numeric, text, text, boolean) FROM PUBLIC;
DO $$
DECLARE
    v_role oid;
BEGIN
    FOR v_role IN
        SELECT DISTINCT a.grantee
        FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        WHERE p.oid = 'fencerow.enqueue(text, text, text, json, text, numeric, text, text, boolean)'::regprocedure
            AND a.privilege_type = 'EXECUTE'
            AND a.grantee <> p.proowner
    LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION fencerow.try_enqueue(text, text, text, json, text, numeric, text, text, boolean) TO '
            || CASE v_role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(v_role)) END;
    END LOOP;
END;
$$;

-- As before, but what stands in the way of an entry is looked for only once something does.
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
    -- Of the columns' types, so that what all entries have in common is checked once.
    v_now fencerow.finite_time := clock_timestamp();
    v_instance fencerow.instance_key;
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

    -- Nearly always nothing stands in the way of any entry. To look for what might costs a fifth more than to find out.
    BEGIN
        v_instance := $1;
        -- In order of key, so that two producers with the same keys wait for each other instead of deadlocking.
        -- The arrays are read side by side in the list of columns: in FROM each would be stored first.
        INSERT INTO fencerow.ledger_outbox (
            outbox_id, instance_key, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, traceparent, enqueued_at
        )
        SELECT
            i.outbox_id, v_instance, i.correlation_id, i.entry_kind, i.slot_id, trim_scale(i.cash_delta), i.currency, i.payload::json,
            i.traceparent, v_now
        FROM (
            SELECT
                unnest(v_ids) AS outbox_id, unnest($2) AS correlation_id, unnest($3) AS entry_kind, unnest($4) AS payload,
                unnest($5) AS slot_id, unnest($6) AS cash_delta, unnest($7) AS currency, unnest($8) AS traceparent
        ) i
        ORDER BY i.correlation_id COLLATE "C";
        GET DIAGNOSTICS v_done = ROW_COUNT;
        IF v_done <> v_count THEN
            RAISE unique_violation; -- a trigger of somebody else's left one out
        END IF;
        INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at, slot_id, cash_delta, currency)
        SELECT i.outbox_id, $1, v_now, i.slot_id, trim_scale(i.cash_delta), i.currency
        FROM (
            SELECT unnest(v_ids) AS outbox_id, unnest($5) AS slot_id, unnest($6) AS cash_delta, unnest($7) AS currency
        ) i;
        IF true = ANY ($9) THEN
            INSERT INTO fencerow.ledger_skip (instance_key, correlation_id, outbox_id, slot_id, opened_at)
            SELECT $1, i.correlation_id, i.outbox_id, i.slot_id, v_now
            FROM unnest(v_ids, $2, $5, $9) AS i (outbox_id, correlation_id, slot_id, skip)
            WHERE i.skip;
        END IF;
        RETURN QUERY
        SELECT i.position::integer, i.outbox_id, 'inserted'::text
        FROM unnest(v_ids) WITH ORDINALITY AS i (outbox_id, position);
        RETURN;
    EXCEPTION WHEN unique_violation OR check_violation OR not_null_violation OR invalid_text_representation THEN
        NULL; -- What it wrote is undone. Below each entry is told of.
    END;

    BEGIN
        RETURN QUERY
        WITH item AS MATERIALIZED (
            SELECT i.*
            FROM unnest(v_ids, $2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY AS i (
                outbox_id, correlation_id, entry_kind, payload, slot_id, cash_delta, currency, traceparent, skip, position
            )
        ),
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
END;
$$;

-- A CHECK of a table is parsed and planned by every statement that inserts; see 004. And the queue fills its pages: a retry moves
-- next_retry_at, which is in an index, so that room in the page of its row spares it nothing; of neighbours whose claim has expired a tenth
-- of each page was room for one in ten.
CREATE DOMAIN fencerow.pending_outcome AS text COLLATE "C";
ALTER TABLE fencerow.ledger_pending
    DROP CONSTRAINT ledger_pending_outcome,
    ALTER COLUMN outcome TYPE fencerow.pending_outcome,
    RESET (fillfactor);
ALTER DOMAIN fencerow.pending_outcome ADD CONSTRAINT pending_outcome CHECK (VALUE = 'retryable_failure') NOT VALID;

---- create above / drop below ----

SET LOCAL lock_timeout = '5s';

ALTER DOMAIN fencerow.instance_key DROP CONSTRAINT instance_key_syntax;
ALTER DOMAIN fencerow.instance_key ADD CONSTRAINT instance_key_syntax
    CHECK (length(VALUE) BETWEEN 1 AND 128 AND VALUE ~ '^[!-~]+$') NOT VALID;
ALTER DOMAIN fencerow.correlation_id DROP CONSTRAINT correlation_id_syntax;
ALTER DOMAIN fencerow.correlation_id ADD CONSTRAINT correlation_id_syntax
    CHECK (length(VALUE) BETWEEN 1 AND 200 AND VALUE ~ '^[!-~]+$') NOT VALID;
ALTER DOMAIN fencerow.slot_id DROP CONSTRAINT slot_id_syntax;
ALTER DOMAIN fencerow.slot_id ADD CONSTRAINT slot_id_syntax
    CHECK (length(VALUE) BETWEEN 1 AND 128 AND VALUE ~ '^[!-~]+$') NOT VALID;
ALTER DOMAIN fencerow.currency DROP CONSTRAINT currency_syntax;
ALTER DOMAIN fencerow.currency ADD CONSTRAINT currency_syntax
    CHECK (length(VALUE) BETWEEN 3 AND 12 AND VALUE ~ '^[A-Z0-9]+$') NOT VALID;

DROP FUNCTION fencerow.try_enqueue(text, text, text, json, text, numeric, text, text, boolean);

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

ALTER TABLE fencerow.ledger_pending
    ALTER COLUMN outcome TYPE text COLLATE "C",
    SET (fillfactor = 90),
    ADD CONSTRAINT ledger_pending_outcome CHECK (outcome IS NULL OR outcome = 'retryable_failure');
DROP DOMAIN fencerow.pending_outcome;
