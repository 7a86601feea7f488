-- Ownership, claims, fencing, outcomes, slots and skips.
--
-- Entries become append-only; what changes moves to narrow tables. Rows that exist already belong to nobody: they are attributed to no
-- instance, what their mutable columns said is kept in ledger_legacy, and no verb can reach them, since they get no row in
-- ledger_pending. Whatever content 001 allowed passes: every new CHECK on the table lets instance_key IS NULL through.
SET LOCAL lock_timeout = '5s';

-- Before the copy: a row that an old producer adds, or a status that it changes, between the copy and ALTER TABLE would lose what its
-- mutable columns said.
LOCK TABLE fencerow.ledger_outbox IN ACCESS EXCLUSIVE MODE;

CREATE TABLE fencerow.ledger_legacy (
    outbox_id bigint NOT NULL,
    status text NOT NULL,
    attempt_count integer NOT NULL,
    next_retry_at timestamptz,
    CONSTRAINT ledger_legacy_pkey PRIMARY KEY (outbox_id)
);

INSERT INTO fencerow.ledger_legacy (outbox_id, status, attempt_count, next_retry_at)
SELECT outbox_id, status, attempt_count, next_retry_at
FROM fencerow.ledger_outbox;

DROP INDEX fencerow.ledger_outbox_due;

ALTER TABLE fencerow.ledger_outbox
    DROP COLUMN status,
    DROP COLUMN attempt_count,
    DROP COLUMN next_retry_at,
    ADD COLUMN instance_key text COLLATE "C",
    ADD COLUMN traceparent text,
    -- NOT VALID leaves the rows from before alone, refuses any new one, and, since it is checked on every UPDATE, freezes the old ones.
    ADD CONSTRAINT ledger_outbox_instance_key_present CHECK (instance_key IS NOT NULL) NOT VALID,
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
    -- NaN and the infinities compare above every number, so the first test refuses them before scale() could say NULL.
    ADD CONSTRAINT ledger_outbox_cash_delta_bounds CHECK (
        instance_key IS NULL OR cash_delta = 0
        OR abs(cash_delta) < 1e38 AND scale(cash_delta) <= 18
        AND length(abs(cash_delta)::text) <= 38 + (scale(cash_delta) > 0)::integer
    ),
    ADD CONSTRAINT ledger_outbox_currency_syntax CHECK (
        instance_key IS NULL OR currency IS NULL OR length(currency) BETWEEN 3 AND 12 AND currency ~ '^[A-Z0-9]+$'
    ),
    ADD CONSTRAINT ledger_outbox_currency_with_delta CHECK (
        instance_key IS NULL OR cash_delta = 0 OR currency IS NOT NULL
    ),
    ADD CONSTRAINT ledger_outbox_payload_object CHECK (
        instance_key IS NULL OR octet_length(payload::text) <= 262144 AND json_typeof(payload) = 'object'
    ),
    -- A driver that reads an infinite time fails, and an entry that cannot be read holds up its instance.
    ADD CONSTRAINT ledger_outbox_enqueued_at_finite CHECK (instance_key IS NULL OR isfinite(enqueued_at)),
    ADD CONSTRAINT ledger_outbox_traceparent_syntax CHECK (
        instance_key IS NULL OR traceparent IS NULL OR length(traceparent) = 55
        AND traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
    );

-- Rows from before may have been given their number by hand, above the sequence: enqueue would run into each of them.
SELECT setval('fencerow.ledger_outbox_outbox_id_seq', o.highest)
FROM (SELECT max(outbox_id) AS highest FROM fencerow.ledger_outbox WHERE outbox_id < 4611686018427387904) AS o
JOIN fencerow.ledger_outbox_outbox_id_seq s ON s.last_value <= o.highest;

-- Led by correlation_id: a targeted look-up that ends at a foreign row is one probe too. Partial: rows from before may hold correlation
-- ids that are repeated, or longer than a btree can index.
CREATE UNIQUE INDEX ledger_outbox_correlation_key ON fencerow.ledger_outbox (correlation_id, instance_key)
WHERE instance_key IS NOT NULL;

