-- name: TransactionBounds :one
-- TransactionBounds bounds the transaction that it is the first statement of: how long a statement, a lock and an idle client may take.
-- jit is off because compiling costs more than any statement here runs, and work_mem holds the hashed subplan over the ids held, whatever
-- the statistics say: unhashed, a claim took 241 ms instead of 0.15. Without sequential scans a plan that was made while the tables were
-- almost empty is still right when they are full.
SELECT
    (
        set_config('statement_timeout', @statement_timeout::text, true)
        || set_config('lock_timeout', @lock_timeout::text, true)
        || set_config('idle_in_transaction_session_timeout', @idle_timeout::text, true)
        || set_config('IntervalStyle', 'postgres', true)
        || set_config('jit', 'off', true)
        || set_config('plan_cache_mode', 'force_generic_plan', true)
        || set_config('work_mem', '64MB', true)
        || set_config('enable_seqscan', 'off', true)
    ) <> '' AS bounded;
