-- name: EntryEnqueue :one
-- EntryEnqueue is EntryEnqueueMany for one entry.
SELECT
    e.entry_id::bigint AS entry_id,
    e.entry_result::text AS entry_result
FROM fencerow.try_enqueue(
    @instance_key::text,
    @correlation_id::text,
    @entry_kind::text,
    (@payload::text)::json,
    nullif(@slot_id::text, ''),
    (@cash_delta::text)::numeric,
    nullif(@currency::text, ''),
    nullif(@traceparent::text, ''),
    @skip::boolean
) AS e (entry_id, entry_result);

-- name: EntryEnqueueMany :one
-- EntryEnqueueMany enqueues in the transaction it runs in. Its SQL function is the one way in, for every language. Empty optional texts
-- stand for NULL. It returns one row: the numbers in the order given, and the positions of what was not inserted.
SELECT
    count(*) FILTER (WHERE e.entry_result = 'inserted')::integer AS inserted,
    coalesce(array_agg(e.entry_id ORDER BY e.entry_position), '{}')::bigint[] AS entry_ids,
    coalesce(array_agg(e.entry_position) FILTER (WHERE e.entry_result = 'duplicate'), '{}')::integer[] AS duplicates,
    coalesce(array_agg(e.entry_position) FILTER (WHERE e.entry_result = 'conflict'), '{}')::integer[] AS conflicts
FROM fencerow.enqueue_many(
    @instance_key::text,
    @correlation_ids::text[],
    @entry_kinds::text[],
    @payloads::text[],
    array_replace(@slot_ids::text[], '', NULL),
    (@cash_deltas::text[])::numeric[],
    array_replace(@currencies::text[], '', NULL),
    array_replace(@traceparents::text[], '', NULL),
    @skips::boolean[]
) AS e (entry_position, entry_id, entry_result);

-- name: EntryShow :one
-- EntryShow reads one own entry, its pending row if it has one, and the claim that holds it.
SELECT
    o.outbox_id,
    o.correlation_id,
    o.entry_kind,
    o.slot_id,
    o.cash_delta::text AS cash_delta,
    o.currency,
    o.payload::text AS payload,
    o.traceparent,
    o.enqueued_at,
    (p.outbox_id IS NOT NULL)::boolean AS unfinished,
    coalesce(p.next_retry_at, o.enqueued_at)::timestamptz AS next_retry_at,
    (coalesce(p.next_retry_at <= clock_timestamp(), false))::boolean AS due,
    least(greatest(clock_timestamp() - p.next_retry_at, '0'), '36500 days')::interval AS due_for,
    coalesce(p.attempt_count, 0)::integer AS attempt_count,
    coalesce(p.life, 0)::integer AS life,
    coalesce(p.expiry_count, 0)::integer AS expiry_count,
    coalesce(p.delivery_uncertain, false)::boolean AS delivery_uncertain,
    p.outcome,
    p.reason,
    (c.claim_token IS NOT NULL)::boolean AS leased,
    coalesce(c.claimed_by, '')::text AS claimed_by,
    coalesce(c.claim_epoch, 0)::bigint AS claim_epoch,
    coalesce(cardinality(c.outbox_ids), 0)::integer AS claim_rows,
    coalesce(c.claimed_at, o.enqueued_at)::timestamptz AS claimed_at,
    coalesce(clock_timestamp() - c.claimed_at, '0')::interval AS claim_age,
    coalesce(c.lease_expires_at - clock_timestamp(), '0')::interval AS lease_remaining,
    (k.opened_at IS NOT NULL)::boolean AS skipped,
    coalesce(k.opened_at, o.enqueued_at)::timestamptz AS skip_opened_at,
    k.resolved_at AS skip_resolved_at
FROM fencerow.ledger_outbox o
LEFT JOIN fencerow.ledger_pending p ON p.outbox_id = o.outbox_id AND (p.instance_key = o.instance_key) IS TRUE
LEFT JOIN fencerow.ledger_claim c ON c.instance_key = o.instance_key AND c.outbox_ids @> ARRAY[o.outbox_id]
LEFT JOIN fencerow.ledger_skip k ON k.instance_key = o.instance_key AND k.correlation_id = o.correlation_id
WHERE o.correlation_id = @correlation_id::text AND o.instance_key = @instance_key::text;

-- name: EntryForeign :one
-- EntryForeign says whether a correlation id exists under another owner or none, and nothing more. The function sees what row security may
-- keep from this role.
SELECT fencerow.foreign_owned(@correlation_id::text, @instance_key::text)::boolean AS foreign_owned;

