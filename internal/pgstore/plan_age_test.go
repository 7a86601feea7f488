package pgstore

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// openSession opens a store of one connection, and returns what runs on that connection.
func openSession(t *testing.T, database *pgtest.Database) (store *Store, on func(func(*pgx.Conn))) {
	t.Helper()
	store, err := Open(Config{DSN: fencerow.NewSecret(database.DSN()), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store, func(fn func(*pgx.Conn)) {
		t.Helper()
		conn, err := store.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		fn(conn.Conn())
	}
}

// preparedRecord is the plan that the session has for ClaimRecord.
func preparedRecord(t *testing.T, conn *pgx.Conn) (plan string) {
	t.Helper()
	var execute string
	if err := conn.QueryRow(t.Context(), `
		SELECT format('EXECUTE %I (%s)', name, rtrim(repeat('NULL,', cardinality(parameter_types)), ','))
		FROM pg_prepared_statements WHERE statement LIKE '-- name: ClaimRecord %'`).Scan(&execute); err != nil {
		t.Fatal(err)
	}
	results, err := conn.PgConn().Exec(t.Context(), `
		BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL search_path = pg_catalog;
		EXPLAIN `+execute+`; ROLLBACK`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range results[3].Rows {
		plan += string(row[0]) + "\n"
	}
	return plan
}

// A queue is almost empty when the first entry of the morning is claimed, and analyzed as such. The plans of
// that moment expect one row; the server keeps them until it analyzes the table again.
func TestPlansOfAnAlmostEmptyQueueAreMadeAnew(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	database.Exec(t, `ALTER TABLE fencerow.ledger_pending SET (autovacuum_enabled = off)`)
	store, on := openSession(t, database)
	store.planAge = time.Hour
	enqueue(t, store, "i", 1)
	database.Exec(t, `ANALYZE fencerow.ledger_pending`)
	record(t, store, claim(t, store, "i", 1))
	var first, kept, anew string
	on(func(conn *pgx.Conn) { first = preparedRecord(t, conn) })
	enqueueNamed(t, store, "other", "first", 5000)
	enqueueNamed(t, store, "i", "c", 10)
	enqueueNamed(t, store, "other", "last", 5000)
	record(t, store, claim(t, store, "i", 1))
	on(func(conn *pgx.Conn) { kept = preparedRecord(t, conn) })
	store.planAge = 0
	record(t, store, claim(t, store, "i", 1))
	on(func(conn *pgx.Conn) { anew = preparedRecord(t, conn) })
	if kept != first {
		t.Errorf("the server plans anew by itself, from\n%s\nto\n%s", first, kept)
	}
	if anew == first || strings.Contains(anew, "ledger_pending_due") ||
		!strings.Contains(anew, "ledger_pending_pkey") {
		t.Errorf("ten thousand rows later the plan is\n%s", anew)
	}
}

// Claims and outcomes are planned once for all arguments, views for theirs.
func TestViewsArePlannedForTheirArguments(t *testing.T) {
	t.Parallel()
	store, on := openSession(t, pgtest.NewDatabase(t, schema))
	enqueue(t, store, "i", 1)
	record(t, store, claim(t, store, "i", 1))
	page := fencerow.ListBlockedParams{Instance: "i", Limit: 1}
	if _, err := store.ListBlocked(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PendingCashDelta(t.Context(), fencerow.CashDeltaParams{Instance: "i"}); err != nil {
		t.Fatal(err)
	}
	on(func(conn *pgx.Conn) {
		for name, want := range map[string]string{
			"ClaimBatch": "generic", "ClaimRecord": "generic",
			"OutcomeBlocked": "custom", "PendingCashDelta": "custom",
		} {
			var generic, custom int
			if err := conn.QueryRow(t.Context(), `
				SELECT generic_plans, custom_plans FROM pg_prepared_statements
				WHERE statement LIKE '-- name: ' || $1::text || ' %'`, name).Scan(&generic, &custom); err != nil {
				t.Fatal(err)
			}
			if generic+custom == 0 || (generic > 0) != (want == "generic") || (custom > 0) != (want == "custom") {
				t.Errorf("%s was planned %d times for any arguments and %d times for its own, want %s plans",
					name, generic, custom, want)
			}
		}
	})
}
