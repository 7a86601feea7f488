-- name: DoctorServer :one
-- DoctorServer reads what the server says about itself. It needs no schema, so that it also works where nothing was migrated yet.
SELECT
    current_setting('server_version_num')::integer AS version,
    (current_setting('server_encoding') = 'UTF8')::boolean AS utf8,
    (pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean)::boolean AS read_only,
    current_setting('fsync')::boolean AS fsync,
    (current_setting('synchronous_commit') <> 'off')::boolean AS synchronous_commit,
    current_setting('autovacuum')::boolean AS autovacuum;

-- name: DoctorClock :one
-- DoctorClock is a statement of its own, so that the client can bound when the clock was read.
SELECT clock_timestamp()::timestamptz AS now;

-- name: DoctorTables :many
-- DoctorTables reads the state of the tables that change. The numbers are estimates of the statistics collector.
SELECT
    c.relname::text AS name,
    coalesce(s.n_live_tup, 0)::bigint AS live_rows,
    coalesce(s.n_dead_tup, 0)::bigint AS dead_rows,
    (coalesce(c.reloptions, '{}') && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off'])::boolean AS autovacuum_off
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = c.oid
WHERE n.nspname = 'fencerow' AND c.relkind = 'r' AND c.relname LIKE 'ledger\_%'
ORDER BY c.relname;

-- name: DoctorInvalidIndexes :one
-- DoctorInvalidIndexes counts what a failed concurrent build left behind: such an index is kept up to date but never used.
SELECT count(*) AS invalid
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'fencerow' AND NOT (i.indisvalid AND i.indisready);

-- name: DoctorHorizon :many
-- DoctorHorizon lists what keeps dead rows of this database from being removed, the oldest first: open transactions, prepared ones, and
-- replication slots. The age is in transactions; held is zero where the server does not know since when.
SELECT
    h.kind::text AS kind,
    h.pid::integer AS pid,
    h.age::bigint AS age,
    h.held::interval AS held
FROM (
    SELECT
        'transaction' AS kind,
        a.pid,
        greatest(age(a.backend_xmin), age(a.backend_xid)) AS age,
        coalesce(clock_timestamp() - a.xact_start, '0') AS held
    FROM pg_catalog.pg_stat_activity a
    WHERE (a.datname = current_database() OR a.datname IS NULL)
        AND coalesce(a.backend_xmin, a.backend_xid) IS NOT NULL
        AND a.pid <> pg_backend_pid()
        AND coalesce(a.backend_type, '') <> 'autovacuum worker'
    UNION ALL
    SELECT 'prepared_transaction', 0, age(p.transaction), clock_timestamp() - p.prepared
    FROM pg_catalog.pg_prepared_xacts p
    WHERE p.database = current_database()
    UNION ALL
    SELECT 'replication_slot', coalesce(r.active_pid, 0), age(r.xmin), '0'::interval
    FROM pg_catalog.pg_replication_slots r
    WHERE r.xmin IS NOT NULL
) AS h (kind, pid, age, held)
ORDER BY h.age DESC, h.held DESC, h.pid
LIMIT 100;

-- name: DoctorHiddenSessions :one
-- DoctorHiddenSessions counts the sessions of this database whose transactions this role may not see.
SELECT count(*) AS hidden
FROM pg_catalog.pg_stat_activity a
WHERE a.datname = current_database() AND a.query = '<insufficient privilege>';

-- name: DoctorGrants :many
-- DoctorGrants lists what a daemon's role must be granted and this role is not: what docs/operations.md grants, which a test compares. It
-- looks names up in the catalog, so that it answers without USAGE on the schema too; what is not there is not listed.
WITH needed AS (
    SELECT unnest(ARRAY[
            'USAGE ON SCHEMA fencerow',
            'SELECT ON fencerow.ledger_outbox',
            'INSERT ON fencerow.ledger_outbox',
            'DELETE ON fencerow.ledger_outbox',
            'SELECT ON fencerow.ledger_pending',
            'INSERT ON fencerow.ledger_pending',
            'UPDATE ON fencerow.ledger_pending',
            'DELETE ON fencerow.ledger_pending',
            'SELECT ON fencerow.ledger_claim',
            'INSERT ON fencerow.ledger_claim',
            'UPDATE ON fencerow.ledger_claim',
            'DELETE ON fencerow.ledger_claim',
            'SELECT ON fencerow.ledger_outcome',
            'INSERT ON fencerow.ledger_outcome',
            'DELETE ON fencerow.ledger_outcome',
            'SELECT ON fencerow.ledger_instance',
            'INSERT ON fencerow.ledger_instance',
            'UPDATE ON fencerow.ledger_instance',
            'SELECT ON fencerow.ledger_slot',
            'INSERT ON fencerow.ledger_slot',
            'UPDATE ON fencerow.ledger_slot',
            'SELECT ON fencerow.ledger_skip',
            'INSERT ON fencerow.ledger_skip',
            'UPDATE ON fencerow.ledger_skip',
            'DELETE ON fencerow.ledger_skip',
            'SELECT ON fencerow.schema_version',
            'USAGE ON SEQUENCE fencerow.ledger_outbox_outbox_id_seq',
            'EXECUTE ON FUNCTION fencerow.foreign_owned(text, text, name)',
            'EXECUTE ON FUNCTION fencerow.legacy_count()'
    ]) AS missing
),
part AS (
    SELECT
        missing,
        split_part(missing, ' ', 1) AS privilege,
        substring(missing FROM ' ON ([A-Z]*)') AS kind,
        substring(missing FROM 'fencerow[.]([a-z_]+)') AS name
    FROM needed
)
SELECT p.missing::text AS missing
FROM part p
JOIN pg_catalog.pg_namespace s ON s.nspname = 'fencerow'
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid AND c.relname = p.name
LEFT JOIN pg_catalog.pg_proc f ON f.pronamespace = s.oid AND f.proname = p.name
WHERE NOT CASE p.kind
    WHEN 'SCHEMA' THEN has_schema_privilege(s.oid, p.privilege)
    WHEN 'SEQUENCE' THEN has_sequence_privilege(c.oid, p.privilege)
    WHEN 'FUNCTION' THEN has_function_privilege(f.oid, p.privilege)
    ELSE has_table_privilege(c.oid, p.privilege)
END
ORDER BY 1;

-- name: DoctorWalls :one
-- DoctorWalls reads how the walls between the instances stand, and this role beside them. A table counts as guarded if it has the policy
-- of its name, and as widened if another policy lets more through. Who else is not mapped, only a role sees that sees all of ledger_role.
WITH wall AS (
    SELECT
        c.relrowsecurity AS up,
        EXISTS (
            SELECT FROM pg_catalog.pg_policy p
            WHERE p.polrelid = c.oid AND p.polname = c.relname || '_wall' AND p.polpermissive AND p.polcmd = '*'
        ) AS guarded,
        EXISTS (
            SELECT FROM pg_catalog.pg_policy p
            WHERE p.polrelid = c.oid AND p.polname <> c.relname || '_wall' AND p.polpermissive
        ) AS widened
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'fencerow' AND c.relkind = 'r' AND c.relname LIKE 'ledger\_%' AND c.relname <> 'ledger_role'
),
writer AS (
    SELECT a.rolname, a.rolsuper OR a.rolbypassrls OR pg_has_role(a.oid, c.relowner, 'USAGE') AS unbound
    FROM pg_catalog.pg_roles a, pg_catalog.pg_class c
    WHERE c.oid = 'fencerow.ledger_outbox'::regclass AND has_table_privilege(a.oid, c.oid, 'INSERT') AND a.rolcanlogin
)
SELECT
    count(*)::integer AS tables,
    (count(*) FILTER (WHERE w.up))::integer AS up,
    ((count(*) FILTER (WHERE NOT w.guarded)) + CASE WHEN EXISTS (
        SELECT FROM pg_catalog.pg_policy p
        WHERE p.polrelid = 'fencerow.ledger_role'::regclass AND p.polname = 'ledger_role_wall'
    ) THEN 0 ELSE 1 END)::integer AS unguarded,
    (count(*) FILTER (WHERE w.widened))::integer AS widened,
    EXISTS (SELECT FROM writer r WHERE r.rolname = current_user AND r.unbound) AS unbound,
    EXISTS (
        SELECT
        FROM fencerow.ledger_role m
        WHERE m.role_name = current_user AND m.instance_key = @instance_key::text
    ) AS mapped,
    CASE WHEN row_security_active('fencerow.ledger_role') THEN 0 ELSE (
        SELECT count(*)
        FROM writer r
        WHERE NOT r.unbound AND NOT EXISTS (SELECT FROM fencerow.ledger_role m WHERE m.role_name = r.rolname)
    ) END::integer AS strangers
FROM wall w;
