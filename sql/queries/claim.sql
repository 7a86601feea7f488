-- Rows that are looked up by id are tested for their owner with IS TRUE, so that no index that begins with the instance serves: by
-- statistics from when the instance had nothing pending, reading it whole for each id looks cheaper than the primary key.

-- name: ClaimDue :one
-- ClaimDue says whether a claim would find anything, without lock or transaction; it is all that an idle poll costs. It also tells what
-- would refuse the claim, so that a program is told of it although nothing is due. An instance that is not to be seen counts as due: it
-- is not registered yet, which the claim sees to, or stands behind a wall, where nothing is seen and the claim is refused.
-- The array depends on no setting and no statistics; it is searched for each due row that is held, until one is not.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
),
standing AS MATERIALIZED (
    SELECT lease_expires_at <= (SELECT at FROM moment) AS expired, outbox_ids
    FROM fencerow.ledger_claim
    WHERE instance_key = @instance_key::text
),
held AS MATERIALIZED (
    SELECT unnest(s.outbox_ids) AS outbox_id
    FROM standing s
    WHERE NOT s.expired
)
SELECT
    (EXISTS (
        SELECT
        FROM fencerow.ledger_pending p
        WHERE p.instance_key = @instance_key::text
            AND p.next_retry_at <= (SELECT at FROM moment)
            AND p.outbox_id <> ALL (ARRAY(SELECT h.outbox_id FROM held h))
    )
    OR EXISTS (
        SELECT
        FROM standing s
        WHERE s.expired
    )
    OR NOT EXISTS (
        SELECT
        FROM fencerow.ledger_instance i
        WHERE i.instance_key = @instance_key::text
    ))::boolean AS due,
    EXISTS (
        SELECT
        FROM fencerow.ledger_instance i
        WHERE i.instance_key = @instance_key::text AND i.held_at IS NOT NULL
    ) AS held,
    (fencerow.oldest_program() > @program::integer)::boolean AS outgrown;

