package pgtest

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// leftover is a database or a role of some run.
type leftover struct {
	Run  int64
	Kind string
	Name string
}

// Databases come before roles, which may own what is in them.
const listLeftovers = `
SELECT ('x' || substr(o.name, 15, 16))::bit(64)::bigint AS run, o.kind, o.name
FROM (
    SELECT datname::text AS name, 'DATABASE' AS kind FROM pg_database
    UNION ALL
    SELECT rolname::text AS name, 'ROLE' AS kind FROM pg_roles
) AS o
WHERE o.name ~ '^fencerow_test_[0-9a-f]{16}_[0-9]+$'
ORDER BY run, o.kind, o.name`

// sweep drops what runs left whose advisory lock nobody holds: they are dead.
func (s *server) sweep(ctx context.Context) error {
	rows, err := s.lease.Query(ctx, listLeftovers)
	if err != nil {
		return err
	}
	leftovers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[leftover])
	if err != nil {
		return err
	}
	byRun := map[int64][]leftover{}
	for _, l := range leftovers {
		byRun[l.Run] = append(byRun[l.Run], l)
	}
	for run, all := range byRun {
		if err := s.sweepRun(ctx, run, all); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) sweepRun(ctx context.Context, run int64, all []leftover) error {
	// Under the lock no other sweeper is at the same run.
	var dead bool
	if err := s.lease.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", run).Scan(&dead); err != nil || !dead {
		return err
	}
	for _, l := range all {
		statement := "DROP " + l.Kind + " IF EXISTS " + quote(l.Name)
		if l.Kind == "DATABASE" {
			statement += " WITH (FORCE)"
		}
		if _, err := s.lease.Exec(ctx, statement); err != nil {
			return err
		}
	}
	_, err := s.lease.Exec(ctx, "SELECT pg_advisory_unlock($1)", run)
	return err
}
