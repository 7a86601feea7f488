---- tern: disable-tx ----
-- The index of due rows has their number last, so that a lookup by number could use it too, by reading all of it. It did when the table
-- had just been analyzed without rows, and both indexes looked equally cheap: recording a thousand outcomes took more than a second.
-- It is partial now, by a condition that always holds: what asks for an instance's rows implies it, a lookup by number does not.
--
-- Claims need the index at every moment, also while this fails and is run again: the new one takes its name in one step with the old one
-- giving it up, and what is dropped before or after has another name. Whatever an interrupted run left behind, the next one ends as it should.
-- Oldest program: 6
SET lock_timeout = '1min';
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_pending_due_old;
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_pending_due_next;
CREATE INDEX CONCURRENTLY ledger_pending_due_next ON fencerow.ledger_pending (instance_key, next_retry_at, outbox_id)
WHERE instance_key IS NOT NULL;
DO $$
BEGIN
    ALTER INDEX IF EXISTS fencerow.ledger_pending_due RENAME TO ledger_pending_due_old;
    ALTER INDEX fencerow.ledger_pending_due_next RENAME TO ledger_pending_due;
END
$$;
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_pending_due_old;
RESET lock_timeout;

---- create above / drop below ----

---- tern: disable-tx ----
SET lock_timeout = '1min';
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_pending_due_old;
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_pending_due_next;
CREATE INDEX CONCURRENTLY ledger_pending_due_next ON fencerow.ledger_pending (instance_key, next_retry_at, outbox_id);
DO $$
BEGIN
    ALTER INDEX IF EXISTS fencerow.ledger_pending_due RENAME TO ledger_pending_due_old;
    ALTER INDEX fencerow.ledger_pending_due_next RENAME TO ledger_pending_due;
END
$$;
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_pending_due_old;
RESET lock_timeout;