-- name: ClaimBatch :one
-- ClaimBatch ends expired claims, picks due rows and makes one claim of them; InstanceLock goes before it in the same transaction. Only
-- ids of claims that were really deleted here are free: the rows of every other claim in the snapshot, live or expired, are held, since
-- an outcome may be committing under it right now. It returns no payload and one row: a client that stops reading keeps no lock.
-- Plan: claims by ledger_claim_instance, once, since what a long reader keeps of finished ones is read with them; expired ones again by
-- their token; candidates in order by ledger_pending_due, held ones filtered by a hashed subplan.
-- Rejected: outbox_id <> ALL (array), which falls with the number of workers; NOT EXISTS, a nested loop, a tenth of the rate.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
    WHERE current_setting('fencerow.locked', true) = @instance_key::text
),
standing AS MATERIALIZED (
    SELECT claim_token, lease_expires_at, outbox_ids
    FROM fencerow.ledger_claim
    WHERE instance_key = @instance_key::text
),
expired AS MATERIALIZED (
    SELECT c.claim_token
    FROM fencerow.ledger_claim c
    WHERE c.claim_token = ANY (ARRAY(
            SELECT s.claim_token
            FROM standing s
            WHERE s.lease_expires_at <= (SELECT at FROM moment)
        ))
        AND (c.instance_key = @instance_key::text) IS TRUE
        AND (c.lease_expires_at <= (SELECT at FROM moment)) IS TRUE
    ORDER BY c.lease_expires_at, c.claim_token
    LIMIT 8
    FOR UPDATE SKIP LOCKED
),
ended AS (
    DELETE FROM fencerow.ledger_claim
    WHERE claim_token = ANY (ARRAY(SELECT e.claim_token FROM expired e))
    RETURNING claim_epoch, outbox_ids
),
freed AS MATERIALIZED (
    SELECT claim_epoch, unnest(outbox_ids) AS outbox_id
    FROM ended
),
held AS MATERIALIZED (
    SELECT h.outbox_id
    FROM (
        SELECT unnest(s.outbox_ids) AS outbox_id
        FROM standing s
    ) h
    WHERE h.outbox_id NOT IN (SELECT f.outbox_id FROM freed f)
),
-- The floor, a due time below which a recent scan left nothing, spares the entries of finished rows that a held snapshot keeps in the
-- index. It is a hint: unless what lies above it fills the claim, the scan begins at the start.
above AS MATERIALIZED (
    SELECT p.outbox_id, p.next_retry_at, p.last_epoch, p.expiry_count, p.attempt_count, p.life, p.delivery_uncertain, p.reason
    FROM fencerow.ledger_pending p
    WHERE NOT @from_start::boolean
        AND p.instance_key = @instance_key::text
        AND p.next_retry_at >= @floor::timestamptz
        AND p.next_retry_at <= (SELECT at FROM moment)
        AND p.outbox_id NOT IN (SELECT h.outbox_id FROM held h)
    ORDER BY p.next_retry_at, p.outbox_id
    LIMIT @row_limit::integer
),
due AS MATERIALIZED (
    SELECT p.outbox_id, p.next_retry_at, p.last_epoch, p.expiry_count, p.attempt_count, p.life, p.delivery_uncertain, p.reason
    FROM fencerow.ledger_pending p
    WHERE ((SELECT count(*) FROM above) < @row_limit::integer OR EXISTS (SELECT FROM freed))
        AND p.instance_key = @instance_key::text
        AND p.next_retry_at <= (SELECT at FROM moment)
        AND p.outbox_id NOT IN (SELECT h.outbox_id FROM held h)
    ORDER BY p.next_retry_at, p.outbox_id
    LIMIT @row_limit::integer
),
marked AS (
    UPDATE fencerow.ledger_pending p
    SET
        attempt_count = least(p.attempt_count, 2147483646) + 1,
        expiry_count = least(p.expiry_count, 2147483646) + 1,
        delivery_uncertain = true,
        last_epoch = greatest(p.last_epoch, f.claim_epoch),
        next_retry_at = least(p.next_retry_at, m.at),
        outcome = 'retryable_failure',
        reason = 'lease_expired'
    FROM freed f, moment m
    WHERE p.outbox_id = f.outbox_id AND (p.instance_key = @instance_key::text) IS TRUE
    RETURNING
        p.outbox_id, p.next_retry_at, p.last_epoch, p.expiry_count, p.attempt_count, p.life, p.delivery_uncertain, p.reason
),
-- What was freed is as it is marked now, and due, also if it had been claimed by force before its time.
candidate AS NOT MATERIALIZED (
    SELECT a.*, false AS reclaimed
    FROM above a
    WHERE NOT EXISTS (SELECT FROM due)
    UNION ALL
    SELECT d.*, false
    FROM due d
    WHERE d.outbox_id NOT IN (SELECT f.outbox_id FROM freed f)
    UNION ALL
    SELECT k.*, true
    FROM marked k
),
-- Unless something was freed, candidates come from one scan and are in order and not too many.
front AS (
    (
        SELECT c.*
        FROM candidate c
        WHERE NOT EXISTS (SELECT FROM freed)
    )
    UNION ALL
    (
        SELECT c.*
        FROM candidate c
        WHERE EXISTS (SELECT FROM freed)
        ORDER BY c.next_retry_at, c.outbox_id
        LIMIT @row_limit::integer
    )
),
-- A row whose last two attempts ended by expiry is claimed alone: whatever kills its workers does not use up its neighbours' attempts.
suspect AS MATERIALIZED (
    SELECT c.next_retry_at, c.outbox_id
    FROM candidate c
    WHERE c.expiry_count >= 2
    ORDER BY c.next_retry_at, c.outbox_id
    LIMIT 1
),
picked AS (
    SELECT
        f.*,
        f.attempt_count > 0 OR f.life > 1 OR f.expiry_count > 0 OR f.delivery_uncertain OR f.reason IS NOT NULL AS seasoned
    FROM front f
    WHERE NOT EXISTS (SELECT FROM suspect)
        OR (f.next_retry_at, f.outbox_id) < (SELECT s.next_retry_at, s.outbox_id FROM suspect s)
        OR f.outbox_id = (SELECT c.outbox_id FROM candidate c ORDER BY c.next_retry_at, c.outbox_id LIMIT 1)
),
-- Most rows are as they were enqueued; what happened to the others is told apart.
summary AS MATERIALIZED (
    SELECT
        count(*)::integer AS row_count,
        max(p.last_epoch) AS last_epoch,
        max(p.next_retry_at)::timestamptz AS reached,
        array_agg(p.outbox_id) AS outbox_ids,
        array_agg(p.next_retry_at) AS due_times,
        array_agg(p.outbox_id) FILTER (WHERE p.reclaimed) AS reclaimed_ids,
        array_agg(p.outbox_id) FILTER (WHERE p.seasoned) AS seasoned_ids,
        array_agg(p.attempt_count::integer) FILTER (WHERE p.seasoned) AS attempt_counts,
        array_agg(p.life::integer) FILTER (WHERE p.seasoned) AS lives,
        array_agg(p.expiry_count::integer) FILTER (WHERE p.seasoned) AS expiry_counts,
        array_agg(p.delivery_uncertain) FILTER (WHERE p.seasoned) AS uncertain,
        array_agg(coalesce(p.reason, '')::text) FILTER (WHERE p.seasoned) AS reasons
    FROM picked p
),
claim AS (
    INSERT INTO fencerow.ledger_claim (
        claim_token, claim_epoch, claimed_at, lease_expires_at, instance_key, claimed_by, outbox_ids
    )
    SELECT
        @claim_token::uuid,
        greatest(
            (extract(epoch FROM m.at) * 1000000)::bigint,
            1 + s.last_epoch,
            1 + (SELECT coalesce(max(k.last_epoch), 0) FROM marked k),
            @min_epoch::bigint
        ),
        m.at,
        m.at + @lease::interval,
        @instance_key::text,
        @claimed_by::text,
        s.outbox_ids
    FROM moment m, summary s
    WHERE s.row_count > 0
    RETURNING claim_epoch, claimed_at, lease_expires_at
)
SELECT
    c.claim_epoch,
    c.claimed_at,
    c.lease_expires_at,
    s.row_count::integer AS row_count,
    (
        (SELECT count(*) FROM ended) = 8 OR EXISTS (SELECT FROM suspect) AND (SELECT count(*) FROM candidate) > s.row_count
    )::boolean AS cut,
    s.reached::timestamptz AS reached,
    s.outbox_ids::bigint[] AS outbox_ids,
    s.due_times::timestamptz[] AS due_times,
    coalesce(s.reclaimed_ids, '{}')::bigint[] AS reclaimed_ids,
    coalesce(s.seasoned_ids, '{}')::bigint[] AS seasoned_ids,
    coalesce(s.attempt_counts, '{}')::integer[] AS attempt_counts,
    coalesce(s.lives, '{}')::integer[] AS lives,
    coalesce(s.expiry_counts, '{}')::integer[] AS expiry_counts,
    coalesce(s.uncertain, '{}')::boolean[] AS uncertain,
    coalesce(s.reasons, '{}')::text[] AS reasons
