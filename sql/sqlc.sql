-- For sqlc only, which cannot look into the DO block of schema/prepare.sql.
CREATE SCHEMA fencerow;

-- The runner of the history makes this one.
CREATE TABLE fencerow.schema_version (version integer NOT NULL);
