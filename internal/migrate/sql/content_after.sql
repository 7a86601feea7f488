-- The same of the unowned entries afterwards.
SELECT ROW(
    o.outbox_id, o.correlation_id, o.entry_kind, o.slot_id, o.cash_delta, o.currency, o.payload, o.enqueued_at,
    l.status, l.attempt_count, l.next_retry_at
)::text
FROM fencerow.ledger_outbox o
LEFT JOIN fencerow.ledger_legacy l ON l.outbox_id = o.outbox_id
WHERE o.instance_key IS NULL
ORDER BY o.outbox_id
