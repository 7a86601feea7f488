package pgstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// frozenSchema is a database whose clock a test moves: sessions find frozen.clock_timestamp before
// PostgreSQL's own, inside functions too.
var frozenSchema = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	if err := buildSchema(ctx, dsn); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `
		CREATE SCHEMA frozen;
		CREATE TABLE frozen.clock (now timestamptz NOT NULL);
		INSERT INTO frozen.clock VALUES ('2026-03-04 05:06:07.123456Z');
		CREATE FUNCTION frozen.clock_timestamp() RETURNS timestamptz
		LANGUAGE sql VOLATILE AS 'SELECT now FROM frozen.clock';
	`)
	return err
})

// frozenHarness gives each world a database of its own, since a clock is the database's.
type frozenHarness struct{}

func (frozenHarness) World(t storetest.TB) storetest.World {
	test, ok := t.(*testing.T)
	if !ok {
		t.Fatalf("a world with a frozen clock needs a test")
	}
	database := pgtest.NewDatabase(test, frozenSchema)
	return &frozenWorld{newWorld(t, newHarness(test, frozenDSN(database), database.DSN(), keepPath))}
}

// frozenDSN connects with a search path on which the frozen clock comes first.
func frozenDSN(database *pgtest.Database) string {
	return database.DSN(pgtest.With("search_path", "frozen, pg_catalog"))
}

// keepPath leaves the frozen clock where a store's transactions find it.
func keepPath(s *Store) {
	s.texts.rewrite = func(sql string) string {
		return strings.Replace(sql, `'search_path', 'pg_catalog'`, `'search_path', 'frozen, pg_catalog'`, 1)
	}
}

type frozenWorld struct{ *world }

// Advance moves the clock itself.
func (w *frozenWorld) Advance(d time.Duration) {
	w.exec(fmt.Sprintf("UPDATE frozen.clock SET now = now + interval '%d microseconds'", d.Microseconds()))
}

func TestConformanceAtTheVeryMoment(t *testing.T) {
	t.Parallel()
	storetest.RunFrozenClock(t, frozenHarness{})
}

// Of two claimers in one process the clock says the same, and still the second epoch is higher; a clock
// stepped back by an hour changes nothing of that, nor does it end a lease.
func TestClockSteppedBackLowersNoEpochAndEndsNoLease(t *testing.T) {
	t.Parallel()
	w := frozenHarness{}.World(t)
	store, instance := w.Open(), w.Instance()
	enqueue(t, store, instance, 2)
	first := claim(t, store, instance, 1)
	w.Advance(-time.Hour)
	if again := claim(t, w.Open(), instance, 10); len(again.Entries) != 0 {
		t.Errorf("claimed %d rows due an hour from now", len(again.Entries))
	}
	w.Advance(time.Hour)
	release(t, store, first)
	w.Advance(-time.Minute)
	one, err := w.Open().ClaimOne(t.Context(), fencerow.ClaimOneParams{
		Instance:      instance,
		Worker:        "w",
		Token:         fencerow.NewClaimToken(),
		CorrelationID: "c-0",
		Lease:         time.Minute,
		ForceDue:      true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if one.Epoch <= first.Epoch {
		t.Errorf("epoch %d after %d", one.Epoch, first.Epoch)
	}
}
