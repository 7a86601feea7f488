package outbox_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/outbox"
)

type answer struct {
	enqueued fencerow.Enqueued
	err      error
}

// startBlocked enqueues in the background and returns once that waits for another transaction.
func startBlocked(t *testing.T, pool *pgxpool.Pool, tx pgx.Tx, entry fencerow.NewEntry) <-chan answer {
	t.Helper()
	var pid int
	if err := tx.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	done := make(chan answer, 1)
	go func() {
		enqueued, err := outbox.Enqueue(t.Context(), tx, desk, entry)
		done <- answer{enqueued, err}
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var blocked bool
		err := pool.QueryRow(t.Context(), "SELECT cardinality(pg_blocking_pids($1)) > 0", pid).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
		if blocked {
			return done
		}
		select {
		case a := <-done:
			t.Fatalf("did not wait for the other transaction: %+v", a)
		case <-tick.C:
		}
	}
}

func TestConcurrentDuplicateWaitsAndIsDecidedByTheOthersEnd(t *testing.T) {
	t.Parallel()
	other := newEntry("a")
	other.EntryKind = "fee"
	for name, c := range map[string]struct {
		second fencerow.NewEntry
		commit bool
		want   fencerow.EnqueueResult
	}{
		"CommittedEqualIsADuplicate":    {newEntry("a"), true, fencerow.EnqueueDuplicate},
		"CommittedDifferentIsAConflict": {other, true, fencerow.EnqueueConflict},
		"RolledBackNeverWas":            {newEntry("a"), false, fencerow.EnqueueInserted},
		"RolledBackDifferentNeverWas":   {other, false, fencerow.EnqueueInserted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			first, second := begin(t, pool, ""), begin(t, pool, "")
			if _, err := outbox.Enqueue(t.Context(), first, desk, newEntry("a")); err != nil {
				t.Fatal(err)
			}
			done := startBlocked(t, pool, second, c.second)
			if c.commit {
				commit(t, first)
			} else if err := first.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			a := <-done
			conflict := errors.Is(a.err, fencerow.ErrEnqueueConflict)
			if a.enqueued.Result != c.want || conflict != (c.want == fencerow.EnqueueConflict) {
				t.Errorf("%+v, %v; want %s", a.enqueued, a.err, c.want)
			}
			commit(t, second)
			if n := count(t, pool); n != 1 {
				t.Errorf("%d entries", n)
			}
		})
	}
}

func TestConcurrentDuplicateUnderAFixedSnapshotIsASerializationFailure(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			tx := begin(t, pool, level)
			if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM fill"); err != nil { // takes the snapshot
				t.Fatal(err)
			}
			concurrent := begin(t, pool, "")
			if _, err := outbox.Enqueue(t.Context(), concurrent, desk, newEntry("a")); err != nil {
				t.Fatal(err)
			}
			commit(t, concurrent)
			_, err := outbox.Enqueue(t.Context(), tx, desk, newEntry("a"))
			if !errors.Is(err, fencerow.ErrStoreConflict) {
				t.Fatalf("under %s: %v", level, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			tx = begin(t, pool, level)
			enqueued, err := outbox.Enqueue(t.Context(), tx, desk, newEntry("a"))
			if err != nil || enqueued.Result != fencerow.EnqueueDuplicate {
				t.Errorf("the second run: %+v, %v", enqueued, err)
			}
			commit(t, tx)
		})
	}
}

func TestManyInAnyOrderDoNotDeadlock(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	first, second := begin(t, pool, ""), begin(t, pool, "")
	forth := []fencerow.NewEntry{newEntry("a"), newEntry("b"), newEntry("c")}
	back := []fencerow.NewEntry{newEntry("c"), newEntry("b"), newEntry("a")}
	if _, err := outbox.EnqueueMany(t.Context(), first, desk, forth[:1]); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := outbox.EnqueueMany(t.Context(), second, desk, back)
		done <- err
	}()
	if _, err := outbox.EnqueueMany(t.Context(), first, desk, forth); err != nil {
		t.Errorf("the one that goes on: %v", err)
	}
	commit(t, first)
	if err := <-done; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
	commit(t, second)
	if n := count(t, pool); n != 3 {
		t.Errorf("%d entries", n)
	}
}