FROM claim c, summary s;

-- name: ClaimOne :one
-- ClaimOne is ClaimBatch for one entry by its correlation id. It always returns one row: a claim, or what is in the way of one.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
),
entry AS MATERIALIZED (
    SELECT outbox_id
    FROM fencerow.ledger_outbox
    WHERE correlation_id = @correlation_id::text AND instance_key = @instance_key::text
),
pending AS MATERIALIZED (
    SELECT
        p.outbox_id, p.next_retry_at, p.last_epoch, p.expiry_count, p.attempt_count, p.life, p.delivery_uncertain, p.reason
    FROM fencerow.ledger_pending p
    JOIN entry e ON e.outbox_id = p.outbox_id
    WHERE (p.instance_key = @instance_key::text) IS TRUE
),
holder AS MATERIALIZED (
    SELECT claim_token
    FROM fencerow.ledger_claim
    WHERE instance_key = @instance_key::text AND outbox_ids @> ARRAY[(SELECT outbox_id FROM pending)]
),
-- Nothing is freed unless the row can then be claimed: locked, not on hold, and due or forced. What an expired claim held is due.
allowed AS MATERIALIZED (
    SELECT p.outbox_id, p.last_epoch
    FROM pending p, moment m
    WHERE current_setting('fencerow.locked', true) = @instance_key::text
        AND (p.next_retry_at <= m.at OR @force_due::boolean OR EXISTS (SELECT FROM holder))
),
expired AS MATERIALIZED (
    SELECT c.claim_token
    FROM fencerow.ledger_claim c
    WHERE c.claim_token IN (SELECT h.claim_token FROM holder h)
        AND c.instance_key = @instance_key::text
        AND c.lease_expires_at <= (SELECT at FROM moment)
        AND EXISTS (SELECT FROM allowed)
    FOR UPDATE SKIP LOCKED
),
ended AS (
    DELETE FROM fencerow.ledger_claim c
    USING expired e
    WHERE c.claim_token = e.claim_token
    RETURNING c.claim_epoch, c.outbox_ids
),
freed AS MATERIALIZED (
    SELECT claim_epoch, unnest(outbox_ids) AS outbox_id
    FROM ended
),
marked AS (
    UPDATE fencerow.ledger_pending p
    SET
        attempt_count = least(p.attempt_count, 2147483646) + 1,
        expiry_count = least(p.expiry_count, 2147483646) + 1,
        delivery_uncertain = true,
        last_epoch = greatest(p.last_epoch, f.claim_epoch),
        next_retry_at = least(p.next_retry_at, m.at),
        outcome = 'retryable_failure',
        reason = 'lease_expired'
    FROM freed f, moment m
    WHERE p.outbox_id = f.outbox_id AND (p.instance_key = @instance_key::text) IS TRUE
    RETURNING
        p.outbox_id, p.next_retry_at, p.last_epoch, p.expiry_count, p.attempt_count, p.life, p.delivery_uncertain, p.reason
),
claim AS (
    INSERT INTO fencerow.ledger_claim (
        claim_token, claim_epoch, claimed_at, lease_expires_at, instance_key, claimed_by, outbox_ids
    )
    SELECT
        @claim_token::uuid,
        greatest(
            (extract(epoch FROM m.at) * 1000000)::bigint,
            1 + a.last_epoch,
            1 + (SELECT coalesce(max(k.last_epoch), 0) FROM marked k),
            @min_epoch::bigint
        ),
        m.at,
        m.at + @lease::interval,
        @instance_key::text,
        @claimed_by::text,
        ARRAY[a.outbox_id]
    FROM allowed a, moment m
    WHERE NOT EXISTS (SELECT FROM holder) OR a.outbox_id IN (SELECT f.outbox_id FROM freed f)
    RETURNING claim_epoch, claimed_at, lease_expires_at
),
-- The row as it is now.
state AS (
    SELECT k.*
    FROM marked k
    JOIN pending p ON p.outbox_id = k.outbox_id
    UNION ALL
    SELECT p.*
    FROM pending p
    WHERE p.outbox_id NOT IN (SELECT k.outbox_id FROM marked k)
)
SELECT
    EXISTS (SELECT FROM claim) AS claimed,
    coalesce((SELECT c.claim_epoch FROM claim c), 0)::bigint AS claim_epoch,
    coalesce((SELECT c.claimed_at FROM claim c), m.at)::timestamptz AS claimed_at,
    coalesce((SELECT c.lease_expires_at FROM claim c), m.at)::timestamptz AS lease_expires_at,
    EXISTS (SELECT FROM freed f JOIN pending p ON p.outbox_id = f.outbox_id) AS reclaimed,
    EXISTS (SELECT FROM entry) AS known,
    EXISTS (SELECT FROM pending) AS unfinished,
    EXISTS (SELECT FROM pending p WHERE p.next_retry_at <= m.at) AS due,
    (
        NOT EXISTS (SELECT FROM entry) AND fencerow.foreign_owned(@correlation_id::text, @instance_key::text)
    )::boolean AS foreign_owned,
    coalesce(s.outbox_id, 0)::bigint AS outbox_id,
    coalesce(s.next_retry_at, m.at)::timestamptz AS next_retry_at,
    coalesce(s.attempt_count, 0)::integer AS attempt_count,
    coalesce(s.life, 1)::integer AS life,
    coalesce(s.expiry_count, 0)::integer AS expiry_count,
    coalesce(s.delivery_uncertain, false)::boolean AS delivery_uncertain,
    coalesce(s.reason, '')::text AS reason
