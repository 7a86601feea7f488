-- What the outbox holds before entries had owners, a row a line.
SELECT ROW(
    o.outbox_id, o.correlation_id, o.entry_kind, o.slot_id, o.cash_delta, o.currency, o.payload, o.enqueued_at,
    o.status, o.attempt_count, o.next_retry_at
)::text
FROM fencerow.ledger_outbox o
ORDER BY o.outbox_id
