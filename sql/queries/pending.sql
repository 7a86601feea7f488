-- name: PendingList :many
-- PendingList lists own pending rows that no active lease holds, by key set. Plan: ledger_pending_due in order, one probe of
-- ledger_outbox_pkey a row.
-- The comparison of rows says all; that of next_retry_at alone leads the index where row security lets no comparison of rows do so.
WITH held AS MATERIALIZED (
    SELECT unnest(outbox_ids) AS outbox_id
    FROM fencerow.ledger_claim
    WHERE instance_key = @instance_key::text AND lease_expires_at > clock_timestamp()
)
SELECT
    o.outbox_id,
    o.correlation_id,
    o.entry_kind,
    o.slot_id,
    o.cash_delta::text AS cash_delta,
    o.currency,
    (CASE WHEN @with_payload::boolean THEN o.payload::text ELSE '' END)::text AS payload,
    o.traceparent,
    o.enqueued_at,
    p.next_retry_at,
    (p.next_retry_at <= clock_timestamp())::boolean AS due,
    least(greatest(clock_timestamp() - p.next_retry_at, '0'), '36500 days')::interval AS due_for,
    p.attempt_count,
    p.life,
    p.expiry_count,
    p.delivery_uncertain,
    p.outcome,
    p.reason
FROM fencerow.ledger_pending p
JOIN fencerow.ledger_outbox o ON o.outbox_id = p.outbox_id AND o.instance_key = @instance_key::text
WHERE p.instance_key = @instance_key::text
    AND p.next_retry_at >= @after_due::timestamptz
    AND (p.next_retry_at, p.outbox_id) > (@after_due::timestamptz, @after_id::bigint)
    AND p.outbox_id NOT IN (SELECT h.outbox_id FROM held h)
ORDER BY p.next_retry_at, p.outbox_id
LIMIT @row_limit::integer;

-- name: PendingCashDelta :many
-- PendingCashDelta sums what is not in the ledger yet, per currency: pending rows, leased ones included, from ledger_pending alone, and
-- apart from them the blocked ones, found by ledger_outcome_blocked.
SELECT
    d.currency::text AS currency,
    sum(d.pending)::text AS pending,
    sum(d.pending_count)::bigint AS pending_count,
    sum(d.blocked)::text AS blocked,
    sum(d.blocked_count)::bigint AS blocked_count
FROM (
    SELECT p.currency, sum(p.cash_delta) AS pending, count(*) AS pending_count, 0::numeric AS blocked, 0::bigint AS blocked_count
    FROM fencerow.ledger_pending p
    WHERE p.instance_key = @instance_key::text
        AND (@slot_id::text = '' OR p.slot_id = @slot_id::text)
        AND p.currency IS NOT NULL
    GROUP BY p.currency
    UNION ALL
    SELECT o.currency, 0::numeric, 0::bigint, sum(o.cash_delta), count(*)
    FROM fencerow.ledger_outcome f
    JOIN fencerow.ledger_outbox o ON o.outbox_id = f.outbox_id AND o.instance_key = @instance_key::text
    WHERE f.instance_key = @instance_key::text
        AND f.status <> 'completed'
        AND (@slot_id::text = '' OR o.slot_id = @slot_id::text)
        AND o.currency IS NOT NULL
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
    GROUP BY o.currency
) d
GROUP BY d.currency
ORDER BY d.currency COLLATE "C";

-- name: PendingCounts :one
-- PendingCounts counts own pending rows and measures the lag: how long the oldest due row that no active lease holds has been due, and
-- how long ago the oldest pending entry was enqueued, which retries do not move. That one is found by the smallest number, in the pass
-- that counts: no index leads to it beside other instances' rows.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
),
own AS MATERIALIZED (
    SELECT count(*) AS pending, min(p.outbox_id) AS oldest
    FROM fencerow.ledger_pending p
    WHERE p.instance_key = @instance_key::text
),
held AS MATERIALIZED (
    SELECT unnest(c.outbox_ids) AS outbox_id
    FROM fencerow.ledger_claim c, moment m
    WHERE c.instance_key = @instance_key::text AND c.lease_expires_at > m.at
)
SELECT
    (SELECT pending FROM own)::bigint AS pending,
    (
        SELECT count(*)
        FROM fencerow.ledger_pending p
        WHERE p.instance_key = @instance_key::text AND (p.outbox_id IN (SELECT h.outbox_id FROM held h)) IS TRUE
    )::bigint AS leased,
    (
        SELECT count(*)
        FROM fencerow.ledger_pending p
        WHERE p.instance_key = @instance_key::text
            AND p.next_retry_at <= (SELECT at FROM moment)
            AND p.outbox_id NOT IN (SELECT h.outbox_id FROM held h)
    )::bigint AS due,
    coalesce((SELECT at FROM moment) - (
        SELECT p.next_retry_at
        FROM fencerow.ledger_pending p
        WHERE p.instance_key = @instance_key::text
            AND p.next_retry_at <= (SELECT at FROM moment)
            AND p.outbox_id NOT IN (SELECT h.outbox_id FROM held h)
        ORDER BY p.next_retry_at
        LIMIT 1
    ), '0')::interval AS oldest_due,
    greatest((SELECT at FROM moment) - (
        SELECT o.enqueued_at
        FROM fencerow.ledger_outbox o
        WHERE o.outbox_id = (SELECT oldest FROM own) AND o.instance_key = @instance_key::text
    ), '0')::interval AS oldest_pending,
    (SELECT i.held_at FROM fencerow.ledger_instance i WHERE i.instance_key = @instance_key::text) AS held_at;