CREATE FUNCTION fencerow.refuse_entry_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'fencerow: entry % is immutable', OLD.outbox_id
        USING ERRCODE = 'FR002', HINT = 'What was enqueued never changes, its owner least of all. Enqueue a new entry instead.';
END;
$$;

CREATE TRIGGER ledger_outbox_immutable BEFORE UPDATE ON fencerow.ledger_outbox
FOR EACH ROW EXECUTE FUNCTION fencerow.refuse_entry_change();

CREATE TRIGGER ledger_legacy_immutable BEFORE UPDATE ON fencerow.ledger_legacy
FOR EACH ROW EXECUTE FUNCTION fencerow.refuse_entry_change();

-- One narrow row for each entry that is not finished. It repeats what the sums need, so that they read this table alone.
CREATE TABLE fencerow.ledger_pending (
    outbox_id bigint NOT NULL,
    next_retry_at timestamptz NOT NULL,
    last_epoch bigint NOT NULL DEFAULT 0,
    attempt_count integer NOT NULL DEFAULT 0,
    life integer NOT NULL DEFAULT 1,
    expiry_count integer NOT NULL DEFAULT 0,
    delivery_uncertain boolean NOT NULL DEFAULT false,
    instance_key text COLLATE "C" NOT NULL,
    slot_id text COLLATE "C",
    currency text COLLATE "C",
    cash_delta numeric NOT NULL DEFAULT 0,
    outcome text COLLATE "C",
    reason text COLLATE "C",
    CONSTRAINT ledger_pending_pkey PRIMARY KEY (outbox_id),
    CONSTRAINT ledger_pending_counts CHECK (attempt_count >= 0 AND expiry_count >= 0 AND life >= 1 AND last_epoch >= 0),
    CONSTRAINT ledger_pending_next_retry_at_finite CHECK (isfinite(next_retry_at)),
    CONSTRAINT ledger_pending_outcome CHECK (outcome IS NULL OR outcome = 'retryable_failure'),
    CONSTRAINT ledger_pending_reason CHECK (reason IS NULL OR length(reason) <= 64 AND reason ~ '^[a-z][a-z0-9_]*$')
)
WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2);

CREATE INDEX ledger_pending_due ON fencerow.ledger_pending (instance_key, next_retry_at, outbox_id);

-- An entry deleted by hand takes its pending row and its skip with it; a foreign key would cost every enqueue more than this costs a deletion.
CREATE FUNCTION fencerow.forget_deleted_entries() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM fencerow.ledger_pending p USING deleted d WHERE p.outbox_id = d.outbox_id;
    DELETE FROM fencerow.ledger_skip k
    USING deleted d
    WHERE k.instance_key = d.instance_key AND k.correlation_id = d.correlation_id;
    RETURN NULL;
END;
$$;

CREATE TRIGGER ledger_outbox_deleted AFTER DELETE ON fencerow.ledger_outbox
REFERENCING OLD TABLE AS deleted
FOR EACH STATEMENT EXECUTE FUNCTION fencerow.forget_deleted_entries();

-- Its row lock serialises the claims of an instance.
CREATE TABLE fencerow.ledger_instance (
    instance_key text COLLATE "C" NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT now(),
    held_at timestamptz,
    CONSTRAINT ledger_instance_pkey PRIMARY KEY (instance_key),
    CONSTRAINT ledger_instance_key_syntax CHECK (length(instance_key) BETWEEN 1 AND 128 AND instance_key ~ '^[!-~]+$')
);