-- name: LegacyCount :one
-- LegacyCount counts the entries without an owner, also where row security keeps them from this role.
SELECT fencerow.legacy_count()::bigint AS entries;

-- name: LegacyUnwalled :one
-- LegacyUnwalled goes before LegacyExport in its transaction: where entries without an owner exist, the server then refuses what row
-- security would leave out, instead of answering that there is none.
SELECT set_config('row_security', CASE WHEN fencerow.legacy_count() > 0 THEN 'off' ELSE 'on' END, true)::text AS row_security;

-- name: LegacyExport :many
-- LegacyExport reads the unowned entries of one correlation id, for a deliberate re-enqueue.
SELECT
    outbox_id,
    correlation_id,
    entry_kind,
    slot_id,
    cash_delta::text AS cash_delta,
    currency,
    payload::text AS payload
FROM fencerow.ledger_outbox
WHERE correlation_id = @correlation_id::text AND instance_key IS NULL
ORDER BY outbox_id
LIMIT @row_limit::integer;

-- name: EntryPrune :one
-- EntryPrune deletes own entries that ended in success long enough ago, with their outcomes, and a trigger their skips; InstanceLock goes
-- before it. It looks at a bounded number of own outcomes after the given id and passes a bounded number of others', by the primary key,
-- so that a call costs the same however many there are (row security hides others' before they are counted: then it walks over them all).
-- An entry whose skip is still open stays.
WITH passed AS MATERIALIZED (
    SELECT o.outbox_id, o.life, (o.instance_key = @instance_key::text)::boolean AS own
    FROM fencerow.ledger_outcome o
    WHERE o.outbox_id > @after::bigint
    ORDER BY o.outbox_id, o.life
    LIMIT @pass_limit::integer
),
seen AS MATERIALIZED (
    SELECT p.outbox_id, p.life
    FROM passed p
    WHERE p.own
    ORDER BY p.outbox_id, p.life
    LIMIT @look_limit::integer
),
latest AS MATERIALIZED (
    SELECT DISTINCT s.outbox_id FROM seen s
),
prunable AS MATERIALIZED (
    SELECT l.outbox_id
    FROM latest l
    WHERE NOT EXISTS (
            SELECT FROM fencerow.ledger_pending p WHERE p.outbox_id = l.outbox_id AND (p.instance_key = @instance_key::text) IS TRUE
        )
        AND NOT EXISTS (
            SELECT
            FROM fencerow.ledger_skip k
            WHERE k.outbox_id = l.outbox_id AND k.instance_key = @instance_key::text AND k.resolved_at IS NULL
        )
        AND (
            SELECT o.status = 'completed' AND o.outcome_at <= clock_timestamp() - @older_than::interval
            FROM fencerow.ledger_outcome o
            WHERE o.outbox_id = l.outbox_id AND o.instance_key = @instance_key::text
            ORDER BY o.life DESC
            LIMIT 1
        )
    ORDER BY l.outbox_id
    LIMIT @row_limit::integer
),
deleted AS (
    DELETE FROM fencerow.ledger_outbox o
    USING prunable p
    WHERE o.outbox_id = p.outbox_id AND o.instance_key = @instance_key::text
    RETURNING o.outbox_id
),
outcomes AS (
    DELETE FROM fencerow.ledger_outcome o
    USING prunable p
    WHERE o.outbox_id = p.outbox_id AND o.instance_key = @instance_key::text
)
SELECT
    (SELECT count(*) FROM deleted)::integer AS deleted_count,
    CASE
        WHEN (SELECT count(*) FROM prunable) = @row_limit::integer THEN (SELECT max(p.outbox_id) FROM prunable p)
        WHEN (SELECT count(*) FROM seen) = @look_limit::integer THEN (SELECT max(s.outbox_id) FROM seen s)
        WHEN (SELECT count(*) FROM passed) = @pass_limit::integer THEN (SELECT max(q.outbox_id) FROM passed q)
        ELSE 0
    END::bigint AS next_id;

-- name: SchemaVersion :one
-- SchemaVersion is the number of the last migration applied.
SELECT version FROM fencerow.schema_version;

-- name: SchemaOldestProgram :one
-- SchemaOldestProgram is the oldest version whose programs can work with the schema as it is. It came with version 6.
SELECT fencerow.oldest_program()::integer AS version;
