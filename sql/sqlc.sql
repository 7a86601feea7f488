-- For sqlc only, which cannot look into the DO block of schema/prepare.sql.
CREATE SCHEMA fencerow;
