package pgstore

import "github.com/jackc/pgx/v5"

// safeMode returns the way to send statements that a store uses where the DSN names mode. describe_exec sends
// a statement in one round trip and its arguments in the next; a pooler may lead the second to a session in
// which another client has left a statement of its own, and that would be run. exec does the same in one
// round trip. The names that cache_statement gives come from the statements' texts, so that it can only fail:
// see [fencerow.ErrStoreStatement].
func safeMode(mode pgx.QueryExecMode) pgx.QueryExecMode {
	if mode == pgx.QueryExecModeDescribeExec {
		return pgx.QueryExecModeExec
	}
	return mode
}
