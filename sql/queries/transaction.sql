-- name: TransactionBounds :one
-- TransactionBounds bounds the transaction that it is the first statement of: how long a statement, a lock and an idle client may take.
-- jit is off because compiling costs more than any statement here runs, and work_mem holds the hashed subplan over the ids held, whatever
-- the statistics say: unhashed, a claim took 241 ms instead of 0.15. Plans are generic since planning anew for each call costs as much as
-- small calls do. A generic plan that was made while the tables were almost empty is not right when they are full, so that the store has
-- each session make its plans anew every other second; without sequential scans the worst of it is spared until then.
-- Without bitmap scans due rows are read in order also where statistics promise only a few; else all are read and sorted for each claim.
-- The search path is the catalog's: an operator that somebody else made in a schema of the role's own path would run with its rights.
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
        || set_config('enable_bitmapscan', 'off', true)
        || set_config('search_path', 'pg_catalog', true)
    ) <> '' AS bounded;

-- name: TransactionView :one
-- TransactionView has what follows in the transaction planned for its arguments: a view is rare, and what it costs depends on them. By the
-- generic plan a page of the blocked entries took 100 ms instead of 0.6, and a sum over all pending rows sorted them.
SELECT (set_config('plan_cache_mode', 'force_custom_plan', true) <> '')::boolean AS planned;

-- name: TransactionPlanAnew :exec
-- TransactionPlanAnew drops the plans of the session, and leaves its statements prepared.
DISCARD PLANS;