FROM moment m
LEFT JOIN state s ON true;

-- name: ClaimEntries :many
-- ClaimEntries reads the entries of what a claim holds, by its token and after its transaction. Entries never change. They come in no order
-- that counts: sorting rows with payloads costs more than it costs the client. What may be absent comes as empty text, which no entry has: a
-- text that may be null, and a payload that is not read as the bytes it is, cost the client an object more for each row.
-- Plan: the claim by its key, then one scan of ledger_outbox_pkey a span.
WITH held AS MATERIALIZED (
    SELECT unnest(c.outbox_ids) AS outbox_id
    FROM fencerow.ledger_claim c
    WHERE c.claim_token = @claim_token::uuid AND c.instance_key = @instance_key::text
),
-- Ids that lie close are read as one span of the index: finding a row's place in it costs more than reading the row. A span is at least a
-- quarter full, so that others' rows between them are not read in vain for long.
bucket AS MATERIALIZED (
    SELECT min(h.outbox_id) AS low, max(h.outbox_id) AS high, array_agg(h.outbox_id) AS outbox_ids
    FROM held h
    GROUP BY h.outbox_id >> 8
    ORDER BY low
),
span AS MATERIALIZED (
    SELECT b.low, b.high
    FROM bucket b
    WHERE b.high - b.low < 4 * cardinality(b.outbox_ids)
    UNION ALL
    SELECT i.outbox_id, i.outbox_id
    FROM bucket b, unnest(b.outbox_ids) AS i (outbox_id)
    WHERE b.high - b.low >= 4 * cardinality(b.outbox_ids)
)
SELECT
    o.outbox_id,
    o.correlation_id,
    o.entry_kind,
    coalesce(o.slot_id, '')::text AS slot_id,
    o.cash_delta::text AS cash_delta,
    coalesce(o.currency, '')::text AS currency,
    o.payload::json AS payload,
    coalesce(o.traceparent, '')::text AS traceparent,
    o.enqueued_at
