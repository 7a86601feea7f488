-- The statements that put the walls between the instances up ($1) or down, one for each table that stands otherwise. The table of the roles
-- has its wall always.
SELECT 'ALTER TABLE ' || c.oid::regclass::text || CASE WHEN $1::boolean THEN ' ENABLE' ELSE ' DISABLE' END || ' ROW LEVEL SECURITY'
FROM pg_class c
WHERE c.relnamespace = to_regnamespace('fencerow')
    AND c.relkind = 'r'
    AND c.relname LIKE 'ledger\_%'
    AND c.relname <> 'ledger_role'
    AND c.relrowsecurity <> $1::boolean
ORDER BY c.relname