-- One row for each claim that stands; outbox_ids are the rows it still holds.
CREATE TABLE fencerow.ledger_claim (
    claim_token uuid NOT NULL,
    claim_epoch bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    lease_expires_at timestamptz NOT NULL,
    instance_key text COLLATE "C" NOT NULL,
    claimed_by text COLLATE "C" NOT NULL,
    outbox_ids bigint[] NOT NULL,
    CONSTRAINT ledger_claim_pkey PRIMARY KEY (claim_token),
    -- A NULL among the ids would make every NOT IN over them empty, and the instance would stop in silence.
    CONSTRAINT ledger_claim_outbox_ids CHECK (
        cardinality(outbox_ids) BETWEEN 1 AND 1000 AND array_ndims(outbox_ids) = 1 AND array_position(outbox_ids, NULL) IS NULL
    ),
    CONSTRAINT ledger_claim_epoch CHECK (claim_epoch > 0),
    CONSTRAINT ledger_claim_lease CHECK (lease_expires_at > claimed_at AND isfinite(claimed_at) AND isfinite(lease_expires_at)),
    CONSTRAINT ledger_claim_claimed_by CHECK (length(claimed_by) BETWEEN 1 AND 128 AND claimed_by ~ '^[!-~]+$')
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_analyze_threshold = 5000);

CREATE INDEX ledger_claim_instance ON fencerow.ledger_claim (instance_key, lease_expires_at);

-- One row for each finished life of an entry: the audit trail.
CREATE TABLE fencerow.ledger_outcome (
    outbox_id bigint NOT NULL,
    claim_epoch bigint NOT NULL,
    outcome_at timestamptz NOT NULL,
    life integer NOT NULL,
    attempt_count integer NOT NULL,
    instance_key text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    reason text COLLATE "C",
    ledger_ref text COLLATE "C",
    CONSTRAINT ledger_outcome_pkey PRIMARY KEY (outbox_id, life),
    CONSTRAINT ledger_outcome_status CHECK (
        status = 'completed' AND outcome IN ('completed', 'duplicate_completed')
        OR status = outcome AND status IN ('conflict_blocked', 'permanent_failure', 'dead_lettered')
    ),
    CONSTRAINT ledger_outcome_reason CHECK (
        reason IS NULL AND status = 'completed'
        OR reason IS NOT NULL AND length(reason) <= 64 AND reason ~ '^[a-z][a-z0-9_]*$'
    ),
    CONSTRAINT ledger_outcome_ledger_ref CHECK (
        ledger_ref IS NULL OR length(ledger_ref) <= 64 AND ledger_ref ~ '^[A-Za-z0-9._:-]+$'
    )
);

CREATE INDEX ledger_outcome_blocked ON fencerow.ledger_outcome (instance_key, outbox_id) WHERE status <> 'completed';

-- The ledger's last known state of a slot; without one until its first snapshot.
CREATE TABLE fencerow.ledger_slot (
    instance_key text COLLATE "C" NOT NULL,
    slot_id text COLLATE "C" NOT NULL,
    strategy text,
    currency text COLLATE "C",
    cash_balance numeric,
    ledger_version bigint,
    updated_at timestamptz,
    CONSTRAINT ledger_slot_pkey PRIMARY KEY (instance_key, slot_id),
    CONSTRAINT ledger_slot_id_syntax CHECK (length(slot_id) BETWEEN 1 AND 128 AND slot_id ~ '^[!-~]+$'),
    CONSTRAINT ledger_slot_strategy_syntax CHECK (strategy IS NULL OR length(strategy) BETWEEN 1 AND 128 AND strategy ~ '^[ -~]+$'),
    CONSTRAINT ledger_slot_currency_syntax CHECK (currency IS NULL OR length(currency) BETWEEN 3 AND 12 AND currency ~ '^[A-Z0-9]+$'),
    CONSTRAINT ledger_slot_snapshot_whole CHECK (
        num_nulls(currency, cash_balance, ledger_version, updated_at) IN (0, 4) AND (ledger_version IS NULL OR ledger_version >= 0)
    )
);

-- A slot's step that was skipped because an entry is not yet in the ledger. Booked means that the entry is there by now, but the ledger's
-- snapshot of the slot was refused; the next one that is accepted resolves it.
CREATE TABLE fencerow.ledger_skip (
    instance_key text COLLATE "C" NOT NULL,
    correlation_id text COLLATE "C" NOT NULL,
    outbox_id bigint NOT NULL,
    slot_id text COLLATE "C",
    opened_at timestamptz NOT NULL,
    resolved_at timestamptz,
    booked boolean NOT NULL DEFAULT false,
    CONSTRAINT ledger_skip_pkey PRIMARY KEY (instance_key, correlation_id)
);

