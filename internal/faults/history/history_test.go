package history

import (
	"context"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const (
	clients = 10
	rows    = 24
	// speed is how much faster the memory store's clock goes, so that leases end as often as calls come.
	speed = 10
)

var schema = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn)
	return err
})

// inMemory is a scene on a memory store, and how a client opens it. A guard may be removed.
func inMemory(t testing.TB, lacks *broken) (s *scene, open func() fencerow.Store) {
	t.Helper()
	began := time.Now()
	// Cut to the precision of the store, so that a call is not seen to begin after the store's own look.
	now := func() time.Time { return began.Add(time.Since(began) * speed).Truncate(time.Microsecond).UTC() }
	store := memstore.New(memstore.Options{Now: now})
	s = &scene{t: t, instance: "desk-1", now: now, pace: 4 * time.Millisecond, rows: rows,
		lease: fencerow.MinLease}
	s.fill(t.Context(), store)
	return s, lacks.open(func() fencerow.Store { return store.Reopen() })
}

// onPostgreSQL is inMemory on a real database; each client has a store of its own, as a process would.
func onPostgreSQL(t testing.TB, lacks *broken) (s *scene, open func() fencerow.Store) {
	t.Helper()
	dsn := fencerow.NewSecret(pgtest.NewDatabase(t, schema).DSN())
	open = func() fencerow.Store {
		store, err := pgstore.Open(pgstore.Config{DSN: dsn, MaxConns: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		return store
	}
	s = &scene{t: t, instance: "desk-1", now: time.Now, pace: 30 * time.Millisecond, rows: rows,
		// A claim may take a fifteenth of its lease, which a machine with more to do must allow.
		lease: 3 * time.Second}
	s.fill(t.Context(), open())
	return s, lacks.open(open)
}

// open returns how a client opens a store that lacks a guard; without a guard to lack, a sound one.
func (b *broken) open(sound func() fencerow.Store) func() fencerow.Store {
	if b == nil {
		return sound
	}
	shared := &holders{latest: map[fencerow.OutboxID]fencerow.ClaimToken{}}
	return func() fencerow.Store {
		one := *b
		one.Store, one.holders = sound(), shared
		return &one
	}
}

// conclude makes runs until one proves something. A machine that is busy may need more than one.
func conclude(
	t testing.TB, d time.Duration, lacks *broken, set func(testing.TB, *broken) (*scene, func() fencerow.Store),
) porcupine.CheckResult {
	t.Helper()
	for range 5 {
		s, open := set(t, lacks)
		if result := s.run(d, open); result != porcupine.Unknown {
			return result
		}
		t.Log("a call did not say whether it was done; once more")
	}
	return porcupine.Unknown
}

func TestHistoriesInMemoryAreLinearizable(t *testing.T) {
	t.Parallel()
	if result := conclude(t, 3*time.Second, nil, inMemory); result != porcupine.Ok {
		t.Errorf("the check says %s", result)
	}
}

func TestHistoriesOnPostgreSQLAreLinearizable(t *testing.T) {
	t.Parallel()
	if result := conclude(t, 12*time.Second, nil, onPostgreSQL); result != porcupine.Ok {
		t.Errorf("the check says %s", result)
	}
}

func TestAHistoryOfAStoreWithoutAGuardIsFound(t *testing.T) {
	t.Parallel()
	for name, lacks := range guards() {
		t.Run("in memory without "+name, func(t *testing.T) {
			t.Parallel()
			if result := conclude(t, 2*time.Second, &lacks, inMemory); result != porcupine.Illegal {
				t.Errorf("the check says %s", result)
			}
		})
		t.Run("on PostgreSQL without "+name, func(t *testing.T) {
			t.Parallel()
			if result := conclude(t, 8*time.Second, &lacks, onPostgreSQL); result != porcupine.Illegal {
				t.Errorf("the check says %s", result)
			}
		})
	}
}
