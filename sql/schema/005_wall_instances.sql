-- Walls between the instances, for those who want them: row-level security by the role that asks. They are down until "fencerow migrate
-- walls up" enables row security on the tables; until then the policies mean nothing.
--
-- Row security is not forced on the owner: the two functions below must see what their callers may not, and so must a migration.
SET LOCAL lock_timeout = '5s';

-- Which role works for which instances; a role may have several. A role that is not here sees nothing once the walls are up.
CREATE TABLE fencerow.ledger_role (
    role_name name NOT NULL,
    instance_key fencerow.instance_key NOT NULL,
    CONSTRAINT ledger_role_pkey PRIMARY KEY (role_name, instance_key)
);

-- Every policy below reads it with the rights of whoever asks. Nobody learns more from it than where they stand themselves.
ALTER TABLE fencerow.ledger_role ENABLE ROW LEVEL SECURITY;
CREATE POLICY ledger_role_wall ON fencerow.ledger_role FOR SELECT USING (role_name = current_user);
GRANT SELECT ON fencerow.ledger_role TO PUBLIC;

-- Whether the entry is there and of that instance. Volatile, so that it also sees an entry inserted earlier in the same statement. It is
-- for the policies: without it a row of one's own could take the place of another's under its number, and his would be refused.
CREATE FUNCTION fencerow.owns_entry(outbox_id bigint, instance_key text) RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM fencerow.ledger_outbox o WHERE o.outbox_id = $1 AND o.instance_key = $2)
$$;

-- The array is read once a statement, and coalesce keeps the test from the choice of an index, which the statement's own test of
-- instance_key leads: every plan is as it is without the walls. Rejected: IN (SELECT ...), which hashes it anew for each table of a statement.
CREATE POLICY ledger_instance_wall ON fencerow.ledger_instance USING (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
);
CREATE POLICY ledger_claim_wall ON fencerow.ledger_claim USING (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
);
CREATE POLICY ledger_slot_wall ON fencerow.ledger_slot USING (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
);
CREATE POLICY ledger_pending_wall ON fencerow.ledger_pending USING (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
) WITH CHECK (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
    AND fencerow.owns_entry(outbox_id, instance_key)
);
CREATE POLICY ledger_skip_wall ON fencerow.ledger_skip USING (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
) WITH CHECK (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
    AND fencerow.owns_entry(outbox_id, instance_key)
);
-- An outcome is never recorded in the statement that enqueues, so that a plain look does, at a third of the cost.
CREATE POLICY ledger_outcome_wall ON fencerow.ledger_outcome USING (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
) WITH CHECK (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
    AND EXISTS (
        SELECT FROM fencerow.ledger_outbox o
        WHERE o.outbox_id = ledger_outcome.outbox_id AND o.instance_key = ledger_outcome.instance_key
    )
);
-- A number that was not given out yet would be another's to come.
CREATE POLICY ledger_outbox_wall ON fencerow.ledger_outbox USING (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
) WITH CHECK (
    coalesce(instance_key = ANY (ARRAY(SELECT r.instance_key::text FROM fencerow.ledger_role r WHERE r.role_name = current_user)), false)
    AND outbox_id <= pg_sequence_last_value('fencerow.ledger_outbox_outbox_id_seq')
);
-- What is left of rows without an owner is nobody's.
CREATE POLICY ledger_legacy_wall ON fencerow.ledger_legacy USING (false);

-- The one bit that a refusal of a targeted call needs: whether a correlation id exists under another owner or none. Behind the walls it is
-- told to a role that works for the instance it asks for, or that the walls do not bind. In here current_user is the owner, so the asker
-- comes as an argument; it must be one that the session may be.
CREATE FUNCTION fencerow.foreign_owned(correlation_id text, instance_key text, asker name DEFAULT current_user) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_class t WHERE t.oid = 'fencerow.ledger_outbox'::regclass AND t.relrowsecurity)
        AND NOT (
            pg_has_role(session_user, $3, 'MEMBER')
            AND (
                EXISTS (SELECT FROM fencerow.ledger_role r WHERE r.role_name = $3 AND r.instance_key = $2)
                OR EXISTS (
                    SELECT
                    FROM pg_roles a, pg_class t
                    WHERE a.rolname = $3
                        AND t.oid = 'fencerow.ledger_outbox'::regclass
                        AND (a.rolsuper OR a.rolbypassrls OR pg_has_role(a.oid, t.relowner, 'USAGE'))
                )
            )
        )
    THEN
        RAISE EXCEPTION 'fencerow: this role does not work for this instance' USING
            ERRCODE = '42501', HINT = 'Give the role the instance in fencerow.ledger_role.';
    END IF;
    RETURN EXISTS (
        SELECT FROM fencerow.ledger_outbox o WHERE o.correlation_id = $1 AND o.instance_key IS NOT NULL AND o.instance_key <> $2
    ) OR EXISTS (
        SELECT FROM fencerow.ledger_outbox o WHERE o.correlation_id = $1 AND o.instance_key IS NULL
    );
END;
$$;

-- How many entries have no owner, by the index ledger_outbox_unowned.
CREATE FUNCTION fencerow.legacy_count() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) FROM fencerow.ledger_outbox o WHERE o.instance_key IS NULL
$$;

REVOKE EXECUTE ON FUNCTION fencerow.foreign_owned(text, text, name), fencerow.legacy_count() FROM PUBLIC;

-- Whoever could read all entries until now, and so knew as much, goes on without a new grant.
DO $$
DECLARE
    v_role oid;
BEGIN
    FOR v_role IN
        SELECT DISTINCT a.grantee
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'fencerow.ledger_outbox'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner
    LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION fencerow.foreign_owned(text, text, name), fencerow.legacy_count() TO '
            || CASE v_role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(v_role)) END;
    END LOOP;
END;
$$;

---- create above / drop below ----

SET LOCAL lock_timeout = '5s';

ALTER TABLE fencerow.ledger_instance DISABLE ROW LEVEL SECURITY;
ALTER TABLE fencerow.ledger_claim DISABLE ROW LEVEL SECURITY;
ALTER TABLE fencerow.ledger_pending DISABLE ROW LEVEL SECURITY;
ALTER TABLE fencerow.ledger_outcome DISABLE ROW LEVEL SECURITY;
ALTER TABLE fencerow.ledger_slot DISABLE ROW LEVEL SECURITY;
ALTER TABLE fencerow.ledger_skip DISABLE ROW LEVEL SECURITY;
ALTER TABLE fencerow.ledger_outbox DISABLE ROW LEVEL SECURITY;
ALTER TABLE fencerow.ledger_legacy DISABLE ROW LEVEL SECURITY;

DROP POLICY ledger_instance_wall ON fencerow.ledger_instance;
DROP POLICY ledger_claim_wall ON fencerow.ledger_claim;
DROP POLICY ledger_pending_wall ON fencerow.ledger_pending;
DROP POLICY ledger_outcome_wall ON fencerow.ledger_outcome;
DROP POLICY ledger_slot_wall ON fencerow.ledger_slot;
DROP POLICY ledger_skip_wall ON fencerow.ledger_skip;
DROP POLICY ledger_outbox_wall ON fencerow.ledger_outbox;
DROP POLICY ledger_legacy_wall ON fencerow.ledger_legacy;
DROP FUNCTION fencerow.foreign_owned(text, text, name);
DROP FUNCTION fencerow.legacy_count();
DROP FUNCTION fencerow.owns_entry(bigint, text);
DROP TABLE fencerow.ledger_role;