CREATE UNIQUE INDEX ledger_skip_open_entry ON fencerow.ledger_skip (outbox_id) WHERE resolved_at IS NULL;
CREATE INDEX ledger_skip_booked ON fencerow.ledger_skip (instance_key, slot_id) WHERE resolved_at IS NULL AND booked;
CREATE INDEX ledger_skip_open_slot ON fencerow.ledger_skip (instance_key, slot_id) WHERE resolved_at IS NULL;

-- What is wrong with an entry to be enqueued, or NULL. The text names the rule, never the value: it may end in somebody's log. Every
-- operator in it must be immutable, else the planner does not inline it and it costs ten times as much.
CREATE FUNCTION fencerow.entry_problem(
    instance_key text,
    correlation_id text,
    entry_kind text,
    payload text,
    slot_id text,
    cash_delta numeric,
    currency text,
    traceparent text,
    skip boolean
)
RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN instance_key IS NULL OR length(instance_key) > 128 OR instance_key !~ '^[!-~]+$'
            THEN 'instance_key must be 1 to 128 characters of printable ASCII without space'
        WHEN correlation_id IS NULL OR length(correlation_id) > 200 OR correlation_id !~ '^[!-~]+$'
            THEN 'correlation_id must be 1 to 200 characters of printable ASCII without space'
        WHEN entry_kind IS NULL OR length(entry_kind) > 63 OR entry_kind !~ '^[a-z][a-z0-9_]*$'
            THEN 'entry_kind must match ^[a-z][a-z0-9_]{0,62}$'
        WHEN slot_id IS NOT NULL AND (length(slot_id) > 128 OR slot_id !~ '^[!-~]+$')
            THEN 'slot_id must be 1 to 128 characters of printable ASCII without space'
        WHEN cash_delta IS NULL OR cash_delta <> 0 AND NOT (
            abs(cash_delta) < 1e38 AND min_scale(cash_delta) <= 18
            AND length(abs(trim_scale(cash_delta))::text) <= 38 + (min_scale(cash_delta) > 0)::integer
        )
            THEN 'cash_delta must be a finite number of at most 38 digits, 18 of them after the point'
        WHEN currency IS NOT NULL AND (length(currency) NOT BETWEEN 3 AND 12 OR currency !~ '^[A-Z0-9]+$')
            THEN 'currency must match ^[A-Z0-9]{3,12}$'
        WHEN currency IS NULL AND cash_delta <> 0
            THEN 'a cash_delta other than 0 needs a currency'
        WHEN traceparent IS NOT NULL
            AND (length(traceparent) <> 55 OR traceparent !~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$')
            THEN 'traceparent must be a W3C trace context of version 00'
        WHEN payload IS NULL OR octet_length(payload) > 262144 OR ltrim(payload, E' \t\r\n') NOT LIKE '{%'
            THEN 'payload must be a JSON object of at most 262144 bytes'
        WHEN skip IS NULL
            THEN 'skip must be true or false'
    END
$$;

-- Enqueue of one entry, as a service in any language calls it, in its own transaction. Returns the entry's number and 'inserted', or
-- that of the entry enqueued first and 'duplicate' where the content is equal. Other content under the same key is an error of SQLSTATE
-- FR001; bad input is one of SQLSTATE 22023. Both leave the caller's transaction to be rolled back, with nothing written.
--
-- A duplicate is decided by a second look after the insert, which sees what a concurrent transaction committed first. In a REPEATABLE
-- READ or SERIALIZABLE transaction a concurrent duplicate is a serialization failure.
CREATE FUNCTION fencerow.enqueue(
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
    ELSIF NOT v_same THEN
        RAISE EXCEPTION 'fencerow: this correlation_id is already enqueued with other content' USING
            ERRCODE = 'FR001',
            DETAIL = 'The entry enqueued first is number ' || v_id || '.',
            HINT = 'Nothing was written. An entry cannot be changed: enqueue a new one under another correlation_id.';
    END IF;
    outbox_id := v_id;
    result := 'duplicate';
    RETURN NEXT;
END;
$$;

-- Enqueue of many entries of one instance: arrays of equal length, one element an entry. The result has one row an entry: its position
-- from 1, the number of the entry (of the one that was there first for a duplicate or a conflict) and what became of it: 'inserted',
-- 'duplicate', or 'conflict', which unlike that of enqueue is no error and wrote nothing for its entry.
CREATE FUNCTION fencerow.enqueue_many(
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

---- create above / drop below ----

SET LOCAL lock_timeout = '5s';

-- Before the look: an entry enqueued between the look and DROP COLUMN would lose its owner.
LOCK TABLE fencerow.ledger_outbox IN ACCESS EXCLUSIVE MODE;

DO $$
BEGIN
    IF EXISTS (SELECT FROM fencerow.ledger_outbox WHERE instance_key IS NOT NULL) THEN
        RAISE EXCEPTION 'fencerow: owned entries exist; going down would lose their owner and their state' USING
            ERRCODE = 'FR003',
            HINT = 'Deliver and prune them first, or keep this version.';
    END IF;
END;
$$;

DROP FUNCTION fencerow.enqueue(text, text, text, json, text, numeric, text, text, boolean);
DROP FUNCTION fencerow.enqueue_many(text, text[], text[], text[], text[], numeric[], text[], text[], boolean[]);
DROP FUNCTION fencerow.entry_problem(text, text, text, text, text, numeric, text, text, boolean);
DROP TABLE fencerow.ledger_skip;
DROP TABLE fencerow.ledger_slot;
DROP TABLE fencerow.ledger_outcome;
DROP TABLE fencerow.ledger_claim;
DROP TABLE fencerow.ledger_instance;
DROP TRIGGER ledger_outbox_deleted ON fencerow.ledger_outbox;
DROP FUNCTION fencerow.forget_deleted_entries();
DROP TABLE fencerow.ledger_pending;
DROP TRIGGER ledger_outbox_immutable ON fencerow.ledger_outbox;
DROP TRIGGER ledger_legacy_immutable ON fencerow.ledger_legacy;
DROP FUNCTION fencerow.refuse_entry_change();
DROP INDEX fencerow.ledger_outbox_correlation_key;

ALTER TABLE fencerow.ledger_outbox
    DROP CONSTRAINT ledger_outbox_instance_key_present,
    DROP CONSTRAINT ledger_outbox_instance_key_syntax,
    DROP CONSTRAINT ledger_outbox_correlation_id_syntax,
    DROP CONSTRAINT ledger_outbox_entry_kind_syntax,
    DROP CONSTRAINT ledger_outbox_slot_id_syntax,
    DROP CONSTRAINT ledger_outbox_cash_delta_bounds,
    DROP CONSTRAINT ledger_outbox_currency_syntax,
    DROP CONSTRAINT ledger_outbox_currency_with_delta,
    DROP CONSTRAINT ledger_outbox_payload_object,
    DROP CONSTRAINT ledger_outbox_enqueued_at_finite,
    DROP CONSTRAINT ledger_outbox_traceparent_syntax,
    DROP COLUMN instance_key,
    DROP COLUMN traceparent,
    ADD COLUMN status text NOT NULL DEFAULT 'pending',
    ADD COLUMN attempt_count integer NOT NULL DEFAULT 0,
    ADD COLUMN next_retry_at timestamptz DEFAULT now();

UPDATE fencerow.ledger_outbox o
SET status = l.status, attempt_count = l.attempt_count, next_retry_at = l.next_retry_at
FROM fencerow.ledger_legacy l
WHERE l.outbox_id = o.outbox_id;

DROP TABLE fencerow.ledger_legacy;

CREATE INDEX ledger_outbox_due ON fencerow.ledger_outbox (next_retry_at, outbox_id) WHERE status = 'pending';
