-- The ids of a claim are kept as they are instead of compressed: a claim lives for seconds and is read by every other claim of its instance,
-- and compressing a thousand ids took a twentieth of the server's time for a thousand entries.
-- Oldest program: 6
SET LOCAL lock_timeout = '5s';

ALTER TABLE fencerow.ledger_claim ALTER COLUMN outbox_ids SET STORAGE EXTERNAL;

---- create above / drop below ----

SET LOCAL lock_timeout = '5s';

ALTER TABLE fencerow.ledger_claim ALTER COLUMN outbox_ids SET STORAGE EXTENDED;
