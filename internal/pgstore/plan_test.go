package pgstore

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// However wrong the statistics are, the ids held are looked up in a hash: unhashed, a claim costs a thousand
// times as much. They are as wrong as they get after tens of thousands of claims whose rows are dead and not
// yet vacuumed.
func TestClaimStaysHashedWithStaleStatistics(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 5000)
	conn := database.Connect(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ALTER TABLE fencerow.ledger_claim SET (autovacuum_enabled = off)`)
	exec(`ALTER TABLE fencerow.ledger_pending SET (autovacuum_enabled = off)`)
	exec(`
		INSERT INTO fencerow.ledger_claim (
			claim_token, claim_epoch, claimed_at, lease_expires_at, instance_key, claimed_by, outbox_ids
		)
		SELECT gen_random_uuid(), 1, now(), now() + interval '1 hour', 'i', 'w', array_fill(g, ARRAY[100])
		FROM generate_series(10000001, 10040000) g`)
	exec(`ANALYZE fencerow.ledger_claim`)
	exec(`DELETE FROM fencerow.ledger_claim`)
	claim(t, store, "i", 1000)

	for _, name := range []string{"ClaimDue", "ClaimBatch", "PendingList", "PendingCounts"} {
		t.Run(name, func(t *testing.T) {
			plan := explain(t, conn, name)
			if regexp.MustCompile(`NOT \(SubPlan|\(NOT \(ANY`).MatchString(plan) ||
				!strings.Contains(plan, "hashed SubPlan") {
				t.Errorf("the plan of %s is not hashed:\n%s", name, plan)
			}
		})
	}
}

// explain returns the generic plan of a statement under the settings of the store's transactions, running it
// in a transaction that is rolled back.
func explain(t *testing.T, conn *pgx.Conn, name string) string {
	t.Helper()
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // nothing to keep
	q := db.New(tx)
	if _, err := q.TransactionBounds(t.Context(), db.TransactionBoundsParams{
		StatementTimeout: "10s", LockTimeout: "10s", IdleTimeout: "10s",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.InstanceLock(t.Context(), "i"); err != nil {
		t.Fatal(err)
	}
	token := fencerow.NewClaimToken().String()
	statement := map[string]struct{ sql, args string }{
		"ClaimDue":      {db.ClaimDue, `'i'`},
		"ClaimBatch":    {db.ClaimBatch, ""},
		"PendingList":   {db.PendingList, ""},
		"PendingCounts": {db.PendingCounts, `'i'`},
	}[name]
	switch name {
	case "ClaimBatch":
		statement.args = arguments(statement.sql, map[string]string{
			"text":        `'i'`,
			"boolean":     "true",
			"timestamptz": "'-infinity'",
			"integer":     "1000",
			"uuid":        "'" + token + "'",
			"bigint":      "1",
			"interval":    "'1 minute'",
		})
	case "PendingList":
		statement.args = arguments(statement.sql, map[string]string{
			"text": `'i'`, "boolean": "false", "timestamptz": "'-infinity'", "bigint": "0", "integer": "1000",
		})
	}
	results, err := tx.Conn().PgConn().Exec(t.Context(), `
		SET LOCAL plan_cache_mode = force_generic_plan;
		PREPARE claim_plan AS `+strings.TrimRight(statement.sql, "; \n")+`;
		EXPLAIN (ANALYZE, TIMING off) EXECUTE claim_plan (`+statement.args+`);
		DEALLOCATE claim_plan`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for _, r := range results {
		for _, row := range r.Rows {
			fmt.Fprintf(&plan, "%s\n", row[0])
		}
	}
	return plan.String()
}

// arguments makes one argument for each parameter of a statement, by the type that the statement gives it.
func arguments(sql string, values map[string]string) string {
	types := map[string]string{}
	for _, m := range regexp.MustCompile(`\$(\d+)::(\w+)`).FindAllStringSubmatch(sql, -1) {
		types[m[1]] = m[2]
	}
	list := make([]string, len(types))
	for number, name := range types {
		var i int
		fmt.Sscan(number, &i) //nolint:errcheck // digits by the expression above
		list[i-1] = values[name]
	}
	return strings.Join(list, ", ")
}

// A claim under a held snapshot, with many finished rows still in the index, does not read them all again:
// the floor skips them.
func TestFloorSkipsWhatAHeldSnapshotKeeps(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 10_000)
	holder, err := database.Connect(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT count(*) FROM fencerow.ledger_pending"); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		record(t, store, claim(t, store, "i", 1000))
	}
	if _, floor := store.instance("i").hints(time.Hour); floor.IsZero() {
		t.Error("a store that drains full batches remembers no floor")
	}
	c := claim(t, store, "i", 1000)
	if len(c.Entries) != 1000 {
		t.Errorf("claimed %d rows", len(c.Entries))
	}
	record(t, store, c)
}
