-- Who may log in and use one of the tables, and sees nothing of them behind the walls, having no instance.
SELECT r.rolname::text
FROM pg_roles r
WHERE r.rolcanlogin
    AND NOT r.rolsuper
    AND NOT r.rolbypassrls
    AND NOT EXISTS (SELECT FROM fencerow.ledger_role m WHERE m.role_name = r.rolname)
    AND EXISTS (
        SELECT
        FROM pg_class c
        WHERE c.relnamespace = to_regnamespace('fencerow')
            AND c.relkind = 'r'
            AND c.relname LIKE 'ledger\_%'
            AND c.relname <> 'ledger_role'
            AND has_table_privilege(r.oid, c.oid, 'SELECT, INSERT, UPDATE, DELETE')
            AND NOT pg_has_role(r.oid, c.relowner, 'USAGE')
    )
ORDER BY 1
