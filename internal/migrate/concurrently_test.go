package migrate

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/sql"
)

// newAtConcurrentBuild returns a database at the version before the concurrent builds, and a session whose
// snapshot they must wait for.
func newAtConcurrentBuild(t *testing.T) (*runner, *pgtest.Database, *pgx.Conn) {
	t.Helper()
	r, db := newRunnerOn(t)
	mustTo(t, r, 1)
	db.Exec(t, hostileSQL)
	mustTo(t, r, 2)
	return r, db, begin(t, db, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
}

func mustHaveInvalidIndexes(t *testing.T, conn *pgx.Conn, want int) {
	t.Helper()
	invalid := one[int](t, conn, `
SELECT count(*) FROM pg_index WHERE indrelid = 'fencerow.ledger_outbox'::regclass AND NOT indisvalid`)
	if invalid != want {
		t.Fatalf("%d invalid indexes, want %d", invalid, want)
	}
}

func TestAFailedConcurrentBuildIsRepaired(t *testing.T) {
	t.Parallel()
	r, db, reader := newAtConcurrentBuild(t)
	_, err := Up(t.Context(), db.DSN(pgtest.With("statement_timeout", "300")))
	mustFail(t, err, fencerow.ErrStoreTimeout, 3, "57014")
	watcher := db.Connect(t) // the reader's snapshot is too old to see the index
	mustHaveInvalidIndexes(t, watcher, 1)
	run(t, reader, "COMMIT")
	mustUp(t, r, Change{2, latest(t)})
	mustHaveInvalidIndexes(t, watcher, 0)
	mustMatch(t, r, sql.Golden)
}

func TestACancelledConcurrentBuildIsRepaired(t *testing.T) {
	t.Parallel()
	r, db, reader := newAtConcurrentBuild(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := r.up(ctx)
		failed <- err
	}()
	watcher := db.Connect(t)
	await(t, watcher, `
SELECT EXISTS (
    SELECT FROM pg_stat_progress_create_index WHERE datname = current_database() AND phase LIKE 'waiting for%'
)`)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	running := one[int](t, watcher, `
SELECT count(*) FROM pg_stat_progress_create_index WHERE datname = current_database()`)
	if running != 0 {
		t.Errorf("%d builds go on behind the call that was cancelled", running)
	}
	mustHaveInvalidIndexes(t, watcher, 1)
	run(t, reader, "COMMIT")
	mustUp(t, r, Change{2, latest(t)})
	mustHaveInvalidIndexes(t, watcher, 0)
	mustMatch(t, r, sql.Golden)
}
