package pgstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// Whatever a loop waits for has an end, also where somebody keeps every table to himself.
func TestEveryCallOfALoopEndsWhileTheTablesAreLocked(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store, err := Open(Config{DSN: fencerow.NewSecret(database.DSN()), Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	patient := openOn(t, database)
	enqueue(t, patient, "i", 2)
	c := claim(t, patient, "i", 1)
	tx, err := database.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `
		LOCK TABLE fencerow.ledger_instance, fencerow.ledger_claim, fencerow.ledger_pending,
			fencerow.ledger_outcome, fencerow.ledger_outbox, fencerow.ledger_slot, fencerow.ledger_skip
		IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(context.Context) error{
		"register": func(ctx context.Context) error { return store.Register(ctx, "i") },
		"claim": func(ctx context.Context) error {
			_, err := store.ClaimBatch(ctx, batchParams("i", 1))
			return err
		},
		"targeted claim": func(ctx context.Context) error {
			_, err := store.ClaimOne(ctx, fencerow.ClaimOneParams{
				Instance: "i", Worker: "w", Token: fencerow.NewClaimToken(), CorrelationID: "c-1", Lease: time.Minute,
			})
			return err
		},
		"record": func(ctx context.Context) error {
			_, err := store.RecordOutcomes(ctx, fencerow.RecordParams{
				Instance: "i", Token: c.Token, Outcomes: completed(c),
			})
			return err
		},
		"release": func(ctx context.Context) error {
			_, err := store.Release(ctx, fencerow.ReleaseParams{Instance: "i", Token: c.Token, All: true})
			return err
		},
		"hold": func(ctx context.Context) error {
			_, err := store.Hold(ctx, "i")
			return err
		},
		"requeue": func(ctx context.Context) error {
			return store.Requeue(ctx, fencerow.RequeueParams{
				Instance: "i", CorrelationID: "c-0", From: fencerow.StatusDeadLettered,
			})
		},
		"prune": func(ctx context.Context) error {
			_, err := store.Prune(ctx, fencerow.PruneParams{Instance: "i", Limit: 1})
			return err
		},
	} {
		// A call that has no end of its own is ended here. On a fresh connection it waits while its statements are
		// prepared, where only the client's deadline is; that is a timeout.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := call(ctx)
		if !errors.Is(err, fencerow.ErrStoreBusy) && !errors.Is(err, fencerow.ErrStoreTimeout) || ctx.Err() != nil {
			t.Errorf("%s: got %v, want store_busy or store_timeout", name, err)
		}
		cancel()
	}
	nobodyWaitsForALock(t, database)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := applied(record(t, patient, c)); n != 1 {
		t.Errorf("%d rows recorded once the tables were free", n)
	}
	noTransactionIsOpen(t, database)
}

// nobodyWaitsForALock demands that the server ends, too, what its clients have given up.
func nobodyWaitsForALock(t *testing.T, database *pgtest.Database) {
	t.Helper()
	conn := database.Connect(t)
	waiting := 1
	for deadline := time.Now().Add(10 * time.Second); waiting > 0 && time.Now().Before(deadline); {
		if err := conn.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if waiting > 0 {
		t.Errorf("%d calls that were given up go on at the server", waiting)
	}
}
