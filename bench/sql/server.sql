-- name: backend
SELECT pg_backend_pid();

-- name: version
SELECT version();

-- name: setting
SELECT current_setting($1::text);

-- name: extension_version
SELECT coalesce((SELECT default_version FROM pg_available_extensions WHERE name = $1::text), '');

-- name: wal_inspect_available
SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_walinspect')
    AND current_setting('server_version_num')::integer >= 150000;

-- name: create_wal_inspect
CREATE EXTENSION pg_walinspect;

-- name: look_by_index
-- What is left is looked for within the time that is measured. Beside millions of other rows the planner expects to find some at once by
-- reading all, and where none is left does read all: 0.4 s of a drain of 2.
SELECT
    set_config('enable_seqscan', 'off', false),
    set_config('jit', 'off', false);

-- name: vacuum
VACUUM ANALYZE;

-- name: checkpoint
CHECKPOINT;

-- name: wal_position
SELECT pg_current_wal_flush_lsn()::text;

-- name: wal_between
SELECT pg_wal_lsn_diff($2::text::pg_lsn, $1::text::pg_lsn)::bigint;

-- name: wal_images
SELECT coalesce(sum(fpi_size), 0)::bigint FROM pg_get_wal_stats($1::text::pg_lsn, $2::text::pg_lsn, true);

-- name: commits
SELECT coalesce(sum(xact_commit), 0)::bigint FROM pg_stat_database WHERE datname = $1::text;

-- name: dead
SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables;

-- name: create_statements
CREATE EXTENSION pg_stat_statements;

-- name: reset_statements
SELECT pg_stat_statements_reset();

-- name: statements
SELECT
    rtrim(left(regexp_replace(s.query, '\s+', ' ', 'g'), 60)),
    sum(s.calls)::bigint,
    sum(s.rows)::bigint,
    sum(s.total_exec_time),
    sum(s.wal_bytes)::bigint
FROM pg_stat_statements s
JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = $1::text
GROUP BY 1
ORDER BY 4 DESC
LIMIT 12;
