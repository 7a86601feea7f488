-- An entry that is deleted takes its outcomes with it too, and an open skip under whatever correlation id. What was left of one kept its
-- number from being used: behind the walls a role could enter an entry under a number that another session had drawn and not used yet,
-- record its outcome and delete it, and the other's entry of that number could never be finished.
-- Oldest program: 6
SET LOCAL lock_timeout = '5s';

CREATE OR REPLACE FUNCTION fencerow.forget_deleted_entries() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM fencerow.ledger_pending p USING deleted d WHERE p.outbox_id = d.outbox_id;
    DELETE FROM fencerow.ledger_outcome o USING deleted d WHERE o.outbox_id = d.outbox_id;
    DELETE FROM fencerow.ledger_skip k
    USING deleted d
    WHERE k.instance_key = d.instance_key AND k.correlation_id = d.correlation_id;
    DELETE FROM fencerow.ledger_skip k USING deleted d WHERE k.outbox_id = d.outbox_id AND k.resolved_at IS NULL;
    RETURN NULL;
END;
$$;

---- create above / drop below ----

SET LOCAL lock_timeout = '5s';

CREATE OR REPLACE FUNCTION fencerow.forget_deleted_entries() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM fencerow.ledger_pending p USING deleted d WHERE p.outbox_id = d.outbox_id;
    DELETE FROM fencerow.ledger_skip k
    USING deleted d
    WHERE k.instance_key = d.instance_key AND k.correlation_id = d.correlation_id;
    RETURN NULL;
END;
$$;