FROM span s
JOIN fencerow.ledger_outbox o ON o.outbox_id BETWEEN s.low AND s.high
WHERE (o.outbox_id IN (SELECT h.outbox_id FROM held h)) IS TRUE AND (o.instance_key = @instance_key::text) IS TRUE;

-- name: ClaimLock :many
-- ClaimLock locks the claim in a statement of its own, so that outcome, release and reclaim of one claim are serial and the next
-- statement's snapshot sees what the one before did.
SELECT claim_epoch
FROM fencerow.ledger_claim
WHERE claim_token = @claim_token::uuid AND instance_key = @instance_key::text
FOR UPDATE;

-- name: ClaimRecord :one
-- ClaimRecord is the compare-and-set of a batch of outcomes on the claim that ClaimLock has locked. An item takes effect only if the
-- claim still holds its row. Terminal items are given as runs of ids, retried ones one by one; a terminal one without details is completed.
-- It returns how many took effect, their ids unless all did, and those whose snapshot was refused; the rest is lost.
-- Plan: ledger_pending_pkey once a run; hashed subplans and hash joins over the items.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
),
claim AS MATERIALIZED (
    SELECT claim_epoch, outbox_ids
    FROM fencerow.ledger_claim
    WHERE claim_token = @claim_token::uuid AND instance_key = @instance_key::text
    FOR UPDATE
),
held AS MATERIALIZED (
    SELECT unnest(outbox_ids) AS outbox_id
    FROM claim
),
run AS MATERIALIZED (
    SELECT unnest(@finished_lows::bigint[]) AS low, unnest(@finished_highs::bigint[]) AS high
),
detail AS MATERIALIZED (
    SELECT
        unnest(@detail_ids::bigint[]) AS outbox_id,
        unnest(@outcomes::text[]) AS outcome,
        unnest(@reasons::text[]) AS reason,
        unnest(@ledger_refs::text[]) AS ledger_ref
),
retry AS MATERIALIZED (
    SELECT
        unnest(@retried_ids::bigint[]) AS outbox_id,
        unnest(@retry_reasons::text[]) AS reason,
        unnest(@delays::bigint[]) AS delay,
        unnest(@charges::integer[]) AS charge,
        unnest(@uncertain::boolean[]) AS uncertain
),
-- Ids that follow one another are deleted as one run of the index: finding a row's place in it costs more than the row. IS TRUE keeps the
-- test for the claim a hashed subplan; as a join the planner may pick a nested loop over a thousand by a thousand. NULLIF has it expect the
-- few rows that a run really has.
finished AS (
    DELETE FROM fencerow.ledger_pending p
    USING run r
    WHERE p.outbox_id BETWEEN r.low AND r.high
        AND nullif(p.instance_key, '') = @instance_key::text
        AND (p.outbox_id IN (SELECT h.outbox_id FROM held h)) IS TRUE
    RETURNING p.outbox_id, p.life, p.attempt_count, p.slot_id, p.currency
),
written AS (
    INSERT INTO fencerow.ledger_outcome (
        outbox_id, life, instance_key, status, outcome, reason, attempt_count, claim_epoch, ledger_ref, outcome_at
    )
    SELECT
        f.outbox_id,
        f.life,
        @instance_key::text,
        CASE WHEN d.outcome = 'duplicate_completed' THEN 'completed' ELSE coalesce(d.outcome, 'completed') END,
        coalesce(d.outcome, 'completed'),
        nullif(d.reason, ''),
        least(f.attempt_count, 2147483646) + 1,
        c.claim_epoch,
        nullif(d.ledger_ref, ''),
        m.at
    FROM finished f
    LEFT JOIN detail d ON d.outbox_id = f.outbox_id, claim c, moment m
    RETURNING outbox_id, status
),
retried AS (
    UPDATE fencerow.ledger_pending p
    SET
        attempt_count = greatest(0, least(p.attempt_count::bigint + r.charge, 2147483647))::integer,
        next_retry_at = m.at + r.delay * interval '1 microsecond',
        last_epoch = greatest(p.last_epoch, c.claim_epoch),
        expiry_count = 0,
        delivery_uncertain = p.delivery_uncertain OR r.uncertain,
        outcome = 'retryable_failure',
        reason = r.reason
    FROM retry r, claim c, moment m
    WHERE p.outbox_id = r.outbox_id
        AND (p.instance_key = @instance_key::text) IS TRUE
        AND (p.outbox_id IN (SELECT h.outbox_id FROM held h)) IS TRUE
    RETURNING p.outbox_id
),
applied AS MATERIALIZED (
    SELECT (SELECT count(*) FROM written) + (SELECT count(*) FROM retried) AS n
),
remaining AS MATERIALIZED (
    SELECT h.outbox_id
    FROM held h
    WHERE (SELECT n FROM applied) < (SELECT count(*) FROM held)
        AND h.outbox_id NOT IN (
            SELECT unnest(ARRAY(SELECT generate_series(r.low, r.high) FROM run r) || @retried_ids::bigint[])
        )
),
shrunk AS (
    UPDATE fencerow.ledger_claim c
    SET outbox_ids = (SELECT array_agg(r.outbox_id) FROM remaining r)
    WHERE c.claim_token = @claim_token::uuid
        AND c.instance_key = @instance_key::text
        AND EXISTS (SELECT FROM remaining)
        AND (SELECT count(*) FROM remaining) < (SELECT count(*) FROM held)
),
ended AS (
    DELETE FROM fencerow.ledger_claim c
    WHERE c.claim_token = @claim_token::uuid
        AND c.instance_key = @instance_key::text
        AND NOT EXISTS (SELECT FROM remaining)
),
snapshot AS MATERIALIZED (
    SELECT
        unnest(@snapshot_outbox_ids::bigint[]) AS outbox_id,
        unnest(@snapshot_slot_ids::text[]) AS slot_id,
        unnest(@snapshot_currencies::text[]) AS currency,
        unnest(@snapshot_balances::text[]) AS cash_balance,
        unnest(@snapshot_versions::bigint[]) AS ledger_version
),
-- A snapshot counts only if its entry really ended here, in success, and is of the entry's own slot and currency.
accepted AS MATERIALIZED (
    SELECT s.outbox_id, s.slot_id, s.currency, s.cash_balance, s.ledger_version
    FROM snapshot s
    JOIN finished f ON f.outbox_id = s.outbox_id
    WHERE (s.outbox_id IN (SELECT w.outbox_id FROM written w WHERE w.status = 'completed')) IS TRUE
        AND f.slot_id = s.slot_id
        AND (f.currency IS NULL OR f.currency = s.currency)
),
newest AS MATERIALIZED (
    SELECT DISTINCT ON (a.slot_id) a.slot_id, a.currency, (a.cash_balance)::numeric AS cash_balance, a.ledger_version
    FROM accepted a
    ORDER BY a.slot_id, a.ledger_version DESC, a.outbox_id DESC
),
-- A slot whose entries have finished without a snapshot is known too. Nearly all are there already, and to look costs less than to be
-- refused; as a scalar each is one probe of the primary key, where a join might read all slots of the instance. Slots are told from one
-- another by hashing; with the order in which they are written, by sorting every row.
seen AS MATERIALIZED (
    SELECT DISTINCT f.slot_id
    FROM finished f
),
-- Both kinds in one order, or two records that meet in new slots deadlock.
slot AS (
    INSERT INTO fencerow.ledger_slot AS k (instance_key, slot_id, currency, cash_balance, ledger_version, updated_at)
    SELECT @instance_key::text, t.slot_id, t.currency, t.cash_balance, t.ledger_version, t.updated_at
    FROM (
        SELECT n.slot_id, n.currency, n.cash_balance, n.ledger_version, m.at AS updated_at
        FROM newest n, moment m
        UNION ALL
        SELECT s.slot_id, NULL, NULL, NULL, NULL
        FROM seen s
        WHERE s.slot_id IS NOT NULL
            AND (s.slot_id IN (SELECT n.slot_id FROM newest n)) IS NOT TRUE
            AND (SELECT true FROM fencerow.ledger_slot o WHERE o.instance_key = @instance_key::text AND o.slot_id = s.slot_id) IS NULL
    ) t
    ORDER BY t.slot_id
    ON CONFLICT (instance_key, slot_id) DO UPDATE
    SET
        currency = excluded.currency,
        cash_balance = excluded.cash_balance,
        ledger_version = excluded.ledger_version,
        updated_at = excluded.updated_at
    WHERE excluded.ledger_version IS NOT NULL AND (k.ledger_version IS NULL OR k.ledger_version < excluded.ledger_version)
),
-- A skip is resolved by its own entry's success if that has no slot, or no snapshot, or one that was accepted; otherwise it is marked as
-- booked and waits for the next accepted snapshot of its slot. Plan: one probe of ledger_skip_open_entry a success; the booked ones by
-- ledger_skip_booked. However many skips are open, they are not read.
-- (IS TRUE keeps indexes that begin with the instance out of the choice: they hold all open skips.)
settled AS MATERIALIZED (
    SELECT
        k.outbox_id,
        (
            k.slot_id IS NULL
            OR w.outbox_id NOT IN (SELECT s.outbox_id FROM snapshot s)
            OR k.slot_id IN (SELECT a.slot_id FROM accepted a)
        ) AS resolves
    FROM written w
    JOIN fencerow.ledger_skip k ON k.outbox_id = w.outbox_id AND k.resolved_at IS NULL
    WHERE w.status = 'completed'
        AND (k.instance_key = @instance_key::text) IS TRUE
        AND (SELECT EXISTS (SELECT FROM fencerow.ledger_skip WHERE instance_key = @instance_key::text AND resolved_at IS NULL))
    UNION ALL
    SELECT k.outbox_id, true
    FROM fencerow.ledger_skip k
    WHERE k.instance_key = @instance_key::text
        AND k.resolved_at IS NULL
        AND k.booked
        AND k.slot_id IN (SELECT a.slot_id FROM accepted a)
),
resolved AS (
    UPDATE fencerow.ledger_skip k
    SET booked = true, resolved_at = CASE WHEN t.resolves THEN m.at END
    FROM settled t, moment m
    WHERE k.outbox_id = t.outbox_id AND k.resolved_at IS NULL AND (k.instance_key = @instance_key::text) IS TRUE
)
SELECT
    (SELECT n FROM applied)::integer AS applied_count,
    (
        SELECT coalesce(array_agg(a.outbox_id), '{}')
        FROM (SELECT w.outbox_id FROM written w UNION ALL SELECT t.outbox_id FROM retried t) a
        WHERE (SELECT n FROM applied) < @item_count::integer
    )::bigint[] AS applied_ids,
    (
        SELECT coalesce(array_agg(s.outbox_id), '{}')
        FROM snapshot s
        WHERE s.outbox_id IN (SELECT w.outbox_id FROM written w) AND s.outbox_id NOT IN (SELECT a.outbox_id FROM accepted a)
    )::bigint[] AS snapshot_rejected_ids;

