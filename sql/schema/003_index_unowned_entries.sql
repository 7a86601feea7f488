---- tern: disable-tx ----
-- Finds and counts the entries without an owner, in a table that may be large: built without blocking producers, hence outside a
-- transaction. A build that failed leaves an invalid index behind; dropping first makes a second run start afresh. The hash index takes
-- correlation ids of any length, which entries from before may have.
SET lock_timeout = '1min';
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_outbox_unowned;
CREATE INDEX CONCURRENTLY ledger_outbox_unowned ON fencerow.ledger_outbox (outbox_id) WHERE instance_key IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_outbox_unowned_correlation;
CREATE INDEX CONCURRENTLY ledger_outbox_unowned_correlation ON fencerow.ledger_outbox USING hash (correlation_id)
WHERE instance_key IS NULL;
RESET lock_timeout;

---- create above / drop below ----

---- tern: disable-tx ----
SET lock_timeout = '1min';
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_outbox_unowned_correlation;
DROP INDEX CONCURRENTLY IF EXISTS fencerow.ledger_outbox_unowned;
RESET lock_timeout;
