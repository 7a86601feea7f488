// Package pgstore is the [fencerow.Store] on PostgreSQL.
//
// The SQL is in sql/queries, compiled by sqlc into internal/db; this package runs it: transactions, mapping,
// and the one place that turns driver errors into codes. The rules that keep claims free of races, each of
// which has a test that fails without it:
//
//  1. Lock, then look. What depends on "nobody else is choosing" first locks the instance's row in a
//     statement of its own, in a transaction begun as READ COMMITTED whatever the role's default is. The
//     statement after it has a snapshot from after the lock.
//  2. No client between lock and commit. BEGIN, the bounds, the lock, the statement and COMMIT travel as one
//     pipeline, and none of them returns payloads. What a claim holds is read after COMMIT, in the same
//     pipeline.
//  3. Only what was really ended is free: ids that DELETE returned. Rows of every other claim in the
//     snapshot are held.
//  4. An outcome or a release locks its claim first, in a statement of its own.
//  5. Epochs rise: above the clock, above what any picked or freed row remembers, above what this process
//     has seen.
//  6. Attempts are counted when an outcome is recorded or a claim expires, not when a claim is made.
//  7. The floor, a due time below which nothing was left, is only a hint: a scan from the start happens at
//     least once a second, and whenever what lies above the floor does not fill the claim.
package pgstore
