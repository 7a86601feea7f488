-- The number is tern's, which takes the same lock again, and has it at once because this session holds it.
SELECT pg_try_advisory_lock(9628173550095224)
