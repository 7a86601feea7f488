-- name: unfinished
SELECT EXISTS (SELECT FROM watermill_bench WHERE NOT acked);

-- name: tally
SELECT
    count(*) FILTER (WHERE NOT acked),
    -- Rows deleted when acked are counted by their absence.
    CASE WHEN bool_or(acked) THEN count(*) FILTER (WHERE acked) ELSE -1 END
FROM watermill_bench;
