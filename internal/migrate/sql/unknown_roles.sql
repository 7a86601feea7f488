-- Who is given instances under a name that no role has: most often one that was misspelt.
SELECT DISTINCT m.role_name::text
FROM fencerow.ledger_role m
WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = m.role_name)
ORDER BY 1
