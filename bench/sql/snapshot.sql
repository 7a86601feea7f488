-- name: take
SELECT count(*) FROM pg_class;