-- name: ClaimRelease :one
-- ClaimRelease gives rows of the claim that ClaimLock has locked back: the row is as before, but for the epoch and for what may have
-- been sent. It returns the ids that the claim still held.
WITH claim AS MATERIALIZED (
    SELECT claim_epoch, outbox_ids
    FROM fencerow.ledger_claim
    WHERE claim_token = @claim_token::uuid AND instance_key = @instance_key::text
    FOR UPDATE
),
held AS MATERIALIZED (
    SELECT unnest(outbox_ids) AS outbox_id
    FROM claim
),
given AS MATERIALIZED (
    SELECT unnest(@outbox_ids::bigint[]) AS outbox_id, unnest(@uncertain::boolean[]) AS uncertain
),
item AS MATERIALIZED (
    SELECT g.outbox_id, g.uncertain
    FROM given g
    WHERE NOT @everything::boolean AND (g.outbox_id IN (SELECT h.outbox_id FROM held h)) IS TRUE
    UNION ALL
    SELECT h.outbox_id, @all_uncertain::boolean
    FROM held h
    WHERE @everything::boolean
),
released AS (
    UPDATE fencerow.ledger_pending p
    SET
        last_epoch = greatest(p.last_epoch, c.claim_epoch),
        delivery_uncertain = p.delivery_uncertain OR i.uncertain
    FROM item i, claim c
    WHERE p.outbox_id = i.outbox_id AND (p.instance_key = @instance_key::text) IS TRUE
    RETURNING p.outbox_id
),
remaining AS MATERIALIZED (
    SELECT h.outbox_id
    FROM held h
    WHERE h.outbox_id NOT IN (SELECT i.outbox_id FROM item i)
),
shrunk AS (
    UPDATE fencerow.ledger_claim c
    SET outbox_ids = (SELECT array_agg(r.outbox_id) FROM remaining r)
    WHERE c.claim_token = @claim_token::uuid
        AND c.instance_key = @instance_key::text
        AND EXISTS (SELECT FROM remaining)
        AND EXISTS (SELECT FROM item)
),
ended AS (
    DELETE FROM fencerow.ledger_claim c
    WHERE c.claim_token = @claim_token::uuid
        AND c.instance_key = @instance_key::text
        AND NOT EXISTS (SELECT FROM remaining)
)
SELECT (SELECT coalesce(array_agg(r.outbox_id ORDER BY r.outbox_id), '{}') FROM released r)::bigint[] AS released_ids;

