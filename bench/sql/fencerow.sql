-- name: enqueue_numbered
SELECT count(*)
FROM fencerow.enqueue_many(
    $1::text,
    (SELECT array_agg('entry-' || i ORDER BY i) FROM generate_series($2::integer, $2::integer + $3::integer - 1) i),
    array_fill('fill'::text, ARRAY[$3::integer]),
    (
        SELECT array_agg(format('{"n":%s,"account":"ACC-%s","memo":"%s"}', i, i % 100, repeat('x', 260)) ORDER BY i)
        FROM generate_series($2::integer, $2::integer + $3::integer - 1) i
    ),
    (SELECT array_agg('slot-' || i % 100 ORDER BY i) FROM generate_series($2::integer, $2::integer + $3::integer - 1) i),
    (SELECT array_agg(trim_scale((i % 1000) * 0.01) ORDER BY i) FROM generate_series($2::integer, $2::integer + $3::integer - 1) i),
    array_fill('EUR'::text, ARRAY[$3::integer]),
    array_fill(NULL::text, ARRAY[$3::integer]),
    array_fill(false, ARRAY[$3::integer])
);

-- name: unfinished
SELECT EXISTS (SELECT FROM fencerow.ledger_pending WHERE instance_key = ANY ($1::text[]) AND next_retry_at <= now())
    OR EXISTS (SELECT FROM fencerow.ledger_claim WHERE instance_key = ANY ($1::text[]));

-- name: tally
SELECT
    (SELECT count(*) FROM fencerow.ledger_pending WHERE instance_key = ANY ($1::text[]) AND next_retry_at <= now()),
    (SELECT count(*) FROM fencerow.ledger_outcome WHERE instance_key = ANY ($1::text[]) AND status = 'completed');

-- name: enqueue
SELECT outbox_id, result
FROM fencerow.enqueue(
    $1::text, $2::text, 'fill', $3::text::json, slot_id => $4::text, cash_delta => $5::text::numeric, currency => 'EUR'
);
