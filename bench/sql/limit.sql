-- name: prepare
CREATE TABLE limit_pending (
    outbox_id bigint NOT NULL PRIMARY KEY,
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
    reason text COLLATE "C"
);
CREATE INDEX limit_pending_due ON limit_pending (instance_key, next_retry_at, outbox_id);
CREATE TABLE limit_outcome (
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
    PRIMARY KEY (outbox_id, life)
);

CREATE TABLE limit_entry (
    outbox_id bigint NOT NULL PRIMARY KEY,
    correlation_id text COLLATE "C" NOT NULL,
    entry_kind text NOT NULL,
    slot_id text COLLATE "C",
    cash_delta numeric NOT NULL,
    currency text,
    payload json NOT NULL,
    enqueued_at timestamptz NOT NULL,
    instance_key text COLLATE "C"
);

-- name: fill
WITH entry AS (
    INSERT INTO limit_entry (outbox_id, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, enqueued_at, instance_key)
    SELECT
        i, 'entry-' || i, 'fill', 'slot-' || i % 100, trim_scale((i % 1000) * 0.01), 'EUR',
        format('{"n":%s,"account":"ACC-%s","memo":"%s"}', i, i % 100, repeat('x', 260))::json, clock_timestamp(), 'bench'
    FROM generate_series($1::integer, $1::integer + $2::integer - 1) i
)
INSERT INTO limit_pending (outbox_id, next_retry_at, instance_key, slot_id, currency, cash_delta)
SELECT i, clock_timestamp(), 'bench', 'slot-' || i % 100, 'EUR', trim_scale((i % 1000) * 0.01)
FROM generate_series($1::integer, $1::integer + $2::integer - 1) i;

-- name: move
WITH moved AS (
    DELETE FROM limit_pending
    WHERE outbox_id = ANY ($1::bigint[])
    RETURNING outbox_id, life, attempt_count, instance_key
)
INSERT INTO limit_outcome (outbox_id, claim_epoch, outcome_at, life, attempt_count, instance_key, status, outcome)
SELECT outbox_id, 1, clock_timestamp(), life, attempt_count + 1, instance_key, 'completed', 'completed'
FROM moved;

-- name: take
WITH moved AS (
    DELETE FROM limit_pending
    WHERE outbox_id = ANY ($1::bigint[])
    RETURNING outbox_id, life, attempt_count, instance_key
),
appended AS (
    INSERT INTO limit_outcome (outbox_id, claim_epoch, outcome_at, life, attempt_count, instance_key, status, outcome)
    SELECT outbox_id, 1, clock_timestamp(), life, attempt_count + 1, instance_key, 'completed', 'completed'
    FROM moved
)
SELECT e.outbox_id, e.correlation_id, e.entry_kind, e.slot_id, e.cash_delta::text, e.currency, e.payload::text, e.enqueued_at
FROM moved m
JOIN limit_entry e ON e.outbox_id = m.outbox_id;

-- name: unfinished
SELECT EXISTS (SELECT FROM limit_pending);

-- name: tally
SELECT (SELECT count(*) FROM limit_pending), (SELECT count(*) FROM limit_outcome);
