-- name: OutcomeCounts :many
-- OutcomeCounts counts finished entries by the status of their latest life; requeued ones that are pending again are not finished.
SELECT o.status, count(*)::bigint AS entries
FROM fencerow.ledger_outcome o
WHERE o.instance_key = @instance_key::text
    AND (
        o.status = 'completed'
        OR NOT EXISTS (
            SELECT
            FROM fencerow.ledger_outcome later
            WHERE later.outbox_id = o.outbox_id AND later.instance_key = @instance_key::text AND later.life > o.life
        )
        AND NOT EXISTS (
            SELECT
            FROM fencerow.ledger_pending p
            WHERE p.outbox_id = o.outbox_id AND (p.instance_key = @instance_key::text) IS TRUE
        )
    )
GROUP BY o.status;

-- name: OutcomeList :many
-- OutcomeList is the audit trail of one entry, oldest life first.
SELECT life, status, outcome, reason, attempt_count, claim_epoch, ledger_ref, outcome_at
FROM fencerow.ledger_outcome
WHERE outbox_id = @outbox_id::bigint AND instance_key = @instance_key::text
ORDER BY life;

-- name: OutcomeBlocked :many
-- OutcomeBlocked lists own blocked entries that are not pending again, by key set. Plan: ledger_outcome_blocked in order, and a probe
-- each of ledger_pending_pkey, ledger_outcome_pkey and ledger_outbox_pkey a row. Joined without the page, the entries were merged from
-- the first one on.
WITH page AS MATERIALIZED (
    SELECT f.outbox_id, f.life, f.status, f.outcome, f.reason, f.attempt_count, f.claim_epoch, f.ledger_ref, f.outcome_at
    FROM fencerow.ledger_outcome f
    WHERE f.instance_key = @instance_key::text
        AND f.status <> 'completed'
        AND f.outbox_id > @after_id::bigint
        AND (@status::text = '' OR f.status = @status::text)
        AND NOT EXISTS (
            SELECT
            FROM fencerow.ledger_pending p
            WHERE p.outbox_id = f.outbox_id AND (p.instance_key = @instance_key::text) IS TRUE
        )
        AND NOT EXISTS (
            SELECT
            FROM fencerow.ledger_outcome later
            WHERE later.outbox_id = f.outbox_id AND later.instance_key = @instance_key::text AND later.life > f.life
        )
    ORDER BY f.outbox_id
    LIMIT @row_limit::integer
)
SELECT
    o.outbox_id,
    o.correlation_id,
    o.entry_kind,
    o.slot_id,
    o.cash_delta::text AS cash_delta,
    o.currency,
    o.traceparent,
    o.enqueued_at,
    f.life,
    f.status,
    f.outcome,
    f.reason,
    f.attempt_count,
    f.claim_epoch,
    f.ledger_ref,
    f.outcome_at
FROM page f
JOIN fencerow.ledger_outbox o ON o.outbox_id = f.outbox_id AND o.instance_key = @instance_key::text
ORDER BY o.outbox_id;

-- name: OutcomeRequeue :one
-- OutcomeRequeue begins the next life of a blocked entry; InstanceLock goes before it. It always returns one row: whether it requeued,
-- and what stands in the way.
WITH entry AS MATERIALIZED (
    SELECT outbox_id, slot_id, cash_delta, currency
    FROM fencerow.ledger_outbox
    WHERE correlation_id = @correlation_id::text AND instance_key = @instance_key::text
),
unfinished AS MATERIALIZED (
    SELECT p.outbox_id
    FROM fencerow.ledger_pending p
    JOIN entry e ON e.outbox_id = p.outbox_id
    WHERE (p.instance_key = @instance_key::text) IS TRUE
),
latest AS MATERIALIZED (
    SELECT o.life, o.status
    FROM fencerow.ledger_outcome o
    JOIN entry e ON e.outbox_id = o.outbox_id
    WHERE o.instance_key = @instance_key::text
    ORDER BY o.life DESC
    LIMIT 1
),
requeued AS (
    INSERT INTO fencerow.ledger_pending (
        outbox_id, instance_key, next_retry_at, last_epoch, life, delivery_uncertain, slot_id, cash_delta, currency
    )
    SELECT
        e.outbox_id,
        @instance_key::text,
        clock_timestamp(),
        (
            SELECT max(o.claim_epoch)
            FROM fencerow.ledger_outcome o
            WHERE o.outbox_id = e.outbox_id AND o.instance_key = @instance_key::text
        ),
        l.life + 1,
        true,
        e.slot_id,
        e.cash_delta,
        e.currency
    FROM entry e, latest l
    WHERE l.status = @from_status::text AND NOT EXISTS (SELECT FROM unfinished)
    RETURNING outbox_id
)
SELECT
    EXISTS (SELECT FROM requeued) AS requeued,
    EXISTS (SELECT FROM entry) AS known,
    EXISTS (SELECT FROM unfinished) AS unfinished,
    coalesce((SELECT l.status FROM latest l), '')::text AS status;
