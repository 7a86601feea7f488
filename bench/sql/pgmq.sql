-- name: extension
CREATE EXTENSION pgmq;

-- name: create
SELECT pgmq.create('bench');

-- name: send
SELECT count(*)
FROM pgmq.send_batch(
    'bench',
    (
        SELECT array_agg(jsonb_build_object('n', i, 'account', 'ACC-' || i % 100, 'memo', repeat('x', 260)) ORDER BY i)
        FROM generate_series($1::integer, $1::integer + $2::integer - 1) i
    )
);

-- name: read
SELECT msg_id, message FROM pgmq.read('bench', 60, $1::integer);

-- name: archive
SELECT count(*) FROM pgmq.archive('bench', $1::bigint[]);

-- name: delete
SELECT count(*) FROM pgmq.delete('bench', $1::bigint[]);

-- name: unfinished
SELECT EXISTS (SELECT FROM pgmq.q_bench);

-- name: tally
SELECT
    (SELECT count(*) FROM pgmq.q_bench),
    -- A queue that deletes has an empty archive; then what is gone is counted by its absence.
    (SELECT CASE WHEN count(*) > 0 THEN count(*) ELSE -1 END FROM pgmq.a_bench);
