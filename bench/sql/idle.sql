-- name: active_time
SELECT coalesce(sum(active_time), 0)::double precision FROM pg_stat_database WHERE datname = $1::text;
