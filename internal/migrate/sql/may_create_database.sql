SELECT rolsuper OR rolcreatedb
FROM pg_roles
WHERE rolname = current_user
