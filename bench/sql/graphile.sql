-- name: add
SELECT count(*)
FROM graphile_worker.add_jobs(
    (
        SELECT array_agg(
            (
                'entry', json_build_object('n', i, 'account', 'ACC-' || i % 100, 'memo', repeat('x', 260)),
                NULL, NULL, NULL, NULL, NULL, NULL
            )::graphile_worker.job_spec
            ORDER BY i
        )
        FROM generate_series($1::integer, $1::integer + $2::integer - 1) i
    )
);

-- name: unfinished
SELECT EXISTS (SELECT FROM graphile_worker._private_jobs);

-- name: tally
SELECT count(*), -1 FROM graphile_worker._private_jobs;
