-- name: plain
CREATE TABLE plain_entry (
    outbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance_key text COLLATE "C" NOT NULL,
    correlation_id text COLLATE "C" NOT NULL,
    entry_kind text NOT NULL,
    slot_id text COLLATE "C",
    cash_delta numeric NOT NULL DEFAULT 0,
    currency text,
    payload json NOT NULL,
    traceparent text,
    enqueued_at timestamptz NOT NULL DEFAULT now()
);

-- name: insert_plain
INSERT INTO plain_entry (instance_key, correlation_id, entry_kind, slot_id, cash_delta, currency, payload)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text::numeric, $6::text, $7::text::json);

-- name: count_plain
SELECT count(*) FROM plain_entry;

-- name: count_fencerow
SELECT count(*)
FROM fencerow.ledger_outbox o
JOIN fencerow.ledger_pending p ON p.outbox_id = o.outbox_id AND p.instance_key = o.instance_key
WHERE o.instance_key = 'bench';

-- name: count_river
SELECT count(*) FROM river_job;
