-- name: InstanceRegister :exec
-- InstanceRegister makes the instance known, so that its row can serialise claims.
INSERT INTO fencerow.ledger_instance (instance_key)
VALUES (@instance_key::text)
ON CONFLICT (instance_key) DO NOTHING;

-- name: InstanceLock :many
-- InstanceLock locks the instance in a statement of its own: a lock taken inside the claim statement comes after that statement's
-- snapshot, and two claimers then commit the same rows. It also leaves a mark for the rest of the transaction: without the mark, that is
-- without the lock, on hold, or where the schema has outgrown the program, the claim statements pick nothing, even if the instance was
-- registered between the two statements.
WITH instance AS MATERIALIZED (
    SELECT instance_key, held_at
    FROM fencerow.ledger_instance
    WHERE instance_key = @instance_key::text
    FOR NO KEY UPDATE
)
SELECT
    (held_at IS NOT NULL)::boolean AS held,
    (fencerow.oldest_program() > @program::integer)::boolean AS outgrown,
    set_config(
        'fencerow.locked',
        CASE WHEN held_at IS NULL AND fencerow.oldest_program() <= @program::integer THEN instance_key ELSE '' END,
        true
    )::text AS locked
FROM instance;

-- name: InstanceHold :execrows
-- InstanceHold pauses the instance; the UPDATE waits for a claim that is being made.
UPDATE fencerow.ledger_instance
SET held_at = clock_timestamp()
WHERE instance_key = @instance_key::text AND held_at IS NULL;

-- name: InstanceResume :execrows
-- InstanceResume ends a hold.
UPDATE fencerow.ledger_instance
SET held_at = NULL
WHERE instance_key = @instance_key::text AND held_at IS NOT NULL;
