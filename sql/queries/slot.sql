-- name: SlotList :many
-- SlotList lists the slots of an instance: with a snapshot or a name, with entries that have finished, or with entries that wait.
WITH waiting AS MATERIALIZED (
    SELECT DISTINCT p.slot_id
    FROM fencerow.ledger_pending p
    WHERE p.instance_key = @instance_key::text AND p.slot_id IS NOT NULL
)
SELECT
    coalesce(s.slot_id, w.slot_id)::text AS slot_id,
    s.strategy,
    s.currency,
    coalesce(s.cash_balance, 0)::text AS cash_balance,
    s.ledger_version,
    s.updated_at,
    (
        SELECT count(*)
        FROM fencerow.ledger_skip k
        WHERE k.instance_key = @instance_key::text AND k.slot_id = coalesce(s.slot_id, w.slot_id) AND k.resolved_at IS NULL
    )::bigint AS open_skips
FROM (SELECT * FROM fencerow.ledger_slot l WHERE l.instance_key = @instance_key::text) s
FULL JOIN waiting w ON w.slot_id = s.slot_id
ORDER BY 1;

-- name: SlotCashDelta :many
-- SlotCashDelta is PendingCashDelta for every slot at once.
SELECT
    d.slot_id::text AS slot_id,
    d.currency::text AS currency,
    sum(d.pending)::text AS pending,
    sum(d.pending_count)::bigint AS pending_count,
    sum(d.blocked)::text AS blocked,
    sum(d.blocked_count)::bigint AS blocked_count
FROM (
    SELECT p.slot_id, p.currency, sum(p.cash_delta) AS pending, count(*) AS pending_count, 0::numeric AS blocked,
        0::bigint AS blocked_count
    FROM fencerow.ledger_pending p
    WHERE p.instance_key = @instance_key::text AND p.slot_id IS NOT NULL AND p.currency IS NOT NULL
    GROUP BY p.slot_id, p.currency
    UNION ALL
    SELECT o.slot_id, o.currency, 0::numeric, 0::bigint, sum(o.cash_delta), count(*)
    FROM fencerow.ledger_outcome f
    JOIN fencerow.ledger_outbox o ON o.outbox_id = f.outbox_id AND o.instance_key = @instance_key::text
    WHERE f.instance_key = @instance_key::text
        AND f.status <> 'completed'
        AND o.slot_id IS NOT NULL
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
    GROUP BY o.slot_id, o.currency
) d
GROUP BY d.slot_id, d.currency
ORDER BY d.slot_id COLLATE "C", d.currency COLLATE "C";

-- name: SlotName :exec
-- SlotName sets a slot's strategy; it is a label for people and no entry's state.
INSERT INTO fencerow.ledger_slot (instance_key, slot_id, strategy)
VALUES (@instance_key::text, @slot_id::text, @strategy::text)
ON CONFLICT (instance_key, slot_id) DO UPDATE SET strategy = excluded.strategy;
