package outbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const desk = fencerow.InstanceKey("desk-1")

var schema = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	if _, err := migrate.Up(ctx, dsn); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE TABLE fill (fill_id text PRIMARY KEY, cash numeric NOT NULL)")
	if err != nil {
		return err
	}
	return conn.Close(ctx)
})

func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.NewDatabase(t, schema).DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func begin(t testing.TB, pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // most have ended by then
	return tx
}

func commit(t testing.TB, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func newEntry(id string) fencerow.NewEntry {
	return fencerow.NewEntry{
		CorrelationID: fencerow.CorrelationID(id), EntryKind: "fill", SlotID: "slot-1",
		CashDelta: decimal.RequireFromString("-12.50"), Currency: "EUR",
		Payload: json.RawMessage(`{"b": 1, "a":2,  "b":3}`),
	}
}

// count returns how many entries are committed, and checks that each has its pending row.
func count(t testing.TB, pool *pgxpool.Pool) int {
	t.Helper()
	var entries, pending int
	err := pool.QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM fencerow.ledger_outbox), (SELECT count(*) FROM fencerow.ledger_pending)",
	).Scan(&entries, &pending)
	if err != nil {
		t.Fatal(err)
	}
	if entries != pending {
		t.Fatalf("%d entries and %d pending rows", entries, pending)
	}
	return entries
}

// exampleTB lets an example use what is made for tests: an example has no testing.TB.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (*exampleTB) Helper()                        {}
func (*exampleTB) Context() context.Context       { return context.Background() }
func (e *exampleTB) Cleanup(f func())             { e.cleanups = append(e.cleanups, f) }
func (*exampleTB) Fatal(args ...any)              { panic(fmt.Sprint(args...)) }
func (*exampleTB) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
func (*exampleTB) Errorf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func examplePool() (*pgxpool.Pool, func()) {
	var e exampleTB
	pool := newPool(&e)
	return pool, func() {
		for i := len(e.cleanups) - 1; i >= 0; i-- {
			e.cleanups[i]()
		}
	}
}
