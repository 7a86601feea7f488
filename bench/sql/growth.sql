-- name: finished
WITH entries AS (
    INSERT INTO fencerow.ledger_outbox (
        instance_key, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, enqueued_at
    )
    SELECT 'bench', 'finished-' || i, 'fill', 'slot-' || i % 100, trim_scale((i % 1000) * 0.01), 'EUR',
        format('{"n":%s,"account":"ACC-%s","memo":"%s"}', i, i % 100, repeat('x', 260))::json,
        now() - interval '1 hour'
    FROM generate_series($1::integer, $1::integer + $2::integer - 1) i
    RETURNING outbox_id
)
INSERT INTO fencerow.ledger_outcome (
    outbox_id, claim_epoch, outcome_at, life, attempt_count, instance_key, status, outcome
)
SELECT outbox_id, 1, now(), 1, 1, 'bench', 'completed', 'completed'
FROM entries;

-- name: foreign
WITH entries AS (
    INSERT INTO fencerow.ledger_outbox (
        instance_key, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, enqueued_at
    )
    SELECT 'other', 'foreign-' || i, 'fill', 'slot-' || i % 100, trim_scale((i % 1000) * 0.01), 'EUR',
        format('{"n":%s,"account":"ACC-%s","memo":"%s"}', i, i % 100, repeat('x', 260))::json,
        now() - interval '1 hour'
    FROM generate_series($1::integer, $1::integer + $2::integer - 1) i
    RETURNING outbox_id, instance_key, enqueued_at, slot_id, cash_delta, currency
)
INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at, slot_id, cash_delta, currency)
SELECT outbox_id, instance_key, enqueued_at, slot_id, cash_delta, currency
FROM entries;

-- name: waiting
WITH entries AS (
    INSERT INTO fencerow.ledger_outbox (
        instance_key, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, enqueued_at
    )
    SELECT 'bench', 'waiting-' || i, 'fill', 'slot-' || i % 100, trim_scale((i % 1000) * 0.01), 'EUR',
        format('{"n":%s,"account":"ACC-%s","memo":"%s"}', i, i % 100, repeat('x', 260))::json,
        now() - interval '1 hour'
    FROM generate_series($1::integer, $1::integer + $2::integer - 1) i
    RETURNING outbox_id, instance_key, slot_id, cash_delta, currency
)
INSERT INTO fencerow.ledger_pending (
    outbox_id, instance_key, next_retry_at, attempt_count, outcome, reason, slot_id, cash_delta, currency
)
SELECT outbox_id, instance_key, now() + interval '1 day', 1, 'retryable_failure', 'http_500', slot_id, cash_delta,
    currency
FROM entries;
