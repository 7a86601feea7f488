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

-- name: fill
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

-- name: unfinished
SELECT EXISTS (SELECT FROM limit_pending);

-- name: tally
SELECT (SELECT count(*) FROM limit_pending), (SELECT count(*) FROM limit_outcome);
