package migrate

import (
	"context"
	"errors"
	"fmt"
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

// An idle session that has read the table keeps the old index from being dropped, however often that is
// tried. Claims keep an index that is valid meanwhile.
func TestTheIndexOfDueRowsIsValidHoweverOftenItsReplacementFails(t *testing.T) {
	t.Parallel()
	for _, to := range []int{9, 8} { // up, and down
		t.Run(fmt.Sprintf("ToVersion%d", to), func(t *testing.T) {
			t.Parallel()
			r, db := newRunnerOn(t)
			mustTo(t, r, 17-to)
			watcher := db.Connect(t)
			mustBeValid := func(step string) {
				t.Helper()
				valid := one[bool](t, watcher, `
SELECT EXISTS (
    SELECT
    FROM pg_index
    WHERE indexrelid = to_regclass('fencerow.ledger_pending_due') AND indisvalid AND indisready
)`)
				if !valid {
					t.Fatalf("%s: there is no valid index of due rows", step)
				}
			}
			reader := begin(t, db, "SELECT count(*) FROM fencerow.ledger_pending")
			impatient := runnerFor(t, db.DSN(pgtest.With("statement_timeout", "300")))
			for range 3 {
				if err := impatient.to(t.Context(), to); err == nil {
					t.Fatal("an index was dropped that a transaction holds a lock on the table of")
				}
				mustBeValid("after a failure")
			}
			run(t, reader, "COMMIT")
			mustTo(t, r, to)
			mustBeValid("at the end")
			spare := one[int](t, watcher, `
SELECT count(*) FROM pg_class WHERE relname IN ('ledger_pending_due_old', 'ledger_pending_due_next')`)
			if spare != 0 {
				t.Errorf("%d indexes are left over", spare)
			}
		})
	}
}