-- name: ClaimForget :one
-- ClaimForget takes rows that cannot be ended out of the claim that ClaimLock has locked, and deletes them: one whose entry was truncated,
-- or not restored, would be claimed first for ever, and one put beside its own finished life by hand could never be recorded. It returns
-- how many there were.
WITH held AS MATERIALIZED (
    SELECT unnest(c.outbox_ids) AS outbox_id
    FROM fencerow.ledger_claim c
    WHERE c.claim_token = @claim_token::uuid AND c.instance_key = @instance_key::text
),
orphan AS MATERIALIZED (
    SELECT h.outbox_id
    FROM held h
    WHERE NOT EXISTS (
            SELECT FROM fencerow.ledger_outbox o WHERE o.outbox_id = h.outbox_id AND o.instance_key = @instance_key::text
        )
        OR EXISTS (
            SELECT
            FROM fencerow.ledger_pending p
            JOIN fencerow.ledger_outcome l ON l.outbox_id = p.outbox_id AND l.life = p.life
            WHERE p.outbox_id = h.outbox_id AND (p.instance_key = @instance_key::text) IS TRUE AND l.instance_key = @instance_key::text
        )
),
forgotten AS (
    DELETE FROM fencerow.ledger_pending p
    USING orphan o
    WHERE p.outbox_id = o.outbox_id AND (p.instance_key = @instance_key::text) IS TRUE
),
remaining AS MATERIALIZED (
    SELECT h.outbox_id
    FROM held h
    WHERE h.outbox_id NOT IN (SELECT o.outbox_id FROM orphan o)
),
shrunk AS (
    UPDATE fencerow.ledger_claim c
    SET outbox_ids = (SELECT array_agg(r.outbox_id) FROM remaining r)
    WHERE c.claim_token = @claim_token::uuid
        AND c.instance_key = @instance_key::text
        AND EXISTS (SELECT FROM remaining)
        AND EXISTS (SELECT FROM orphan)
),
ended AS (
    DELETE FROM fencerow.ledger_claim c
    WHERE c.claim_token = @claim_token::uuid
        AND c.instance_key = @instance_key::text
        AND NOT EXISTS (SELECT FROM remaining)
)
SELECT (SELECT count(*) FROM orphan)::integer AS orphans;

