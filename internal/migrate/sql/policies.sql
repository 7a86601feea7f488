SELECT p.polname::text
FROM pg_policy p
JOIN pg_class c ON c.oid = p.polrelid
WHERE c.relnamespace = to_regnamespace('fencerow')
