-- The schema says which programs can work with it, so that those from before a migration may run on beside those from after it.
-- Oldest program: 6
--
-- A program is built for one version. It works with that one, and with a later one whose oldest program is its own version or an earlier
-- one. Each migration from here on states the number as above. One that earlier programs cannot work with raises it: it first takes
-- LOCK TABLE fencerow.ledger_instance IN EXCLUSIVE MODE, so that no claim is amid its transaction, and replaces the function, which its
-- down part puts back. Before it claims, every program looks.
SET LOCAL lock_timeout = '5s';

-- Stable, since its answer changes with the schema.
CREATE FUNCTION fencerow.oldest_program() RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT 6
$$;

-- Also where the owner's default privileges say otherwise.
GRANT EXECUTE ON FUNCTION fencerow.oldest_program() TO PUBLIC;

---- create above / drop below ----

SET LOCAL lock_timeout = '5s';

DROP FUNCTION fencerow.oldest_program();