-- name: ClaimLostReasons :many
-- ClaimLostReasons says what became of rows that a claim no longer holds, read after the transaction that found out.
SELECT
    g.outbox_id::bigint AS outbox_id,
    (o.outbox_id IS NOT NULL)::boolean AS known,
    (p.outbox_id IS NOT NULL)::boolean AS unfinished,
    coalesce(
        CASE
            WHEN p.outbox_id IS NULL THEN f.claim_epoch
            ELSE coalesce(
                (
                    SELECT max(c.claim_epoch)
                    FROM fencerow.ledger_claim c
                    WHERE c.instance_key = @instance_key::text AND c.outbox_ids @> ARRAY[p.outbox_id]
                ),
                p.last_epoch
            )
        END,
        0
    )::bigint AS claim_epoch,
    coalesce(CASE WHEN p.outbox_id IS NULL THEN f.claim_epoch ELSE p.last_epoch END, 0)::bigint AS recorded_epoch,
    coalesce(CASE WHEN p.outbox_id IS NULL THEN f.outcome ELSE p.outcome END, '')::text AS outcome,
    coalesce(CASE WHEN p.outbox_id IS NULL THEN f.reason ELSE p.reason END, '')::text AS reason
FROM (SELECT unnest(@outbox_ids::bigint[]) AS outbox_id) g
LEFT JOIN fencerow.ledger_outbox o ON o.outbox_id = g.outbox_id AND o.instance_key = @instance_key::text
LEFT JOIN fencerow.ledger_pending p ON p.outbox_id = g.outbox_id AND (p.instance_key = @instance_key::text) IS TRUE
LEFT JOIN LATERAL (
    SELECT l.claim_epoch, l.outcome, l.reason
    FROM fencerow.ledger_outcome l
    WHERE l.outbox_id = g.outbox_id AND l.instance_key = @instance_key::text
    ORDER BY l.life DESC
    LIMIT 1
) f ON true;

-- name: ClaimList :many
-- ClaimList lists the claims of an instance that stand.
SELECT
    claimed_by,
    claim_epoch,
    cardinality(outbox_ids)::integer AS row_count,
    claimed_at,
    (clock_timestamp() - claimed_at)::interval AS age,
    (lease_expires_at - clock_timestamp())::interval AS remaining
FROM fencerow.ledger_claim
WHERE instance_key = @instance_key::text
ORDER BY lease_expires_at, claim_token;
